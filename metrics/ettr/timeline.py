"""A run's wall time from its first eligible moment to its last end, second by second: each in exactly one class.

The classes are: `queue_initial`, `queue_requeue`, `launch`, `init`, `checkpoint_load`,
`compile`, `first_step` (its extra), `startup` (where its part is unknown), `productive`, `lost`, `checkpoint`,
`stalled`, `other_work`, `teardown`, `unattributed`. Their GPU-seconds add up to the denominator of the run's ETTR
exactly. Between them may lie `not_asked`: time in which the run neither held GPUs nor waited for any, which is no part
of the ETTR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.ettr.ettr import clipped
from metrics.intervals import merge_equal, sweep

if TYPE_CHECKING:
    from datetime import datetime

NOT_ASKED = "not_asked"

STARTUP_PARTS = ("launch", "init", "checkpoint_load", "compile", "first_step")
"""Causes of `startup` that are classes of their own."""

_WHAT = ["class", "cause", "evidence"]


def run_timeline(waits: pl.DataFrame, spent: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Wall time of a run by use, in order.

    Args:
        waits: of the run, as `metrics.ettr.ettr.wait_intervals` returns it.
        spent: what its GPUs did: `started_at`, `ended_at`, `category`, `cause`, `evidence`, `milli_gpus`; rows may
            lie side by side, since nodes may differ.
        since: clip from.
        until: clip to.

    Returns:
        `number`, `started_at`, `ended_at`, `seconds`, `milli_gpus`, `gpu_seconds`, `class`, `cause`, `evidence`; in
        the order of time. Where the run's GPUs did different things at a time there is a row for each, and `seconds`
        is the row's part of that time by its GPUs: so both `seconds` and `gpu_seconds` add up to those of the run.
    """
    intervals = pl.concat([_waiting(clipped(waits, since, until)), _held(clipped(spent, since, until))])
    if intervals.is_empty():
        return frames.empty(_TIMELINE)
    kinds = intervals.select(_WHAT).unique().sort(_WHAT, nulls_last=False).with_row_index("kind")
    coded = intervals.join(kinds, on=_WHAT, nulls_equal=True).with_columns(
        lane=pl.lit(0), started=pl.col("started_at").dt.epoch("us"), ended=pl.col("ended_at").dt.epoch("us")
    )
    names = [f"kind_{number}" for number in range(kinds.height)]
    layers = [
        coded.filter(pl.col("kind") == number).select("lane", "started", "ended", pl.col("milli_gpus").alias(name))
        for number, name in enumerate(names)
    ]
    whole = coded.select(
        pl.lit(0).alias("lane"), pl.col("started").min(), pl.col("ended").max(), pl.lit(1).alias("there")
    )
    segments = merge_equal(sweep([*layers, whole])).with_columns(held=pl.sum_horizontal(names))
    rows = (
        segments.unpivot(names, index=["started", "ended", "held"], variable_name="name", value_name="milli_gpus")
        .filter(pl.col("milli_gpus") > 0)
        .join(kinds.with_columns(name=pl.format("kind_{}", "kind")), on="name")
        .select("started", "ended", "held", "milli_gpus", *_WHAT)
    )
    gaps = segments.filter(pl.col("held") == 0).select(
        "started",
        "ended",
        "held",
        pl.lit(0, dtype=rows.schema["milli_gpus"]).alias("milli_gpus"),
        pl.lit(NOT_ASKED).alias("class"),
        pl.lit(None, dtype=pl.String).alias("cause"),
        pl.lit("accounting").alias("evidence"),
    )
    length = (pl.col("ended") - pl.col("started")) / 1e6
    timeline = (
        pl.concat([rows, gaps])
        .sort("started", *_WHAT, nulls_last=False)
        .with_row_index("number", offset=1)
        .with_columns(
            started_at=frames.from_us("started"),
            ended_at=frames.from_us("ended"),
            seconds=pl.when(pl.col("held") > 0).then(length * pl.col("milli_gpus") / pl.col("held")).otherwise(length),
            gpu_seconds=length * pl.col("milli_gpus") / 1000,
        )
    )
    return frames.conform(timeline, _TIMELINE)


def class_sums(timeline: pl.DataFrame) -> pl.DataFrame:
    """Number of intervals, seconds and GPU-seconds of each class and cause, the largest first.

    Args:
        timeline: as `run_timeline` returns it.

    Returns:
        `class`, `cause`, `n`, `seconds`, `gpu_seconds`, `share` (of the run's wall time in GPU-seconds).
    """
    whole = pl.col("gpu_seconds").sum()
    return (
        timeline.group_by("class", "cause")
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("seconds", "gpu_seconds").sum())
        .sort("gpu_seconds", "class", "cause", descending=[True, False, False], nulls_last=True)
        .with_columns(share=pl.when(whole > 0).then(pl.col("gpu_seconds") / whole))  # a float sum depends on the order
    )


_TIMELINE: frames.Schema = {
    "number": frames.COUNT,
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "seconds": frames.NUMBER,
    "milli_gpus": frames.COUNT,
    "gpu_seconds": frames.NUMBER,
    "class": frames.TEXT,
    "cause": frames.TEXT,
    "evidence": frames.TEXT,
}

_INTERVALS = ("started_at", "ended_at", *_WHAT, "milli_gpus")


def _waiting(waits: pl.DataFrame) -> pl.DataFrame:
    return waits.filter(pl.col("milli_gpus") > 0).with_columns(
        pl.when("initial").then(pl.lit("queue_initial")).otherwise(pl.lit("queue_requeue")).alias("class"),
        cause=pl.lit(None, dtype=pl.String),
        evidence=pl.lit("accounting"),
    ).select(_INTERVALS)  # fmt: skip


def _held(spent: pl.DataFrame) -> pl.DataFrame:
    part = (pl.col("category") == "startup") & pl.col("cause").is_in(STARTUP_PARTS).fill_null(value=False)
    return spent.with_columns(
        pl.when(part).then("cause").otherwise("category").alias("class"),
        cause=pl.when(~part).then("cause"),
    ).select(_INTERVALS)  # fmt: skip
