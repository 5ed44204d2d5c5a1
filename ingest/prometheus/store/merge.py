"""Merges samples of several loads: no two rows of a series cover the same time, and no covered time is lost."""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.prometheus.gpu.samples import end
from ingest.prometheus.tables import GPUS, SampleTable

_US: Final = 1_000_000

SEAM: Final = 10
"""Rows of GPUs that are apart by less than the interval through this are not."""


def merge(stored: pl.DataFrame, new: pl.DataFrame, *, interval_s: int, of: SampleTable = GPUS) -> pl.DataFrame:
    """Both as one, sorted by series and time; no two rows of a series cover the same time.

    Rows for exactly the same time become one: a new value replaces an old one, any value replaces none. Otherwise new
    rows replace those that they overlap, except that within a cell of the grid the longer row stays whole, and the
    other keeps the rest of its time: the edge of a file does not replace a whole cell, and where two edges meet within
    a cell no second is lost. The longer row takes over values that only the shorter one has. Rows of GPUs that are less
    than a tenth of the interval apart within a cell touch (`_without_seams`).
    """
    new = new.unique(list(of.key), keep="last", maintain_order=True)
    if stored.is_empty():
        return new.select(of.schema.keys()).sort(of.key)
    exact = [*of.key, "interval_s"]
    new, stored = _filled(new, stored, interval_s, of), _filled(stored, new, interval_s, of)
    new = _not_overlapping(new, stored.join(new, on=exact, how="anti"), interval_s, of, longer=True)
    old_only = stored.join(new, on=exact, how="anti")
    new_only = new.join(stored, on=exact, how="anti")
    both = new.join(stored, on=exact, how="inner", suffix="_old").select(
        *exact, *(pl.coalesce(name, f"{name}_old").alias(name) for name in of.values)
    )
    remaining = _not_replaced(_not_overlapping(old_only, new, interval_s, of, longer=False), new, of)
    merged = pl.concat([remaining, new_only, both.select(of.schema.keys())]).sort(of.key)
    return _without_seams(merged, interval_s) if of is GPUS else merged


def _without_seams(rows: pl.DataFrame, interval_s: int) -> pl.DataFrame:
    """Rows in order, with small gaps within a cell closed: the earlier row lasts until the later one begins.

    A file's first reading covers the usual step before it, and scrape times vary slightly: two files of one history may
    have such a gap between them. A row that begins slightly after its cell begins with the cell, if there is one right
    before.
    """
    width = interval_s * _US
    begin, stop = pl.col("ts").dt.epoch("us"), end("ts", "interval_s").dt.epoch("us")
    series = list(GPUS.series_key)
    following, reached = begin.shift(-1).over(series), stop.shift(1).over(series)
    cell = begin // width * width
    near = rows.with_columns(begin=begin, stop=stop, cell=cell, following=following, reached=reached)
    behind, before = pl.col("following") - pl.col("stop"), pl.col("begin") - pl.col("reached")
    trifle, edge = width / SEAM, pl.col("interval_s") < interval_s
    lasts = edge & (behind > 0) & (behind < trifle) & (pl.col("following") <= pl.col("cell") + width)
    earlier = edge & (before > 0) & (before < trifle) & (pl.col("reached") == pl.col("cell"))
    if not near.select((lasts | earlier).any()).item():
        return rows
    from_us = pl.when(earlier).then("reached").otherwise("begin")
    until_us = pl.when(lasts).then("following").otherwise("stop")
    touching = near.with_columns(
        ts=from_us.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
        interval_s=pl.when(lasts | earlier)
        .then(((until_us - from_us) / _US).cast(GPUS.schema["interval_s"]))
        .otherwise("interval_s"),
    )
    return touching.select(rows.columns)


def _filled(rows: pl.DataFrame, others: pl.DataFrame, interval_s: int, of: SampleTable) -> pl.DataFrame:
    """Rows with the values that they lack, where a shorter row that they overlap within their cell has one."""
    parts = others.filter(pl.col("interval_s") < interval_s)
    if len(of.values) == 1 or parts.is_empty():
        return rows
    cell = (pl.col("ts").dt.epoch("us") // (interval_s * _US)).alias("cell")
    pairs = (
        rows.filter(pl.col("interval_s") <= interval_s, pl.any_horizontal(pl.col(of.values).is_null()))
        .select(*of.key, end("ts", "interval_s").alias("end"), "interval_s", cell)
        .join(
            parts.with_columns(end("ts", "interval_s").alias("end"), cell), on=[*of.series_key, "cell"], suffix="_other"
        )
        .filter(
            pl.col("ts_other") < pl.col("end"),
            pl.col("end_other") > pl.col("ts"),
            pl.col("interval_s_other") < pl.col("interval_s"),
        )
        .sort("interval_s_other", "ts_other", descending=[True, False])
    )
    if pairs.is_empty():
        return rows
    found = pairs.group_by(of.key).agg(pl.col(of.values).drop_nulls().first())
    joined = rows.join(found, on=list(of.key), how="left", suffix="_other", maintain_order="left")
    return joined.select(
        *of.key, "interval_s", *(pl.coalesce(name, f"{name}_other").alias(name) for name in of.values)
    ).select(rows.columns)


def _not_overlapping(
    rows: pl.DataFrame, others: pl.DataFrame, interval_s: int, of: SampleTable, *, longer: bool
) -> pl.DataFrame:
    """Rows without the time of others within their cell of the grid that have precedence; the rest is unchanged.

    With `longer` only others that cover more time have precedence. No other lies inside a row then, so the rest of a
    row is one interval.
    """
    if rows.is_empty() or others.is_empty():
        return rows
    cell = pl.col("ts").dt.epoch("us") // (interval_s * _US)
    spans = [*of.series_key, "ts", end("ts", "interval_s").alias("end"), "interval_s", cell.alias("cell")]
    pairs = (
        rows.filter(pl.col("interval_s") <= interval_s)
        .select(spans)
        .join(
            others.filter(pl.col("interval_s") <= interval_s).select(spans),
            on=[*of.series_key, "cell"],
            suffix="_other",
        )
        .filter(pl.col("ts_other") < pl.col("end"), pl.col("end_other") > pl.col("ts"))
    )
    if longer:
        pairs = pairs.filter(pl.col("interval_s_other") > pl.col("interval_s"))
    if pairs.is_empty():
        return rows
    before = pl.col("ts_other") <= pl.col("ts")
    low, high = pl.col("end_other").filter(before).max(), pl.col("ts_other").filter(~before).min()
    cut = pairs.group_by(of.key).agg(
        pl.coalesce(low, pl.col("ts").first()).alias("low"), pl.coalesce(high, pl.col("end").first()).alias("high")
    )
    left = rows.join(cut, on=list(of.key), how="inner").filter(pl.col("low") < pl.col("high"))
    seconds = (pl.col("high") - pl.col("low")).dt.total_milliseconds() / 1000
    trimmed = left.with_columns(ts=pl.col("low"), interval_s=seconds.cast(of.schema["interval_s"]))
    return pl.concat([rows.join(cut, on=list(of.key), how="anti"), trimmed.select(rows.columns)])


def _not_replaced(old: pl.DataFrame, new: pl.DataFrame, of: SampleTable) -> pl.DataFrame:
    """Old rows that no new row overlaps."""
    if old.is_empty():
        return old.select(of.schema.keys())
    spans = new.select(*of.series_key, "ts", end("ts", "interval_s").alias("end")).sort("ts")
    # New rows do not overlap one another, so only the last that begins before an old row ends matters.
    neighbours = (
        old.with_columns(old_end=end("ts", "interval_s"))
        .sort("old_end")
        .join_asof(
            spans.rename({"ts": "begin"}),
            left_on="old_end",
            right_on="begin",
            by=of.series_key,
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
    )
    free = pl.col("end").is_null() | (pl.col("end") <= pl.col("ts"))
    return neighbours.filter(free).select(of.schema.keys())
