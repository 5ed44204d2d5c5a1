"""Cause of a slow job: a node, the job's own shape, the network, the host side, or nothing that the trace decides.

A node is blamed only where the job's shape is ruled out first: one worker computes longer than the other ranks of its
own stage, step after step, and few do. Stages that are cut unevenly and sequences of unequal length are the more
frequent causes (OSDI'25, sections 4 and 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from metrics.stragglers.actions import ACTIONS
from metrics.stragglers.operations import GATHER, SCATTER, SENDS_AND_RECEIVES
from metrics.stragglers.replay import CLOCK_TOLERANCE_S
from metrics.stragglers.slow_ranks import MIN_STRETCH

if TYPE_CHECKING:
    from metrics.stragglers.what_if import PipelineStage, WhatIf

Cause = Literal["none", "node", "job_shape", "network", "launch", "unknown"]

STRAGGLING: Final = 1.1
"""A job straggles from so many times its ideal on (OSDI'25, section 4.1)."""
SLOWER_THAN_PEERS: Final = 1.1
"""A worker is suspected from so many times the computation of its stage's other ranks on."""
MAJORITY: Final = 0.5
FEW: Final = 0.25
"""Of the workers; more than so many slow ones are no fault of nodes."""

_CAUSES: Final[dict[str, Cause]] = {
    "workers": "node",
    "micro_batches": "job_shape",
    "stages": "job_shape",
    "communication": "network",
    "launch": "launch",
}
"""The cause that each part of the time beyond the ideal is evidence for."""

PAUSES: Final = (
    "forward passes take longer now and then, backward passes of the same micro-batches do not: pauses of the host,"
    " such as garbage collection"
)

MOST_NAMED: Final = 3
"""Workers that a reason names; more are counted."""


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
    workers: tuple[PipelineStage, ...]
    reason: str
    action: str


def verdict(result: WhatIf) -> Verdict:
    """The cause that explains most of the time beyond the ideal, if it explains more than half of it."""
    times = result.measured_s / result.ideal_s
    lacks_stages = len(result.stages) == 1 and bool(result.kinds.keys() & set(SENDS_AND_RECEIVES))
    if lacks_stages or times < STRAGGLING:
        return _unexplained(times, lacks_stages=lacks_stages)
    shares = _shares(result)
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
    reason = _transfers(result) if cause == "network" else _host(result)
    return Verdict(cause, shares[cause], (), reason, ACTIONS[cause])


def _shares(result: WhatIf) -> dict[Cause, float]:
    """Share of the time beyond the ideal that each cause explains."""
    shares: dict[Cause, float] = dict.fromkeys(("node", "job_shape", "network", "launch"), 0.0)
    for part, cause in _causes_of_parts(result).items():
        shares[cause] += result.shares[part]
    return shares


def _causes_of_parts(result: WhatIf) -> dict[str, Cause]:
    """The cause of each part: pauses are the host's, and so are late launches unless no host was late for as long."""
    late_s = result.shares["launch"] * (result.measured_s - result.ideal_s)
    causes = dict(_CAUSES)
    if _pauses(result):
        causes["micro_batches"] = "launch"
        if not _suspects(result):
            causes["workers"] = "launch"
    if result.host_delay_s < MAJORITY * late_s:
        causes["launch"] = "network"
    return causes


def _pauses(result: WhatIf) -> bool:
    """Whether forward passes of the same worker differ, and backward passes of the same micro-batches do not."""
    return (
        result.passes is not None
        and not _explained_by_length(result)
        and result.passes.forward > 2 * result.passes.backward
    )


def _explained_by_length(result: WhatIf) -> bool:
    """Whether the length of a micro-batch's forward pass explains half of how backward passes differ."""
    return result.passes is None or (result.passes.alike > 0 and result.passes.alike**2 >= MAJORITY)


def _transfers(result: WhatIf) -> str:
    """Text of slow transfers: their place, where those of one place explain half of what all take beyond the usual."""
    link = result.link
    if link is None or link.share < MAJORITY:
        return "transfers take longer than such transfers usually do, on no single link"
    return f"transfers {link.place} take {link.times:.1f} times as long as elsewhere"


def _host(result: WhatIf) -> str:
    parts = _causes_of_parts(result)
    paused = sum(result.shares[part] for part in ("micro_batches", "workers") if parts[part] == "launch")
    if paused > result.shares["launch"]:
        return PAUSES
    return "operations start later than those before them end: the host is late"


def _unexplained(times: float, *, lacks_stages: bool) -> Verdict:
    if lacks_stages:
        return _unknown("there are sends and receives, but a single pipeline stage: the others are missing")
    return Verdict("none", None, (), f"the step takes {times:.2f} times the ideal one, under {STRAGGLING:.1f}", "")


def _doubt(result: WhatIf) -> str:
    """Why slow transfers or late launches may be something else; empty without evidence for that."""
    if result.incomplete_ranks:
        return "the others may have waited for ranks of which a stage is missing: that looks like slow transfers"
    if len(result.ranks) == 1 and {GATHER, SCATTER} & result.kinds.keys():
        return "it may have waited for data-parallel ranks that the trace does not have: there is one, with collectives"
    if result.clocks_apart_s > CLOCK_TOLERANCE_S:
        apart = f"{result.clocks_apart_s:.3f} s"
        return f"clocks of workers disagree by {apart} or more: transfers seem to end before they begin"
    return ""


def _suspects(result: WhatIf) -> tuple[PipelineStage, ...]:
    """Workers that compute longer than their peers, and not for single steps or passes only."""
    lasting = min(MIN_STRETCH, result.steps)
    return tuple(
        one
        for one, times in result.peers.items()
        if times >= SLOWER_THAN_PEERS and result.slow_steps.get(one, result.steps) >= lasting
    )


def _node(result: WhatIf, share: float) -> Verdict:
    suspects = _suspects(result)
    if not suspects:
        return _unknown("workers of a stage differ, but none computes a tenth longer than its peers for three steps")
    if len(suspects) > FEW * len(result.peers):
        return _unknown(
            f"{len(suspects)} of {len(result.peers)} workers compute longer than the others of their stage: too many of"
            " them to distinguish slow nodes from unequal work"
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
    first, *others = suspects
    text = f"{_place(first)} computes {result.peers[first]:.2f} times as long as the other ranks of its stage"
    also = "".join(f"; {_place(one)}: {result.peers[one]:.2f} times" for one in others[: MOST_NAMED - 1])
    more = f"; and {len(suspects) - MOST_NAMED} more" if len(suspects) > MOST_NAMED else ""
    return Verdict("node", share, suspects, text + also + more, ACTIONS["node"])


def _place(worker: PipelineStage) -> str:
    return f"data-parallel rank {worker.dp_rank}, stage {worker.stage}"


def _shape(result: WhatIf, share: float) -> Verdict:
    uneven, cut = result.shares["micro_batches"], result.shares["stages"]
    if uneven >= cut and not _explained_by_length(result):
        return _unknown("micro-batches of the same worker differ, but not alike forward and backward: no lengths")
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
