"""A 1F1B pipeline in plain Python: when each operation of a step starts and ends, by definition, one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import polars as pl

from metrics import frames

Own = Callable[[str, int, int, int, int], float]
"""Seconds by itself: kind, step, rank, stage, number."""


@dataclass(frozen=True)
class Pipeline:
    """Sizes of a job; `own(kind, step, rank, stage, number)` gives seconds without waiting, `late` launch delays.

    `overlapped`: gradients are scattered while the stage works on, and what is left is reduced separately.
    """

    ranks: int
    stages: int
    micro_batches: int
    steps: int
    own: Own
    late: Own = lambda *_: 0.0
    overlapped: bool = False

    def rows(self) -> pl.DataFrame:
        """The trace, `frames.OPERATIONS`."""
        rows: list[dict[str, Any]] = []
        for step in range(self.steps):
            times = _Step(self, step)
            for rank in range(self.ranks):
                for stage in range(self.stages):
                    for kind, number in times.operations(stage):
                        computes = kind.endswith("-compute")
                        started = times.start(kind, rank, stage, number)
                        rows.append(
                            {
                                "dp_rank": rank,
                                "stage": stage,
                                "step": step,
                                "kind": kind,
                                "number": number,
                                "chunk": 0 if computes or kind in {"params-all-gather", "grads-reduce-scatter"} else -1,
                                "place": stage if computes else -1,
                                "started_s": 1000.0 * step + started,
                                "duration_s": times.end(kind, rank, stage, number) - started,
                            }
                        )
        return pl.DataFrame(rows, schema=frames.OPERATIONS)

    def step_time_s(self, step: int) -> float:
        """From the first start of the step to its last end."""
        times = _Step(self, step)
        ends = [
            times.end(kind, rank, stage, number)
            for rank in range(self.ranks)
            for stage in range(self.stages)
            for kind, number in times.operations(stage)
        ]
        return max(ends)


class _Step:
    def __init__(self, job: Pipeline, step: int) -> None:
        self.job, self.step = job, step
        self.last = job.stages - 1
        self.start = cache(self._start)
        self.end = cache(self._end)

    def operations(self, stage: int) -> list[tuple[str, int]]:
        """Kinds and numbers of what a stage runs."""
        every = [(kind, number) for kind, number in self.program(stage)]
        for number in range(self.job.micro_batches):
            every += [("forward-send", number)] * (stage < self.last) + [("backward-recv", number)] * (
                stage < self.last
            )
            every += [("forward-recv", number)] * (stage > 0) + [("backward-send", number)] * (stage > 0)
        once = ["params-all-gather", *self.tail(stage)] + ["grads-reduce-scatter"] * self.job.overlapped
        return every + [(kind, 0) for kind in once]

    def tail(self, stage: int) -> list[str]:
        embedding = ["embedding-grads-all-reduce"] if stage in (0, self.last) else []
        last = "separate-grads-all-reduce" if self.job.overlapped else "grads-reduce-scatter"
        reductions = ["layernorm-grads-all-reduce", *embedding, last]
        return ["gc", *reductions, "optimizer-clip-main-grad", "optimizer"]

    def program(self, stage: int) -> list[tuple[str, int]]:
        """One forward, one backward, after as many forwards as there are stages behind."""
        n = self.job.micro_batches
        ahead = min(self.last - stage, n)
        order = [("forward-compute", number) for number in range(ahead)]
        for number in range(n - ahead):
            order += [("forward-compute", ahead + number), ("backward-compute", number)]
        return order + [("backward-compute", number) for number in range(n - ahead, n)]

    def _own(self, kind: str, rank: int, stage: int, number: int) -> float:
        return self.job.own(kind, self.step, rank, stage, number)

    def _start(self, kind: str, rank: int, stage: int, number: int) -> float:
        ready = max((self.end(*one) for one in self._before(kind, rank, stage, number)), default=0.0)
        return ready + self.job.late(kind, self.step, rank, stage, number)

    def _before(self, kind: str, rank: int, stage: int, number: int) -> list[tuple[str, int, int, int]]:
        if kind.endswith("-compute"):
            return self._before_compute(kind, rank, stage, number)
        if kind.endswith(("-send", "-recv")):
            return self._before_transfer(kind, rank, stage, number)
        if kind == "params-all-gather":
            return []
        last_kind, last_number = self.program(stage)[-1]
        scattered = [("grads-reduce-scatter", rank, stage, 0)] if self.job.overlapped else []
        if [(kind, rank, stage, 0)] == scattered:
            return [("params-all-gather", rank, stage, 0), (last_kind, rank, stage, last_number)]
        tail = self.tail(stage)
        at = tail.index(kind)
        if at:
            return [(tail[at - 1], rank, stage, 0), *(scattered if kind == "layernorm-grads-all-reduce" else [])]
        return [(last_kind, rank, stage, last_number)]

    def _before_compute(self, kind: str, rank: int, stage: int, number: int) -> list[tuple[str, int, int, int]]:
        order = self.program(stage)
        at = order.index((kind, number))
        before = [(order[at - 1][0], rank, stage, order[at - 1][1])] if at else []
        if kind == "forward-compute" and number == 0:
            before.append(("params-all-gather", rank, stage, 0))
        if kind == "forward-compute" and stage > 0:
            before.append(("forward-recv", rank, stage, number))
        if kind == "backward-compute" and stage < self.last:
            before.append(("backward-recv", rank, stage, number))
        return before

    def _before_transfer(self, kind: str, rank: int, stage: int, number: int) -> list[tuple[str, int, int, int]]:
        direction, way = kind.split("-")
        before = [(kind, rank, stage, number - 1)] if number else []
        if way == "send":
            before.append((f"{direction}-compute", rank, stage, number))
        elif number:
            before.append((f"{direction}-compute", rank, stage, number - 1))
        order = self.program(stage)
        first = order.index(("backward-compute", 0))
        if direction == "backward" and number == 0 and first >= 2:
            before.append((order[first - 2][0], rank, stage, order[first - 2][1]))
        return before

    def _end(self, kind: str, rank: int, stage: int, number: int) -> float:
        together = max(self.start(*one) for one in self._sides(kind, rank, stage, number))
        return together + self._own(kind, rank, stage, number)

    def _sides(self, kind: str, rank: int, stage: int, number: int) -> list[tuple[str, int, int, int]]:
        """Of a transfer: all operations that it waits for; any other is alone."""
        ranks, stages = range(self.job.ranks), range(self.job.stages)
        if kind.endswith(("-send", "-recv")):
            way = 1 if kind in {"forward-send", "backward-recv"} else -1
            other = kind.replace("send", "*").replace("recv", "send").replace("*", "recv")
            return [(kind, rank, stage, number), (other, rank, stage + way, number)]
        if kind in {"params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"}:
            return [(kind, each, stage, 0) for each in ranks]
        if kind == "embedding-grads-all-reduce":
            return [(kind, rank, each, 0) for each in {0, self.last}]
        if kind == "optimizer-clip-main-grad":
            return [(kind, each, one, 0) for each in ranks for one in stages]
        return [(kind, rank, stage, number)]
