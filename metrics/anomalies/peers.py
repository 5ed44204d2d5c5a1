"""Owner of each hour of a node: the attempt that alone held the node for the whole of the hour."""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames

HOUR_US: Final = 3_600_000_000

HELD: frames.Schema = {"node": frames.TEXT, "hour": frames.COUNT, "attempt": frames.COUNT}


def held_hours(on_nodes: pl.DataFrame, first: int, last: int) -> pl.DataFrame:
    """Node-hours that one attempt held from beginning to end while no other was there.

    Args:
        on_nodes: `frames.ATTEMPT_NODES` with a number `attempt`; without an end: still running.
        first: the first hour, since 1970.
        last: the hour after the last one.

    Returns:
        `HELD`.
    """
    begin, end = (pl.col(name).dt.epoch("us") for name in ("started_at", "ended_at"))
    low, high = first * HOUR_US, last * HOUR_US
    near = (
        on_nodes.select("node", "attempt", begin=begin, end=end.fill_null(high))
        .filter((pl.col("begin") < high) & (pl.col("end") > low) & (pl.col("begin") < pl.col("end")))
        .with_columns(pl.col("begin").clip(lower_bound=low), pl.col("end").clip(upper_bound=high))
    )
    touched = near.with_columns(
        hour=pl.int_ranges(pl.col("begin") // HOUR_US, (pl.col("end") - 1) // HOUR_US + 1)
    ).explode("hour")
    at = pl.col("hour") * HOUR_US
    whole = (pl.col("begin") <= at) & (pl.col("end") >= at + HOUR_US)
    held = touched.with_columns(whole=whole).filter(whole & (pl.len().over("node", "hour") == 1))
    return frames.conform(held, HELD)
