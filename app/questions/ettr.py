"""The question of `trackside show` about ETTR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from app import results
from app.asked import only, runs_meant, several, split_by
from app.errors import UsageError
from app.showing import Answer, Question

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
