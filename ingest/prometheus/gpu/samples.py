"""GPU samples on a grid: values in base units, instances put together to GPUs, rows of samples. Frames in, frames out.

The grid has the width of the configured interval and begins at the epoch. A value that was read at time t covers
the time up to t (DCGM's ratios are averages over the time before), so a cell holds the readings after its beginning
up to and with its end.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.prometheus.gpu.rates import gauges_first
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.labels import COLUMNS, in_base_units, in_percent
from ingest.tables import GPU_SAMPLES, REAL, TEXT, TIME, Schema, conform, empty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.prometheus.mapping.mapping import Combine, Mapping

KEY: Final = ("cluster", "node", "gpu", "ts")
ACTIVE: Final = "active"
"""Metric of `gpu_hours` with the active time of a GPU; its mean is the share."""

HOUR_S: Final = 3600.0

LONG: Final[Schema] = {
    "column": TEXT,
    "node": TEXT,
    "gpu": TEXT,
    "instance": TEXT,
    "ts": TIME,
    "value": REAL,
}
"""Values in base units, one column of `gpu_samples` each; null where the exporter had none."""


class Usable(NamedTuple):
    """Plausible values (LONG), the number of those left out, and the warnings about these."""

    values: pl.DataFrame
    n_left_out: int
    warnings: list[LoadWarning]


class JudgedValues(NamedTuple):
    """Some of the values of a load.

    Attributes:
        good: plausible values, as LONG.
        strange: by name, the number of implausible values.
        n_percents: number of values of names that count in percent.
    """

    good: pl.DataFrame
    strange: Counter[str]
    n_percents: int


def usable(exported: pl.DataFrame, mapping: Mapping | None = None) -> Usable:
    """Values as exported (SAMPLES without blanks, all of one load) in base units, without implausible ones.

    `mapping` maps names to columns; the built-in one by default.
    """
    if exported.is_empty():
        return Usable(empty(LONG), 0, [])
    percents = in_percent(exported, mapping)
    judged = judge(exported, percents, mapping)
    return Usable(judged.good, exported.height - judged.good.height, warnings_of(judged, percents))


def judge(exported: pl.DataFrame, percents: Sequence[str], mapping: Mapping | None = None) -> JudgedValues:
    """Some of the values of a load (SAMPLES without blanks); the names of `percents` count in percent."""
    values = in_base_units(exported.filter(~pl.col("name").is_in(percents)), mapping)
    good = values.drop_nulls("value").select(LONG.keys())
    strange = values.filter(pl.col("value").is_null())["name"].value_counts().rows()
    return JudgedValues(good, Counter(dict(strange)), exported.height - values.height)


def warnings_of(judged: JudgedValues, percents: list[str]) -> list[LoadWarning]:
    """The warnings about what was left out of a load."""
    warnings = [LoadWarning("values_implausible", count, name) for name, count in sorted(judged.strange.items())]
    return [*warnings, _of_percents(percents, judged.n_percents)] if percents else warnings


def _of_percents(names: list[str], count: int) -> LoadWarning:
    detail = (
        f"{', '.join(names)}: read as a ratio, but there are values above 1, so some exporter counts it in percent "
        "(DCGM 4.5 and 4.6 do with DCGM_FI_DEV_GPU_UTIL_RATIO; export DCGM_FI_DEV_GPU_UTIL there). Which of the values "
        f"are ratios is unknown: all {count:,} were left out. If all are percents, configure it: [[prometheus.metric]] "
        "with scale = 0.01"
    )
    return LoadWarning("percent_or_ratio", count, detail)


def of_whole_gpus(values: pl.DataFrame) -> pl.DataFrame:
    """LONG with one row per column, node, GPU and time.

    Series that repeat one another (one per job that shares the GPU, one per exporter, old and new name) count once, by
    the largest. MIG instances make one GPU where it has no value of its own: the busiest, and memory as their sum.
    """
    if values.is_empty():
        return values
    where = ["column", "node", "gpu", "ts"]
    value, whole = pl.col("value"), pl.col("instance") == ""
    once = values.filter(value.is_not_null()).group_by(*where, "instance").agg(value.max())
    if once.select(whole.all()).item():
        return once.select(LONG.keys())
    column = pl.col("column").first()
    parts = (
        pl.when(column.is_in(_combined("sum")))
        .then(value.sum())
        .when(column.is_in(_combined("mean")))
        .then(value.mean())
        .otherwise(value.max())
    )
    folded = once.group_by(where).agg(
        pl.when(whole.any()).then(value.filter(whole).max()).otherwise(parts).alias("value")
    )
    return folded.with_columns(instance=pl.lit("")).select(LONG.keys())


@cache
def _combined(how: Combine) -> list[str]:
    """Columns whose MIG instances are combined in that way; configured mappings have to use the same."""
    return sorted({metric.column for metric in builtin().of("gpu_samples") if metric.combine == how})


def wide(cells: pl.DataFrame, *, cluster: str) -> pl.DataFrame:
    """GPU_SAMPLES of means of cells (LONG and `interval_s`), sorted by node, GPU and time."""
    if cells.is_empty():
        return empty(GPU_SAMPLES)
    value = pl.col("value")
    made = (
        gauges_first(cells)
        .group_by("node", "gpu", "ts")
        .agg(
            pl.col("interval_s").first(),
            *(value.filter(pl.col("column") == name).max().alias(name) for name in COLUMNS),
        )
    )
    return conform(made.with_columns(cluster=pl.lit(cluster)), GPU_SAMPLES).sort(*KEY)


def end(ts: str, interval_s: str) -> pl.Expr:
    """End of the time that a sample covers, to the millisecond (a 32-bit float holds no microseconds)."""
    return pl.col(ts) + pl.duration(milliseconds=(pl.col(interval_s).cast(REAL) * 1000).round().cast(pl.Int64))


def usual_step(samples: pl.DataFrame) -> float | None:
    """Median seconds from one sample of a GPU to its next; None where no GPU has two."""
    steps = samples.sort(*KEY).select(pl.col("ts").diff().over("cluster", "node", "gpu").alias("step"))
    median = steps.select(pl.col("step").drop_nulls().dt.total_milliseconds().median()).item()
    return None if median is None else float(median) / 1000


def too_sparse(samples: pl.DataFrame, *, interval_s: int) -> list[LoadWarning]:
    """The warning where values come less often than the interval: most of the time is unobserved."""
    step = usual_step(samples)
    if step is None or step <= interval_s:
        return []
    detail = (
        f"values come only every {step:g} s, so of the {interval_s} s intervals many are empty; "
        f"set prometheus.interval_s to {round(step)} or more"
    )
    return [LoadWarning("readings_sparse", None, detail)]
