"""The contents of a run's log: its sessions and the attempts they were part of, and each execution of each step.

A log begins a *session* for each process start, and then has steps, checkpoints and events. Sessions are matched to
the scheduler's attempts by job id and time. The activity of an attempt's GPUs in that time follows in
`metrics.ledger.log_evidence`.

That a repeated step number undoes what came before it is Google's rule (ml-goodput-measurement).
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from metrics import frames
from metrics.empty_inputs import cached_if_empty
from metrics.intervals import union

HANG_STEPS = 10.0
HANG_MIN_S = 300.0
"""No step for max(10 median steps, 5 minutes) is a hang."""

CLOCK_SKEW_S = 60.0
"""A log that is further than this outside its attempt was written by a clock that cannot be trusted."""

_US = 1_000_000
_JOB = ["cluster", "scheduler", "job_id"]
_SESSION = ["cluster", "run_id", "scheduler", "job_id"]


@dataclass(frozen=True)
class StepRules:
    """Constants, as the configuration has them; seconds."""

    hang_steps: float = HANG_STEPS
    hang_min_s: float = HANG_MIN_S


@cached_if_empty("sessions")
def match_sessions(
    sessions: pl.DataFrame, attempts: pl.DataFrame, *, clock_skew_s: float = CLOCK_SKEW_S
) -> pl.DataFrame:
    """Find the attempt that each session was part of.

    It is the attempt of the same job id that ran when the session began, give or take the skew; where none did, but
    the log records how often the job had been restarted, the attempt with that number.

    Args:
        sessions: `frames.SESSIONS`.
        attempts: `frames.ATTEMPTS`.
        clock_skew_s: how far outside its attempt a log may lie, in seconds.

    Returns:
        `frames.SESSIONS` with `submitted_at` (of the attempt; null if there is none), `usable` (the log lies within
        the attempt), and `session` (a number).
    """
    numbered = sessions.sort(*_SESSION, "started_at").with_row_index("session")
    logged = attempts.join(sessions.select(_JOB).unique(), on=_JOB, how="semi")  # of millions: the jobs with a log
    ran = logged.filter(pl.col("started_at").is_not_null()).select(
        *_JOB,
        "submitted_at",
        pl.col("started_at").alias("_from"),
        pl.col("ended_at").alias("_until"),
        pl.col("submitted_at").rank("ordinal").over(_JOB).cast(pl.Int64).alias("_number"),
    )
    skew = pl.duration(microseconds=round(clock_skew_s * _US))
    pairs = numbered.join(ran, on=_JOB)
    began, over = pl.col("started_at"), pl.col("_until")
    inside = (began >= pl.col("_from")) & (over.is_null() | (began <= over))
    near = (began >= pl.col("_from") - skew) & (over.is_null() | (began <= over + skew))
    counted = pl.col("restart_count") + 1 == pl.col("_number")
    fits = near & (over.is_null() | (pl.col("ended_at") <= over + skew))
    best = (
        pairs.with_columns(_inside=inside, _near=near, _counted=counted.fill_null(value=False), usable=fits)
        .filter(pl.col("_near") | pl.col("_counted"))
        .sort("session", "_inside", "_near", "_counted", "_from", descending=[False, True, True, True, True])
        .unique("session", keep="first", maintain_order=True)
        .select("session", "submitted_at", "usable")
    )
    return numbered.join(best, on="session", how="left").with_columns(pl.col("usable").fill_null(value=False))


@cached_if_empty("matched")
def with_runs(matched: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """Add `run`: the run that the session's attempt was joined to, else the name that the log gives; and `stream`.

    Several programs in one job may log under names of their own. Their steps are counted apart: `stream` is the name
    where it is not the one that the attempt's first session gave.

    Args:
        matched: as `match_sessions` returns it.
        joined: `frames.RUN_ATTEMPTS`.
    """
    key = list(frames.ATTEMPT_KEY)
    own_runs = joined.join(matched.select(key).unique(), on=key, how="semi")
    runs = own_runs.select(*key, pl.col("run_id").alias("run"))
    main = explicit_runs(matched).rename({"run_id": "_main"})
    named = matched.join(runs, on=key, how="left").join(main, on=key, how="left")
    own = pl.when(pl.col("run_id") != pl.col("_main")).then("run_id").otherwise(pl.lit(""))
    return named.with_columns(pl.coalesce("run", "run_id"), stream=own.fill_null("")).drop("_main").sort("session")


@cached_if_empty("matched")
def explicit_runs(matched: pl.DataFrame) -> pl.DataFrame:
    """The run id that an attempt's own log gives it: `cluster`, `scheduler`, `job_id`, `submitted_at`, `run_id`.

    Args:
        matched: as `match_sessions` returns it. Where an attempt logged under several ids, the first counts.
    """
    key = list(frames.ATTEMPT_KEY)
    linked = matched.filter(pl.col("submitted_at").is_not_null()).sort("started_at", "session")
    return linked.unique(key, keep="first", maintain_order=True).select(*key, "run_id")


@cached_if_empty("steps")
def executions_of_steps(
    steps: pl.DataFrame, matched: pl.DataFrame, events: pl.DataFrame, rules: StepRules | None = None
) -> pl.DataFrame:
    """Each execution of a step, the time it took, and whether it was kept.

    Args:
        steps: `frames.STEPS`.
        matched: as `with_runs` returns it; only usable sessions count.
        events: `frames.RUN_EVENTS`.
        rules: when a pause is a hang.

    Returns:
        `frames.STEPS` with the attempt's `submitted_at`, `run`, `session`, `begin`, `end` and `reach` (microseconds:
        when the step began, ended, and what it lasted to, which is the next step's begin unless a hang lies between),
        `wall_s` (from begin to reach less what events carve out; waiting for data is a part of it), `own_s` (`wall_s`
        less that waiting: what the ledger calls productive of a kept step, but for a first step's extra), `hang_us`
        (the hang threshold), `kept` and `in_place`; sorted by run and time. A step is kept unless the run later
        executed it, or an earlier one, again; `in_place`: the same attempt did.
    """
    rules = rules or StepRules()
    own = (
        _in_sessions(steps, matched)
        .sort("cluster", "run", "stream", "ts", "step")
        .with_columns(begin=pl.col("ts").dt.epoch("us"))
        .with_columns(end=pl.col("begin") + (pl.col("duration_s").fill_null(0.0) * _US).round().cast(pl.Int64))
    )
    run = ["cluster", "run", "stream"]
    lowest_after = pl.col("step").reverse().cum_min().shift(1).reverse()
    later = lowest_after.over(run)
    later_here = lowest_after.over([*run, "scheduler", "job_id", "submitted_at"])
    period = pl.coalesce(pl.col("duration_s"), (pl.col("begin").diff() / _US)).median().over("session")
    threshold = pl.max_horizontal(period * rules.hang_steps, pl.lit(rules.hang_min_s)) * _US
    timed = own.with_columns(
        kept=(later > pl.col("step")).fill_null(value=True),
        in_place=(later_here <= pl.col("step")).fill_null(value=False),
        hang_us=threshold.fill_null(rules.hang_min_s * _US).cast(pl.Int64),
        period_us=(period.fill_null(0.0) * _US).cast(pl.Int64),
    )
    # Steps that an unusable session ran again count as run again; its own time is not logged.
    return _reaching(timed.filter("usable"), carved_events(events, matched))


def _in_sessions(logged: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Steps or events with the session that they belong to: the last one that had begun."""
    facts = ["session", "run", "stream", "submitted_at", "usable"]
    sessions = matched.select(*_SESSION, *facts, _at=pl.col("started_at")).sort("_at")
    return (
        logged.sort("ts")
        .join_asof(sessions, left_on="ts", right_on="_at", by=_SESSION, strategy="backward", check_sortedness=False)
        .filter(pl.col("session").is_not_null())
    )


def carved_events(events: pl.DataFrame, matched: pl.DataFrame) -> pl.DataFrame:
    """Events that hold training up, of usable sessions: `session`, `kind`, `started`, `ended` (microseconds)."""
    holding = events.filter(pl.col("ended_at") > pl.col("ts")).filter(
        (pl.col("kind") != "checkpoint_save") | pl.col("blocking").fill_null(value=True)
    )
    return (
        _in_sessions(holding, matched)
        .filter("usable")
        .select(
            "session",
            "kind",
            pl.col("ts").dt.epoch("us").alias("started"),
            pl.col("ended_at").dt.epoch("us").alias("ended"),
        )
    )


def _reaching(timed: pl.DataFrame, carved: pl.DataFrame) -> pl.DataFrame:
    """Extent of each step: to the next one, or the end of the event after it, if no hang lies between.

    Time that events explain is no hang. Of a step's own time (`wall_s`) waiting for data is a part.
    """
    lane = pl.col("session").alias("lane")
    busy = union(carved.select(lane, "started", "ended"))
    elsewhere = union(carved.filter(pl.col("kind") != "data").select(lane, "started", "ended"))
    last_event = busy.group_by(pl.col("lane").alias("session")).agg(pl.col("ended").max().alias("_last_event"))
    following = pl.col("begin").shift(-1).over("session")
    ordered = (
        timed.sort("session", "begin")
        .join(last_event, on="session", how="left")
        .with_columns(_next=pl.coalesce(following, pl.max_horizontal("_last_event", "end")))
        .with_columns(end=pl.min_horizontal("end", pl.max_horizontal("_next", "begin")))
        .with_row_index("_execution")
    )
    explained = _until_next_step(ordered, busy, pl.max_horizontal("started", "end")).rename({"_length": "_explained"})
    carved_out = _until_next_step(ordered, elsewhere, pl.col("started")).rename({"_length": "_carved"})
    taken = _until_next_step(ordered, busy, pl.col("started")).rename({"_length": "_taken"})
    pause = pl.col("_next") - pl.col("end") - pl.col("_explained")
    return (
        ordered.join(explained, on="_execution", how="left")
        .join(carved_out, on="_execution", how="left")
        .join(taken, on="_execution", how="left")
        .with_columns(pl.col("_explained", "_carved", "_taken").fill_null(0))
        .with_columns(reach=pl.when(pause <= pl.col("hang_us")).then(pl.col("_next")).otherwise(pl.col("end")))
        .with_columns(
            wall_s=pl.when(pl.col("reach") == pl.col("_next"))
            .then(pl.col("reach") - pl.col("begin") - pl.col("_carved"))
            .otherwise(pl.col("end") - pl.col("begin"))
            .clip(0)
            / _US,
            own_s=pl.when(pl.col("reach") == pl.col("_next"))
            .then(pl.col("reach") - pl.col("begin") - pl.col("_taken"))
            .otherwise(pl.col("end") - pl.col("begin") - (pl.col("_taken") - pl.col("_explained")))
            .clip(0)
            / _US,
        )
        .drop("_execution", "_next", "_carved", "_taken", "_explained", "_last_event")
        .sort("cluster", "run", "begin", "step")
    )


def _until_next_step(ordered: pl.DataFrame, busy: pl.DataFrame, since: pl.Expr) -> pl.DataFrame:
    """Time that events take until the next step; those between two steps follow the earlier one."""
    return (
        busy.rename({"lane": "session"})
        .sort("started")
        .join_asof(
            ordered.select("session", "begin", "end", "_execution", "_next").rename({"end": "_end"}).sort("begin"),
            left_on="started",
            right_on="begin",
            by="session",
            strategy="backward",
            check_sortedness=False,
        )
        .rename({"ended": "_until", "_end": "end"})
        .with_columns(_length=(pl.min_horizontal("_until", "_next") - since).clip(0))
        .group_by("_execution")
        .agg(pl.col("_length").sum())
    )
