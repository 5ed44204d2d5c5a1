"""The whole of a restart, from the last good step to the one that makes up for it: who noticed, what each part took.

    t0 end of the last good step   t1 first signal of the failure   t2 end of the attempt
    t3 next attempt eligible   t4 it starts   t5 its first log line   t6 its checkpoint is loaded
    t7 end of its first step   t8 back at the step of t0

t2 to t4 come from accounting (`metrics.restarts.restarts`), t1 also from telemetry and node states, the rest from logs.
Stages that are not recorded stay null. Clocks of logs may differ from the scheduler's by a little: a moment that a log
puts before the one that it must follow is taken to be that one, so parts are never negative and known ones add up.
"""

from __future__ import annotations

import polars as pl

from metrics import frames, unknown
from metrics.empty_inputs import cached_if_empty
from metrics.failures.diagnosis import since_start
from metrics.failures.interruptions import AFTER_END_S, BEFORE_END_S
from metrics.time_join import nearby, prefiltered

JOB_END = "job_end"
"""The detector of a failure that had no signal before the attempt ended."""

IN_PLACE = "in_place"
"""Class of restarts within an allocation: no attempt ended, so no final state gives a cause."""

FAILURE_KINDS = r"(?i)nccl|watchdog|hang|fault|error|crash|abort|exception"
"""Kinds of a run log's events that signal a failure."""

_NOTHING_FAILED = ("preemption", "planned", "timeout")
"""Classes of interruptions that need no detection: the scheduler made them."""

_RUN = ["cluster", "run_id", "attempt_no"]
_KEY = list(frames.ATTEMPT_KEY)
_SESSION = ["cluster", "run_id", "scheduler", "job_id"]
_US = 1e6


def with_detection(
    restarted: pl.DataFrame,
    interruptions: pl.DataFrame,
    joined: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    events: pl.DataFrame,
    *,
    before_s: float = BEFORE_END_S,
) -> pl.DataFrame:
    """Add when anything but a log first signalled each failure (t1), and how long the attempt then took to end.

    That is the first critical event, or XID of the program, on one of its nodes (on the one to blame, where there is
    one) within `before_s` of the end; without any, the end itself (`JOB_END`). Of what the scheduler ended on purpose
    there is nothing to detect.

    Args:
        restarted: `frames.RESTARTS`.
        interruptions: `frames.INTERRUPTIONS`, for the node to blame.
        joined: `frames.RUN_ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
        events: `metrics.failures.diagnosis.EVENTS`.
        before_s: longest time that a signal may lie before the end, in seconds.

    Returns:
        `frames.RESTARTS`.
    """
    failed = _failed(restarted)
    blamed = interruptions.select(*_KEY, pl.col("node").alias("_blamed"))
    where = (
        failed.select(*_RUN, *_KEY[1:], "interrupted_at")
        .join(blamed, on=_KEY, how="left")
        .select(*_RUN, "interrupted_at", "_blamed")
        .join(joined.select(*_KEY, "run_id", "attempt_no"), on=_RUN)  # all components of a heterogeneous job
        .join(attempt_nodes.select(*_KEY, "node", "started_at"), on=_KEY)
        .filter(pl.col("node") == pl.coalesce("_blamed", "node"))
    )
    first = _first_signal(where, events, of="interrupted_at", by=_RUN, before_s=before_s, after_s=0)
    end = pl.col("interrupted_at")
    noticed = ~pl.col("class").is_in(_NOTHING_FAILED)
    return frames.conform(
        restarted.drop("detected_at", "detected_by")
        .join(first, on=_RUN, how="left", maintain_order="left")
        .with_columns(
            detected_at=pl.when(noticed).then(pl.coalesce("signal_at", "interrupted_at")),
            detected_by=pl.when(noticed).then(pl.coalesce("signal_by", pl.lit(JOB_END))),
        )
        .with_columns(time_to_terminate_s=frames.seconds(end - pl.col("detected_at"))),
        frames.RESTARTS,
    )


def _failed(restarted: pl.DataFrame) -> pl.DataFrame:
    return restarted.filter(~pl.col("class").is_in(_NOTHING_FAILED))


def attempts_for_detection(
    restarted: pl.DataFrame, joined: pl.DataFrame, events: pl.DataFrame, *, before_s: float = BEFORE_END_S
) -> pl.DataFrame:
    """Keys of the attempts whose nodes `with_detection` reads; its arguments."""
    near = prefiltered(_failed(restarted), events, of="interrupted_at", at="ts", before_s=before_s, after_s=0)
    return joined.join(near, on=_RUN, how="semi").select(_KEY)


@cached_if_empty("events")
def _first_signal(
    where: pl.DataFrame, events: pl.DataFrame, *, of: str, by: list[str], before_s: float, after_s: float
) -> pl.DataFrame:
    """The first event that signals a failure around a moment: `by`, `signal_at`, `signal_by`, `signal_kind`.

    An event that was over before the attempt began (`started_at` of `where`) is evidence of none of its failures.
    """
    critical = (pl.col("severity") == "critical").fill_null(value=False)
    of_program = pl.col("class").is_in(["APP", "CONSEQUENCE"]).fill_null(value=False)
    signals = events.filter(critical | of_program)
    name = pl.concat_str("kind", "code", separator=" ", ignore_nulls=True)
    return (
        nearby(
            where.select(*by, "node", "started_at", of),
            signals.select("cluster", "node", "ts", "lasts_until", "kind", "code"),
            of=of,
            at="ts",
            by=("cluster", "node"),
            before_s=before_s,
            after_s=after_s,
        )
        .filter(since_start("started_at"))
        .sort(*by, "ts", "kind", "code", "node", nulls_last=True)
        .unique(by, keep="first", maintain_order=True)
        .select(*by, signal_at="ts", signal_by=name, signal_kind="kind")
    )


def with_log_times(
    restarted: pl.DataFrame,
    joined: pl.DataFrame,
    executed: pl.DataFrame,
    sessions: pl.DataFrame,
    events: pl.DataFrame,
) -> pl.DataFrame:
    """Add what only logs record: detection, launch, load, warm-up, time to first step and to recovery.

    t0 is the end of the interrupted attempt's last step, t5 the first log line of the next attempt, t6 the end of its
    checkpoint load, t7 the end of its first step, and t8 the end of the step that the interrupted attempt had last
    finished (or of the one after it), when the run gets there again. An event of the log that signals a failure
    (`FAILURE_KINDS`, after the last step began) is its detection if nothing signalled it before. What was not logged
    stays null. Of several programs that log in one job only the first counts: the steps of an evaluator are not the
    run's.

    Args:
        restarted: `frames.RESTARTS`, with their detection (`with_detection`).
        joined: `frames.RUN_ATTEMPTS`.
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        sessions: as `metrics.runs.steps.with_runs` returns it; only usable ones count.
        events: `frames.RUN_EVENTS`.

    Returns:
        `frames.RESTARTS`; seconds.
    """
    own = pl.col("stream") == ""
    executed, sessions = executed.filter(own), sessions.filter(own & pl.col("usable"))
    facts = _attempt_facts(joined, executed, sessions, events)
    broken = facts.select(*_RUN, pl.col("last_end").alias("t0"), "last_begin", "last_step")
    following = facts.select(
        "cluster", "run_id", (pl.col("attempt_no") - 1).alias("attempt_no"), "t5", "t6", pl.col("first_end").alias("t7")
    )
    timed = (
        restarted.join(broken, on=_RUN, how="left")
        .join(following, on=_RUN, how="left")
        .with_row_index("_restart")
        .with_columns(t2=pl.col("interrupted_at").dt.epoch("us"), t4=pl.col("restarted_at").dt.epoch("us"))
    )
    noticed = timed.filter(~pl.col("class").is_in(_NOTHING_FAILED))
    logged = _first_signal_in_log(noticed.select("_restart", *_RUN, "last_begin", "t2"), joined, sessions, events)
    return _timed(timed.join(logged, on="_restart", how="left"), executed).sort("cluster", "interrupted_at", "job_id")


@cached_if_empty("sessions")
def _first_signal_in_log(
    broken: pl.DataFrame, joined: pl.DataFrame, sessions: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """The first event of each broken attempt's log that signals a failure: `_restart`, `log_at` (us), `log_by`."""
    signals = _in_sessions(events.filter(pl.col("kind").str.contains(FAILURE_KINDS)), sessions)
    moment = pl.col("ts").dt.epoch("us")
    return (
        broken.join(joined.select(*_KEY, "run_id", "attempt_no"), on=_RUN)
        .join(signals.select(*_KEY, "ts", "kind"), on=_KEY)
        .filter((moment >= pl.col("last_begin")) & (moment <= pl.col("t2")))
        .sort("_restart", "ts", "kind")
        .unique("_restart", keep="first", maintain_order=True)
        .select("_restart", moment.alias("log_at"), pl.col("kind").alias("log_by"))
    )


def _in_sessions(events: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Events of logs with the session and the attempt that they were part of: the last session that had begun."""
    begun = sessions.select(*_SESSION, "session", "submitted_at", _at=pl.col("started_at")).sort("_at")
    return (
        events.sort("ts")
        .join_asof(begun, left_on="ts", right_on="_at", by=_SESSION, strategy="backward", check_sortedness=False)
        .filter(pl.col("session").is_not_null())
    )


def _timed(timed: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """`frames.RESTARTS` from the moments t0, t2, t4, t5, t6, t7 and `log_at` (us), `last_step` and `_restart`."""
    # Whole microseconds: t1 is the first signal; then each moment not before the one that it follows.
    t1 = pl.min_horizontal(pl.col("detected_at").dt.epoch("us"), "log_at")
    earlier = (pl.col("log_at") < pl.col("detected_at").dt.epoch("us").fill_null(2**62)).fill_null(value=False)
    ordered = timed.with_columns(
        detected_by=pl.when(earlier).then("log_by").otherwise("detected_by"),
        detected_at=pl.when(earlier).then(frames.from_us("log_at")).otherwise("detected_at"),
        t0=_before_t2("t0"),
        stopped="t0",
        t1=t1,
        t5=_not_before("t5", "t4"),
    ).with_columns(t1=_before_t2("t1"), t6=_not_before("t6", "t5"))
    ready = pl.coalesce("t6", "t5")
    ordered = ordered.with_columns(
        t1=_not_before("t1", "t0"), t7=pl.when(pl.col("t7").is_not_null()).then(pl.max_horizontal("t7", ready))
    )
    recovered = _recovered(ordered.select("_restart", "cluster", "run_id", "stopped", "last_step"), executed)
    full = ordered.join(recovered, on="_restart", how="left").with_columns(
        time_to_detect_s=(pl.col("t1") - pl.col("t0")) / _US,
        time_to_terminate_s=(pl.col("t2") - pl.col("t1")) / _US,
        launch_s=(pl.col("t5") - pl.col("t4")) / _US,
        load_s=(pl.col("t6") - pl.col("t5")) / _US,
        warm_up_s=(pl.col("t7") - ready) / _US,
        time_to_first_step_s=(pl.col("t7") - pl.col("t0")) / _US,
        time_to_recover_s=(pl.col("t8") - pl.col("t0")) / _US,
    )
    return frames.conform(full, frames.RESTARTS)


def _not_before(moment: str, earliest: str) -> pl.Expr:
    return pl.when(pl.col(moment).is_not_null()).then(pl.max_horizontal(moment, earliest))


def _before_t2(moment: str) -> pl.Expr:
    return pl.when(pl.col(moment).is_not_null()).then(pl.min_horizontal(moment, "t2"))


@cached_if_empty("sessions")
def _attempt_facts(
    joined: pl.DataFrame, executed: pl.DataFrame, sessions: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """Per logged attempt of a run: first log line, end of the checkpoint load, first and last step's end (us)."""
    head = sessions.group_by(_KEY).agg(pl.col("started_at").min().dt.epoch("us").alias("t5"))
    steps = _step_facts(executed, _KEY)
    loads = (
        _loads(events, sessions)
        .join(steps.select(*_KEY, "first_begin"), on=_KEY)
        .filter(pl.col("loaded") <= pl.col("first_begin"))
        .group_by(_KEY)
        .agg(pl.col("loaded").max().alias("t6"))
    )
    starts = head.join(steps, on=_KEY, how="left").join(loads, on=_KEY, how="left")
    return (
        joined.join(starts, on=_KEY)
        .sort("cluster", "run_id", "attempt_no", "t5")
        .unique(_RUN, keep="first", maintain_order=True)
    )


def _step_facts(executed: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return (
        executed.sort("begin")
        .group_by(by)
        .agg(
            pl.col("begin").first().alias("first_begin"),
            pl.col("end").first().alias("first_end"),
            pl.col("begin").last().alias("last_begin"),
            pl.col("end").last().alias("last_end"),
            pl.col("step").last().alias("last_step"),
        )
    )


def _loads(events: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Checkpoints that were loaded: the attempt's key, `session` and `loaded` (us)."""
    done = events.filter((pl.col("kind") == "checkpoint_load") & pl.col("ended_at").is_not_null())
    return _in_sessions(done, sessions).select(*_KEY, "session", pl.col("ended_at").dt.epoch("us").alias("loaded"))


@cached_if_empty("executed")
def _recovered(broken: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """Time at which each interrupted run was back where it had been (`t8`): that step again, or the one after it.

    By the log's own clock: a step that ended after the end of its attempt (which accounting cuts to whole seconds) has
    not been done again by that.
    """
    steps = executed.select("cluster", pl.col("run").alias("run_id"), "step", "end")
    again = pl.concat([steps, steps.with_columns(pl.col("step") - 1)])
    return (
        broken.drop_nulls(["stopped", "last_step"])
        .join(again, left_on=["cluster", "run_id", "last_step"], right_on=["cluster", "run_id", "step"])
        .filter(pl.col("end") > pl.col("stopped"))
        .group_by("_restart")
        .agg(pl.col("end").min().alias("t8"))
    )


@cached_if_empty("executed")
def in_place_restarts(
    executed: pl.DataFrame,
    sessions: pl.DataFrame,
    events: pl.DataFrame,
    *,
    attempts: pl.DataFrame,
    joined: pl.DataFrame,
    attempt_nodes: pl.DataFrame,
    node_events: pl.DataFrame,
    before_s: float = BEFORE_END_S,
    after_s: float = AFTER_END_S,
) -> pl.DataFrame:
    """Restarts within an allocation: a new process of an attempt whose steps had stopped.

    t2 is the last thing that the process before it logged (or its last step's end), t4 the new one's first log line:
    how long the launch took cannot be separated from what lies between, and `launch_s` is null. Only an event
    shows that a process died, so without one before t2 `detected_at` is null. The class is `IN_PLACE`; the cause is the
    kind of the first critical event on the attempt's nodes around t2, else that of the log's event that signals a
    failure, else `restart_in_place`.

    Args:
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        sessions: as `metrics.runs.steps.with_runs` returns it; only usable ones count.
        events: `frames.RUN_EVENTS`.
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
        node_events: `metrics.failures.diagnosis.EVENTS`.
        before_s: how long before t2 an event may lie, in seconds.
        after_s: how long after.

    Returns:
        `frames.RESTARTS`; `in_allocation` is true in every row.
    """
    own = pl.col("stream") == ""
    executed, sessions = executed.filter(own), sessions.filter(own & pl.col("usable"))
    broken = _broken_off(executed, sessions)
    in_runs = broken.join(joined.select(*_KEY, "run_id", "attempt_no"), on=_KEY)
    of_runs = joined.join(in_runs.select(_RUN).unique(), on=_RUN, how="semi")
    gpus = attempts.join(of_runs, on=_KEY).group_by(_RUN).agg(unknown.total("milli_gpus"))
    restarts = (
        in_runs.join(gpus, on=_RUN, how="left")
        .sort("cluster", "t4", "job_id", "submitted_at")
        .with_row_index("_restart")
        .with_columns(interrupted_at=frames.from_us("t2"), restarted_at=frames.from_us("t4"))
    )
    first, why = _signals_in_place(restarts, attempt_nodes, node_events, before_s=before_s, after_s=after_s)
    log = _first_signal_in_log(restarts.select("_restart", *_RUN, "last_begin", "t2"), joined, sessions, events)
    loads = (
        _loads(events, sessions)
        .join(restarts.select("_restart", "session", "first_begin"), on="session")
        .filter(pl.col("loaded") <= pl.col("first_begin"))
        .group_by("_restart")
        .agg(pl.col("loaded").max().alias("t6"))
    )
    timed = (
        restarts.join(first.select("_restart", "signal_at", "signal_by"), on="_restart", how="left")
        .join(why.select("_restart", pl.col("signal_kind").alias("_why")), on="_restart", how="left")
        .join(log, on="_restart", how="left")
        .join(loads, on="_restart", how="left")
        .with_columns(
            pl.lit(IN_PLACE).alias("class"),
            pl.coalesce("_why", "log_by", pl.lit("restart_in_place")).alias("cause"),
            in_allocation=pl.lit(value=True),
            detected_at="signal_at",
            detected_by="signal_by",
            t5="t4",
            t7="first_end",
        )
    )
    timed = _timed(timed, executed).with_columns(
        time_to_job_restart_s=frames.seconds(pl.col("restarted_at") - pl.col("interrupted_at")),
        launch_s=pl.lit(None, dtype=frames.NUMBER),
    )
    return timed.sort("cluster", "interrupted_at", "job_id")


def _signals_in_place(
    restarts: pl.DataFrame, attempt_nodes: pl.DataFrame, node_events: pl.DataFrame, *, before_s: float, after_s: float
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """By `_restart`: the first event on the attempt's nodes before t2, and the first critical one around it."""
    where = restarts.select("cluster", "_restart", *_KEY[1:], "interrupted_at").join(
        attempt_nodes.select(*_KEY, "node", "started_at"), on=_KEY
    )
    by = ["cluster", "_restart"]
    first = _first_signal(where, node_events, of="interrupted_at", by=by, before_s=before_s, after_s=0)
    critical = node_events.filter(pl.col("severity") == "critical")
    why = _first_signal(where, critical, of="interrupted_at", by=by, before_s=before_s, after_s=after_s)
    return first, why


def _broken_off(executed: pl.DataFrame, sessions: pl.DataFrame) -> pl.DataFrame:
    """Processes that began in an attempt whose steps had stopped: its key, t0, t2, t4 (us), what they did first."""
    steps = _step_facts(executed, ["session"])
    logged = pl.max_horizontal(pl.col("ended_at").dt.epoch("us"), "last_end", pl.col("started_at").dt.epoch("us"))
    before = ("last_end", "last_begin", "last_step")
    return (
        sessions.join(steps, on="session", how="left")
        .sort(*_KEY, "started_at", "session")
        .with_columns(t4=pl.col("started_at").dt.epoch("us"), _logged=logged)
        .with_columns(
            *(pl.col(name).shift(1).forward_fill().over(_KEY).alias(f"_{name}") for name in before),
            t2=pl.col("_logged").shift(1).over(_KEY),
        )
        .filter(pl.col("_last_end") <= pl.col("t4"))
        .select(
            *_KEY,
            "session",
            "first_begin",
            "first_end",
            "t4",
            pl.min_horizontal("t2", "t4").alias("t2"),
            pl.col("_last_end").alias("t0"),
            pl.col("_last_begin").alias("last_begin"),
            pl.col("_last_step").alias("last_step"),
        )
    )
