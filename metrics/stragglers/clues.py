"""Clues that separate causes which a replay cannot: hosts from transfers, lengths of sequences from pauses, links.

- A micro-batch of long sequences takes longer forward and backward, on every stage; a pause of the host (garbage
  collection of Python) makes the forward pass longer alone, since another thread launches the backward pass (OSDI'25,
  sections 5.3 and 5.4).
- A host that is late leaves its worker with nothing to do: no operation is under way, or a computation begins after all
  that it waits for. Receives that are launched late because the program waits for them one by one do not.
- A slow link takes longer for the transfers of one worker, or of one group of workers, than elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from metrics.stragglers.operations import COMMUNICATION, COMPUTE, SENDS_AND_RECEIVES, of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metrics.statistics import FloatArray
    from metrics.stragglers.dependencies import Dependencies
    from metrics.stragglers.operations import OperationTrace

LONGER: Final = 1.5
"""Times the usual seconds from which on a link is named."""

NOISE: Final = 1e-6
"""Of the mean: passes that scatter less are alike."""

CLEARLY_MORE: Final = 0.1
"""Of what transfers take beyond the usual: a wider place has to explain so much more to be named instead."""

FORWARD: Final = "forward-recv"
BACKWARD: Final = "backward-recv"


class Passes(NamedTuple):
    """Scatter of the forward and backward passes of a worker's micro-batches.

    Attributes:
        alike: correlation of the seconds of both passes of the same micro-batch, less their worker's means.
        forward: standard deviation of forward passes over their mean.
        backward: the same of backward passes.
    """

    alike: float
    forward: float
    backward: float


class Link(NamedTuple):
    """Transfers that take longer than others of their kind.

    Attributes:
        place: of which workers, in words.
        times: how many times the usual seconds of their kinds they take.
        share: of all that transfers take beyond the usual, that of these.
    """

    place: str
    times: float
    share: float


def passes(trace: OperationTrace) -> Passes | None:
    """Scatter of passes; None without micro-batches of both, or where none differs from the others."""
    pairs = [*_passes_of_chunks(trace)]
    if not pairs:
        return None
    forward, backward = (np.concatenate([_scatter(pair[side]) for pair in pairs]) for side in (0, 1))
    deviations = float(forward.std()), float(backward.std())
    if min(deviations) < NOISE:
        return None if max(deviations) < NOISE else Passes(0.0, *deviations)
    return Passes(float((forward * backward).mean() / (deviations[0] * deviations[1])), *deviations)


def _passes_of_chunks(trace: OperationTrace) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Seconds of the forward and of the backward passes of each model chunk, in the order of micro-batches."""
    seconds = trace.ended - trace.started
    for stage in trace.stages:
        every = [of_kind(trace, kind, stage=stage) for kind in COMPUTE]
        for chunk in sorted({trace.chunks[at] for at in every[0]}):
            both = [[at for at in sorted(of) if trace.chunks[at] == chunk] for of in every]
            if len(both[0]) == len(both[1]) > 1:
                yield seconds[both[0]], seconds[both[1]]


def _scatter(seconds: FloatArray) -> FloatArray:
    """By how much of its worker's mean each pass is off, of workers that compute at all."""
    means = seconds.mean(axis=(0, 1), keepdims=True)
    off: FloatArray = np.divide(seconds - means, means, out=np.zeros_like(seconds), where=means > 0)
    return off.ravel()


def host_delay_s(trace: OperationTrace, dependencies: Dependencies) -> float:
    """Seconds of a step for which the most delayed worker's host was late; mean over the steps.

    They are the greater of two: in which no operation of the worker is under way, and by which its computations begin
    after all that they wait for.
    """
    delays = ((_idle(trace, stage), _late(trace, dependencies, stage)) for stage in trace.stages)
    return max(float(delay.mean(axis=0).max()) for both in delays for delay in both)


def _idle(trace: OperationTrace, stage: int) -> FloatArray:
    """Seconds between the first and the last operation of a worker in which none is under way, by step and rank."""
    mine = [at for at, operation in enumerate(trace.operations) if operation.stage == stage]
    order = np.argsort(trace.started[mine], axis=0, kind="stable")
    started = np.take_along_axis(trace.started[mine], order, axis=0)
    reached = np.maximum.accumulate(np.take_along_axis(trace.ended[mine], order, axis=0), axis=0)
    gaps: FloatArray = np.maximum(started[1:] - reached[:-1], 0.0).sum(axis=0)
    return gaps


def _late(trace: OperationTrace, dependencies: Dependencies, stage: int) -> FloatArray:
    """Seconds by which computations begin after what they wait for, by step and rank."""
    late: FloatArray = np.zeros(trace.started.shape[1:])
    for at in of_kind(trace, *COMPUTE, stage=stage):
        before = list(dependencies.before[at])
        if before:
            late += np.maximum(trace.started[at] - trace.ended[before].max(axis=0), 0.0)
    return late


def slowest_link(trace: OperationTrace, own_s: FloatArray) -> Link | None:
    """The place whose transfers take most of what all take beyond the usual of their kind.

    Of places that explain as much the first counts: the ranks of a stage, two neighbouring stages of a rank, what a
    worker receives, all that it sends and receives. None where no place takes much longer.

    Args:
        trace: of which the operations are.
        own_s: seconds that each operation takes by itself (`replay.own_times`).
    """
    seconds = _seconds_of_links(trace, own_s)
    beyond = sum(own - usual for own, usual in seconds.values() if own > usual)
    best: Link | None = None
    for place, links in _places(trace):
        own, usual = (sum(seconds[link][side] for link in links if link in seconds) for side in (0, 1))
        share = (own - usual) / beyond if beyond > 0 else 0.0
        if usual > 0 and own >= LONGER * usual and (best is None or share > best.share + CLEARLY_MORE):
            best = Link(place, own / usual, share)
    return best


_Key = tuple[str, int, int | None]
"""Kind, stage that receives or whose ranks take part, and data-parallel rank; None: all of them."""


def _seconds_of_links(trace: OperationTrace, own_s: FloatArray) -> dict[_Key, tuple[float, float]]:
    """Time of transfers, and the usual time of their kind; of sends and receives by the receiver's clock."""
    seconds: dict[_Key, tuple[float, float]] = {}
    for kind in COMMUNICATION:
        every = of_kind(trace, kind)
        usual = float(np.median(own_s[every])) if every else 0.0
        for stage in trace.stages if not kind.endswith("-send") else ():
            mine = own_s[of_kind(trace, kind, stage=stage)]
            for at, rank in enumerate(trace.ranks if mine.size else ()):
                key = (kind, stage, rank if kind in SENDS_AND_RECEIVES else None)
                seconds[key] = (float(mine[:, :, at].sum()), usual * mine[:, :, at].size)
    return seconds


def _places(trace: OperationTrace) -> Iterator[tuple[str, list[_Key]]]:
    """Places that share a link, the narrowest first, with what goes over it."""
    collectives = [kind for kind in COMMUNICATION if kind not in SENDS_AND_RECEIVES]
    for stage in trace.stages:
        yield f"among the ranks of stage {stage}", [(kind, stage, None) for kind in collectives]
    last = len(trace.stages) - 1
    workers = [(stage, rank) for stage in trace.stages for rank in trace.ranks]
    into = {(stage, rank): [(FORWARD, stage, rank), (BACKWARD, stage, rank)] for stage, rank in workers}
    for stage, rank in workers:
        if stage < last:
            between = f"between stages {stage} and {stage + 1} of data-parallel rank {rank}"
            yield between, [(FORWARD, stage + 1, rank), (BACKWARD, stage, rank)]
    for stage, rank in workers:
        yield f"into stage {stage} of data-parallel rank {rank}", [*into[stage, rank]]
    for stage, rank in workers:
        out = [(FORWARD, stage + 1, rank), (BACKWARD, stage - 1, rank)]
        yield f"into and out of stage {stage} of data-parallel rank {rank}", [*into[stage, rank], *out]
