"""GPU samples on a grid: raw values averaged, loads merged, hours rolled up. Frames in, frames out.

The grid has the width of the configured interval and begins at the epoch. A value that was read at time t speaks for
the time up to t (DCGM's ratios are averages over the time before), so a cell holds the readings after its beginning
up to and with its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import polars as pl

from ingest.dcgm import COLUMNS, METRICS, in_base_units, in_percent
from ingest.frames import GPU_HOURS, GPU_SAMPLES, REAL, TEXT, TIME, Schema, conform, empty

KEY: Final = ("cluster", "node", "gpu", "ts")
_PLACE: Final = ("cluster", "node", "gpu")
ACTIVE: Final = "active"
"""Metric of `gpu_hours` that says how long a GPU was active; its mean is the share."""

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

_SUMMED: Final = sorted({metric.column for metric in METRICS if metric.of_instances == "sum"})
_US: Final = 1_000_000


@dataclass(frozen=True)
class Activity:
    """From which value on a GPU counts as active; utilisation must exceed its own."""

    tensor: float
    gr_engine: float
    gpu_util: float


class Usable(NamedTuple):
    """Values (LONG) that can be believed, how many were left out, and what to say of those."""

    values: pl.DataFrame
    n_left_out: int
    warnings: list[str]


def usable(exported: pl.DataFrame) -> Usable:
    """Values as exported (SAMPLES of METRICS without blanks, all of one load) in base units, as far as they can be."""
    if exported.is_empty():
        return Usable(empty(LONG), 0, [])
    percents = in_percent(exported)
    is_percent = pl.col("name").is_in(percents)
    values = in_base_units(exported.filter(~is_percent))
    good = values.drop_nulls("value").select(LONG.keys())
    strange = values.height - good.height
    warnings = [f"{strange:,} values are outside what their metric can be, and were left out"] if strange else []
    if percents:
        warnings.append(_of_percents(percents, exported.height - values.height))
    return Usable(good, exported.height - good.height, warnings)


def _of_percents(names: list[str], count: int) -> str:
    return (
        f"{', '.join(names)}: by its name a ratio, but there are values above 1, so somebody counts it in percent "
        "(DCGM 4.5 and 4.6 do with DCGM_FI_DEV_GPU_UTIL_RATIO; export DCGM_FI_DEV_GPU_UTIL there). Which of the values "
        f"are ratios cannot be told: all {count:,} were left out"
    )


def of_whole_gpus(values: pl.DataFrame) -> pl.DataFrame:
    """LONG with one row per column, node, GPU and time.

    Series that say the same (one per job that shares the GPU, one per exporter, old and new name) count once, by the
    largest. MIG instances make one GPU where it has no value of its own: the busiest, and memory as their sum.
    """
    if values.is_empty():
        return values
    where = ["column", "node", "gpu", "ts"]
    value, whole = pl.col("value"), pl.col("instance") == ""
    once = values.filter(value.is_not_null()).group_by(*where, "instance").agg(value.max())
    if once.select(whole.all()).item():
        return once.select(LONG.keys())
    parts = pl.when(pl.col("column").first().is_in(_SUMMED)).then(value.sum()).otherwise(value.max())
    folded = once.group_by(where).agg(
        pl.when(whole.any()).then(value.filter(whole).max()).otherwise(parts).alias("value")
    )
    return folded.with_columns(instance=pl.lit("")).select(LONG.keys())


def averaged(values: pl.DataFrame, *, interval_s: int) -> pl.DataFrame:
    """LONG readings as LONG means of grid cells, with `interval_s`, the time that each speaks for.

    The first and the last cell of a GPU speak only for their part that was read: readings are taken to come as
    regularly as the median GPU's do. A file that goes on there can then bring the rest.
    """
    once = of_whole_gpus(values)
    width = interval_s * _US
    moment = pl.col("ts").dt.epoch("us")
    end = -(-moment // width) * width
    cells = (
        once.with_columns(begin=end - width)
        .group_by("column", "node", "gpu", "begin")
        .agg(pl.col("value").mean())
        .join(_edges(once, width), on=["node", "gpu"])
    )
    begin, low, high = pl.col("begin"), pl.col("low"), pl.col("high")
    start, stop = pl.max_horizontal(begin, low), pl.min_horizontal(begin + width, high)
    return cells.select(
        "column",
        "node",
        "gpu",
        start.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias("ts"),
        ((stop - start) / _US).alias("interval_s"),
        "value",
    )


def _edges(once: pl.DataFrame, width: int) -> pl.DataFrame:
    """From when to when each GPU's readings speak: `low`, `high` in microseconds (to the millisecond)."""
    moments = once.select("node", "gpu", pl.col("ts").dt.epoch("us").alias("at")).unique()
    steps = moments.sort("node", "gpu", "at").select(pl.col("at").diff().over("node", "gpu").alias("step"))
    median = steps["step"].drop_nulls().median()
    step = min(round(median / 1000) * 1000, width) if isinstance(median, float) and median >= 1000 else width
    last = pl.col("at").max()
    whole_cell = -(-last // width) * width
    return moments.group_by("node", "gpu").agg(
        (pl.col("at").min() - step).alias("low"),
        # With another reading due within its cell, the cell is not whole.
        pl.when(last + step > whole_cell).then(whole_cell).otherwise(last).alias("high"),
    )


def wide(cells: pl.DataFrame, *, cluster: str) -> pl.DataFrame:
    """GPU_SAMPLES of averaged cells (LONG and `interval_s`), sorted by node, GPU and time."""
    if cells.is_empty():
        return empty(GPU_SAMPLES)
    value = pl.col("value")
    made = cells.group_by("node", "gpu", "ts").agg(
        pl.col("interval_s").first(), *(value.filter(pl.col("column") == name).max().alias(name) for name in COLUMNS)
    )
    return conform(made.with_columns(cluster=pl.lit(cluster)), GPU_SAMPLES).sort(*KEY)


def merge(there: pl.DataFrame, new: pl.DataFrame, *, interval_s: int) -> pl.DataFrame:
    """Both GPU_SAMPLES as one, sorted; no two rows of a GPU speak for the same time.

    Rows for exactly the same time become one: a new value beats an old one, any value beats none. Otherwise new rows
    replace those that they overlap, except that within a cell of the grid the one that speaks for more stays whole,
    and the other keeps what is left of its time: the edge of a file does not replace a whole cell, and where two edges
    meet within a cell no second is lost.
    """
    new = new.unique(list(KEY), keep="last", maintain_order=True)
    new = _beside(new, there.join(new, on=[*KEY, "interval_s"], how="anti"), interval_s, longer=True)
    exact = [*KEY, "interval_s"]
    old_only = there.join(new, on=exact, how="anti")
    new_only = new.join(there, on=exact, how="anti")
    both = new.join(there, on=exact, how="inner", suffix="_old").select(
        *exact, *(pl.coalesce(name, f"{name}_old").alias(name) for name in COLUMNS)
    )
    kept_old = _not_replaced(_beside(old_only, new, interval_s, longer=False), new)
    return pl.concat([kept_old, new_only, both.select(GPU_SAMPLES.keys())]).sort(*KEY)


def _beside(rows: pl.DataFrame, others: pl.DataFrame, interval_s: int, *, longer: bool) -> pl.DataFrame:
    """What is left of rows where others within their cell of the grid go before them; the rest as it is.

    With `longer` only those others do that speak for more time. No other lies inside a row then, so what is left of
    one is one stretch.
    """
    cell = pl.col("ts").dt.epoch("us") // (interval_s * _US)
    spans = [*_PLACE, "ts", end("ts", "interval_s").alias("end"), "interval_s", cell.alias("cell")]
    pairs = (
        rows.filter(pl.col("interval_s") <= interval_s)
        .select(spans)
        .join(others.filter(pl.col("interval_s") <= interval_s).select(spans), on=[*_PLACE, "cell"], suffix="_other")
        .filter(pl.col("ts_other") < pl.col("end"), pl.col("end_other") > pl.col("ts"))
    )
    if longer:
        pairs = pairs.filter(pl.col("interval_s_other") > pl.col("interval_s"))
    if pairs.is_empty():
        return rows
    before = pl.col("ts_other") <= pl.col("ts")
    low, high = pl.col("end_other").filter(before).max(), pl.col("ts_other").filter(~before).min()
    cut = pairs.group_by(KEY).agg(
        pl.coalesce(low, pl.col("ts").first()).alias("low"), pl.coalesce(high, pl.col("end").first()).alias("high")
    )
    left = rows.join(cut, on=list(KEY), how="inner").filter(pl.col("low") < pl.col("high"))
    seconds = (pl.col("high") - pl.col("low")).dt.total_milliseconds() / 1000
    trimmed = left.with_columns(ts=pl.col("low"), interval_s=seconds.cast(GPU_SAMPLES["interval_s"]))
    return pl.concat([rows.join(cut, on=list(KEY), how="anti"), trimmed.select(rows.columns)])


def _not_replaced(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """Old rows that no new row overlaps."""
    spans = new.select(*_PLACE, "ts", end("ts", "interval_s").alias("end")).sort("ts")
    # New rows do not overlap one another, so the last that begins before an old row ends is the one to look at.
    beside = (
        old.with_columns(old_end=end("ts", "interval_s"))
        .sort("old_end")
        .join_asof(
            spans.rename({"ts": "begin"}),
            left_on="old_end",
            right_on="begin",
            by=_PLACE,
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
    )
    free = pl.col("end").is_null() | (pl.col("end") <= pl.col("ts"))
    return beside.filter(free).select(GPU_SAMPLES.keys())


def end(ts: str, interval_s: str) -> pl.Expr:
    """End of the time that a sample speaks for, to the millisecond (a 32-bit float holds no microseconds)."""
    return pl.col(ts) + pl.duration(milliseconds=(pl.col(interval_s).cast(REAL) * 1000).round().cast(pl.Int64))


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


def usual_step(samples: pl.DataFrame) -> float | None:
    """Median seconds from one sample of a GPU to its next; None where no GPU has two."""
    steps = samples.sort(*KEY).select(pl.col("ts").diff().over("cluster", "node", "gpu").alias("step"))
    median = steps.select(pl.col("step").drop_nulls().dt.total_milliseconds().median()).item()
    return None if median is None else float(median) / 1000


def too_sparse(samples: pl.DataFrame, *, interval_s: int) -> list[str]:
    """What to say where values come less often than the interval: most of the time nothing is known."""
    step = usual_step(samples)
    if step is None or step <= interval_s:
        return []
    return [
        f"values come only every {step:g} s, so of the {interval_s} s intervals many are empty; "
        f"set prometheus.interval_s to {round(step)} or more"
    ]
