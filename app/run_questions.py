"""The questions of `trackside show` about runs: ETTR, MFU, and the runs themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from app import results
from app.asked import MOST_NAMED, asked_runs, only, runs_meant, several, split_by
from app.errors import UsageError
from app.runs_apart import why_apart
from app.showing import Answer, Question
from metrics.mfu import CONVENTIONS
from metrics.runs import by_id

if TYPE_CHECKING:
    from app.results import Window
    from queries.warehouse import Reader


def ettr(source: Reader, window: Window, question: Question) -> Answer:
    """ETTR in total, per run, or of one run with its arithmetic."""
    if question.run is not None:
        return _ettr_of_run(source, window, question.run)
    if split_by(question.by, ("cluster", "run"), "cluster") == "run":
        rows = results.ettr_run_rows(source, window)
        queries = ("ledger_sums", "runs")
        return Answer("ETTR by run", rows, _ETTR_COLUMNS, metrics=("ettr",), queries=queries, parts=_ETTR_PARTS)
    rows = pl.concat(
        [
            results.ettr_rows(source, window),
            results.ettr_rows(source, window, min_run_s=86_400).with_columns(pl.col("metric") + " (runs >= 24 h)"),
        ]
    )
    return Answer(
        "ETTR, GPU-time weighted over runs",
        rows,
        {
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "n": ("runs", "count"),
            "numerator": ("numerator GPU-h", "gpu_h"),
            "denominator": ("denominator GPU-h", "gpu_h"),
            "note": ("note", "text"),
        },
        metrics=("ettr", "ettr_without_initial_queue", "ettr_imputed"),
        queries=("ledger_sums", "attempts", "run_attempts", "runs"),
        when_empty="No run held GPUs in this window.",
    )


_ETTR_COLUMNS = {
    "run_id": ("run", "text"),
    "n_attempts": ("attempts", "count"),
    "ettr": ("ETTR", "ratio"),
    "ettr_low": ("at least", "ratio"),
    "ettr_high": ("at most", "ratio"),
    "ettr_imputed": ("imputed (assumed)", "ratio"),
    "queued_initial": ("first queue GPU-h", "gpu_h"),
    "queued_requeue": ("requeue GPU-h", "gpu_h"),
    "allocated": ("allocated GPU-h", "gpu_h"),
    "unseen": ("unseen GPU-h", "gpu_h"),
}


_ETTR_PARTS = {
    "subject": "run_id",
    "value": "ettr",
    "numerator": "productive",
    "denominator": "wall_gpu_s",
    "n": "n_attempts",
    "bound_low": "ettr_low",
    "bound_high": "ettr_high",
    "log_gpu_s": "by_log",
    "telemetry_gpu_s": "by_telemetry",
    "accounting_gpu_s": "by_accounting",
    "assumed_gpu_s": "by_assumed",
}


def _ettr_of_run(source: Reader, window: Window, run: str) -> Answer:
    meant = runs_meant(source, window, run)
    found = only(results.ettr_run_rows(source, window), meant)
    if found.is_empty():
        raise UsageError(f"{window.cluster}: run {run!r} held no GPUs in this window; take a longer one (--since)")
    said = (*several(run, meant), *(_arithmetic(found.row(0, named=True)) if found.height == 1 else ()))
    return Answer(
        "ETTR of a run" if found.height == 1 else f"ETTR of the runs that {run} may mean, the newest first",
        found,
        _ETTR_COLUMNS,
        ("ettr",),
        ("ledger_sums", "runs"),
        said,
        parts=_ETTR_PARTS,
    )


def _arithmetic(row: dict[str, Any]) -> tuple[str, ...]:
    """How the ETTR of one run comes about."""
    return (
        f"ETTR of run {row['run_id']} = productive / (first queue + requeue waits + allocated), in GPU-seconds",
        f"  at least {row['productive']:,.0f} / ({row['queued_initial']:,.0f} + {row['queued_requeue']:,.0f} + "
        f"{row['allocated']:,.0f}) = {row['ettr_low']:.4f}",
        f"  at most ({row['productive']:,.0f} + {row['unseen']:,.0f} unseen) / {row['wall_gpu_s']:,.0f} = "
        f"{row['ettr_high']:.4f}",
    )


def mfu(source: Reader, window: Window, question: Question) -> Answer:
    """Model FLOP utilisation, of all logged runs or by run, by convention."""
    if question.run is not None or split_by(question.by, ("cluster", "run"), "cluster") == "run":
        rows, said = asked_runs(results.mfu_run_rows(source, window), source, window, question.run)
        return Answer(
            "MFU by run and FLOP convention",
            rows,
            {"run_id": ("run", "text"), **_MFU_COLUMNS, "median": ("median step", "ratio"), "note": ("note", "text")},
            metrics=("mfu",),
            queries=("steps", "run_sessions", "run_events"),
            notes=said,
            parts={"subject": "run_id", **_MFU_PARTS},
            when_empty=_NO_STEPS,
        )
    found = [
        results.mfu_rows(source, window, convention).with_columns(convention=pl.lit(convention))
        for convention in CONVENTIONS
    ]
    rows = pl.concat(found).filter(pl.col("n") > 0)
    return Answer(
        "MFU over the kept steps of all logged runs, by FLOP convention",
        rows,
        {**_MFU_COLUMNS, "note": ("note", "text")},
        metrics=("mfu",),
        queries=("steps", "run_sessions", "run_events"),
        parts={"subject": "convention", **_MFU_PARTS},
        when_empty=_NO_STEPS,
        notes=(
            "The peak is dense, for the data type of the log. A vendor's figure means little without its convention.",
        ),
    )


_NO_STEPS = (
    "No run of a known job logged steps in this window (logs that match no job: see trackside status).\n"
    "The recorder does it in three lines: trackside recorder --help"
)
_MFU_COLUMNS = {
    "convention": ("convention", "text"),
    "value": ("MFU", "ratio"),
    "ci_low": ("95 % from", "ratio"),
    "ci_high": ("to", "ratio"),
    "n": ("steps", "count"),
    "numerator": ("FLOP", "number"),
    "denominator": ("peak FLOP", "number"),
}
_MFU_PARTS = {
    "convention": "convention",
    "value": "value",
    "numerator": "numerator",
    "denominator": "denominator",
    "n": "n",
    "ci_low": "ci_low",
    "ci_high": "ci_high",
}


def runs(source: Reader, window: Window, question: Question) -> Answer:
    """Training runs with their attempts and bounds."""
    split_by(question.by, ("run",), "run")
    found = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    ratios = results.ettr_run_rows(source, window).select(
        "cluster", "run_id", "ettr", "ettr_low", "ettr_high", "allocated"
    )
    rows, said = asked_runs(found.join(ratios, on=["cluster", "run_id"], how="left"), source, window, question.run)
    if question.run is not None and rows.is_empty():
        raise UsageError(
            f"{window.cluster}: run {question.run!r} had no time in this window; take a longer one (--since)"
        )
    apart = () if question.run is None else why_apart(source, window, rows["run_id"].to_list())
    said = (*said, *_how_joined(source, window, rows), *apart, *_runaways(rows))
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
            "ettr_high": ("at most", "ratio"),
        },
        metrics=("ettr",),
        queries=("runs", "run_attempts", "ledger_sums"),
        notes=said,
        parts={"subject": "run_id", "bound_low": "ettr_low", "bound_high": "ettr_high", "allocated_gpu_s": "allocated"},
        when_empty="No run in this window.",
    )


def _how_joined(source: Reader, window: Window, rows: pl.DataFrame) -> tuple[str, ...]:
    """Of a single run of several attempts: which jobs they are, and by which rule each was joined to the run."""
    if rows.height != 1 or rows["n_attempts"].item() < 2:
        return ()
    found = source.query("run_attempts", cluster=window.cluster).filter(pl.col("run_id") == rows["run_id"].item())
    told = found.sort("attempt_no", *by_id()).select("attempt_no", "job_id", "joined_by").rows()
    named = [
        f"{number}: job {job}, {'first' if word == 'single' else word.replace('_', ' ')}"
        for number, job, word in told[:MOST_NAMED]
    ]
    more = f"; and {len(told) - MOST_NAMED:,} more" if told[MOST_NAMED:] else ""
    return (f"its attempts and how each was joined: {'; '.join(named)}{more}.",)


def _runaways(rows: pl.DataFrame) -> tuple[str, ...]:
    """That some runs' ends are not known."""
    count = rows.filter(pl.col("state") == "RUNAWAY").height
    if not count:
        return ()
    return (
        f"RUNAWAY: accounting never closed {count:,} of these runs, though Slurm no longer knew their jobs. They ended "
        "when they are shown to have ended at the latest; their time is unattributed and assumed.",
    )
