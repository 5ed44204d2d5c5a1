"""What makes a job slow: a node, the job's own shape, the network, the host side, or nothing that the trace decides.

A node is blamed only where the job's shape is ruled out first: one worker computes longer than the other ranks of its
own stage, step after step, and few do. Stages that are cut unevenly and sequences of unequal length are the more
frequent causes (OSDI'25, sections 4 and 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from metrics.stragglers.actions import ACTIONS
from metrics.stragglers.operations import GATHER, SCATTER, SENDS_AND_RECEIVES
from metrics.stragglers.replay import CLOCK_TOLERANCE_S

if TYPE_CHECKING:
    from metrics.stragglers.what_if import WhatIf, Worker

Cause = Literal["none", "node", "job_shape", "network", "launch", "unknown"]

STRAGGLING: Final = 1.1
"""A job straggles from so many times its ideal on (OSDI'25, section 4.1)."""
SLOWER_THAN_PEERS: Final = 1.1
"""A worker is suspected from so many times the computation of its stage's other ranks on."""
MAJORITY: Final = 0.5
FEW: Final = 0.25
"""Of the workers; more than so many slow ones are no fault of nodes."""

_CAUSES: Final[dict[Cause, tuple[str, ...]]] = {
    "node": ("workers",),
    "job_shape": ("micro_batches", "stages"),
    "network": ("communication",),
    "launch": ("launch",),
}


class Verdict(NamedTuple):
    """Why a job is slow.

    Attributes:
        cause: `none` where it is not slow; `unknown` where the trace does not decide.
        share: of the time beyond the ideal that this cause explains; None for `none` and `unknown`.
        workers: that are suspected; empty unless the cause is a node.
        reason: in a sentence.
        action: for a person.
    """

    cause: Cause
    share: float | None
    workers: tuple[Worker, ...]
    reason: str
    action: str


def verdict(result: WhatIf) -> Verdict:
    """The cause that explains most of the time beyond the ideal, if it explains more than half of it."""
    times = result.measured_s / result.ideal_s
    lacks_stages = len(result.stages) == 1 and bool(result.kinds.keys() & set(SENDS_AND_RECEIVES))
    if lacks_stages or times < STRAGGLING:
        return _unexplained(times, lacks_stages=lacks_stages)
    shares: dict[Cause, float] = {cause: sum(result.shares[part] for part in parts) for cause, parts in _CAUSES.items()}
    cause = max(shares, key=lambda each: shares[each])
    if shares[cause] < MAJORITY:
        return _unknown("no cause explains half of the time beyond the ideal")
    if cause == "node":
        return _node(result, shares[cause])
    if cause == "job_shape":
        return _shape(result, shares[cause])
    doubt = _doubt(result)
    if doubt:
        return _unknown(doubt)
    return Verdict(cause, shares[cause], (), _REASONS[cause], ACTIONS[cause])


def _unexplained(times: float, *, lacks_stages: bool) -> Verdict:
    if lacks_stages:
        return _unknown("there are sends and receives, but a single pipeline stage: the others are missing")
    return Verdict("none", None, (), f"the step takes {times:.2f} times the ideal one, under {STRAGGLING:.1f}", "")


def _doubt(result: WhatIf) -> str:
    """Why slow transfers or late launches may be something else; empty where nothing speaks for that."""
    if result.incomplete_ranks:
        return "the others may have waited for ranks of which a stage is missing: that looks like slow transfers"
    if len(result.ranks) == 1 and {GATHER, SCATTER} & result.kinds.keys():
        return "it may have waited for data-parallel ranks that the trace does not have: there is one, with collectives"
    if result.clocks_apart_s > CLOCK_TOLERANCE_S:
        apart = f"{result.clocks_apart_s:.3f} s"
        return f"clocks of workers disagree by {apart} or more: transfers seem to end before they begin"
    return ""


def _node(result: WhatIf, share: float) -> Verdict:
    suspects = tuple(one for one, times in result.peers.items() if times >= SLOWER_THAN_PEERS)
    if not suspects:
        return _unknown("workers of a stage differ, but none computes a tenth longer than its peers")
    if len(suspects) > FEW * len(result.peers):
        return _unknown(
            f"{len(suspects)} of {len(result.peers)} workers compute longer than their peers: no single node"
        )
    whole = [rank for rank in result.ranks if all((rank, stage) in suspects for stage in result.stages)]
    if whole and len(result.stages) > 1:
        return Verdict(
            "job_shape",
            share,
            (),
            f"data-parallel rank {whole[0]} computes longer on every one of its stages: its data are more work",
            "Balance the data between the ranks: lengths of sequences, or sizes of batches.",
        )
    first = suspects[0]
    where = f"data-parallel rank {first.dp_rank}, stage {first.stage}"
    more = f" (and {len(suspects) - 1} more)" if len(suspects) > 1 else ""
    return Verdict(
        "node",
        share,
        suspects,
        f"{where}{more} computes {result.peers[first]:.2f} times as long as the other ranks of its stage",
        ACTIONS["node"],
    )


def _shape(result: WhatIf, share: float) -> Verdict:
    uneven, cut = result.shares["micro_batches"], result.shares["stages"]
    if uneven >= cut:
        return Verdict(
            "job_shape",
            share,
            (),
            "micro-batches of the same worker differ in work",
            "Pack sequences so that each micro-batch has equal work, counting attention by the square of the lengths.",
        )
    if len(result.ranks) == 1:
        return _unknown("with one data-parallel rank a slow node and a stage with more work look the same")
    slowest = next(iter(result.stages))
    return Verdict(
        "job_shape",
        share,
        (),
        f"stage {slowest} has more work than the others",
        f"Give stage {slowest} fewer layers: the last stage also computes the loss, the first the embedding.",
    )


def _unknown(reason: str) -> Verdict:
    return Verdict("unknown", None, (), reason, "Trace more steps, or compare with telemetry of the nodes.")


_REASONS: Final[dict[Cause, str]] = {
    "network": "transfers take longer than such transfers usually do",
    "launch": "operations start later than those before them end: the host is late",
}
