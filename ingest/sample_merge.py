"""Samples of several loads as one: no two rows of a series speak for the same time, and none of it is lost."""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.dcgm import COLUMNS
from ingest.frames import GPU_SAMPLES
from ingest.gpu_samples import KEY, end

_PLACE: Final = ("cluster", "node", "gpu")
_US: Final = 1_000_000


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
