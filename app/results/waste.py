"""Allocated GPU-time that shows no work, and how GPU-time ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.waste import waste as metric

if TYPE_CHECKING:
    from app.window import RowSource, Window

_COLUMN: Final = {"cluster": None, "run": "run_id"}
"""What a dimension is called in the rows; the others are called as they are."""


def waste_flags(source: RowSource, window: Window) -> pl.DataFrame:
    """Every attempt that held GPUs in the window, with what it shows of each kind: `metrics.waste.waste.flagged`."""
    return source.memo(("waste_flags", window), lambda: _waste_flags(source, window))


def _waste_flags(source: RowSource, window: Window) -> pl.DataFrame:
    rows = source.query("attempt_spending", cluster=window.cluster, since=window.since, until=window.until)
    return metric.flagged(frames.conform(rows, metric.SPENDING), since=window.since, until=window.until)


def waste_rows(flags: pl.DataFrame, dimension: str = "cluster") -> pl.DataFrame:
    """GPU-time of each kind of waste, by cluster, user, account, partition or run: `metrics.waste.waste.waste`."""
    return metric.waste(flags, _COLUMN.get(dimension, dimension))


def limit_rows(flags: pl.DataFrame, dimension: str = "cluster") -> pl.DataFrame:
    """The share of their time limit that attempts ran, with `subject`: `metrics.waste.waste.time_limits`."""
    column = _COLUMN.get(dimension, dimension)
    named = flags.with_columns(subject=pl.col("cluster") if column is None else pl.col(column).fill_null("(unknown)"))
    return metric.time_limits(named, ("cluster", "subject"))


def state_rows(flags: pl.DataFrame) -> pl.DataFrame:
    """How the GPU-time of the window's attempts ended: `metrics.waste.waste.state_shares`."""
    wasted = flags.select(
        "cluster", subject="cluster", ending=metric.ending("state"), gpu_s="allocated_s", n=pl.lit(1, dtype=pl.Int64)
    )
    shares = metric.state_shares(wasted.drop("cluster"))
    return shares.select(pl.col("subject").alias("cluster"), pl.all())
