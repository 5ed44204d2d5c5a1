"""Training runs: which attempts belong to one logical task, and how we know.

Slurm writes a row for each execution of a job: a requeue closes one row and opens the next with the same job id. So
the attempts of a run are the rows of a job id, in order, unless the id was given again to somebody else.
"""

from __future__ import annotations

import polars as pl

from metrics import frames

MAX_GAP_S = 86_400.0
"""Longest time between an attempt's end and the next submission of the same job id in one run."""


def run_attempts(
    attempts: pl.DataFrame, *, max_gap_s: float = MAX_GAP_S, explicit: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Say which run each attempt belongs to, its number in the run, and the rule that joined it.

    A chain of rows of one job id is one run while the user stays the same and each row is submitted at most
    `max_gap_s` after the one before it ended: Slurm opens the next row in the second in which it requeues the job,
    while an id that was given again (after MaxJobId or a lost database) comes much later or from another user.
    The components of a heterogeneous job are one run, and share their attempt numbers. A resize opens a new row too
    (`joined_by` is `resize`), though the job went on running.

    Attempts whose own logs name the same run of the same user are one run, under that name (`explicit`), together
    with the attempts of their chains that left no log.

    Args:
        attempts: `frames.ATTEMPTS`.
        max_gap_s: as above, in seconds.
        explicit: `cluster`, `scheduler`, `job_id`, `submitted_at`, `run_id`: what logs say, as
            `metrics.steplog.explicit_runs` returns it.

    Returns:
        `frames.RUN_ATTEMPTS`: every attempt once. `run_id` is the job id and the run's first submission, which later
        attempts do not change: `29-20261121T073100Z`.
    """
    job = ["cluster", "scheduler", "job_id"]
    group = ["cluster", "scheduler", "group"]
    before = pl.coalesce("ended_at", "submitted_at").shift(1).over(job)
    gap = frames.seconds(pl.col("submitted_at") - before)
    another = (pl.col("user") != pl.col("user").shift(1).over(job)).fill_null(value=False)
    leads = pl.col("group") == pl.col("job_id")
    resized = (pl.col("state").shift(1).over(job) == "RESIZING").fill_null(value=False)
    chained = (
        attempts.with_columns(group=pl.coalesce("het_job_id", "job_id"))
        .sort(*job, "submitted_at")
        .with_columns(fresh=before.is_null() | (gap > max_gap_s) | another, resized=resized)
        # The leader's chains are the runs; other components belong to the one that began last.
        .sort(*group, "submitted_at", ~leads, "job_id")
        .with_columns(chain=(pl.col("fresh") & leads).cum_sum().over(group))
        .with_columns(attempt_no=pl.int_range(1, pl.len() + 1).over([*job, "chain"]))
    )
    first = pl.col("submitted_at").min().over([*group, "chain"])
    found = frames.conform(
        chained.with_columns(
            run_id=pl.col("group") + first.dt.strftime("-%Y%m%dT%H%M%SZ"),
            joined_by=pl.when(~pl.col("fresh") & pl.col("resized"))
            .then(pl.lit("resize"))
            .when(~pl.col("fresh"))
            .then(pl.lit("requeue_chain"))
            .when(pl.col("het_job_id").is_not_null())
            .then(pl.lit("het"))
            .otherwise(pl.lit("single")),
        ),
        frames.RUN_ATTEMPTS,
    )
    if explicit is not None and not explicit.is_empty():
        found = _under_logged_names(found, attempts, explicit)
    return found.sort("cluster", "run_id", "attempt_no", "job_id")


def _under_logged_names(found: pl.DataFrame, attempts: pl.DataFrame, explicit: pl.DataFrame) -> pl.DataFrame:
    """Give runs the names that logs give them, and put together those that have the same name.

    A chain of requeues is one run under the first name that it logged, whatever its later attempts call themselves.
    A name that several users gave is not one run; each user's is told apart by the user's name behind it. Nor are
    jobs that ran at the same time one run (a sweep that gives every task the same name): each goes by its own id too.
    """
    key = list(frames.ATTEMPT_KEY)
    chain = ["cluster", "run_id"]
    named = (
        found.join(explicit.rename({"run_id": "logged"}), on=key, how="left")
        .join(attempts.select(*key, "user", "ended_at", _at=pl.coalesce("started_at", "submitted_at")), on=key)
        .sort(*chain, "attempt_no", "job_id")
        .with_columns(pl.col("logged").drop_nulls().first().over(chain))
    )
    plain = named.filter(pl.col("logged").is_null()).select(found.columns)
    several = pl.col("user").n_unique().over("cluster", "logged") > 1
    mine = named.filter(pl.col("logged").is_not_null()).with_columns(
        name=pl.when(several).then(pl.col("logged") + "@" + pl.col("user").fill_null("?")).otherwise("logged")
    )
    mine = mine.join(_at_the_same_time(mine), on=["cluster", "name", "run_id"]).with_columns(
        name=pl.when("beside").then(pl.col("name") + "@" + pl.col("run_id")).otherwise("name")
    )
    # Attempt numbers follow each other in time; components of a heterogeneous job share theirs.
    order = (
        mine.group_by("cluster", "name", "run_id", "attempt_no")
        .agg(pl.col("_at").min())
        .sort("cluster", "name", "_at", "run_id", "attempt_no")
        .with_columns(number=pl.int_range(1, pl.len() + 1).over("cluster", "name"))
        .with_columns(
            joined=(pl.col("run_id") != pl.col("run_id").shift(1).over("cluster", "name")).fill_null(value=True)
        )
    )
    renamed = mine.join(order.drop("_at"), on=["cluster", "name", "run_id", "attempt_no"]).with_columns(
        run_id="name",
        attempt_no=pl.col("number").cast(pl.Int64),
        joined_by=pl.when("joined").then(pl.lit("explicit")).otherwise("joined_by"),
    )
    return pl.concat([plain, frames.conform(renamed, frames.RUN_ATTEMPTS).select(found.columns)])


def _at_the_same_time(mine: pl.DataFrame) -> pl.DataFrame:
    """Chains that ran while another one of the same name did: `cluster`, `name`, `run_id`, `beside`."""
    name = ["cluster", "name"]
    end = pl.when(pl.col("ended_at").is_null().any()).then(None).otherwise(pl.col("ended_at").max())
    chains = mine.group_by(*name, "run_id").agg(pl.col("_at").min().alias("_from"), end.alias("_until"))
    far = pl.datetime(9999, 1, 1, time_unit="us", time_zone="UTC")
    ordered = chains.with_columns(pl.col("_until").fill_null(far)).sort(*name, "_from", "run_id")
    reached = pl.col("_until").cum_max().shift(1).over(name)
    following = pl.col("_from").shift(-1).over(name)
    beside = (pl.col("_from") < reached).fill_null(value=False) | (following < pl.col("_until")).fill_null(value=False)
    return ordered.select(*name, "run_id", beside.alias("beside"))


def by_id() -> list[pl.Expr]:
    """Sort keys that put the leading component of a heterogeneous job first: its raw id is the smallest number."""
    return [pl.col("job_id").cast(pl.Int64, strict=False), pl.col("job_id")]


def executions(attempts: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """One row per execution of a run: heterogeneous components put together.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `run_attempts` of them.

    Returns:
        `cluster`, `run_id`, `attempt_no`, earliest `submitted_at`, `eligible_at` and `started_at`, latest `ended_at`
        (null while a component waits or runs), GPUs and nodes added up, longest `suspended_s`, the rest as the leading
        component has it; sorted.
    """
    together = attempts.join(joined, on=list(frames.ATTEMPT_KEY))
    over = pl.col("ended_at").is_null().any()
    return (
        together.sort(by_id())
        .group_by("cluster", "run_id", "attempt_no")
        .agg(
            pl.col("submitted_at").min(),
            pl.col("eligible_at").min(),
            pl.col("started_at").min(),
            pl.when(over).then(None).otherwise(pl.col("ended_at").max()).alias("ended_at"),
            pl.col("milli_gpus").sum(),
            pl.col("n_nodes").sum(),
            pl.col("suspended_s").max(),
            pl.col("state").first(),
            pl.col("user", "account", "partition", "name").first(),
            pl.col("joined_by").first(),
        )
        .sort("cluster", "run_id", "attempt_no")
    )


def runs(attempts: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """One row per run.

    Returns:
        The columns of the table `runs`, with `milli_gpus` in place of `n_gpus`.
    """
    return (
        executions(attempts, joined)
        .group_by("cluster", "run_id")
        .agg(
            pl.when((pl.col("joined_by") == "explicit").any())
            .then(pl.lit("explicit"))
            .when((pl.col("joined_by") == "requeue_chain").any())
            .then(pl.lit("requeue_chain"))
            .otherwise(pl.col("joined_by").last())
            .alias("joined_by"),
            pl.col("user", "account").first(),
            pl.col("partition", "name").last(),
            pl.len().cast(pl.Int64).alias("n_attempts"),
            pl.col("milli_gpus").max(),
            pl.col("submitted_at").min().alias("first_submitted_at"),
            pl.col("eligible_at").first(),
            pl.col("started_at").min(),
            pl.when(pl.col("ended_at").last().is_null())
            .then(None)
            .otherwise(pl.col("ended_at").max())
            .alias("ended_at"),
            pl.col("state").last(),
        )
        .sort("cluster", "run_id")
    )
