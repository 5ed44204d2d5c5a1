"""Runs of several jobs that nothing names: jobs that are alike and follow each other.

This is a guess (`joined_by` is `heuristic`): a user who tries one thing after the other looks the same. So it is
only made where the configuration enables it.
"""

from __future__ import annotations

import polars as pl

from metrics import frames, unknown
from metrics.runs.naming import APART
from metrics.runs.runs import ACROSS_JOBS, at_the_same_time, put_together, timed

_SEPARATOR = "\x1f"


def join_similar(
    members: pl.DataFrame,
    attempts: pl.DataFrame,
    labels: pl.DataFrame,
    *,
    max_gap_s: float,
    gpu_factor: float,
    not_training: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Join jobs of one user, account, job name and working directory that follow each other.

    A job continues the one before if it was eligible at most `max_gap_s` after that one ended, and if the larger of
    their GPU counts is at most `gpu_factor` times the smaller. Left alone are runs that something names; jobs whose
    user, name or directory is unknown; tasks of arrays (many things to do, not one); jobs without GPUs; jobs that
    never started; and jobs that ran while another one like them did.

    Args:
        members: `frames.RUN_ATTEMPTS`, as `metrics.runs.runs.run_attempts` returns it.
        attempts: `frames.ATTEMPTS`.
        labels: `frames.ATTEMPT_LABELS`.
        max_gap_s: seconds.
        gpu_factor: ratio, at least 1.
        not_training: attempt key of jobs that do something else than train.

    Returns:
        `frames.RUN_ATTEMPTS`. A run has the id of its first job.
    """
    key, chain = list(frames.ATTEMPT_KEY), ["cluster", "run_id"]
    facts = attempts.join(labels.select(*key, "array_job_id", "work_dir"), on=key, how="left").select(
        *key,
        pl.concat_str(
            "scheduler", "user", pl.col("account").fill_null(""), "name", "work_dir", separator=_SEPARATOR
        ).alias("like"),
        pl.col("array_job_id").is_not_null().alias("task"),
        "milli_gpus",
        pl.coalesce("eligible_at", "submitted_at").alias("requested_at"),
    )
    if not_training is not None:
        facts = facts.join(not_training, on=key, how="anti")
    called = pl.col("joined_by").is_in(ACROSS_JOBS) | pl.col("run_id").str.contains(APART, literal=True)
    joined = members.filter(called).select(chain).unique()
    mine = timed(members.join(joined, on=chain, how="anti"), attempts).join(facts, on=key)
    gpus = (
        mine.group_by(*chain, "attempt_no")
        .agg(unknown.total("milli_gpus"))
        .group_by(chain)
        .agg(pl.col("milli_gpus").max())
    )
    similar = (
        mine.group_by(chain)
        .agg(
            pl.col("like").first(),
            (
                pl.col("task").any() | (pl.col("like").min() != pl.col("like").max()) | pl.col("like").is_null().any()
            ).alias("unlike"),
            pl.col("requested_at").min().dt.epoch("us").alias("requested"),
        )
        .join(gpus, on=chain)
        .filter(~pl.col("unlike") & (pl.col("milli_gpus") > 0))
    )
    named = mine.join(similar.select(*chain, name="like"), on=chain)
    times = at_the_same_time(named).drop_nulls("from").rename({"name": "like"})
    candidates = similar.join(times, on=[*chain, "like"]).filter(pl.len().over("cluster", "like") > 1)
    first = _linked(candidates, max_gap_s=max_gap_s, gpu_factor=gpu_factor)
    several = first.filter(pl.len().over("cluster", "name") > 1)
    word = pl.when(pl.col("run_id") != pl.col("name")).then(pl.lit("heuristic")).alias("word")
    together = put_together(timed(members, attempts).join(several.with_columns(word), on=chain))
    return pl.concat([members.join(several, on=chain, how="anti"), together]).sort(
        "cluster", "run_id", "attempt_no", "job_id"
    )


def _linked(ran: pl.DataFrame, *, max_gap_s: float, gpu_factor: float) -> pl.DataFrame:
    """`cluster`, `run_id`, `name`: the first run of each sequence."""
    like = ["cluster", "like"]
    small = pl.min_horizontal("milli_gpus", pl.col("milli_gpus").shift(1).over(like))
    large = pl.max_horizontal("milli_gpus", pl.col("milli_gpus").shift(1).over(like))
    gap = pl.col("requested") - pl.col("until").shift(1).over(like)
    overlapped = pl.col("overlapping") | pl.col("overlapping").shift(1).over(like)
    follows = (gap <= round(max_gap_s * 1e6)) & (large <= small * gpu_factor) & ~overlapped
    return (
        ran.sort(*like, "from", "run_id")
        .with_columns(begins=~follows.fill_null(value=False))
        .with_columns(sequence=pl.col("begins").cum_sum().over(like))
        .select("cluster", "run_id", pl.col("run_id").first().over(*like, "sequence").alias("name"))
    )
