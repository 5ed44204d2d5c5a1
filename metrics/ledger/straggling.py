"""Time that steps took beyond the ideal one: an overlay on productive time, which stays productive.

Meta and Google count a slow step as productive, and so does the ledger; how much of it a healthy job would not have
needed is counted as an overlay. A step is compared with the ideal step of its own session (the mean of the steps that
are not anomalous), so what slows a session down from its first step to its last does not show here, nor does the first
step, whose excess is start-up.

Source: ml-goodput-measurement (Google) for the ideal step; arXiv 2505.05713 (OSDI 2025) for the waste of a slowdown;
NVIDIA's resiliency extension for the score.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.exact import exact_mean, exact_sum
from metrics.goodput.job import ANOMALOUS_MADS, MIN_STEP_S
from metrics.intervals import split_days

SLOWDOWN = 1.1
"""A step straggles from so many times the ideal on (what-if analysis, OSDI'25)."""


def straggling(executed: pl.DataFrame, *, slowdown: float = SLOWDOWN, min_s: float = MIN_STEP_S) -> pl.DataFrame:
    """Share of the time of an attempt's kept steps that was over the ideal step, by UTC day.

    A step that takes at least `slowdown` times the ideal counts with all that it took beyond the ideal; any other
    with nothing. Time of events within a step (checkpoints, evaluation, waiting for data) is not its time. A step
    across midnight is shared out between the days.

    Args:
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        slowdown: from how many times the ideal on a step straggles.
        min_s: shorter steps are no measure of the ideal one, in seconds.

    Returns:
        `frames.STRAGGLING`, sorted; days without time in kept steps are left out, and so are sessions whose ideal step
        is unknown.
    """
    session = ["cluster", "session"]
    own, real = pl.col("own_s"), pl.col("own_s") >= min_s
    median = own.filter(real).median()
    off = (own.filter(real) - median).abs()
    limit = pl.col("_median") + ANOMALOUS_MADS * pl.col("_mad")
    typical = executed.group_by(session).agg(median.alias("_median"), off.median().alias("_mad"))
    ideal = (
        executed.join(typical, on=session)
        .filter(real & (own <= limit))
        .group_by(session)
        .agg(exact_mean(own).alias("_ideal"))
    )
    first = pl.col("begin") == pl.col("begin").min().over(session)
    over = pl.when(~first & (own >= slowdown * pl.col("_ideal"))).then(own - pl.col("_ideal")).otherwise(0.0)
    steps = (
        executed.join(ideal, on=session)
        .with_columns(excess=over.fill_null(0.0), length=pl.col("reach") - pl.col("begin"))
        .filter(pl.col("kept") & (pl.col("length") > 0))
        .rename({"begin": "started", "reach": "ended"})
    )
    part = (pl.col("ended") - pl.col("started")) / pl.col("length")
    result = (
        split_days(steps.select(*frames.ATTEMPT_KEY, "started", "ended", "length", "excess", "own_s"))
        .group_by(*frames.ATTEMPT_KEY, frames.from_us("started").dt.date().alias("day"))
        .agg(exact_sum(pl.col("excess") * part), exact_sum(own * part))
        .filter(own > 0)
        .with_columns(share=pl.col("excess") / own)
    )
    return frames.conform(result, frames.STRAGGLING).sort(*frames.ATTEMPT_KEY, "day")
