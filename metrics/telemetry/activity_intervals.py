"""Intervals in which each GPU was active or not: the inputs of the ledger's evidence.

A sample is active or inactive for the time that it is valid for: its `interval_s`, at most until the next sample of the
GPU. Neighbours of one state without a gap between them make one interval. A roll-up in the place of samples is an
interval of a whole hour with the share of it that was active; when in the hour that was is not known.

Rows that do not show activity are left out first. So an hour that is full of samples of another quantity is read from
its roll-up, and a sample without activity does not end the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.telemetry.rollup_fallback import with_hours
from metrics.telemetry.sample_grid import GPU, SampleGrid, series
from metrics.units import HOUR_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

ACTIVE_SHARE: Final = "active_share"
"""Column of rows that are roll-ups of an hour: the share of its known time that was active; null in samples."""

_MS: Final = 1000


def activity_intervals(
    days: Iterable[tuple[pl.DataFrame, pl.DataFrame]], idle: pl.Expr, *, since_us: int, until_us: int
) -> Iterator[pl.DataFrame]:
    """Intervals of activity, day by day, clipped to a window.

    Args:
        days: samples and roll-ups of each day of one cluster, the last day first. Both have `node`, `gpu`, `ts`,
            `interval_s` (of a roll-up the seconds of its hour that it covers); samples have the columns of `idle`,
            roll-ups have `ACTIVE_SHARE`.
        idle: a Boolean expression over a sample: the GPU was not active. Null where the sample does not show it.
        since_us: begin of the window, microseconds since 1970.
        until_us: its end.

    Yields:
        Of each day `frames.ACTIVITY` without `cluster`, in the order of GPUs and time; an interval across midnight is
        cut at the first sample after it. `interval_s` is the longest sample of the interval, whole milliseconds; null
        for a roll-up.
    """
    following: pl.DataFrame | None = None
    for samples, hours in days:
        rows = with_hours(_showing_activity(samples, idle), hours.filter(pl.col(ACTIVE_SHARE).is_not_null()), by=GPU)
        day = series(rows, following)
        following = day.firsts
        yield _of_day(day, idle, since_us, until_us)


def _showing_activity(samples: pl.DataFrame, idle: pl.Expr) -> pl.DataFrame:
    """Samples that show whether their GPU is active."""
    known = samples.select(idle.is_not_null().alias("known"))["known"]
    return samples if known.all() else samples.filter(known)


def _of_day(day: SampleGrid, idle: pl.Expr, since_us: int, until_us: int) -> pl.DataFrame:
    share, is_hour = _shares(day.samples, idle)
    duration = np.rint(day.samples["interval_s"].cast(pl.Float64).to_numpy() * 1000).astype(np.int64)
    begin = day.moments
    end = _ends(day, np.where(is_hour, HOUR_US, duration * _MS))
    rows = np.flatnonzero((end > since_us) & (begin < until_us) & (end > begin))
    begin, end, share, is_hour, duration = begin[rows], end[rows], share[rows], is_hour[rows], duration[rows]
    lane = np.repeat(np.arange(day.lanes.height), np.diff(day.offset))[rows]
    first = _firsts(lane, begin, end, share, is_hour)
    if not len(first):
        return pl.DataFrame(schema={name: kind for name, kind in frames.ACTIVITY.items() if name != "cluster"})
    last = np.append(first[1:], len(rows)) - 1
    longest = pl.Series(np.maximum.reduceat(duration, first) / 1000)
    return day.lanes.select(pl.all().gather(lane[first])).with_columns(
        _times(np.maximum(begin[first], since_us)).alias("started_at"),
        _times(np.minimum(end[last], until_us)).alias("ended_at"),
        pl.Series("active_share", share[first]),
        pl.when(pl.lit(pl.Series(~is_hour[first]))).then(longest).alias("interval_s"),
    )


def _times(moments: Ints) -> pl.Series:
    return pl.Series(moments).cast(frames.TIME)


def _shares(samples: pl.DataFrame, idle: pl.Expr) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Active share of each row, and whether the row is a roll-up."""
    active = (~idle).cast(pl.Float64)
    if ACTIVE_SHARE not in samples.columns:
        return samples.select(active.alias("share"))["share"].to_numpy(), np.zeros(samples.height, dtype=np.bool_)
    both = samples.select(
        pl.coalesce(ACTIVE_SHARE, active).alias("share"), pl.col(ACTIVE_SHARE).is_not_null().alias("is_hour")
    )
    return both["share"].to_numpy(), both["is_hour"].to_numpy()


def _ends(day: SampleGrid, duration_us: Ints) -> Ints:
    """End of each row, microseconds since 1970: never after the GPU's next row begins."""
    following = np.empty_like(day.moments)
    following[:-1] = day.moments[1:]
    following[day.offset[1:] - 1] = day.following
    ends: Ints = np.minimum(day.moments + duration_us, following)
    return ends


def _firsts(
    lane: Ints, begin: Ints, end: Ints, share: NDArray[np.float64], is_hour: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Rows that do not continue the row before them. Each roll-up is an interval of its own."""
    continues = (
        (lane[1:] == lane[:-1]) & (begin[1:] == end[:-1]) & (share[1:] == share[:-1]) & ~is_hour[1:] & ~is_hour[:-1]
    )
    return np.flatnonzero(np.append(np.ones(min(len(lane), 1), dtype=np.bool_), ~continues))
