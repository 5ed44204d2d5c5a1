"""The numbers of each run as rows of the table `run_metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.ettr.ettr import FORMS

if TYPE_CHECKING:
    from app.results.runs.job_goodput import JobAccounts
    from app.window import Window

RUN_METRICS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "run_id": frames.TEXT,
    "metric": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "unit": frames.TEXT,
    "value": frames.NUMBER,
    "numerator": frames.NUMBER,
    "denominator": frames.NUMBER,
    "n": frames.COUNT,
    "bound_low": frames.NUMBER,
    "bound_high": frames.NUMBER,
    "evidence": frames.TEXT,
    "note": frames.TEXT,
}


def run_metric_rows(by_run: pl.DataFrame, expected: pl.DataFrame, jobs: JobAccounts, window: Window) -> pl.DataFrame:
    """ETTR of each run in every form (with bounds), as imputed and as expected, and its job goodput.

    Args:
        by_run: as `app.results.ettr.ettr_run_rows` returns it.
        expected: as `app.results.ettr.expected_run_rows` returns it.
        jobs: as `app.results.runs.job_goodput.job_accounts` returns them.
        window: of all of them.
    """
    # What decides a run's wall time is accounting's; so that is the weakest evidence of what was measured.
    measured = [
        by_run.select(
            "cluster",
            "run_id",
            pl.lit(name).alias("metric"),
            pl.col(name).alias("value"),
            top.alias("numerator"),
            bottom.alias("denominator"),
            pl.col("n_attempts").alias("n"),
            pl.col(f"{name}_low").alias("bound_low"),
            pl.col(f"{name}_high").alias("bound_high"),
            pl.lit("accounting").alias("evidence"),
        )
        for name, (top, bottom) in FORMS.items()
    ]
    assumed = by_run.select(
        "cluster",
        "run_id",
        pl.lit("ettr_imputed").alias("metric"),
        pl.col("ettr_imputed").alias("value"),
        pl.col("imputed_gpu_s").alias("numerator"),
        pl.col("wall_gpu_s").alias("denominator"),
        pl.col("n_attempts").alias("n"),
        pl.lit("assumed").alias("evidence"),
    )
    guessed = (pl.col("restart_from") == "assumed") | (pl.col("interval_from") == "assumed")
    to_expect = expected.select(
        "cluster",
        "run_id",
        pl.lit("ettr_expected").alias("metric"),
        pl.col("expected").alias("value"),
        (pl.col("expected") * pl.col("wall_gpu_s")).alias("numerator"),
        pl.col("wall_gpu_s").alias("denominator"),
        pl.when(guessed).then(pl.lit("assumed")).otherwise(pl.lit("accounting")).alias("evidence"),
        pl.format("{} form", pl.col("regime").str.replace_all("_", " ")).alias("note"),
    )
    by_job = jobs.runs.select(
        "cluster",
        "run_id",
        pl.lit("goodput_job").alias("metric"),
        "value",
        pl.col("productive_s").alias("numerator"),
        pl.col("total_s").alias("denominator"),
        pl.lit("log").alias("evidence"),
        "note",
    )
    rows = pl.concat([*measured, assumed, to_expect, by_job], how="diagonal").with_columns(
        window_from=pl.lit(window.since, dtype=frames.TIME),
        window_until=pl.lit(window.until, dtype=frames.TIME),
        unit=pl.lit("ratio"),
    )
    return frames.conform(rows, RUN_METRICS)
