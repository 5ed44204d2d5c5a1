"""The numbers of a cluster for the standard windows, into the warehouse."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from app import results
from app.results import Window
from app.times import months
from metrics import frames

if TYPE_CHECKING:
    from queries.warehouse import Writer


def write_results(writer: Writer, window: Window) -> None:
    """Write what is stored of a cluster's numbers."""
    for standard in standard_windows(window):
        writer.append("failure_rates", results.failure_rate_rows(writer, standard))
        for rows in (
            results.goodput_rows(writer, standard),
            results.ettr_rows(writer, standard),
            results.lost_imputed_rows(writer, standard),
            results.mfu_rows(writer, standard),
        ):
            writer.append("cluster_metrics", rows)
    writer.append("mfu", results.mfu_run_rows(writer, window))
    writer.append("run_metrics", _run_metrics(results.ettr_run_rows(writer, window), window))


def _run_metrics(by_run: pl.DataFrame, window: Window) -> pl.DataFrame:
    """ETTR per run as measured (with bounds), and as imputed (assumed), as rows of `run_metrics`."""
    common = by_run.with_columns(
        window_from=pl.lit(window.since, dtype=frames.TIME),
        window_until=pl.lit(window.until, dtype=frames.TIME),
        unit=pl.lit("ratio"),
        denominator=pl.col("wall_gpu_s"),
        n=pl.col("n_attempts"),
    )
    measured = common.with_columns(
        metric=pl.lit("ettr"),
        value=pl.col("ettr"),
        numerator=pl.col("productive"),
        bound_low=pl.col("ettr_low"),
        bound_high=pl.col("ettr_high"),
        evidence=pl.lit("accounting"),
    )
    assumed = common.with_columns(
        metric=pl.lit("ettr_imputed"),
        value=pl.col("ettr_imputed"),
        numerator=pl.col("imputed_gpu_s"),
        bound_low=pl.lit(None, dtype=pl.Float64),
        bound_high=pl.lit(None, dtype=pl.Float64),
        evidence=pl.lit("assumed"),
    )
    return pl.concat([measured, assumed]).select(
        "cluster", "run_id", "metric", "window_from", "window_until", "unit", "value", "numerator", "denominator", "n",
        "bound_low", "bound_high", "evidence",
    )  # fmt: skip


def standard_windows(window: Window) -> list[Window]:
    """All the data, the last 7 and 28 days of them, and each calendar month (UTC); relative to the data's end."""
    found = [window]
    for days in (7, 28):
        since = window.until - timedelta(days=days)
        if since > window.since:
            found.append(Window(window.cluster, since, window.until))
    found += [
        Window(window.cluster, max(low, window.since), min(high, window.until))
        for low, high in months(window.since, window.until)
    ]
    return list(dict.fromkeys(found))
