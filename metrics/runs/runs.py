"""Training runs: which attempts belong to one logical task, and the evidence for it.

Slurm writes a row for each execution of a job: a requeue closes one row and opens the next with the same job id. So
the attempts of a run are the rows of a job id, in order, unless the id was used again. Several jobs are one run where
something names it (`metrics.runs.naming`) or, if that is enabled, where they are alike (`metrics.runs.heuristic`).
"""

from __future__ import annotations

import polars as pl

from metrics import frames, unknown
from metrics.joins import inner_join
from metrics.runs.naming import APART, BY_RULE, LOGGED

MAX_GAP_S = 86_400.0
"""Longest time between an attempt's end and the next submission of the same job id in one run."""

ADJUDICATED = "adjudicated"
"""The word of `joined_by` for an attempt that a person put into its run, or out of another."""

ACROSS_JOBS = (ADJUDICATED, LOGGED, *BY_RULE, "heuristic")
"""Words of `joined_by` for an attempt that is another job than the one before it, the surest first."""

_REQUEUED = ("REQUEUED", "NODE_FAIL", "PREEMPTED", "RESIZING", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED")
"""States after which Slurm itself opens the next row of the job."""


def run_attempts(
    attempts: pl.DataFrame, *, max_gap_s: float = MAX_GAP_S, explicit: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Assign each attempt to a run, with its number in the run, and the rule that joined it.

    A chain of rows of one job id is one run while the user stays the same and each row is submitted at most
    `max_gap_s` after the one before it ended: Slurm opens the next row in the second in which it requeues the job,
    while an id that was used again (after MaxJobId or a lost database) comes much later or from another user. After
    a row that was not requeued (it completed, or was never closed) the next one must bear the same job name and not
    be submitted in the same second: people may requeue a finished job, but a controller that lost its state gives ids
    again at once. The components of a heterogeneous job are one run, and share their attempt numbers. A resize opens a
    new row too (`joined_by` is `resize`), though the job went on running.

    Attempts that are called the same run, of the same user, are one run under that name, together with the attempts
    of their chains that nothing names. `joined_by` of such a job's first attempt is the rule that named it. Jobs that
    ran at the same time are not one run, so a name that such jobs have is taken apart: each of them is a run, and so
    are those in a row before, between or after them, called by the name, `@` and the id of the first of them. Of a
    segment that is one job by itself, `joined_by` is what it would be without the name.

    Args:
        attempts: `frames.ATTEMPTS`.
        max_gap_s: as above, in seconds.
        explicit: what runs are called, as `metrics.runs.naming.named_runs` returns it. Without a column `joined_by` it
            is the runs by the logs (`metrics.runs.steps.explicit_runs`).

    Returns:
        `frames.RUN_ATTEMPTS`: every attempt once. `run_id` is the job id and the run's first submission, which later
        attempts do not change: `29-20261121T073100Z`, with microseconds where an id was used twice in one second.
    """
    job = ["cluster", "scheduler", "job_id"]
    group = ["cluster", "scheduler", "group"]
    leads = pl.col("group") == pl.col("job_id")
    # Each step sorts what belongs together into neighbours and compares those: `over` takes much longer.
    facts = [*frames.ATTEMPT_KEY, "het_job_id", "ended_at", "state", "user", "name"]
    rows = (
        attempts.select(*facts, group=pl.coalesce("het_job_id", "job_id"))  # each sort copies what it sorts
        .sort(*job, "submitted_at")
        .with_columns(new=_changes(*job))
        .with_columns(
            fresh=pl.col("new") | _another_job(max_gap_s), resized=~pl.col("new") & (_before("state") == "RESIZING")
        )
        # The leader's chains are the runs; other components belong to the one that began last.
        .sort(*group, "submitted_at", ~leads, "job_id")
        .with_columns(begins=_changes(*group) | (pl.col("fresh") & leads))
    )
    submitted_first = pl.when("begins").then("submitted_at").forward_fill()
    position = pl.int_range(pl.len())
    chained = (
        rows.with_columns(chain=pl.col("begins").cum_sum(), first=submitted_first)
        .sort("chain", "job_id", "submitted_at")
        .with_columns(attempt_no=position - pl.when(_changes("chain", "job_id")).then(position).forward_fill() + 1)
    )
    first = pl.col("first")
    members = frames.conform(
        chained.with_columns(
            run_id=pl.col("group")
            + pl.when((pl.col("scheduler") == "slurm") & (first.dt.microsecond() > 0))
            .then(first.dt.strftime("-%Y%m%dT%H%M%S%.6fZ"))
            .otherwise(first.dt.strftime("-%Y%m%dT%H%M%SZ")),
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
        members = _under_names(members, attempts, explicit)
    return members.sort("cluster", "run_id", "attempt_no", "job_id")


def _before(name: str) -> pl.Expr:
    return pl.col(name).shift(1)


def _changes(*names: str) -> pl.Expr:
    """True where one of the columns differs from the row before, and in the first row."""
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *(pl.col(name).ne_missing(_before(name)) for name in names))


def _another_job(max_gap_s: float) -> pl.Expr:
    """Whether a row of the same id as the row before is another job nevertheless. A missing value decides nothing."""
    gap = frames.seconds(pl.col("submitted_at") - pl.coalesce(_before("ended_at"), _before("submitted_at")))
    second = pl.col("submitted_at").dt.truncate("1s")
    at_once = (second == second.shift(1)) & (pl.col("scheduler") == "slurm")
    renamed = pl.col("name") != _before("name")
    not_requeued = ~_before("state").is_in(_REQUEUED) & (
        at_once.fill_null(value=False) | renamed.fill_null(value=False)
    )
    return (gap > max_gap_s) | (pl.col("user") != _before("user")).fill_null(value=False) | not_requeued


def _under_names(members: pl.DataFrame, attempts: pl.DataFrame, explicit: pl.DataFrame) -> pl.DataFrame:
    """Give runs the names that they are called by, and put together those that have the same name.

    A chain of requeues is one run under the first name of its surest rule, whatever its later attempts are called.
    A name may also be the id that another run has by itself: that is how a run is continued by another job.
    A name that several users gave is not one run; the user's name is appended to distinguish them. Nor are
    jobs that ran at the same time one run (a sweep that gives every task the same name): see `_segments`.
    """
    chain = ["cluster", "run_id"]
    word = pl.col("joined_by") if "joined_by" in explicit.columns else pl.lit(LOGGED)
    run_names = explicit.select(*frames.ATTEMPT_KEY, pl.col("run_id").alias("called"), word.alias("word"))
    rank = pl.col("word").replace_strict(ACROSS_JOBS, range(len(ACROSS_JOBS)), return_dtype=pl.Int64)
    names = (
        members.join(run_names, on=list(frames.ATTEMPT_KEY))
        .sort(*chain, rank, "attempt_no", "job_id")
        .group_by(chain, maintain_order=True)
        .agg(pl.col("called", "word").first())
    )
    continued = (
        members.select(chain)
        .unique()
        .join(names.select("cluster", run_id="called").unique(), on=chain, how="semi")
        .join(names, on=chain, how="anti")
        .select(*chain, called="run_id", word=pl.lit(None, dtype=pl.String))
    )
    names = pl.concat([names, continued])
    # A missing value decides nothing: an attempt without a user is its chain's user's.
    several = pl.col("user").drop_nulls().n_unique().over("cluster", "called") > 1
    users = pl.coalesce("user", pl.col("user").drop_nulls().first().over(chain))
    mine = timed(members.join(names, on=chain), attempts).with_columns(users.alias("user"))
    mine = mine.with_columns(
        name=pl.when(several).then(pl.col("called") + APART + pl.col("user").fill_null("?")).otherwise("called")
    )
    return pl.concat([members.join(names, on=chain, how="anti"), put_together(_segments(mine))])


def _segments(mine: pl.DataFrame) -> pl.DataFrame:
    """Split each name of which two chains ran at the same time, so that no segment has the bare name.

    A chain that overlapped another is a segment of its own; those in a row before, between or after such chains stay
    together: which of the two they precede or continue is unknown. A segment is named by the name and the id of its
    first chain. The rule that gave the name (`word`) joined nothing where a segment is one chain, and is dropped there.

    Args:
        mine: as `timed` returns it, with `name` and `word`.

    Returns:
        The same, `name` and `word` changed.
    """
    name = ["cluster", "name"]
    taken = at_the_same_time(mine).filter(pl.col("overlapping").any().over(name))
    if taken.is_empty():
        return mine
    segments = (
        mine.group_by(*name, "run_id")
        .agg(pl.col("_at").min(), pl.col("submitted_at").min().alias("_first_submitted"))
        .join(taken.select(*name, "run_id", "overlapping"), on=[*name, "run_id"])
        .sort(*name, "_at", "_first_submitted", "run_id")
        .with_columns(begins=(pl.col("overlapping") | pl.col("overlapping").shift(1).over(name)).fill_null(value=True))
        .with_columns(segment=pl.col("begins").cum_sum().over(name))
        .with_columns(
            leader=pl.col("run_id").first().over(*name, "segment"), alone=pl.len().over(*name, "segment") == 1
        )
        .select(*name, "run_id", "leader", "alone")
    )
    return mine.join(segments, on=[*name, "run_id"], how="left").with_columns(
        name=pl.when(pl.col("leader").is_null()).then("name").otherwise(pl.col("name") + APART + pl.col("leader")),
        word=pl.when(pl.col("alone").fill_null(value=False)).then(None).otherwise("word"),
    )


def timed(members: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts with their user and times, and `_at`, by which those of several jobs are put in order.

    A job that never started comes where it was given up, or last of all while it still waits.
    """
    far = pl.datetime(9999, 1, 1, time_unit="us", time_zone="UTC")
    at = pl.coalesce("started_at", "ended_at", far).alias("_at")
    key = list(frames.ATTEMPT_KEY)
    return members.join(attempts.select(*key, "user", "started_at", "ended_at", at), on=key)


def put_together(mine: pl.DataFrame) -> pl.DataFrame:
    """Make chains of one name one run.

    Args:
        mine: as `timed` returns it, with `name`, what the run is called, and `word`, the rule that joined the chain to
            what was before it (null where nothing did).

    Returns:
        `frames.RUN_ATTEMPTS`: attempt numbers follow each other in time; heterogeneous components share theirs.
    """
    order = (
        mine.group_by("cluster", "name", "run_id", "attempt_no")
        .agg(pl.col("_at").min(), pl.col("submitted_at").min().alias("_first_submitted"))
        .sort("cluster", "name", "_at", "_first_submitted", "run_id", "attempt_no")
        .with_columns(number=pl.int_range(1, pl.len() + 1).over("cluster", "name"))
        .with_columns(
            joined=(pl.col("run_id") != pl.col("run_id").shift(1).over("cluster", "name")).fill_null(value=True)
        )
    )
    renamed = mine.join(
        order.drop("_at", "_first_submitted"), on=["cluster", "name", "run_id", "attempt_no"]
    ).with_columns(
        run_id="name",
        attempt_no=pl.col("number").cast(pl.Int64),
        joined_by=pl.when("joined").then(pl.coalesce("word", "joined_by")).otherwise("joined_by"),
    )
    return frames.conform(renamed, frames.RUN_ATTEMPTS)


def at_the_same_time(mine: pl.DataFrame) -> pl.DataFrame:
    """Chains that ran while another one of the same name did; those that never started did not.

    Args:
        mine: as `timed` returns it, with `name`.

    Returns:
        `cluster`, `name`, `run_id`, `overlapping`, and microseconds `from` and `until` (null if it never started).
    """
    name = ["cluster", "name"]
    started = pl.col("started_at").is_not_null()
    until = pl.when(started).then(pl.col("ended_at").dt.epoch("us").fill_null(_FAR)).alias("until")
    chains = (
        mine.select(*name, "run_id", pl.col("started_at").dt.epoch("us").alias("from"), until)
        .group_by(*name, "run_id")
        .agg(pl.col("from").min(), pl.col("until").max())
    )
    alone = pl.col("from").is_null() | (pl.col("from").count().over(name) < 2)
    ran = chains.filter(~alone).sort(*name, "from", "run_id")
    reached = pl.col("until").cum_max().shift(1).over(name)
    following = pl.col("from").shift(-1).over(name)
    overlapping = (pl.col("from") < reached).fill_null(value=False) | (following < pl.col("until")).fill_null(
        value=False
    )
    return pl.concat(
        [ran.with_columns(overlapping=overlapping), chains.filter(alone).with_columns(overlapping=pl.lit(value=False))]
    )


_FAR = 2**62
"""Microseconds; later than any end."""


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
    place = ["cluster", "run_id", "attempt_no"]
    columns = [
        *place,
        *("submitted_at", "eligible_at", "started_at", "ended_at", "milli_gpus", "n_nodes", "suspended_s", "state"),
        *("user", "account", "partition", "name", "joined_by"),
    ]
    own = [name for name in columns if name not in joined.columns]
    both = inner_join(attempts.select(*frames.ATTEMPT_KEY, *own), joined, on=frames.ATTEMPT_KEY)
    rows = both.sort(*place, *by_id())
    return as_executions(
        rows.select(columns),
        pl.col("n_nodes").sum(),
        pl.col("suspended_s").max(),
        pl.col("user", "account", "partition", "name").first(),
    )


def as_executions(rows: pl.DataFrame, *others: pl.Expr) -> pl.DataFrame:
    """Rows of runs' attempts, those of the components of one execution put together.

    Args:
        rows: `cluster`, `run_id`, `attempt_no`, `joined_by`, `state`, `submitted_at`, `eligible_at`, `started_at`,
            `ended_at`, `milli_gpus` and more; the leading component before the others.
        others: what becomes of the further columns.

    Returns:
        The same columns: earliest `submitted_at`, `eligible_at` and `started_at`, latest `ended_at` (null while a
        component waits or runs), `milli_gpus` added up (null where one is unknown); sorted.
    """
    place = ["cluster", "run_id", "attempt_no"]
    shared = _in_company(rows, place)
    if not shared.any():
        return rows
    over = pl.col("ended_at").is_null().any()
    together = (
        rows.filter(shared)
        .group_by(place, maintain_order=True)
        .agg(
            pl.col("submitted_at", "eligible_at", "started_at").min(),
            pl.when(over).then(None).otherwise(pl.col("ended_at").max()).alias("ended_at"),
            unknown.total("milli_gpus"),
            pl.col("state", "joined_by").first(),
            *others,
        )
    )
    return pl.concat([rows.filter(~shared), together.select(rows.columns)]).sort(place)


def _in_company(rows: pl.DataFrame, names: list[str]) -> pl.Series:
    """Whether a row has the same values as a neighbour. Most runs are one attempt: the cost of groups is saved."""
    as_before = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in names).fill_null(value=False)
    return rows.select(as_before | as_before.shift(-1).fill_null(value=False)).to_series()


def runs(attempts: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """One row per run.

    Returns:
        The columns of the table `runs`, with `milli_gpus` in place of `n_gpus`: null where the GPUs of one of its
        executions are unknown.
    """
    run = ["cluster", "run_id"]
    executed = executions(attempts, joined)
    several = _in_company(executed, run)
    # A row revoked is a federated job's shadow on a cluster that did not run it, and no attempt.
    counts = (pl.col("state") != "REVOKED").fill_null(value=True)
    single = executed.filter(~several).select(
        *run,
        *("joined_by", "user", "account", "partition", "name"),
        counts.cast(pl.Int64).alias("n_attempts"),
        "milli_gpus",
        pl.col("submitted_at").alias("first_submitted_at"),
        *("eligible_at", "started_at", "ended_at", "state"),
    )
    if not several.any():
        return single
    joined_of_several = (
        executed.filter(several)
        .group_by(run, maintain_order=True)
        .agg(
            pl.coalesce(
                *(_where_any(word) for word in (*ACROSS_JOBS, "requeue_chain")), pl.col("joined_by").last()
            ).alias("joined_by"),
            pl.col("user", "account").first(),
            pl.col("partition", "name").last(),
            counts.sum().cast(pl.Int64).alias("n_attempts"),
            unknown.all_or_null("milli_gpus", pl.col("milli_gpus").max()).alias("milli_gpus"),
            pl.col("submitted_at").min().alias("first_submitted_at"),
            pl.col("eligible_at").first(),
            pl.col("started_at").min(),
            pl.when(pl.col("ended_at").last().is_null())
            .then(None)
            .otherwise(pl.col("ended_at").max())
            .alias("ended_at"),
            pl.col("state").last(),
        )
    )
    return pl.concat([single, joined_of_several]).sort(run)


def _where_any(word: str) -> pl.Expr:
    return pl.when((pl.col("joined_by") == word).any()).then(pl.lit(word))
