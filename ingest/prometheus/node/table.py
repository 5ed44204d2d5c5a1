"""Cells of series combined to one value of each node, metric, device and cell. Frames in, frames out.

Cells have numbers: cell n lies behind n times the width of the grid. Times are milliseconds.
"""

from __future__ import annotations

from typing import Final, get_args

import polars as pl

from ingest.prometheus.mapping.mapping import Combine
from ingest.tables import FLAG, REAL, WHOLE, Schema

USES: Final[Schema] = {
    "target": pl.UInt32(),
    "group": pl.UInt32(),
    "twin": pl.UInt32(),
    "scale": REAL,
    "high": REAL,
    "one_minus": FLAG,
    "combine": pl.Enum(get_args(Combine)),
}
"""Uses by number: a series for one entry of the mapping.

`target` is the number of node, metric and device; those of one target and entry are a `group`, and those of a group
that differ only in labels of the scrape have the same `twin`. All three are null where the series is refused.
"""

RATES: Final[Schema] = {
    "use": pl.UInt32(),
    "cell": WHOLE,
    "increase": REAL,
    "observed_ms": WHOLE,
    "begin_ms": WHOLE,
    "end_ms": WHOLE,
}
"""Increases of counters in cells, in the exporter's unit, and their times. Rows of a use and cell add up."""

GAUGES: Final[Schema] = {"use": pl.UInt32(), "cell": WHOLE, "total": REAL, "n_good": WHOLE, "n": WHOLE}
"""Readings of gauges in cells: their number, and the sum of plausible values. Rows add up likewise."""

VALUES: Final[Schema] = {"target": pl.UInt32(), "cell": WHOLE, "value": REAL, "begin_ms": WHOLE, "observed_ms": WHOLE}
"""Values in base units, and the time they cover."""

_SPAN: Final = ("begin_ms", "observed_ms")


def rates_added_up(rows: pl.DataFrame) -> pl.DataFrame:
    """RATES with one row of a use and cell."""
    return rows.group_by("use", "cell").agg(
        pl.col("increase", "observed_ms").sum(), pl.col("begin_ms").min(), pl.col("end_ms").max()
    )


def gauges_added_up(rows: pl.DataFrame) -> pl.DataFrame:
    """GAUGES with one row of a use and cell."""
    return rows.group_by("use", "cell").agg(pl.col("total", "n_good", "n").sum())


def values_of_rates(rows: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """VALUES of RATES with one row of a use and cell; several of a target and cell where entries share a target."""
    rate = pl.col("increase") * 1000 / pl.col("observed_ms")
    best = _best_of_twins(_in_base_units(_with(rows, uses).with_columns(value=rate)), "observed_ms")
    begin, end = pl.col("begin_ms").max(), pl.col("end_ms").min()
    several = best.filter(pl.col("n_members") > 1).group_by("target", "group", "cell")
    combined = several.agg(
        begin_ms=begin, observed_ms=pl.min_horizontal(pl.col("observed_ms").min(), end - begin), **_COMBINED
    )
    return _together(best, _chosen(combined.filter(pl.col("observed_ms") > 0)))


def values_of_gauges(rows: pl.DataFrame, uses: pl.DataFrame, *, width_ms: int) -> pl.DataFrame:
    """VALUES of GAUGES with one row of a use and cell; several of a target and cell where entries share a target."""
    mean = pl.when(pl.col("n_good") > 0).then(pl.col("total") / pl.col("n_good"))
    whole = {"begin_ms": pl.col("cell") * width_ms, "observed_ms": pl.lit(width_ms, WHOLE)}
    best = _best_of_twins(_in_base_units(_with(rows, uses).with_columns(value=mean, **whole)), "n")
    weighed = pl.col("value") * pl.col("n") / pl.col("n").max()
    total = pl.when(pl.col("value").null_count() == 0).then(weighed.sum())
    several = best.filter(pl.col("n_members") > 1).group_by("target", "group", "cell")
    return _together(best, _chosen(several.agg(pl.col(*_SPAN).first(), **{**_COMBINED, "sum": total})))


_COMBINED: Final = {
    "sum": pl.col("value").sum(),
    "max": pl.col("value").max(),
    "mean": pl.col("value").mean(),
    "combine": pl.col("combine").first(),
}


def without_duplicates(values: pl.DataFrame) -> pl.DataFrame:
    """VALUES with one row of a target and cell: the one with the most observed time, of those the largest."""
    order = ["target", "cell", "observed_ms", "value", "begin_ms"]
    return values.sort(order, descending=[False, False, True, True, False]).unique(
        ["target", "cell"], keep="first", maintain_order=True
    )


def _with(rows: pl.DataFrame, uses: pl.DataFrame) -> pl.DataFrame:
    """Rows of cells with the columns of their use, without refused uses."""
    counted = uses.with_columns(pl.len().over("twin").alias("n_twins"), pl.len().over("group").alias("n_members"))
    use_facts = counted[rows["use"]] if rows.height else counted.clear()
    return pl.concat([rows, use_facts], how="horizontal").filter(pl.col("target").is_not_null())


def _in_base_units(best: pl.DataFrame) -> pl.DataFrame:
    """With `value` as it is stored. What is a trifle above its highest is rounding, and so is a share below 0."""
    scaled = pl.min_horizontal("value", "high") * pl.col("scale")
    value = pl.when("one_minus").then(pl.max_horizontal(1 - scaled, 0.0)).otherwise(scaled)
    return best.with_columns(value=pl.when(pl.col("value").is_not_null()).then(value))


def _best_of_twins(rows: pl.DataFrame, most: str) -> pl.DataFrame:
    """Of twins the one with most observed time of the cell, and of those the largest."""
    order, many = ["twin", "cell", most, "value", "begin_ms"], pl.col("n_twins") > 1
    best = rows.filter(many).sort(order, descending=[False, False, True, True, False], nulls_last=True)
    return pl.concat([rows.filter(~many), best.unique(["twin", "cell"], keep="first", maintain_order=True)])


def _chosen(combined: pl.DataFrame) -> pl.DataFrame:
    """VALUES by the rule of the entry."""
    rule = pl.col("combine")
    return combined.with_columns(
        value=pl.when(rule == "sum").then("sum").when(rule == "mean").then("mean").otherwise("max")
    )


def _together(best: pl.DataFrame, several: pl.DataFrame) -> pl.DataFrame:
    """VALUES of series that are alone in their group, and of groups of several; infinite values are left out."""
    alone = best.filter(pl.col("n_members") == 1)
    return pl.concat([alone.select(VALUES.keys()), several.select(VALUES.keys())]).filter(
        pl.col("value").cast(pl.Float32, strict=False).is_finite()
    )
