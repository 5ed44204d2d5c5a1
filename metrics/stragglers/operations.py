"""Operations of a training step: their kinds, and a trace of them as arrays.

A worker is one pipeline stage of one data-parallel rank. All workers of a stage run the same operations in the same
order in every step, so an operation is named once (stage, kind, number) and measured in every step on every
data-parallel rank: arrays of shape (operations, steps, ranks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from metrics.statistics import FloatArray

COMPUTE: Final = ("forward-compute", "backward-compute")
PASSES: Final = ("forward", "backward")
SENDS_AND_RECEIVES: Final = ("forward-send", "forward-recv", "backward-send", "backward-recv")
GATHER: Final = "params-all-gather"
SCATTER: Final = "grads-reduce-scatter"
SEPARATE: Final = "separate-grads-all-reduce"
LAYERNORM: Final = "layernorm-grads-all-reduce"
EMBEDDING: Final = "embedding-grads-all-reduce"
CLIP: Final = "optimizer-clip-main-grad"
COLLECT: Final = "gc"
OPTIMIZER: Final = "optimizer"
COMMUNICATION: Final = (*SENDS_AND_RECEIVES, GATHER, SCATTER, SEPARATE, LAYERNORM, EMBEDDING, CLIP)
KINDS: Final = (*COMPUTE, COLLECT, OPTIMIZER, *COMMUNICATION)

_KEY: Final = ("stage", "kind", "number")


class Operation(NamedTuple):
    """An operation of a step: the `number`-th of its kind on its pipeline stage, from 0."""

    stage: int
    kind: str
    number: int


@dataclass(frozen=True)
class OperationTrace:
    """A trace of complete steps.

    Attributes:
        operations: of one step on one data-parallel rank, all stages; the first axis of the arrays.
        chunks: of each operation the model chunk of its stage, -1 where it belongs to none.
        places: of each operation the place of its chunk in the model, -1 where it belongs to none.
        steps: numbers of the steps; the second axis.
        ranks: data-parallel ranks; the third axis.
        started: seconds since the step's first operation started.
        ended: the same for ends.
        incomplete_steps: steps that are left out since operations are missing, doubled or have no time.
        incomplete_ranks: data-parallel ranks that are left out since a stage of them is missing, as without the file of
            a worker; and those between the others of which there is nothing.
    """

    operations: tuple[Operation, ...]
    chunks: tuple[int, ...]
    places: tuple[int, ...]
    steps: tuple[int, ...]
    ranks: tuple[int, ...]
    started: FloatArray
    ended: FloatArray
    incomplete_steps: int
    incomplete_ranks: tuple[int, ...] = ()

    @property
    def stages(self) -> range:
        """Pipeline stages."""
        return range(1 + max(operation.stage for operation in self.operations))

    @property
    def step_times_s(self) -> FloatArray:
        """Measured seconds of each step, from its first start to its last end."""
        first: FloatArray = self.started.min(axis=(0, 2))
        last: FloatArray = self.ended.max(axis=(0, 2))
        return last - first


def trace(rows: pl.DataFrame) -> OperationTrace:
    """Arrange the rows of a trace by operation, step and rank.

    A step counts if it has the operations that most steps have, each once on every rank with a time.

    Args:
        rows: `frames.OPERATIONS`, in any order.

    Raises:
        ValueError: an unknown kind of operation, or no complete step.
    """
    rows = _numbered(frames.conform(rows, frames.OPERATIONS))
    unknown = rows.filter(~pl.col("kind").is_in(KINDS))["kind"].unique().sort().to_list()
    if unknown:
        raise ValueError(f"unknown kinds of operation: {', '.join(map(str, unknown))}; known: {', '.join(KINDS)}")
    rows, incomplete_ranks = _whole_ranks(rows)
    template = _template(rows) if rows.height else rows
    complete = _complete_steps(rows, template)
    n_steps = rows["step"].n_unique()
    if complete.is_empty():
        raise ValueError("no step has every operation of every rank exactly once, with start and duration")
    ranks = rows["dp_rank"].unique().sort()
    ordered = (
        rows.join(complete, on="step", how="semi")
        .join(template.with_row_index("_operation"), on=_KEY)
        .sort("_operation", "step", "dp_rank")
    )
    shape = (template.height, complete.height, ranks.len())
    started = ordered["started_s"].to_numpy().reshape(shape)
    started = started - started.min(axis=(0, 2), keepdims=True)
    return OperationTrace(
        operations=tuple(Operation(*row) for row in template.select(_KEY).iter_rows()),
        chunks=tuple(template["chunk"]),
        places=tuple(template["place"]),
        steps=tuple(complete["step"]),
        ranks=tuple(ranks),
        started=started,
        ended=started + ordered["duration_s"].to_numpy().reshape(shape),
        incomplete_steps=n_steps - complete.height,
        incomplete_ranks=incomplete_ranks,
    )


def _whole_ranks(rows: pl.DataFrame) -> tuple[pl.DataFrame, tuple[int, ...]]:
    """Rows of the ranks that have as many stages as any, and the other ranks."""
    stages = rows.group_by("dp_rank").agg(pl.col("stage").n_unique())
    cut = stages.filter(pl.col("stage") < pl.col("stage").max())["dp_rank"].sort()
    absent = _absent(stages["dp_rank"])
    return rows.filter(~pl.col("dp_rank").is_in(cut.implode())), tuple(sorted({*cut, *absent}))


def _absent(ranks: pl.Series) -> list[int]:
    """Numbers from 0 on that are not there, if most are: else ranks are not numbered one after the other.

    >>> _absent(pl.Series([1, 2, 4])), _absent(pl.Series([0, 8, 16])), _absent(pl.Series([], dtype=pl.Int64))
    ([0, 3], [], [])
    """
    present = set(ranks)
    last = max(present, default=-1)
    few = last < 2 * len(present)
    return [number for number in range(last) if number not in present] if few else []


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Fill in what a trace of one chunk a stage need not state."""
    order = pl.col("started_s").rank("ordinal").over("step", "dp_rank", "stage", "kind").cast(pl.Int64) - 1
    return rows.with_columns(
        pl.col("number").fill_null(order), pl.col("chunk").fill_null(0), pl.col("place").fill_null(pl.col("stage"))
    )


def _template(rows: pl.DataFrame) -> pl.DataFrame:
    """Operations of one rank in the first of the steps that have the most frequent number of rows; sorted."""
    counts = rows.group_by("step").len().sort("step")
    usual = counts["len"].mode().max()
    first = counts.filter(pl.col("len") == usual)["step"][0]
    one = rows.filter((pl.col("step") == first) & (pl.col("dp_rank") == pl.col("dp_rank").min()))
    return one.select(*_KEY, "chunk", "place").unique(_KEY, keep="first").sort(_KEY)


def _complete_steps(rows: pl.DataFrame, template: pl.DataFrame) -> pl.DataFrame:
    n_expected = template.height * rows["dp_rank"].n_unique()
    timed = pl.col("started_s").is_finite() & pl.col("duration_s").is_finite() & (pl.col("duration_s") >= 0)
    matching = rows.filter(timed).join(template, on=_KEY, how="semi").unique([*_KEY, "step", "dp_rank"])
    return (
        rows.group_by("step")
        .len("rows")
        .join(matching.group_by("step").len("matching"), on="step")
        .filter((pl.col("rows") == n_expected) & (pl.col("matching") == n_expected))
        .select("step")
        .sort("step")
    )


def of_kind(every: OperationTrace, *kinds: str, stage: int | None = None) -> list[int]:
    """Numbers of the operations of these kinds, of one stage or of all, in the order in which they start.

    The order is that of the mean start over steps and ranks; ties go by number.
    """
    chosen = [
        at
        for at, operation in enumerate(every.operations)
        if operation.kind in kinds and stage in (None, operation.stage)
    ]
    starts = every.started[chosen].mean(axis=(1, 2)) if chosen else np.empty(0)
    by_start = sorted(range(len(chosen)), key=lambda at: (starts[at], every.operations[chosen[at]].number))
    return [chosen[at] for at in by_start]
