"""Time of steps in which no rank computes: transfers of a collective, and the host.

The rank that comes last to a collective waits for no rank, so the least that any rank waits in an interval is the time
of the transfers themselves. Time without computation or waiting is the host's: data loading, launching, saving. All
ranks have that part of it that the least delayed one has.

How long either takes by nature depends on the model and the network; that it takes longer than in the fastest quarter
of the same run on as many ranks is found here. Time that is slow from the first step to the last is found by other runs
on as many ranks that compute as long a step (`against_other_runs`), or not at all.

The rank that waits least is the one that the others wait for. If it does not compute longer, its host is what is late.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.stragglers.slow_ranks import MIN_INTERVALS, MIN_STRETCH

LONGER: Final = 1.5
"""Times the usual from which on an interval counts."""

LEAST_SHARE: Final = 0.01
"""Of the time of a step: what takes less counts as taking that."""

ALIKE: Final = 1.05
"""Runs whose seconds of computation a step, sorted, are no further apart than this are of one group."""

MIN_RUNS: Final = 3
"""Least runs of a group for one of them to be called slower than the others."""

_SESSION: Final = ("cluster", "run_id", "session")
_PARTS: Final = ("network", "launch")


def time_outside_computation(times: pl.DataFrame) -> pl.DataFrame:
    """Of each session the seconds that are beyond the usual of its run, in transfers and on the host.

    Args:
        times: rows of `slow_ranks.measured`.

    Returns:
        A row a session of which waiting and wall time are known for five intervals: `wall_s`, `measured_steps`,
        `stages` (that are recorded), `launch_share` (of the wall time), `network_share` (of an interval's wall time,
        the middle interval's), and for each of `network` and `launch` its `_s` (seconds beyond the usual), `_times`
        (how many times the usual, in the intervals that count), `_since` (the first such step) and `_share_of_lines`
        (how many of the intervals from the first to the last of these count); null where fewer than three count. And
        the columns of `late_hosts`.
    """
    seconds, stages = pl.col("wall_s").median(), pl.col("stage").drop_nulls().n_unique()
    known = times.filter(pl.col("wait_s").is_finite() & (pl.col("wall_s") > 0))
    intervals = (
        known.with_columns(rest=(pl.col("wall_s") - pl.col("compute_s") - pl.col("wait_s")).clip(lower_bound=0.0))
        .group_by(*_SESSION, "first_step", "steps")
        .agg(network=pl.col("wait_s").min(), launch=pl.col("rest").min(), wall_s=seconds, ranks=pl.len(), stages=stages)
        .with_columns(pl.col("ranks").max().over(_SESSION))
        .filter(pl.len().over(_SESSION) >= MIN_INTERVALS)
    )
    marked = intervals.with_columns(_beyond(part) for part in _PARTS)
    sums = marked.group_by(_SESSION).agg(
        pl.col("wall_s").sum(),
        pl.col("steps").sum().alias("measured_steps"),
        pl.col("stages").max(),
        (pl.col("launch").sum() / pl.col("wall_s").sum()).alias("launch_share"),
        (pl.col("network") / pl.col("wall_s")).median().alias("network_share"),
        *(each for part in _PARTS for each in _sums(part)),
    )
    return sums.join(late_hosts(known), on=_SESSION, how="left")


def late_hosts(known: pl.DataFrame) -> pl.DataFrame:
    """Seconds that all ranks waited for one whose host was late, and which rank that was most of the time.

    An interval's late rank is the one that waits least. It is late by what the middle rank waits longer, as far as
    that is time in which it neither computed nor waited beyond the middle rank's; wall time is the same on all ranks,
    so that of the middle one counts.

    Args:
        known: rows of `slow_ranks.measured` whose waiting and wall time are known.

    Returns:
        A row a session with such intervals, three at least: `late_s`, `late_rank` and `late_node` (the costliest), and
        `late_rank_share` of `late_s`.
    """
    rest = (pl.col("wall_s").median() - pl.col("compute_s") - pl.col("wait_s")).clip(lower_bound=0.0)
    wait, last = pl.col("wait_s"), pl.col("wait_s").arg_min()
    by_wait = wait.median() - wait.min()
    late = (
        known.sort("rank", "node")
        .group_by(*_SESSION, "first_step", maintain_order=True)
        .agg(
            late_s=pl.min_horizontal(by_wait, rest.get(last) - rest.median()),
            late_rank=pl.col("rank").get(last),
            late_node=pl.col("node").get(last),
            wall_s=pl.col("wall_s").median(),
        )
        .filter(pl.col("late_s") > LEAST_SHARE * pl.col("wall_s"))
    )
    by_rank = late.group_by(*_SESSION, "late_rank", "late_node").agg(pl.col("late_s").sum(), n=pl.len())
    total = pl.col("late_s").sum().over(_SESSION)
    return (
        by_rank.with_columns(n=pl.col("n").sum().over(_SESSION), late_rank_share=pl.col("late_s") / total)
        .with_columns(late_s=total)
        .filter(pl.col("n") >= MIN_STRETCH)
        .sort("late_rank_share", "late_rank", "late_node", descending=[True, False, False])
        .unique(_SESSION, keep="first", maintain_order=True)
        .drop("n")
    )


def against_other_runs(sessions: pl.DataFrame) -> pl.DataFrame:
    """Seconds of transfers beyond those of other runs on as many ranks whose ranks compute as long a step.

    Args:
        sessions: a row each, with the columns of `time_outside_computation`, `ranks`, `intervals` and `middle_s`.

    Returns:
        The same rows with `others` (how many other runs; null with fewer than two), and `others_s` and `others_times`,
        null where transfers are not longer than 1.5 times theirs.
    """
    of_size = ("cluster", "ranks")
    apart = (pl.col("computing") > ALIKE * pl.col("computing").shift(1)).over(of_size).fill_null(value=False)
    transfers, computing = pl.col("network_share") * pl.col("wall_s"), pl.col("middle_s") / pl.col("measured_steps")
    known = sessions.filter((pl.col("measured_steps") > 0) & (pl.col("middle_s") > 0))
    grouped = (
        known.select(*_SESSION, "ranks", "wall_s", "measured_steps", s=transfers, computing=computing)
        .sort(*of_size, "computing", "run_id", "session")
        .with_columns(group=apart.cum_sum().over(of_size))
    )
    of_group = (*of_size, "group")
    usual = pl.max_horizontal(
        (pl.col("s") / pl.col("measured_steps")).quantile(0.25).over(of_group) * pl.col("measured_steps"),
        LEAST_SHARE * pl.col("wall_s"),
    )
    others = pl.col("run_id").n_unique().over(of_group) - 1
    enough = others >= MIN_RUNS - 1
    longer = enough & (pl.col("s") > LONGER * usual)
    compared = grouped.select(
        *_SESSION,
        others=pl.when(enough).then(others).cast(pl.Int64),
        others_s=pl.when(longer).then(pl.col("s") - usual),
        others_times=pl.when(longer).then(pl.col("s") / usual),
    )
    return sessions.join(compared, on=_SESSION, how="left")


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
