"""Samples rolled up by the hour."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ingest.dcgm import COLUMNS
from ingest.frames import GPU_HOURS, REAL, conform
from ingest.gpu_samples import ACTIVE, HOUR_S, KEY


@dataclass(frozen=True)
class Activity:
    """From which value on a GPU counts as active; utilisation must exceed its own."""

    tensor: float
    gr_engine: float
    gpu_util: float


def rolled_up(samples: pl.DataFrame, activity: Activity) -> pl.DataFrame:
    """GPU_HOURS of samples: for each GPU and hour a row per metric that it has, and one of its activity.

    The mean is weighted by time; the 95th percentile is over the samples. An hour gets the samples that begin in it.
    """
    weight = (pl.col("interval_s").cast(REAL) * 1000).round() / 1000
    base = samples.with_columns(hour=pl.col("ts").dt.truncate("1h"), weight=weight)
    active = (
        pl.when(pl.col("tensor_active").is_not_null())
        .then(pl.col("tensor_active") >= _as_stored(activity.tensor))
        .when(pl.col("gr_engine_active").is_not_null())
        .then(pl.col("gr_engine_active") >= _as_stored(activity.gr_engine))
        .otherwise(pl.col("gpu_util") > _as_stored(activity.gpu_util))
        .cast(REAL)
    )
    rows = [_hours(base, pl.col(name).cast(REAL), name) for name in COLUMNS]
    active_s = pl.min_horizontal("weighted", "covered_s")
    rows.append(_hours(base, active, ACTIVE).with_columns(active_s=active_s, max=None, p95=None))
    return conform(pl.concat(rows, how="diagonal_relaxed"), GPU_HOURS).sort(*KEY, "metric")


def _as_stored(threshold: float) -> pl.Expr:
    """A threshold at the samples' precision, so that a value that equals it does."""
    return pl.lit(threshold, dtype=pl.Float32)


def _hours(base: pl.DataFrame, value: pl.Expr, metric: str) -> pl.DataFrame:
    weighted = (pl.col("value") * pl.col("weight")).sum()
    return (
        base.with_columns(value=value)
        .filter(pl.col("value").is_not_null())
        .group_by("cluster", "node", "gpu", "hour")
        .agg(
            (weighted / pl.col("weight").sum()).alias("mean"),
            pl.col("value").max().alias("max"),
            pl.col("value").quantile(0.95, interpolation="linear").alias("p95"),
            weighted.alias("weighted"),
            pl.min_horizontal(pl.col("weight").sum(), pl.lit(HOUR_S)).alias("covered_s"),
        )
        .with_columns(pl.lit(metric).alias("metric"))
        .rename({"hour": "ts"})
    )
