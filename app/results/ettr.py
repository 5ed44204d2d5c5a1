"""ETTR of runs and of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.base import as_results, ledger_sums
from metrics import frames
from metrics.ettr import ettr_by_run, ettr_total, imputed, waits

if TYPE_CHECKING:
    from app.results.base import Source, Window


def ettr_run_rows(source: Source, window: Window) -> pl.DataFrame:
    """ETTR and its parts, one row per run."""
    attempts = source.query("attempts", cluster=window.cluster)
    joined = source.query("run_attempts", cluster=window.cluster)
    return ettr_by_run(
        waits(attempts, joined, window.since, window.until),
        ledger_sums(source, window, "run"),
        imputed(attempts, joined, window.since, window.until),
        source.query("runs", cluster=window.cluster, since=window.since, until=window.until).with_columns(
            milli_gpus=(pl.col("n_gpus") * 1000).cast(pl.Int64)
        ),
    )


def ettr_rows(source: Source, window: Window, *, min_run_s: float = 0.0) -> pl.DataFrame:
    """ETTR of the cluster as result rows: all forms, over runs with at least `min_run_s` of scheduled time."""
    by_run = ettr_run_rows(source, window)
    total = ettr_total(by_run.filter(long_enough(min_run_s)))
    if total.is_empty():
        return frames.empty(frames.RESULT)
    return as_results(pl.concat([_ettr_form(total, *form) for form in _ETTR_FORMS]), window, "cluster")


def long_enough(min_run_s: float) -> pl.Expr:
    """Runs whose GPUs were allocated for at least so many seconds in the window."""
    return pl.col("allocated") * 1000 / pl.col("milli_gpus") >= min_run_s


_ETTR_FORMS = (
    ("ettr", "ettr", "productive", "wall_gpu_s"),
    ("ettr_without_initial_queue", "ettr_without_initial_queue", "productive", "after_start_gpu_s"),
    ("ettr_imputed", "ettr_imputed", "imputed_gpu_s", "wall_gpu_s"),
)


def _ettr_form(total: pl.DataFrame, metric: str, column: str, numerator: str, denominator: str) -> pl.DataFrame:
    table = total.with_columns(
        after_start_gpu_s=pl.col("allocated") + pl.col("queued_requeue"),
    ).with_columns(
        by_accounting=pl.col("by_accounting") + (pl.col(denominator) - pl.col("allocated")),  # it tells of waits
    )
    assumed = metric == "ettr_imputed"
    said = pl.format(
        "cannot tell: {} % of the allocated GPU-time is unattributed", (pl.col("unseen_share") * 100).round(1)
    )
    shares = [
        (
            pl.lit(float(kind == "assumed"))
            if assumed
            else pl.when(pl.col(denominator) > 0).then(pl.col(f"by_{kind}") / pl.col(denominator))
        ).alias(f"evidence_{kind}")
        for kind in ("log", "telemetry", "accounting", "assumed")
    ]
    return table.select(
        "cluster",
        pl.col("cluster").alias("subject"),
        pl.lit(metric).alias("metric"),
        pl.lit("ratio").alias("unit"),
        pl.col(column).alias("value"),
        pl.col(numerator).alias("numerator"),
        pl.col(denominator).alias("denominator"),
        "n",
        (pl.lit(None, dtype=pl.Float64) if assumed else pl.col(f"{column}_low")).alias("bound_low"),
        (pl.lit(None, dtype=pl.Float64) if assumed else pl.col(f"{column}_high")).alias("bound_high"),
        *shares,
        (
            pl.lit("assumed: hourly checkpoints, 5 min to restart, every end an interruption")
            if assumed
            else pl.when(pl.col(column).is_null()).then(said)
        ).alias("note"),
    )
