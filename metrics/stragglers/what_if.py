"""Duration of a job without stragglers, and the causes of the difference.

The ideal step is the replay in which each operation takes what its kind takes on average: computations their mean,
communication its median (OSDI'25, section 3.3). Two views of the difference:

- As the paper has it: S, S_t by kind of operation, S_w by worker, M_W, M_S. Its shares overlap, and need not add up.
- As a sum: differences are taken away one after the other (launch delays, then between micro-batches, between workers
  of a stage, between stages, and in communication), and what each saves is its share. These shares add up to 1. A
  worker is compared with the middle one of its stage (of two the faster), so that one slow worker does not make its
  stage slow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from metrics.stragglers.clues import host_delay_s, passes, slowest_link
from metrics.stragglers.dependencies import dependencies
from metrics.stragglers.operations import COMMUNICATION, COMPUTE, trace
from metrics.stragglers.replay import clocks_apart_s, own_times, step_times_s

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import polars as pl

    from metrics.statistics import FloatArray
    from metrics.stragglers.clues import Link, Passes
    from metrics.stragglers.dependencies import Dependencies
    from metrics.stragglers.operations import OperationTrace

Key = TypeVar("Key")
Chosen: TypeAlias = "npt.NDArray[np.bool_]"

SLOWEST: Final = 0.03
"""Share of all workers, rounded up, that M_W takes for the slowest (OSDI'25, section 4.2)."""

LONGER_STEP: Final = 1.1
"""Times its peers' computations from which on those of a step count as slow."""

NOISE: Final = 1e-9
"""A difference of so small a share of the ideal time is none: there is nothing to explain."""

PARTS: Final = ("launch", "micro_batches", "workers", "stages", "communication")
"""Parts of the time beyond the ideal, in the order in which they are taken away."""


class PipelineStage(NamedTuple):
    """A pipeline stage of a data-parallel rank."""

    dp_rank: int
    stage: int


@dataclass(frozen=True)
class WhatIf:
    """Times are means over the steps, in seconds.

    Attributes:
        measured_s: of a step, as traced.
        replayed_s: of its replay without launch delays, T.
        ideal_s: of the ideal step, T_ideal.
        shares: of `measured_s - ideal_s` by part; they add up to 1. Empty where nothing is to be explained.
        kinds: S_t, of each kind of operation: the ideal step with only this kind as measured, over the ideal step.
        ranks: S_d of each data-parallel rank, likewise.
        stages: S_p of each pipeline stage, likewise.
        slowest: the slowest workers, of which M_W is the share; the slowest first.
        m_w: share of `T - T_ideal` that vanishes when the slowest workers take ideal times; None without a difference.
        m_s: the same for the last stage; None also with one stage.
        peers: how many times the mean of the other ranks of its stage each worker computes, the largest first; empty
            with one rank.
        steps: how many steps were replayed.
        incomplete_steps: how many were left out.
        incomplete_ranks: data-parallel ranks that were left out, since a stage of them is missing, or all of it.
        clocks_apart_s: by how many seconds clocks of workers disagree at least.
        slow_steps: in how many steps the middle computation of each worker is a tenth longer than the middle rank's.
        host_delay_s: for how long the host of the most delayed worker was late.
        passes: how forward and backward passes scatter; None where they do not.
        link: the transfers that take most beyond the usual; None where none takes much longer.
    """

    measured_s: float
    replayed_s: float
    ideal_s: float
    shares: dict[str, float]
    kinds: dict[str, float]
    ranks: dict[int, float]
    stages: dict[int, float]
    slowest: tuple[PipelineStage, ...]
    m_w: float | None
    m_s: float | None
    peers: dict[PipelineStage, float]
    steps: int
    incomplete_steps: int
    incomplete_ranks: tuple[int, ...]
    clocks_apart_s: float = 0.0
    slow_steps: dict[PipelineStage, int] = field(default_factory=dict)
    host_delay_s: float = math.inf
    passes: Passes | None = None
    link: Link | None = None

    @property
    def slowdown(self) -> float:
        """S = T / T_ideal."""
        return self.replayed_s / self.ideal_s

    @property
    def waste(self) -> float:
        """Share of the time that an ideal job would not have needed, 1 - 1/S."""
        return 1 - 1 / self.slowdown

    def worker(self, which: PipelineStage) -> float:
        """S_w, taken as the smaller of its rank's and its stage's, as OSDI'25 does."""
        return min(self.ranks[which.dp_rank], self.stages[which.stage])


def what_if(rows: pl.DataFrame) -> WhatIf:
    """Replay a trace as it was, as it should be, and with each suspect put right.

    Args:
        rows: `frames.OPERATIONS`.

    Raises:
        ValueError: the rows make no trace of a pipeline; the message has the reason.
    """
    measured = trace(rows)
    return _Replays(measured, dependencies(measured)).answers()


@dataclass
class _Replays:
    """A trace with its dependencies: what is replayed, in which operations take other times."""

    trace: OperationTrace
    dependencies: Dependencies

    def __post_init__(self) -> None:
        self.own_s = own_times(self.trace, self.dependencies)
        self.kinds = np.array([operation.kind for operation in self.trace.operations], dtype=object)
        self.stage = np.array([operation.stage for operation in self.trace.operations])
        self.ideal = self._ideal()
        self.measured_s = math.fsum(self.trace.step_times_s) / len(self.trace.steps)
        self.replayed_s = self.mean_s(self.own_s)
        self.ideal_s = self.mean_s(self.ideal)
        if not self.ideal_s > 0:
            raise ValueError("the operations take no time")

    def mean_s(self, own_s: FloatArray) -> float:
        """Mean seconds of a step."""
        return math.fsum(step_times_s(self.dependencies, own_s)) / len(self.trace.steps)

    def _ideal(self) -> FloatArray:
        ideal = np.empty_like(self.own_s)
        for kind in set(self.kinds):
            chosen = self.kinds == kind
            usual = np.median if kind in COMMUNICATION else np.mean
            ideal[chosen] = usual(self.own_s[chosen])
        return ideal

    def answers(self) -> WhatIf:
        stages, ranks = self.trace.stages, range(len(self.trace.ranks))
        by_rank = {self.trace.ranks[at]: self._slowdown(self._of(rank=at)) for at in ranks}
        by_stage = {stage: self._slowdown(self._of(stage=stage)) for stage in stages}
        slowest = _slowest(by_rank, by_stage)
        mine = [self._of(stage=one.stage, rank=self.trace.ranks.index(one.dp_rank)) for one in slowest]
        return WhatIf(
            measured_s=self.measured_s,
            replayed_s=self.replayed_s,
            ideal_s=self.ideal_s,
            shares=self._shares(),
            kinds=_descending((kind, self._slowdown(self._of(kind=kind))) for kind in sorted(set(self.kinds))),
            ranks=_descending(by_rank.items()),
            stages=_descending(by_stage.items()),
            slowest=slowest,
            m_w=self._explained(np.logical_or.reduce(mine)),
            m_s=self._explained(self._of(stage=stages[-1])) if len(stages) > 1 else None,
            peers=_descending(self._peers()),
            slow_steps=dict(self._slow_steps()),
            steps=len(self.trace.steps),
            incomplete_steps=self.trace.incomplete_steps,
            incomplete_ranks=self.trace.incomplete_ranks,
            clocks_apart_s=clocks_apart_s(self.trace, self.dependencies),
            host_delay_s=host_delay_s(self.trace, self.dependencies),
            passes=passes(self.trace),
            link=slowest_link(self.trace, self.own_s),
        )

    def _of(self, *, kind: str | None = None, stage: int | None = None, rank: int | None = None) -> Chosen:
        """Mask of these operations; shape (operations, 1, ranks)."""
        chosen = np.ones((len(self.kinds), 1, len(self.trace.ranks)), dtype=bool)
        if kind is not None:
            chosen &= (self.kinds == kind)[:, None, None]
        if stage is not None:
            chosen &= (self.stage == stage)[:, None, None]
        if rank is not None:
            chosen &= np.arange(len(self.trace.ranks)) == rank
        return chosen

    def _slowdown(self, chosen: Chosen) -> float:
        """The ideal step with these operations as measured, over the ideal step."""
        return self.mean_s(np.where(chosen, self.own_s, self.ideal)) / self.ideal_s

    def _explained(self, chosen: Chosen) -> float | None:
        """Share of the difference that vanishes when these operations take ideal times."""
        beyond = self.replayed_s - self.ideal_s
        without = self.mean_s(np.where(chosen, self.ideal, self.own_s))
        return (self.replayed_s - without) / beyond if abs(beyond) > NOISE * self.ideal_s else None

    def _shares(self) -> dict[str, float]:
        """Saving of each part, one after the other, over all that is saved."""
        times = [self.measured_s, self.replayed_s]
        own = self._worker_means()
        of_stage = np.quantile(own, 0.5, axis=2, method="lower", keepdims=True)
        transfers = np.isin(self.kinds, COMMUNICATION)[:, None, None]
        times += [self.mean_s(own)]
        times += [self.mean_s(np.where(transfers, self.own_s, other)) for other in (of_stage, self.ideal)]
        times += [self.ideal_s]
        beyond = self.measured_s - self.ideal_s
        saved = [before - after for before, after in pairwise(times)]
        return (
            dict(zip(PARTS, (one / beyond for one in saved), strict=True)) if abs(beyond) > NOISE * self.ideal_s else {}
        )

    def _worker_means(self) -> FloatArray:
        """Computations of a worker take their mean over micro-batches and steps; the rest is as measured."""
        alike = self.own_s.copy()
        for kind in set(self.kinds) - set(COMMUNICATION):
            for stage in self.trace.stages:
                chosen = (self.kinds == kind) & (self.stage == stage)
                if chosen.any():
                    alike[chosen] = self.own_s[chosen].mean(axis=(0, 1), keepdims=True)
        return alike

    def _peers(self) -> Iterable[tuple[PipelineStage, float]]:
        """Of each worker its seconds of computation over the mean of the other ranks of its stage."""
        ranks = self.trace.ranks
        for stage in self.trace.stages if len(ranks) > 1 else ():
            computed = self.own_s[self._computes(stage)].sum(axis=(0, 1))
            others = (computed.sum() - computed) / (len(ranks) - 1)
            yield from ((PipelineStage(rank, stage), float(computed[at] / others[at])) for at, rank in enumerate(ranks))

    def _slow_steps(self) -> Iterable[tuple[PipelineStage, int]]:
        """In how many steps the middle one of a worker's computations is longer than those of the middle rank."""
        for stage in self.trace.stages:
            own = self.own_s[self._computes(stage)]
            middle = np.quantile(own, 0.5, axis=2, method="lower", keepdims=True)
            times = np.median(np.divide(own, middle, out=np.ones_like(own), where=middle > 0), axis=0)
            slow = (times >= LONGER_STEP).sum(axis=0)
            yield from ((PipelineStage(rank, stage), int(slow[at])) for at, rank in enumerate(self.trace.ranks))

    def _computes(self, stage: int) -> Chosen:
        chosen: Chosen = np.isin(self.kinds, COMPUTE) & (self.stage == stage)
        return chosen


def _slowest(ranks: dict[int, float], stages: dict[int, float]) -> tuple[PipelineStage, ...]:
    """The largest S_w; of equal ones the lowest number."""
    every = [PipelineStage(rank, stage) for rank in ranks for stage in stages]
    every.sort(key=lambda one: (-min(ranks[one.dp_rank], stages[one.stage]), one.dp_rank * len(stages) + one.stage))
    return tuple(every[: math.ceil(len(every) * SLOWEST)])


def _descending(values: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    return dict(sorted(values, key=lambda each: -each[1]))
