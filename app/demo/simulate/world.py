"""The truth about a simulated cluster: every GPU-millisecond in exactly one category, made from its history alone.

Nothing here comes from `metrics`: it is what Trackside's numbers are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from app.demo.simulate.plan import BEGIN, GPUS_PER_NODE, Settings
from app.demo.simulate.trace import ACTIVE, CATEGORY, Item
from ingest.tables import FLAG, TEXT, WHOLE, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.demo.simulate.scheduler import Attempt, History

SEGMENTS: Schema = {
    "attempt": WHOLE,
    "category": TEXT,
    "cause": TEXT,
    "active": FLAG,
    "begin": WHOLE,
    "end": WHOLE,
}
"""An interval of an attempt, in milliseconds since 1970; `attempt` is its place in the history."""


@dataclass(frozen=True)
class FinishedSteps:
    """Optimizer steps that an attempt finished, in order; times are milliseconds."""

    number: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    lost: np.ndarray


@dataclass(frozen=True)
class World:
    """A history, and what it means."""

    history: History

    @property
    def settings(self) -> Settings:
        """Settings of the cluster."""
        return self.history.settings

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts, in the order in which Slurm made their rows; behind them those of Kubernetes."""
        return self.history.attempts

    @cached_property
    def of_slurm(self) -> list[Attempt]:
        """Attempts in Slurm's accounting."""
        return self.history.of_slurm

    def until(self, attempt: Attempt) -> int:
        """End of an attempt, or of the simulated time."""
        return self.settings.end if attempt.ended is None else attempt.ended

    @cached_property
    def chains(self) -> dict[int, list[int]]:
        """The attempts of each job, by their place in the history."""
        chains: dict[int, list[int]] = {}
        for index, attempt in enumerate(self.attempts):
            chains.setdefault(attempt.job.id, []).append(index)
        return chains

    @cached_property
    def steps(self) -> dict[int, FinishedSteps]:
        """The finished steps of each attempt; `lost` are those that a later attempt of the run did again."""
        steps_of_attempts = {}
        for places in self.chains.values():
            again: list[tuple[int, int]] = []
            for index in reversed(places):
                items = [item for item in self.attempts[index].items if item.kind == "step"]
                if not items:
                    continue
                table = np.array([(item.step, item.begin, item.end) for item in items], dtype=np.int64)
                number = table[:, 0]
                lost = np.zeros(len(items), dtype=bool)
                for low, high in again:
                    lost |= (number >= low) & (number <= high)
                steps_of_attempts[index] = FinishedSteps(number, table[:, 1], table[:, 2], lost)
                again.append((int(number[0]), int(number[-1])))
        return steps_of_attempts

    @cached_property
    def segments(self) -> pl.DataFrame:
        """Activity of each attempt, as `SEGMENTS`; equal neighbours are merged."""
        rows = [
            (index, *row)
            for index, attempt in enumerate(self.attempts)
            if attempt.started is not None
            for row in _merged(self._named(index, attempt))
        ]
        return pl.DataFrame(rows, schema=SEGMENTS, orient="row")

    def _named(self, index: int, attempt: Attempt) -> Iterator[tuple[str, str | None, bool, int, int]]:
        steps = self.steps.get(index)
        lost = iter(steps.lost.tolist() if steps else [])
        redone: tuple[str, str | None] = ("lost", _why_lost(attempt))
        for item in attempt.items:
            if item.kind == "step":
                category, cause = redone if next(lost) else CATEGORY["step"]
            elif item.kind == "unfinished":
                category, cause = redone
            else:
                category, cause = CATEGORY[item.kind]
            yield category, cause, item.kind in ACTIVE, item.begin, item.end

    @cached_property
    def held(self) -> pl.DataFrame:
        """GPUs of nodes that each attempt held."""
        rows = [
            (index, node, len(gpus), list(gpus))
            for index, attempt in enumerate(self.attempts)
            for node, gpus in attempt.places
        ]
        schema: Schema = {"attempt": WHOLE, "node": WHOLE, "gpus": WHOLE, "indices": pl.List(WHOLE)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @cached_property
    def allocated(self) -> pl.DataFrame:
        """Activity of each attempt on each of its nodes; the node that died is `node_down` where the others hang."""
        dead = pl.DataFrame(
            [
                (index, attempt.dead_node, attempt.failure.at * 1000)
                for index, attempt in enumerate(self.attempts)
                if attempt.dead_node is not None and attempt.failure is not None
            ],
            schema={"attempt": pl.Int64, "node": pl.Int64, "died": pl.Int64},
            orient="row",
        )
        gone = pl.col("died").is_not_null() & (pl.col("begin") >= pl.col("died")) & (pl.col("cause") == "hang")
        return (
            self.segments.join(self.held.drop("indices"), on="attempt")
            .join(dead, on=["attempt", "node"], how="left")
            .with_columns(cause=pl.when(gone).then(pl.lit("node_down")).otherwise("cause"))
            .drop("died")
        )

    @cached_property
    def unheld_gpus(self) -> pl.DataFrame:
        """GPUs that no attempt held, by node: unavailable or idle; milliseconds."""
        waiting = {name: _union(self._waits(name)) for name in ("train", "dev")}
        rows: list[tuple[int, str, str, int, int, int]] = []
        busy: dict[int, list[tuple[int, int, int]]] = {node: [] for node in range(self.settings.n_nodes)}
        for attempt in self.attempts:
            for node, gpus in attempt.places:
                busy[node].append((attempt.started or 0, self.until(attempt), len(gpus)))
        out: dict[int, list[tuple[int, int, str]]] = {node: [] for node in range(self.settings.n_nodes)}
        for state in self.history.states:
            out[state.node].append((state.began, state.ended or self.settings.end, state.category))
        for node in range(self.settings.n_nodes):
            partition = "train" if node < self.settings.n_whole else "dev"
            rows += (
                (node, *row) for row in _sweep(busy[node], out[node], waiting[partition], BEGIN, self.settings.end)
            )
        schema = {"node": pl.Int64, "state": pl.String, "category": pl.String, "begin": pl.Int64, "end": pl.Int64,
                  "gpus": pl.Int64}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col("begin", "end") * 1000)

    def _waits(self, partition: str) -> list[tuple[int, int]]:
        """When eligible work of a partition waited."""
        ends = (
            (attempt.eligible, attempt.started or attempt.ended or self.settings.end)
            for attempt in self.attempts
            if attempt.job.partition == partition
        )
        return [(low, high) for low, high in ends if low < high]

    @cached_property
    def intervals(self) -> pl.DataFrame:
        """Every GPU-second once: node, attempt or null, state, category, cause, begin, end, GPUs."""
        columns = ["node", "attempt", "state", "category", "cause", "active", "begin", "end", "gpus"]
        held = self.allocated.with_columns(state=pl.lit("allocated"))
        rest = self.unheld_gpus.with_columns(
            attempt=pl.lit(None, dtype=pl.Int64),
            cause=pl.lit(None, dtype=pl.String),
            active=pl.lit(value=False),
        )
        return pl.concat([held.select(columns), rest.select(columns)]).sort("node", "begin", "attempt", nulls_last=True)

    @cached_property
    def totals(self) -> dict[tuple[str, str, str | None], int]:
        """GPU-milliseconds by state, category and cause."""
        amount = ((pl.col("end") - pl.col("begin")) * pl.col("gpus")).sum()
        summed = self.intervals.group_by("state", "category", "cause").agg(amount.alias("gpu_ms"))
        ordered = summed.sort("state", "category", "cause", nulls_last=True)
        return {(state, category, cause): gpu_ms for state, category, cause, gpu_ms in ordered.rows()}

    @property
    def capacity_gpu_s(self) -> int:
        """All GPU-seconds there were."""
        return self.settings.n_nodes * GPUS_PER_NODE * (self.settings.end - BEGIN)


def _why_lost(attempt: Attempt) -> str:
    state = attempt.state.split()[0].lower()
    return attempt.failure.kind if attempt.failure is not None else state


def _merged(
    rows: Iterable[tuple[str, str | None, bool, int, int]],
) -> Iterator[tuple[str, str | None, bool, int, int]]:
    pending: tuple[str, str | None, bool, int, int] | None = None
    for row in rows:
        if pending is not None and row[:3] == pending[:3]:
            pending = (*pending[:4], row[4])
            continue
        if pending is not None:
            yield pending
        pending = row
    if pending is not None:
        yield pending


def _union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged


def _sweep(
    busy: list[tuple[int, int, int]],
    out: list[tuple[int, int, str]],
    waiting: list[tuple[int, int]],
    begin: int,
    end: int,
) -> Iterator[tuple[str, str, int, int, int]]:
    """State, category, begin, end and GPUs of what is left next to the allocations of one node; seconds."""
    changes: list[tuple[int, str, int]] = []
    for low, high, gpus in busy:
        changes += [(low, "held", gpus), (high, "held", -gpus)]
    for low, high, name in out:
        changes += [(low, name, 1), (high, name, -1)]
    for low, high in waiting:
        changes += [(low, "waiting", 1), (high, "waiting", -1)]
    changes += [(begin, "held", 0), (end, "held", 0)]
    changes.sort(key=lambda change: change[0])
    now = dict.fromkeys(("held", "maintenance", "down", "drained", "waiting"), 0)
    pending: tuple[str, str, int, int, int] | None = None
    for (at, what, by), (until, _, _) in pairwise(changes):
        now[what] += by
        low, high = max(at, begin), min(until, end)
        free = GPUS_PER_NODE - now["held"]
        if low >= high or free <= 0:
            continue
        category = next((name for name in ("maintenance", "down", "drained") if now[name]), None)
        idle = "pending_demand" if now["waiting"] else "no_demand"
        row: tuple[str, str, int, int, int] = ("unavailable" if category else "idle", category or idle, low, high, free)
        if pending is not None and pending[:2] == row[:2] and pending[3] == low and pending[4] == free:
            row = (pending[0], pending[1], pending[2], high, free)
        elif pending is not None:
            yield pending
        pending = row
    if pending is not None:
        yield pending


def logged_items(attempt: Attempt) -> list[Item]:
    """The content of a run log: what was done to its end."""
    return [item for item in attempt.items if item.step >= 0]
