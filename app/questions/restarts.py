"""The questions of `trackside show` about interruptions and what came after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import results
from app.asked import split_by
from app.showing import Answer, Question
from metrics.restarts import restart_summary

if TYPE_CHECKING:
    import polars as pl

    from app.results import Window
    from queries.warehouse import Reader


def restarts(source: Reader, window: Window, question: Question) -> Answer:
    """Time to job restart: summed up by class and cause, or each."""
    rows = results.restart_rows(source, window)
    if split_by(question.by, ("cause", "event"), "cause") == "event":
        return Answer(
            "Restarts",
            rows,
            {
                "run_id": ("run", "text"),
                "attempt_no": ("attempt", "count"),
                "class": ("class", "text"),
                "cause": ("cause", "text"),
                "n_gpus": ("GPUs", "count"),
                "interrupted_at": ("interrupted", "time"),
                "restarted_at": ("restarted", "time"),
                "time_to_requeue_s": ("Slurm's hold", "seconds"),
                "queue_s": ("queue", "seconds"),
                "time_to_job_restart_s": ("to restart", "seconds"),
            },
            ("time_to_job_restart",),
            ("restarts",),
            when_empty=_NO_RESTARTS,
        )
    return Answer(
        "Time to job restart (end of the interrupted attempt to start of the next)",
        restart_summary(rows),
        {
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n": ("n", "count"),
            "n_waiting": ("waiting", "count"),
            "median_s": ("median", "seconds"),
            "median_low_s": ("95 % from", "seconds"),
            "median_high_s": ("to", "seconds"),
            "p90_s": ("p90", "seconds"),
            "mean_s": ("mean", "seconds"),
            "hold_median_s": ("Slurm's hold", "seconds"),
            "queue_median_s": ("queue", "seconds"),
        },
        ("time_to_job_restart",),
        ("restarts",),
        notes=_still_waiting(rows),
        when_empty=_NO_RESTARTS,
        parts={
            "metric": "class",
            "subject": "cause",
            "value": "median_s",
            "n": "n",
            "n_waiting": "n_waiting",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
        },
    )


def _still_waiting(rows: pl.DataFrame) -> tuple[str, ...]:
    """A sample that leaves out what has not ended yet flatters; say so."""
    waiting = rows["time_to_job_restart_s"].null_count()
    if not waiting:
        return ()
    return (f"{waiting} restart(s) still wait and are in no statistic, so the true times are longer.",)


_NO_RESTARTS = "No interrupted run was restarted in this window."


def interruptions(source: Reader, window: Window, question: Question) -> Answer:
    """Attempts that ended otherwise than by completing, the newest first, each with what it cost."""
    split_by(question.by, ("event",), "event")
    return Answer(
        "Interruptions, the newest first",
        results.priced_interruptions(source, window).drop("milli_gpus"),
        {
            "ended_at": ("ended", "time"),
            "run_id": ("run", "text"),
            "attempt_no": ("attempt", "count"),
            "state": ("state", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "node": ("node", "text"),
            "n_gpus": ("GPUs", "count"),
            "runtime_s": ("ran", "seconds"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "detail": ("evidence", "text"),
        },
        queries=("interruptions", "interruption_costs"),
        notes=("cost: GPU-time that the attempt lost or stood still, and the startup of the one that followed.",),
        when_empty="No attempt ended otherwise than by completing in this window.",
    )
