"""The numbers of a cluster for the standard windows, into the warehouse."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl

from app.results.checkpoints import stored_checkpoint_advice
from app.results.ettr import ettr_rows, ettr_run_rows, expected_rows, expected_run_rows
from app.results.failures.failure_rates import failure_rate_tables
from app.results.failures.interruptions import second_order_rows
from app.results.failures.lemons import stored_node_scores
from app.results.goodput import goodput_rows, lost_imputed_rows, mpg_rows
from app.results.mfu import mfu_rows, mfu_run_rows, mfu_wall_rows
from app.results.mfu_proxy import mfu_estimated_rows, mfu_proxy
from app.results.runs.job_goodput import job_accounts, job_goodput_rows
from app.results.runs.run_metrics import run_metric_rows
from app.results.source import OF_ONE_WINDOW, CachedSource
from app.times import months
from app.window import Window
from metrics.mfu.flops import MEASURES

if TYPE_CHECKING:
    from app.window import Source
    from queries.warehouse import Writer


def write_results(writer: Writer, source: Source, window: Window) -> None:
    """Write what is stored of a cluster's numbers.

    Args:
        writer: the warehouse.
        source: the same with a cache for queries of all windows and of `window` (`app.results.source`). Those of each
            other window are kept no longer than it takes to compute it.
        window: all of the cluster's data.
    """
    rates = failure_rate_tables(source, standard_windows(window))
    writer.append("failure_rates", rates)
    of_cluster: list[pl.DataFrame] = []
    for standard in standard_windows(window):
        once = source if standard == window else CachedSource(source, only=OF_ONE_WINDOW)
        by_run = ettr_run_rows(once, standard)
        own_rates = rates.filter(pl.col("window_from") == standard.since, pl.col("window_until") == standard.until)
        expected = expected_run_rows(once, standard, by_run=by_run, rates=own_rates)
        jobs = job_accounts(once, standard)
        spent = goodput_rows(once, standard)
        of_cluster += [
            spent,
            mpg_rows(once, standard, goodputs=spent),
            job_goodput_rows(once, standard, accounts=jobs),
            ettr_rows(once, standard, by_run=by_run),
            expected_rows(once, standard, of_runs=expected),
            lost_imputed_rows(once, standard),
            second_order_rows(once, standard),
            mfu_rows(once, standard),
        ]
        if standard == window:
            writer.append("run_metrics", run_metric_rows(by_run, expected, jobs, window))
    writer.append("mfu", mfu_run_rows(source, window, measures=MEASURES))
    proxy = mfu_proxy(source, window)
    writer.append("mfu_proxies", proxy.fitted)
    of_cluster += [mfu_wall_rows(source, window), mfu_estimated_rows(proxy, window)]
    writer.append("cluster_metrics", pl.concat(of_cluster))
    _write_advice(writer, source, window, rates)


def _write_advice(writer: Writer, source: Source, window: Window, rates: pl.DataFrame) -> None:
    """Write which nodes are lemons, of the windows that they may be judged by, and how often runs should save."""
    writer.append("node_scores", stored_node_scores(source, standard_windows(window)))
    of_all = rates.filter(pl.col("window_from") == window.since, pl.col("window_until") == window.until)
    writer.append("checkpoint_advice", stored_checkpoint_advice(source, window, rates=of_all))


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
