"""Time of steps in which no rank computes: transfers of a collective, and the host.

The rank that comes last to a collective waits for nobody, so the least that any rank waits in an interval is what the
transfers themselves take. What a rank neither computes nor waits is the host's: data loading, launching, saving. All
ranks have that part of it that the least delayed one has.

How long either takes by nature depends on the model and the network; that it takes longer than in the fastest quarter
of the same run on as many ranks is told here. What is slow from the first step to the last cannot be told so.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.stragglers.slow_ranks import MIN_INTERVALS, MIN_STRETCH

LONGER: Final = 1.5
"""Times the usual from which on an interval counts."""

LEAST_SHARE: Final = 0.01
"""Of the time of a step: what takes less counts as taking that."""

_SESSION: Final = ("cluster", "run_id", "session")
_PARTS: Final = ("network", "launch")


def time_beside(times: pl.DataFrame) -> pl.DataFrame:
    """Of each session the seconds that are beyond the usual of its run, in transfers and on the host.

    Args:
        times: rows of `slow_ranks.measured`.

    Returns:
        A row a session of which waiting and wall time are known for five intervals: `wall_s`, `launch_share` (of the
        wall time, the host's), and for each of `network` and `launch` its `_s` (seconds beyond the usual), `_times`
        (how many times the usual, in the intervals that count), `_since` (the first such step) and `_share_of_lines`
        (how many of the intervals from the first to the last of these count); null where fewer than three count.
    """
    seconds = pl.col("wall_s").median()
    intervals = (
        times.filter(pl.col("wait_s").is_finite() & (pl.col("wall_s") > 0))
        .with_columns(rest=(pl.col("wall_s") - pl.col("compute_s") - pl.col("wait_s")).clip(lower_bound=0.0))
        .group_by(*_SESSION, "first_step", "steps")
        .agg(network=pl.col("wait_s").min(), launch=pl.col("rest").min(), wall_s=seconds, ranks=pl.len())
        .with_columns(pl.col("ranks").max().over(_SESSION))
        .filter(pl.len().over(_SESSION) >= MIN_INTERVALS)
    )
    marked = intervals.with_columns(_beyond(part) for part in _PARTS)
    return marked.group_by(_SESSION).agg(
        pl.col("wall_s").sum(),
        (pl.col("launch").sum() / pl.col("wall_s").sum()).alias("launch_share"),
        *(each for part in _PARTS for each in _sums(part)),
    )


def _usual(part: str) -> pl.Expr:
    """Seconds of an interval at the pace of the fastest quarter of its run."""
    of_run = ("cluster", "run_id", "ranks")
    pace = (pl.col(part) / pl.col("steps")).quantile(0.25).over(of_run) * pl.col("steps")
    return pl.max_horizontal(pace, LEAST_SHARE * pl.col("wall_s"))


def _beyond(part: str) -> pl.Expr:
    usual = _usual(part)
    return (
        pl.when(pl.col(part) > LONGER * usual)
        .then(pl.struct(s=pl.col(part) - usual, usual=usual))
        .alias(f"{part}_beyond")
    )


def _sums(part: str) -> list[pl.Expr]:
    beyond = pl.col(f"{part}_beyond")
    s, usual = beyond.struct.field("s"), beyond.struct.field("usual")
    lasts, step = s.count() >= MIN_STRETCH, pl.col("first_step")
    long = step.filter(s.is_not_null())
    return [
        pl.when(lasts).then(s.sum()).alias(f"{part}_s"),
        pl.when(lasts).then(1 + s.sum() / usual.sum()).alias(f"{part}_times"),
        pl.when(lasts).then(long.min()).alias(f"{part}_since"),
        pl.when(lasts).then(s.count() / step.is_between(long.min(), long.max()).sum()).alias(f"{part}_share_of_lines"),
    ]
