"""Sets of half-open time intervals [started, ended) in lanes: the one kernel under the ledger.

A *lane* is whatever must add up by itself: a node, an attempt on a node, a cluster. Times are whole microseconds
(Int64), so nothing is lost to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def sweep(layers: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Cut every lane at every boundary of every layer, and sum what covers each segment.

    Args:
        layers: frames with `lane`, `started`, `ended` (microseconds) and whole-number columns of their own, such as
            GPUs held or 1 for "down". Intervals that are empty or inside out count for nothing.

    Returns:
        `lane`, `started`, `ended` and every layer's columns, summed over the intervals that cover the segment; sorted
        by lane and start. Stretches that no interval covers are left out.

    The method is the classical sweep line: each interval adds its values at its start and takes them away at its
    end, so running sums over the sorted ends are the values in force. Since every lane ends where it began, at
    zero, one running sum serves all lanes. One sort of numbers, and a running sum for each column.

    >>> a = pl.DataFrame({"lane": [0, 0], "started": [0, 5], "ended": [10, 20], "gpus": [4, 2]})
    >>> b = pl.DataFrame({"lane": [0], "started": [8], "ended": [12], "down": [1]})
    >>> sweep([a, b]).rows()
    [(0, 0, 5, 4, 0), (0, 5, 8, 6, 0), (0, 8, 10, 6, 1), (0, 10, 12, 2, 1), (0, 12, 20, 2, 0)]
    """
    own = [[name for name in layer.columns if name not in _ENDS] for layer in layers]
    real = [layer.filter(pl.col("started") < pl.col("ended")) for layer in layers]
    kind = layers[0].schema["lane"]
    lanes = np.concatenate([_numbers(layer, "lane") for layer in real for _ in range(2)])
    times = np.concatenate([_numbers(layer, end) for layer in real for end in ("started", "ended")])
    order = _in_order(lanes, times)
    lanes, times = lanes[order], times[order]
    last = np.flatnonzero(np.append((lanes[1:] != lanes[:-1]) | (times[1:] != times[:-1]), len(lanes) > 0))
    moment = np.empty(len(order), dtype=np.uint32)  # of each edge, as its place among all different ones
    moment[order] = np.repeat(np.arange(len(last), dtype=np.uint32), np.diff(last, prepend=-1))
    edges = np.split(moment, np.cumsum([layer.height for layer in real for _ in range(2)])[:-1])

    def in_force(name: str | None) -> NDArray[np.int64]:
        """Sum of a column, or the number of intervals, after each moment."""
        changes = np.zeros(len(last), dtype=np.int64)
        for names, layer, started, ended in zip(own, real, edges[::2], edges[1::2], strict=True):
            if name is None or name in names:
                values = 1 if name is None else _numbers(layer, name)
                np.add.at(changes, started, values)
                np.subtract.at(changes, ended, values)
        return np.cumsum(changes)

    covered = np.flatnonzero(in_force(None) > 0)
    at, where = times[last], lanes[last]
    columns = {"lane": where[covered], "started": at[covered], "ended": at[1:][covered]}
    columns |= {name: in_force(name)[covered] for name in dict.fromkeys(name for names in own for name in names)}
    return pl.DataFrame(columns).with_columns(pl.col("lane").cast(kind))


def _numbers(layer: pl.DataFrame, name: str) -> NDArray[np.int64]:
    return layer[name].cast(pl.Int64).to_numpy()


def _in_order(lanes: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Position of each edge in order of lane and time: by one number of both, where that has room for them."""
    if not len(lanes):
        return np.empty(0, dtype=np.uint32)
    low, first = int(times.min()), int(lanes.min())
    span = int(times.max()) - low + 1
    if (int(lanes.max()) - first + 1) * span < 2**63:
        return pl.Series((lanes - first) * span + (times - low)).arg_sort().to_numpy()
    both = pl.DataFrame({"lane": lanes, "t": times})
    return both.select(pl.arg_sort_by("lane", "t")).to_series().to_numpy()


_ENDS = ("lane", "started", "ended")


def merge_equal(intervals: pl.DataFrame) -> pl.DataFrame:
    """Join neighbouring intervals of a lane that touch and are equal in everything else. Sorted input, sorted output.

    >>> intervals = {"lane": [0, 0, 0], "started": [0, 5, 9], "ended": [5, 7, 12], "gpus": [4, 4, 4]}
    >>> merge_equal(pl.DataFrame(intervals)).rows()
    [(0, 0, 7, 4), (0, 9, 12, 4)]
    """
    values = [name for name in intervals.columns if name not in _ENDS]
    continues = (pl.col("lane") == pl.col("lane").shift(1)) & (pl.col("started") == pl.col("ended").shift(1))
    for name in values:
        continues &= pl.col(name).eq_missing(pl.col(name).shift(1))
    fresh = intervals.select((~continues).fill_null(value=True)).to_series()
    last = fresh.shift(-1, fill_value=True)
    return intervals.filter(fresh).with_columns(intervals["ended"].filter(last))


def union(intervals: pl.DataFrame, *, gap: int = 0) -> pl.DataFrame:
    """Fewest intervals that cover the same time in each lane; gaps of at most `gap` microseconds are closed.

    >>> union(pl.DataFrame({"lane": [0, 0, 0], "started": [0, 3, 9], "ended": [5, 7, 12]})).rows()
    [(0, 0, 7), (0, 9, 12)]
    """
    ordered = intervals.filter(pl.col("started") < pl.col("ended")).sort("lane", "started")
    reached = ordered.select(pl.col("ended").cum_max().over("lane")).to_series()
    begins = (pl.col("lane") != pl.col("lane").shift(1)) | (pl.col("started") > reached.shift(1) + gap)
    fresh = ordered.select(begins.fill_null(value=True)).to_series()
    last = fresh.shift(-1, fill_value=True)
    return ordered.filter(fresh).select("lane", "started", reached.filter(last).alias("ended"))


def overlaps(left: pl.DataFrame, right: pl.DataFrame, *, on: Sequence[str] = ("lane",)) -> pl.DataFrame:
    """Every pair of a left and a right interval of one lane that share time, clipped to the time they share.

    Columns of the left frame keep their names; the right frame's own columns come along.
    """
    pairs = left.join(right, on=list(on), suffix="_right")
    started = pl.max_horizontal("started", "started_right")
    ended = pl.min_horizontal("ended", "ended_right")
    return pairs.filter(started < ended).with_columns(started=started, ended=ended).drop("started_right", "ended_right")


def split_days(intervals: pl.DataFrame) -> pl.DataFrame:
    """Cut intervals at UTC midnights, so that each lies within one day.

    >>> split_days(pl.DataFrame({"lane": [0], "started": [DAY_US - 2], "ended": [DAY_US + 3]})).rows()
    [(0, 86399999998, 86400000000), (0, 86400000000, 86400000003)]
    """
    return split_every(intervals, DAY_US)


def split_every(intervals: pl.DataFrame, width: int) -> pl.DataFrame:
    """Cut intervals at the multiples of `width` microseconds."""
    first = pl.col("started") // width
    last = (pl.col("ended") - 1) // width
    long = intervals.filter(first != last)
    if long.is_empty():
        return intervals
    cut = (
        long.with_columns(pl.int_ranges(first, last + 1).alias("_part"))
        .explode("_part")
        .with_columns(
            started=pl.max_horizontal(pl.col("started"), pl.col("_part") * width),
            ended=pl.min_horizontal(pl.col("ended"), (pl.col("_part") + 1) * width),
        )
        .drop("_part")
    )
    return pl.concat([intervals.filter(first == last), cut])
