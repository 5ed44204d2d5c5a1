"""Dependencies between the operations of a step: those that wait for each other, and those that end together.

On a worker, computation is one stream in program order, each direction of sends and receives another, gathers and
scatters of parameters another. A send follows its computation, and a receive precedes it. A send and its receive, and
a collective on all its workers, transfer once all sides have started. After the last computation come reductions,
clipping (over all workers) and the optimizer. As OSDI'25, section 3, for 1F1B pipelines with and without virtual
stages.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from metrics.stragglers.operations import (
    CLIP,
    COLLECT,
    COMPUTE,
    EMBEDDING,
    GATHER,
    LAYERNORM,
    OPTIMIZER,
    PASSES,
    SCATTER,
    SENDS_AND_RECEIVES,
    SEPARATE,
    of_kind,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metrics.statistics import FloatArray
    from metrics.stragglers.operations import OperationTrace

CLOCK_TOLERANCE_S: Final = 5e-4
"""By so much clocks of two streams may disagree."""


class TransferGroup(NamedTuple):
    """Operations that transfer together once all have started; `across_ranks`: on all data-parallel ranks."""

    members: tuple[int, ...]
    across_ranks: bool


class Dependencies(NamedTuple):
    """Of a step.

    Attributes:
        before: of each operation those that end before it starts.
        groups: of operations that end together.
        order: operations, each after those before it and after the last member of their groups.
    """

    before: tuple[tuple[int, ...], ...]
    groups: tuple[TransferGroup, ...]
    order: tuple[int, ...]


def dependencies(trace: OperationTrace) -> Dependencies:
    """Those of the operations of a trace.

    Raises:
        ValueError: sends and receives do not match the computations, or operations wait for each other in a circle.
    """
    before: dict[int, list[int]] = defaultdict(list)
    for first, then in _edges(trace):
        before[then].append(first)
    transfers = {at: way for stage in trace.stages for at, way in _transfers(trace, stage)}
    for at, way in transfers.items():
        for first, then in way.edges(at):
            before[then].append(first)
    groups = [*_pairs(trace, transfers), *_collectives(trace)]
    edges = tuple(tuple(sorted(set(before[at]))) for at in range(len(trace.operations)))
    return Dependencies(edges, tuple(groups), _order(edges, groups))


def _edges(trace: OperationTrace) -> Iterator[tuple[int, int]]:
    """Pairs of (first, then), of each stage's streams and of what follows the last computation."""
    for stage in trace.stages:
        computes = of_kind(trace, *COMPUTE, stage=stage)
        yield from _chain(computes)
        for kind in SENDS_AND_RECEIVES:
            yield from _chain(of_kind(trace, kind, stage=stage))
        yield from _chain(of_kind(trace, GATHER, SCATTER, stage=stage))
        yield from _first_backward(trace, stage, computes)
        yield from _gathered(trace, stage)
        yield from _after_computation(trace, stage, computes)


def _chain(operations: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from pairwise(operations)


def _first_backward(trace: OperationTrace, stage: int, computes: list[int]) -> Iterator[tuple[int, int]]:
    """The first backward transfers are launched after the last but one computation before the first backward one."""
    kinds = [trace.operations[at].kind for at in computes]
    first = kinds.index("backward-compute") if "backward-compute" in kinds else 0
    if first >= 2:
        for kind in ("backward-send", "backward-recv"):
            for at in of_kind(trace, kind, stage=stage)[:1]:
                yield computes[first - 2], at


def _gathered(trace: OperationTrace, stage: int) -> Iterator[tuple[int, int]]:
    """The first forward computation of a model chunk waits for the last gathering of its parameters."""
    last = {trace.chunks[at]: at for at in of_kind(trace, GATHER, stage=stage)}
    for chunk, gather in last.items():
        for at in _of_chunk(trace, "forward-compute", stage, chunk)[:1]:
            yield gather, at


def _of_chunk(trace: OperationTrace, kind: str, stage: int, chunk: int) -> list[int]:
    return [at for at in of_kind(trace, kind, stage=stage) if trace.chunks[at] == chunk]


def _after_computation(trace: OperationTrace, stage: int, computes: list[int]) -> Iterator[tuple[int, int]]:
    """Reductions, clipping, optimizer; where reductions overlap with computation each follows its own chunk."""
    collect, scatters = of_kind(trace, COLLECT, stage=stage), of_kind(trace, SCATTER, stage=stage)
    reductions = [at for kind in (LAYERNORM, EMBEDDING) for at in of_kind(trace, kind, stage=stage)]
    separate = of_kind(trace, SEPARATE, stage=stage)
    if separate:
        yield from _scattered(trace, stage, scatters)
        yield from ((scatters[-1], at) for at in (reductions + separate)[:1] if scatters)
    tail = [*reductions, *(separate or scatters)]
    ends = [at for kind in (CLIP, OPTIMIZER) for at in of_kind(trace, kind, stage=stage)]
    yield from _chain([*computes[-1:], *collect, *tail, *ends])


def _scattered(trace: OperationTrace, stage: int, scatters: list[int]) -> Iterator[tuple[int, int]]:
    """The first scattering of a chunk's gradients waits for the chunk's last backward computation."""
    first = {trace.chunks[at]: at for at in reversed(scatters)}
    for chunk, scatter in first.items():
        for at in _of_chunk(trace, "backward-compute", stage, chunk)[-1:]:
            yield at, scatter


class _Transfer(NamedTuple):
    """A send or receive with its computation, the one before it, and where in the model the other side is."""

    sends: bool
    compute: int
    previous: int | None
    peer: int | None

    def edges(self, at: int) -> Iterator[tuple[int, int]]:
        if self.sends:
            yield self.compute, at
            return
        yield at, self.compute
        if self.previous is not None:
            yield self.previous, at


def _transfers(trace: OperationTrace, stage: int) -> Iterator[tuple[int, _Transfer]]:
    """The sends and receives of a stage that belong to a computation, in order.

    Profilers also record transfers that were never launched, at the beginning or end of a step: those wait for none.

    Raises:
        ValueError: their number does not match.
    """
    places = 1 + max(trace.places)
    for direction in PASSES:
        computes = sorted(of_kind(trace, f"{direction}-compute", stage=stage), key=lambda at: trace.operations[at])
        for way in ("send", "recv"):
            launched = _launched(trace, stage, f"{direction}-{way}", computes)
            if len(launched) not in {0, len(computes) - 1, len(computes)}:
                raise ValueError(
                    f"stage {stage} has {len(launched)} launched {direction}-{way} for {len(computes)} computations"
                )
            skipped = len(computes) - len(launched) if way == "recv" else 0
            step = 1 if (direction == "forward") == (way == "send") else -1
            for number, at in enumerate(launched, skipped):
                place = trace.places[computes[number]] + step
                peer = (stage + step) % len(trace.stages) if 0 <= place < places else None
                yield at, _Transfer(way == "send", computes[number], computes[number - 1] if number else None, peer)


def _launched(trace: OperationTrace, stage: int, kind: str, computes: list[int]) -> list[int]:
    """Those that start before the last computation does (receives), or end after the first one does (sends)."""
    every = of_kind(trace, kind, stage=stage)
    if not every or not computes:
        return []
    if kind.endswith("recv"):
        last = _typical(trace.started, computes).max() + CLOCK_TOLERANCE_S
        return [at for at in every if _typical(trace.started, [at])[0] <= last]
    first = _typical(trace.ended, computes).min() - CLOCK_TOLERANCE_S
    return [at for at in every if _typical(trace.ended, [at])[0] >= first]


def _typical(times: FloatArray, operations: list[int]) -> FloatArray:
    """Mean over steps and ranks."""
    means: FloatArray = times[operations].mean(axis=(1, 2))
    return means


def _pairs(trace: OperationTrace, transfers: dict[int, _Transfer]) -> Iterator[TransferGroup]:
    """Each send with its receive: the k-th of one stage with the k-th of the other; others are unpaired.

    Raises:
        ValueError: one side is missing.
    """
    queues: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for at, way in transfers.items():
        if way.peer is not None:
            operation = trace.operations[at]
            queues[operation.stage, operation.kind, way.peer].append(at)
    for (stage, kind, peer), sends in queues.items():
        if not kind.endswith("send"):
            continue
        receives = queues.get((peer, kind.replace("send", "recv"), stage), [])
        if len(receives) != len(sends):
            raise ValueError(
                f"stage {stage} sends {len(sends)} times by {kind}, and stage {peer} receives {len(receives)}"
            )
        yield from (TransferGroup(pair, across_ranks=False) for pair in zip(sends, receives, strict=True))
    alone = (at for at in of_kind(trace, *SENDS_AND_RECEIVES) if at not in transfers or transfers[at].peer is None)
    yield from (TransferGroup((at,), across_ranks=False) for at in alone)


def _collectives(trace: OperationTrace) -> Iterator[TransferGroup]:
    """Gathers and scatters over the ranks of a stage, embeddings over two stages, clipping over all workers."""
    yield from (TransferGroup((at,), across_ranks=True) for at in of_kind(trace, GATHER, SCATTER, SEPARATE))
    for kind, across_ranks in ((EMBEDDING, False), (CLIP, True)):
        if members := of_kind(trace, kind):
            yield TransferGroup(tuple(members), across_ranks)


def _order(before: tuple[tuple[int, ...], ...], groups: list[TransferGroup]) -> tuple[int, ...]:
    """Raises ValueError: operations wait for each other in a circle."""
    group_of = {at: group for group in groups for at in group.members}
    after: dict[int, list[int]] = defaultdict(list)
    for at, firsts in enumerate(before):
        for first in firsts:
            after[first].append(at)
    waiting = [len(firsts) for firsts in before]
    missing = {group: len(group.members) for group in groups}
    ready = [at for at, n in enumerate(waiting) if not n]
    order = []
    while ready:
        at = ready.pop()
        order.append(at)
        group = group_of.get(at)
        ended: Sequence[int] = (at,)
        if group is not None:
            missing[group] -= 1
            ended = () if missing[group] else group.members
        for then in (one for end in ended for one in after[end]):
            waiting[then] -= 1
            if not waiting[then]:
                ready.append(then)
    if len(order) < len(before):
        raise ValueError("operations wait for each other in a circle: their order differs from stage to stage")
    return tuple(order)
