"""The question of `trackside show` about training runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.errors import UsageError
from app.results.ettr import ettr_run_rows
from app.results.runs.joins import JOINED_BY
from app.results.runs.run_conflicts import why_apart
from app.show.answer import MOST_HELD, Answer, Question
from app.show.registry import question
from app.show.selection import MOST_NAMED, requested_runs
from app.show.sentences import gpu_hours, percent
from ingest.counted import counted
from metrics.runs.runs import by_id

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


@question(
    "runs",
    "training runs, their attempts and the bounds of their ETTR",
    help="training runs: attempts, how they were joined, bounds of their ETTR; --run R: one",
    by=("run",),
    takes=("run",),
    position=8,
    of_some_runs=("run",),
)
def runs(source: Reader, window: Window, question: Question) -> Answer:
    """Training runs with their attempts and bounds."""
    rows_of_runs = source.query("runs", **window.parameters)
    ratios = ettr_run_rows(source, window).select("cluster", "run_id", "ettr", "ettr_low", "ettr_high", "allocated")
    rows, notes = requested_runs(
        rows_of_runs.join(ratios, on=["cluster", "run_id"], how="left"), source, window, question.run
    )
    if question.run is not None and rows.is_empty():
        raise UsageError(
            f"{window.cluster}: run {question.run!r} had no time in this window; take a longer one (--since)"
        )
    apart = () if question.run is None else why_apart(source, window, rows["run_id"].to_list())
    notes = (*notes, *_how_joined(source, window, rows), *apart, *_runaways(rows))
    return Answer(
        "Runs",
        rows,
        {
            "run_id": ("run", "text"),
            "user": ("user", "text"),
            "name": ("name", "text"),
            "n_gpus": ("GPUs", "count"),
            "n_attempts": ("attempts", "count"),
            "joined_by": ("joined by", "text"),
            "state": ("state", "text"),
            "started_at": ("started", "time"),
            "ended_at": ("ended", "time"),
            "allocated": ("GPU-h", "gpu_h"),
            "ettr_low": ("ETTR at least", "ratio"),
            "ettr_high": ("ETTR at most", "ratio"),
        },
        headline=_headline(rows),
        ranked=("n_gpus", "allocated", "ettr_low", "ettr_high", "state", "user", "started_at", "n_attempts"),
        order=MOST_HELD if question.run is None else None,
        in_words=(pl.col("joined_by").replace(JOINED_BY),),
        metrics=("ettr",),
        queries=("runs", "run_attempts", "ledger_sums"),
        notes=notes,
        parts={"subject": "run_id", "bound_low": "ettr_low", "bound_high": "ettr_high", "allocated_gpu_s": "allocated"},
        when_empty="No run in this window.",
    )


def _headline(rows: pl.DataFrame) -> str:
    """How many runs there are, and which of them held most GPU-time."""
    known = rows.filter(pl.col("allocated") > 0).sort("allocated", "run_id", descending=[True, False])
    if known.is_empty():
        return f"{counted(rows.height, 'run')}; none held GPU-time." if rows.height else ""
    first, whole = known.row(0, named=True), float(known["allocated"].sum())
    if rows.height == 1:
        return f"Run {first['run_id']} held {gpu_hours(whole)}."
    others = rows.height - known.height
    none = f" ({others:,} more held none)" if others else ""
    return (
        f"{counted(known.height, 'run')} held {gpu_hours(whole)}{none}; the largest is {first['run_id']} with "
        f"{gpu_hours(first['allocated'])} ({percent(first['allocated'] / whole, digits=0)})."
    )


def _how_joined(source: Reader, window: Window, rows: pl.DataFrame) -> tuple[str, ...]:
    """Of a single run of several attempts: which jobs they are, and by which rule each was joined to the run."""
    if rows.height != 1 or rows["n_attempts"].item() < 2:
        return ()
    attempts = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id") == rows["run_id"].item())
    joins = attempts.sort("attempt_no", *by_id()).select("attempt_no", "job_id", "joined_by").rows()
    named = [
        f"{number}: job {job}, {'first' if word == 'single' else f'by {JOINED_BY.get(word, word)}'}"
        for number, job, word in joins[:MOST_NAMED]
    ]
    more = f"; and {len(joins) - MOST_NAMED:,} more" if joins[MOST_NAMED:] else ""
    return (f"its attempts and how each was joined: {'; '.join(named)}{more}.",)


def _runaways(rows: pl.DataFrame) -> tuple[str, ...]:
    """That some runs' ends are not known."""
    count = rows.filter(pl.col("state") == "RUNAWAY").height
    if not count:
        return ()
    return (
        f"RUNAWAY: accounting never closed {count:,} of these runs, though Slurm no longer had their jobs. They ended "
        "at the latest moment that the evidence allows; their time is unattributed and assumed.",
    )
