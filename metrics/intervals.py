"""Sets of half-open time intervals [started, ended) in lanes: the one kernel under the ledger.

A *lane* is whatever must add up by itself: a node, an attempt on a node, a cluster. Times are whole microseconds
(Int64), so nothing is lost to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY_US = 86_400_000_000


def sweep(layers: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Cut every lane at every boundary of every layer, and say what each piece lies under.

    Args:
        layers: frames with `lane`, `started`, `ended` (microseconds) and whole-number columns of their own, such as
            GPUs held or 1 for "down". Intervals that are empty or inside out count for nothing.

    Returns:
        `lane`, `started`, `ended` and every layer's columns, summed over the intervals that cover the piece; sorted
        by lane and start. Stretches that no interval covers are left out.

    The method is the classical sweep line: each interval adds its values at its start and takes them away at its
    end, so running sums over the sorted ends are the values in force. Since every lane ends where it began, at
    zero, one running sum serves all lanes.

    >>> a = pl.DataFrame({"lane": [0, 0], "started": [0, 5], "ended": [10, 20], "gpus": [4, 2]})
    >>> b = pl.DataFrame({"lane": [0], "started": [8], "ended": [12], "down": [1]})
    >>> sweep([a, b]).rows()
    [(0, 0, 5, 4, 0), (0, 5, 8, 6, 0), (0, 8, 10, 6, 1), (0, 10, 12, 2, 1), (0, 12, 20, 2, 0)]
    """
    names = list(dict.fromkeys(name for layer in layers for name in layer.columns if name not in _ENDS))
    edges = []
    for layer in layers:
        real = layer.filter(pl.col("started") < pl.col("ended"))
        own = [name for name in layer.columns if name not in _ENDS]
        edges.append(real.select("lane", pl.col("started").alias("t"), pl.lit(1).alias("open"), *own))
        gone = [-pl.col(name) for name in own]
        edges.append(real.select("lane", pl.col("ended").alias("t"), pl.lit(-1).alias("open"), *gone))
    changes = (
        pl.concat(edges, how="diagonal_relaxed")
        .group_by("lane", "t")
        .agg(pl.col(["open", *names]).sum())
        .sort("lane", "t")
        .with_columns(pl.col(["open", *names]).cum_sum())
    )
    same_lane = pl.col("lane") == pl.col("lane").shift(-1)
    return (
        changes.with_columns(pl.when(same_lane).then(pl.col("t").shift(-1)).alias("ended"))
        .filter(pl.col("open") > 0)
        .select("lane", pl.col("t").alias("started"), "ended", *names)
    )


_ENDS = ("lane", "started", "ended")


def merge_equal(pieces: pl.DataFrame) -> pl.DataFrame:
    """Join neighbouring pieces of a lane that touch and are equal in everything else. Sorted input, sorted output.

    >>> pieces = {"lane": [0, 0, 0], "started": [0, 5, 9], "ended": [5, 7, 12], "gpus": [4, 4, 4]}
    >>> merge_equal(pl.DataFrame(pieces)).rows()
    [(0, 0, 7, 4), (0, 9, 12, 4)]
    """
    values = [name for name in pieces.columns if name not in _ENDS]
    continues = (pl.col("lane") == pl.col("lane").shift(1)) & (pl.col("started") == pl.col("ended").shift(1))
    for name in values:
        continues &= pl.col(name).eq_missing(pl.col(name).shift(1))
    groups = pieces.with_columns((~continues).fill_null(value=True).cum_sum().alias("_piece"))
    return (
        groups.group_by("_piece", maintain_order=True)
        .agg(
            pl.col("lane").first(),
            pl.col("started").first(),
            pl.col("ended").last(),
            *(pl.col(name).first() for name in values),
        )
        .drop("_piece")
    )


def union(intervals: pl.DataFrame, *, gap: int = 0) -> pl.DataFrame:
    """Fewest intervals that cover the same time in each lane; gaps of at most `gap` microseconds are closed.

    >>> union(pl.DataFrame({"lane": [0, 0, 0], "started": [0, 3, 9], "ended": [5, 7, 12]})).rows()
    [(0, 0, 7), (0, 9, 12)]
    """
    ordered = intervals.filter(pl.col("started") < pl.col("ended")).sort("lane", "started")
    reached = pl.col("ended").cum_max().over("lane").shift(1)
    fresh = (pl.col("lane") != pl.col("lane").shift(1)) | (pl.col("started") > reached + gap)
    return (
        ordered.with_columns(fresh.fill_null(value=True).cum_sum().alias("_piece"))
        .group_by("_piece", maintain_order=True)
        .agg(pl.col("lane").first(), pl.col("started").min(), pl.col("ended").max())
        .drop("_piece")
    )


def overlaps(left: pl.DataFrame, right: pl.DataFrame, *, on: Sequence[str] = ("lane",)) -> pl.DataFrame:
    """Every pair of a left and a right interval of one lane that share time, clipped to the time they share.

    Columns of the left frame keep their names; the right frame's own columns come along.
    """
    pairs = left.join(right, on=list(on), suffix="_right")
    started = pl.max_horizontal("started", "started_right")
    ended = pl.min_horizontal("ended", "ended_right")
    return pairs.filter(started < ended).with_columns(started=started, ended=ended).drop("started_right", "ended_right")


def split_days(pieces: pl.DataFrame) -> pl.DataFrame:
    """Cut intervals at UTC midnights, so that each piece lies within one day.

    >>> split_days(pl.DataFrame({"lane": [0], "started": [DAY_US - 2], "ended": [DAY_US + 3]})).rows()
    [(0, 86399999998, 86400000000), (0, 86400000000, 86400000003)]
    """
    return split_every(pieces, DAY_US)


def split_every(pieces: pl.DataFrame, width: int) -> pl.DataFrame:
    """Cut intervals at the multiples of `width` microseconds."""
    first = pl.col("started") // width
    last = (pl.col("ended") - 1) // width
    long = pieces.filter(first != last)
    if long.is_empty():
        return pieces
    cut = (
        long.with_columns(pl.int_ranges(first, last + 1).alias("_part"))
        .explode("_part")
        .with_columns(
            started=pl.max_horizontal(pl.col("started"), pl.col("_part") * width),
            ended=pl.min_horizontal(pl.col("ended"), (pl.col("_part") + 1) * width),
        )
        .drop("_part")
    )
    return pl.concat([pieces.filter(first == last), cut])
