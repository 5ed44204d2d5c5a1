"""Evidence of hourly roll-ups of activity for attempts that hold whole nodes: the least that follows from them."""

from __future__ import annotations

import polars as pl

from metrics.categories import LOCKSTEP
from metrics.ledger.provisional import SURE

_MILLI = 1000
_MILLION = 1_000_000


def whole_nodes_by_hour(own: pl.DataFrame) -> pl.DataFrame:
    """Attempts that hold whole nodes, from hourly shares: what must have been, within the part of the hour they held.

    Of a sample's active time as much is attributed to the holder as cannot have been while it did not hold the node
    (`low`), and at most as much as it held (`high`): before and after it others may have been there, or the cluster's
    own verification of idle nodes. Productive is the least of its used GPUs' `low`; unproductive by the lockstep rule
    is what exceeds the least `high`. Of that a GPU is idle for certain for what exceeds its own `high`; the rest it may
    have been active (`lockstep`). Startup and teardown is only what all of them were idle for.
    """
    active = (pl.col("active_share") * pl.col("sample_s")).round().cast(pl.Int64)
    length = pl.col("ended") - pl.col("started")
    by_gpu = (
        own.with_columns(length=length, active=pl.min_horizontal(active, "sample_s"))
        .with_columns(
            low=pl.min_horizontal((pl.col("active") - (pl.col("sample_s") - pl.col("length"))).clip(0), "length"),
            high=pl.min_horizontal("active", "length"),
        )
        .with_columns(  # a sample without a share is wholly one or the other, wherever it is cut
            low=pl.when(pl.col("active_share") == 1).then("length").otherwise("low"),
            high=pl.when(pl.col("active_share") == 0).then(0).otherwise("high"),
        )
        .group_by("attempt", "holder", "hour", "gpu", "used", "cell_from", "cell_until", "first_hour", "last_hour")
        .agg(pl.col("low", "high", "length").sum())
    )
    cell = ["attempt", "hour"]
    span = pl.col("cell_until") - pl.col("cell_from")
    used = by_gpu.filter("used").with_columns(
        low_share=(pl.col("low") / pl.col("length")).min().over(cell),
        own_high=pl.col("high") / pl.col("length"),
        high_share=(pl.col("high") / pl.col("length")).min().over(cell),
        most_share=(pl.col("high") / pl.col("length")).max().over(cell),
        is_first=pl.col("hour") == pl.col("first_hour"),
        is_last=pl.col("hour") == pl.col("last_hour"),
        watched=pl.col("length") / span * _MILLI,
        weight=pl.lit(0, dtype=pl.Int64),
    )
    unused = by_gpu.filter(~pl.col("used")).with_columns(
        watched=pl.col("length") / span * _MILLI, weight=pl.lit(0, dtype=pl.Int64)
    )
    inside = ~pl.col("is_first") & ~pl.col("is_last")
    place = (
        pl.when("is_first")
        .then(pl.lit("startup"))
        .when("is_last")
        .then(pl.lit("teardown"))
        .otherwise(pl.lit("stalled"))
    )
    return pl.concat(
        [
            _cells(
                used.with_columns(weight=(pl.col("low_share") * SURE).floor().cast(pl.Int64)),
                pl.lit("productive"),
                pl.lit(None, dtype=pl.String),
                pl.col("watched") * pl.col("low_share"),
            ),
            _cells(
                used,
                place,
                pl.when(inside).then(pl.lit("inactive")),
                pl.col("watched") * (1 - pl.col("most_share")),
            ),
            _cells(
                used,
                pl.lit("stalled"),
                pl.lit("inactive"),
                pl.col("watched") * (pl.col("most_share") - pl.col("own_high")),
            ),
            _cells(
                used,
                pl.lit("stalled"),
                pl.lit(LOCKSTEP),
                pl.col("watched") * (pl.col("own_high") - pl.col("high_share")),
            ),
            _cells(unused, pl.lit("stalled"), pl.lit("idle_gpus"), pl.col("watched")),
        ]
    )


def _cells(by_gpu: pl.DataFrame, category: pl.Expr, cause: pl.Expr, milli: pl.Expr) -> pl.DataFrame:
    """Add up the GPUs of each holder and hour; thousandths are rounded down, so that nothing is counted twice.

    The sum is one of whole millionths of a thousandth: the same in any order.
    """
    exact = (milli * _MILLION).round().cast(pl.Int64)
    return (
        by_gpu.with_columns(category=category, cause=cause, milli=exact)
        .group_by("holder", "cell_from", "cell_until", "category", "cause")
        .agg(
            ((pl.col("milli").sum() + 1) // _MILLION).alias("milli_gpus"),
            pl.col("weight").first(),
        )
        .filter(pl.col("milli_gpus") > 0)
        .select(
            pl.col("holder").alias("lane"),
            pl.col("cell_from").alias("started"),
            pl.col("cell_until").alias("ended"),
            "category",
            "cause",
            "milli_gpus",
            "weight",
        )
    )
