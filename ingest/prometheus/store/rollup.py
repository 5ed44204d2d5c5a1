"""Samples rolled up by the hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.prometheus.gpu.samples import ACTIVE, HOUR_S
from ingest.prometheus.tables import GPUS, NODES, SampleTable
from ingest.tables import GPU_HOURS, NODE_HOURS, REAL, Schema, conform, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

QUANTILE: Final = 0.95


@dataclass(frozen=True)
class ActivityThresholds:
    """Least values of an active GPU; utilisation must exceed its own."""

    tensor: float
    gr_engine: float
    gpu_util: float


def rolled_up(
    samples: pl.DataFrame, activity: ActivityThresholds, thresholds: Mapping[str, float] | None = None
) -> pl.DataFrame:
    """GPU_HOURS of samples: for each GPU and hour a row per metric that it has, and one of its activity.

    The mean is weighted by time; the 95th percentile is over the samples. An hour has the samples that begin in it.
    `above_s` are the seconds at or above the metric's threshold; null where it has none.
    """
    if samples.is_empty():
        return empty(GPU_HOURS)
    limits = {name: (thresholds or {}).get(name) for name in GPUS.values}
    base = samples.with_columns(_active(activity).alias(ACTIVE))
    hours = _hours(
        base, GPUS, {**{name: _as_stored(limit) for name, limit in limits.items()}, ACTIVE: _as_stored(None)}
    )
    rows = [_of_metric(hours, GPUS, name) for name in (*GPUS.values, ACTIVE)]
    is_activity = pl.col("metric") == ACTIVE
    combined = pl.concat(rows).with_columns(
        pl.when(is_activity).then(pl.min_horizontal("sum", "covered_s")).alias("active_s"),
        *(pl.when(~is_activity).then(name).alias(name) for name in ("max", "p95")),
    )
    return _rows(combined, GPU_HOURS, [*GPUS.key, "metric"])


def nodes_rolled_up(samples: pl.DataFrame, thresholds: Mapping[str, float] | None = None) -> pl.DataFrame:
    """NODE_HOURS of samples: for each node and hour a row per metric and device; numbers as those of GPUs."""
    if samples.is_empty():
        return empty(NODE_HOURS)
    limits = pl.lit(None, dtype=pl.Float32)
    if thresholds:
        limits = pl.col("metric").replace_strict(dict(thresholds), default=None, return_dtype=pl.Float32)
    hours = _hours(samples.with_columns(limits.alias("limit")), NODES, {"value": pl.col("limit")})
    return _rows(_of_metric(hours, NODES, "value"), NODE_HOURS, list(NODES.key))


def _active(activity: ActivityThresholds) -> pl.Expr:
    """1 where a GPU is active, 0 where it is not, null where no metric shows it."""
    return (
        pl.when(pl.col("tensor_active").is_not_null())
        .then(pl.col("tensor_active") >= _as_stored(activity.tensor))
        .when(pl.col("gr_engine_active").is_not_null())
        .then(pl.col("gr_engine_active") >= _as_stored(activity.gr_engine))
        .otherwise(pl.col("gpu_util") > _as_stored(activity.gpu_util))
        .cast(pl.Float32)
    )


def _as_stored(threshold: float | None) -> pl.Expr:
    """A threshold at the samples' precision, so that an equal value compares as equal."""
    return pl.lit(threshold, dtype=pl.Float32)


def _hours(samples: pl.DataFrame, of: SampleTable, limits: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """For each series and hour, of every value of `limits`: NAME:sum, :seconds, :max, :p95, :above and :limit.

    The samples of an hour are added up in the order of time, so that the same samples have the same sum.
    """
    weight = (pl.col("interval_s").cast(REAL) * 1000).round() / 1000
    base = samples.sort(of.key).with_columns(pl.col("ts").dt.truncate("1h"), weight=weight)
    made, aggregates = [], []
    for name, limit in limits.items():
        value = pl.col(name)
        made += [
            (value.cast(REAL) * pl.col("weight")).alias(f"{name}:sum"),
            pl.when(value.is_not_null()).then("weight").alias(f"{name}:seconds"),
            pl.when(value >= limit).then("weight").otherwise(0.0).alias(f"{name}:above"),
            limit.cast(REAL).alias(f"{name}:limit"),
        ]
        aggregates += [
            pl.col(f"{name}:sum", f"{name}:seconds", f"{name}:above").sum(),
            value.cast(REAL).max().alias(f"{name}:max"),
            value.cast(REAL).quantile(QUANTILE, interpolation="linear").alias(f"{name}:p95"),
            pl.col(f"{name}:limit").first(),
        ]
    return base.with_columns(made).group_by(*of.series_key, "ts", maintain_order=True).agg(aggregates)


def _of_metric(hours: pl.DataFrame, of: SampleTable, name: str) -> pl.DataFrame:
    """Rows of one metric, of the hours that it has."""
    seconds = pl.col(f"{name}:seconds")
    metric = [] if "metric" in of.series_key else [pl.lit(name).alias("metric")]
    return hours.filter(seconds > 0).select(
        *of.series_key,
        "ts",
        *metric,
        (pl.col(f"{name}:sum") / seconds).alias("mean"),
        pl.col(f"{name}:max").alias("max"),
        pl.col(f"{name}:p95").alias("p95"),
        pl.col(f"{name}:sum").alias("sum"),
        pl.min_horizontal(seconds, pl.lit(HOUR_S)).alias("covered_s"),
        pl.col(f"{name}:limit").alias("threshold"),
        pl.when(pl.col(f"{name}:limit").is_not_null())
        .then(pl.min_horizontal(f"{name}:above", pl.lit(HOUR_S)))
        .alias("above_s"),
    )


def _rows(rows: pl.DataFrame, schema: Schema, order: list[str]) -> pl.DataFrame:
    return conform(rows, schema).sort(order)
