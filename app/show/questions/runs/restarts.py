"""The question of `trackside show` about how runs got going again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.failures.interruptions import every_restart
from app.show.answer import Answer, Question
from app.show.registry import question
from app.show.selection import requested_runs
from app.show.sentences import lasted
from ingest.counted import counted
from metrics.restarts.restarts import restart_stages, restart_summary

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_STATISTICS = {
    "median_s": ("median", "seconds"),
    "median_low_s": ("95 % from", "seconds"),
    "median_high_s": ("to", "seconds"),
    "p90_s": ("p90", "seconds"),
    "mean_s": ("mean", "seconds"),
}
_NO_RESTARTS = "No interrupted run was restarted in this window."
_WHERE = pl.when("in_allocation").then(pl.lit("in allocation")).otherwise(pl.lit("new attempt")).alias("where")


@question(
    "restarts",
    "from an interruption to the next start",
    help="from an interruption to the next start, by cause; --run R: of one run\n"
    "--by stage (detection to recovery), event",
    by=("cause", "stage", "event"),
    takes=("run",),
    position=5,
)
def restarts(source: Reader, window: Window, question: Question) -> Answer:
    """How runs got going again: time to job restart by class and cause, every stage of it, or each restart."""
    by = question.dimension
    rows, notes = requested_runs(every_restart(source, window), source, window, question.run)
    parameters = {} if question.run is None else {"run": question.run}
    if by == "event":
        return _restart_rows(rows, notes, parameters)
    if by == "stage":
        return _by_stage(rows, notes, parameters)
    return _by_cause(rows, notes, parameters)


def _by_cause(rows: pl.DataFrame, notes: tuple[str, ...], parameters: dict[str, str]) -> Answer:
    summed = restart_summary(rows)
    return Answer(
        "Time to job restart (end of the interrupted attempt to start of the next)",
        summed.select(_WHERE, pl.all()),
        {
            "where": ("where", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n": ("restarts", "count"),
            "n_waiting": ("waiting", "count"),
            **_STATISTICS,
            "hold_median_s": ("scheduler's hold", "seconds"),
            "queue_median_s": ("queue", "seconds"),
            "first_step_median_s": ("to first step", "seconds"),
        },
        ("time_to_job_restart",),
        ("restarts",),
        headline=_headline(summed),
        ranked=("class", "cause", "n", "median_s", "median_low_s", "median_high_s", "p90_s", "n_waiting"),
        notes=(*notes, *_still_waiting(rows), *_within(rows), *_more(rows)),
        parameters=parameters,
        when_empty=_NO_RESTARTS,
        parts={
            "where": "where",
            "metric": "class",
            "subject": "cause",
            "value": "median_s",
            "n": "n",
            "n_waiting": "n_waiting",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
        },
    )


def _headline(summed: pl.DataFrame) -> str:
    """How long it took after failures of infrastructure, else after whatever was most frequent."""
    whole = summed.filter((pl.col("cause") == "all") & pl.col("median_s").is_not_null())
    of_failures = whole.filter(pl.col("class") == "infrastructure").sort("in_allocation")
    rows = (
        (of_failures if of_failures.height else whole.sort("n", "class", descending=[True, False])).head(1).to_dicts()
    )
    if not rows:
        return _none_back(int(summed.filter(pl.col("cause") == "all")["n_waiting"].sum()))
    row = rows[0]
    cause = "a failure of infrastructure" if row["class"] == "infrastructure" else f"an end by {row['class']}"
    of = counted(row["n"], "restart")
    return f"After {cause} the next attempt started within {lasted(row['median_s'])} (median of {of})."


def _none_back(waiting: int) -> str:
    return f"{counted(waiting, 'restart')} still wait: none has a known time." if waiting else ""


_SUMS = ("job restart", "first step", "recover")
"""Stages that are sums of others."""


def _longest_stage(stages: pl.DataFrame) -> str:
    """The stage that took longest after failures of infrastructure, else after whatever has most restarts."""
    of_class = stages.filter((pl.col("cause") == "all") & ~pl.col("stage").is_in(_SUMS))
    own = of_class.filter(pl.col("class") == "infrastructure")
    rows = (own if own.height else of_class).sort("in_allocation", "median_s", descending=[False, True])
    if rows.is_empty():
        return "No stage of these restarts has a known time." if stages.height else ""
    row = rows.row(0, named=True)
    return (
        f"After an end by {row['class']} the longest single stage was {row['stage']}: median "
        f"{lasted(row['median_s'])} of {counted(row['n'], 'restart')}."
    )


def _longest_restart(rows: pl.DataFrame) -> str:
    """How many restarts there were, and the one whose run waited longest for its next start."""
    known = rows.filter(pl.col("time_to_job_restart_s").is_not_null())
    if known.is_empty():
        return _none_back(rows.height)
    first = known.sort("time_to_job_restart_s", descending=True, maintain_order=True).row(0, named=True)
    longest = f"{first['run_id']}, {lasted(first['time_to_job_restart_s'])} after {first['cause'] or first['class']}"
    return f"{counted(rows.height, 'restart')}; the longest: {longest}."


def _by_stage(rows: pl.DataFrame, notes: tuple[str, ...], parameters: dict[str, str]) -> Answer:
    stages = restart_stages(rows)
    return Answer(
        "Stages of restarts",
        stages.select(_WHERE, pl.all()),
        {
            "where": ("where", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "stage": ("stage", "text"),
            "n": ("n", "count"),
            "n_restarts": ("of", "count"),
            **_STATISTICS,
        },
        (
            "time_to_detect",
            "time_to_terminate",
            "time_to_requeue",
            "restart_queue",
            "time_to_job_restart",
            "restart_launch",
            "restart_load",
            "restart_warm_up",
            "time_to_first_step",
            "time_to_recover",
        ),
        ("restarts",),
        headline=_longest_stage(stages),
        ranked=("class", "cause", "stage", "n", "n_restarts", "median_s", "p90_s"),
        notes=(
            *notes,
            *_still_waiting(rows),
            "Each stage is over the restarts that have evidence for it (n): from detection to termination by health "
            "events, node states and logs, then by accounting, from launch on by run logs. Medians do not add up.",
            "Three stages are sums: job restart (from the end of an attempt to the next start), first step (from the "
            "last good step to the first after the restart) and recover (until the run is where it had been).",
        ),
        parameters=parameters,
        when_empty=_NO_RESTARTS,
        # The total of a class with one cause repeats the cause's row.
        worth_showing=(pl.col("cause") == "all")
        | (pl.col("n_restarts") < pl.col("n_restarts").max().over("in_allocation", "class")),
        parts={
            "where": "where",
            "metric": "stage",
            "class": "class",
            "subject": "cause",
            "value": "median_s",
            "n": "n",
            "n_restarts": "n_restarts",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
        },
    )


def _restart_rows(rows: pl.DataFrame, notes: tuple[str, ...], parameters: dict[str, str]) -> Answer:
    return Answer(
        "Restarts",
        rows.with_columns(_WHERE),
        {
            "run_id": ("run", "text"),
            "attempt_no": ("attempt", "count"),
            "where": ("where", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n_gpus": ("GPUs", "count"),
            "interrupted_at": ("interrupted", "time"),
            "restarted_at": ("restarted", "time"),
            "detected_by": ("first reported by", "text"),
            "time_to_detect_s": ("detect", "seconds"),
            "time_to_terminate_s": ("terminate", "seconds"),
            "time_to_requeue_s": ("scheduler's hold", "seconds"),
            "queue_s": ("queue", "seconds"),
            "time_to_job_restart_s": ("to restart", "seconds"),
            "time_to_first_step_s": ("to first step", "seconds"),
            "time_to_recover_s": ("to recover", "seconds"),
        },
        ("time_to_job_restart", "time_to_detect", "time_to_terminate", "time_to_first_step", "time_to_recover"),
        ("restarts",),
        headline=_longest_restart(rows),
        ranked=(
            "class",
            "cause",
            "restarted_at",
            "time_to_job_restart_s",
            "time_to_detect_s",
            "time_to_first_step_s",
            "n_gpus",
        ),
        notes=notes,
        parameters=parameters,
        when_empty=_NO_RESTARTS,
        parts={"metric": "class", "subject": "run_id", "attempt": "attempt_no", "value": "time_to_job_restart_s"},
    )


def _still_waiting(rows: pl.DataFrame) -> tuple[str, ...]:
    """A note that a sample without unfinished restarts is too favourable."""
    waiting = rows["time_to_job_restart_s"].null_count()
    if not waiting:
        return ()
    still = "still waits and is" if waiting == 1 else "still wait and are"
    return (f"{counted(waiting, 'restart')} {still} in no statistic, so the true times are longer.",)


def _within(rows: pl.DataFrame) -> tuple[str, ...]:
    """What a restart within an allocation is, where there are any."""
    count = int(rows["in_allocation"].sum())
    if not count:
        return ()
    return (
        f"{counted(count, 'restart')} within an allocation: from the last thing that a process logged to the "
        "first of the next.",
    )


def _more(rows: pl.DataFrame) -> tuple[str, ...]:
    """A note that there is more detail, where logs have it."""
    if not rows["time_to_first_step_s"].count():
        return ()
    return ("Detection, launch, load, warm-up and catching up: trackside show restarts --by stage",)
