"""The numbers of a cluster for the standard windows, into the warehouse: those of a window whose inputs changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute.outcome import Windows
from app.compute.run_numbers import write_run_numbers
from app.compute.window_inputs import WindowInputs
from app.results.checkpoints import pooled_rate, stored_checkpoint_advice
from app.results.ettr import (
    ettr_rows,
    ettr_run_rows,
    expected_rows,
    expected_run_rows,
    gpu_days,
    long_run_rows,
    run_inputs,
)
from app.results.failures.failure_rates import failure_history, failure_rate_tables
from app.results.failures.interruptions import second_order_rows
from app.results.failures.lemons import judged, stored_node_scores
from app.results.goodput import goodput_rows, lost_imputed_rows, mpg_rows
from app.results.mfu import flop_convention, mfu_rows, mfu_wall_rows
from app.results.mfu_proxy import mfu_estimated_rows, mfu_proxy
from app.results.mfu_totals import mfu_to_store, wall_to_store
from app.results.runs.job_goodput import job_accounts, job_goodput_rows
from app.results.runs.run_logs import computed_logs
from app.results.source import OF_ONE_WINDOW, CachedSource
from app.times import months
from app.window import Window
from metrics import frames
from metrics.ettr.expected import shared_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from app.compute.outcome import Progress
    from app.config.settings import Rules
    from app.window import RowSource
    from metrics.ettr.expected import Shared
    from metrics.failures.exposure import Histories
    from queries.warehouse import Writer

BY_WINDOW: Final = ("cluster_metrics", "failure_rates", "node_scores")
"""Tables whose rows of a window are kept as long as the window's inputs are the same."""

_INPUTS: Final = "result_windows"
_PERIOD: Final = ("cluster", "window_from", "window_until")


@dataclass(frozen=True)
class _WindowPlan:
    """The windows to compute, and the stored rows of the others.

    Attributes:
        computed: windows to compute, the whole first.
        account: rows of the table `result_windows`.
        kept: rows of other windows, by table.
    """

    computed: list[Window]
    account: pl.DataFrame
    kept: dict[str, pl.DataFrame]


def write_results(
    writer: Writer, source: CachedSource, window: Window, *, rules: Rules, now: datetime, full: bool, progress: Progress
) -> Windows:
    """Write what is stored of a cluster's numbers; a window whose inputs are the same keeps its rows.

    Args:
        writer: the warehouse.
        source: the same with a cache for queries of all windows and of `window` (`app.results.source`). Those of each
            other window are kept no longer than it takes to compute it.
        window: all of the cluster's data.
        rules: that the numbers depend on.
        now: stored as `computed_at` of the windows that are computed.
        full: compute every window. The result is the same.
        progress: receives which window is being computed, and the share of the work that is done.
    """
    past = failure_history(source, window)
    windows = standard_windows(window)
    plan = _plan(writer, WindowInputs(source, window, rules, past, windows), windows, now=now, full=full)
    for table in (*BY_WINDOW, _INPUTS):
        writer.delete(table, pl.DataFrame({"cluster": [window.cluster]}))
    for table, rows in plan.kept.items():
        writer.append(table, rows)
    writer.append(_INPUTS, plan.account)
    _let_go_of_attempts(source, window)
    own = write_run_numbers(writer, source, window, rules, full=full)
    source.let_go("run_sizes")
    _write_windows(writer, source, window, past, plan.computed, own, progress)
    return Windows(len(plan.computed), plan.account.height)


def _let_go_of_attempts(source: CachedSource, window: Window) -> None:
    """Keep the rows of attempts no longer: what windows need of them is made, but of attempts that logged."""
    source.let_go("exposures", "endings")
    if computed_logs(source, window.cluster)[0].sessions.is_empty():
        source.let_go("attempts", "run_attempts")


def forget_results(writer: Writer, cluster: str) -> None:
    """Delete what is stored of the windows of a cluster that has no data any more."""
    for table in (*BY_WINDOW, _INPUTS):
        writer.delete(table, pl.DataFrame({"cluster": [cluster]}))


def _plan(writer: Writer, inputs: WindowInputs, windows: Sequence[Window], *, now: datetime, full: bool) -> _WindowPlan:
    whole = windows[0]
    stored = writer.query(_INPUTS, cluster=whole.cluster).iter_rows()
    before = {} if full else {(since, until): (digest, at) for since, until, digest, at in stored}
    account: list[tuple[object, ...]] = []
    computed: list[Window] = []
    kept: list[Window] = []
    for each in windows:
        digest = inputs.digest(each)
        known, at = before.get((each.since, each.until), (None, now))
        same = known == digest and each != whole
        (kept if same else computed).append(each)
        account.append((each.cluster, each.since, each.until, digest, at if same else now))
    return _WindowPlan(
        computed, pl.DataFrame(account, schema=_ACCOUNT, orient="row"), _kept_rows(writer, kept, computed)
    )


_ACCOUNT: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "inputs": frames.TEXT,
    "computed_at": frames.TIME,
}


def _kept_rows(writer: Writer, kept: Sequence[Window], computed: Sequence[Window]) -> dict[str, pl.DataFrame]:
    """The stored rows of windows, by table. Nodes are scored for a part of a window, which windows may share."""
    judged_anew = {judged(window) for window in computed}
    parts = [part for part in dict.fromkeys(map(judged, kept)) if part not in judged_anew]
    of_table = {table: parts if table == "node_scores" else kept for table in BY_WINDOW}
    return {
        table: writer.matching(table, _periods(windows), keys=_PERIOD) for table, windows in of_table.items() if windows
    }


def _periods(windows: Collection[Window]) -> pl.DataFrame:
    rows = [(window.cluster, window.since, window.until) for window in windows]
    return pl.DataFrame(rows, schema={name: _ACCOUNT[name] for name in _PERIOD}, orient="row")


def _write_windows(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    source: RowSource,
    window: Window,
    past: Histories,
    windows: Sequence[Window],
    own_of_all: pl.DataFrame,
    progress: Progress,
) -> None:
    """Compute the numbers of windows, `window` among them, and those that are stored of `window` only."""
    rates = failure_rate_tables(past, windows)
    writer.append("failure_rates", rates)
    of_cluster: list[pl.DataFrame] = []
    for number, standard in enumerate(windows):
        progress(f"window {number + 1} of {len(windows)}", 0.6 * number / len(windows))
        once = source if standard == window else CachedSource(source, only=OF_ONE_WINDOW)
        by_run = ettr_run_rows(once, standard)
        own_rates = rates.filter(_is_of(standard))
        own = own_of_all if standard == window else run_inputs(once, standard, by_run)
        expected = expected_run_rows(once, standard, rates=own_rates, own=own)
        jobs = job_accounts(once, standard)
        spent = goodput_rows(once, standard)
        of_cluster += [
            spent,
            mpg_rows(once, standard, goodputs=spent),
            job_goodput_rows(once, standard, accounts=jobs),
            ettr_rows(once, standard, by_run=by_run),
            long_run_rows(once, standard, by_run=by_run),
            expected_rows(once, standard, of_runs=expected),
            lost_imputed_rows(once, standard),
            second_order_rows(once, standard),
            mfu_rows(once, standard),
        ]
        if standard == window:
            writer.append("expected_inputs", _expected_inputs(window, shared_of(own), own_rates))
    progress("MFU of runs", 0.6)
    of_steps = mfu_to_store(source, window)
    writer.append("mfu", of_steps.runs)
    writer.append("mfu_totals", of_steps.totals)
    walls, wall_rows = wall_to_store(source, window, flop_convention(source, window.cluster))
    writer.append("run_mfu_wall", wall_rows)
    proxy = mfu_proxy(source, window)
    writer.append("mfu_proxies", proxy.fitted)
    of_cluster += [mfu_wall_rows(source, window, walls), mfu_estimated_rows(proxy, window)]
    writer.append("cluster_metrics", pl.concat(of_cluster))
    progress("nodes and checkpoints", 0.85)
    _write_advice(writer, source, windows, rates)


def _expected_inputs(window: Window, shared: Shared, rates: pl.DataFrame) -> pl.DataFrame:
    """Inputs of the expected ETTR of all runs: the view `run_metrics` computes it."""
    return pl.DataFrame(
        {
            "cluster": [window.cluster],
            "gpu_days_per_failure": [gpu_days(pooled_rate(rates).value)],
            "restart_s": [shared.restart_s],
            "interval_s": [shared.interval_s],
            "write_s": [shared.write_s],
            "evidence": ["accounting" if shared.restart_measured and shared.interval_measured else "assumed"],
        },
        schema_overrides={"gpu_days_per_failure": pl.Float64},
    )


def _write_advice(writer: Writer, source: RowSource, windows: Sequence[Window], rates: pl.DataFrame) -> None:
    """Write which nodes are lemons, of the windows that they may be judged by, and how often runs should save."""
    writer.append("node_scores", stored_node_scores(source, windows))
    window = windows[0]
    of_all = rates.filter(_is_of(window))
    writer.append("checkpoint_advice", stored_checkpoint_advice(source, window, rates=of_all))


def _is_of(window: Window) -> pl.Expr:
    since, until = frames.instant(window.since), frames.instant(window.until)
    return (pl.col("window_from") == since) & (pl.col("window_until") == until)


def standard_windows(window: Window) -> list[Window]:
    """All the data, the last 7 and 28 days of them, and each calendar month (UTC); relative to the data's end."""
    windows = [window]
    for days in (7, 28):
        since = window.until - timedelta(days=days)
        if since > window.since:
            windows.append(Window(window.cluster, since, window.until))
    windows += [
        Window(window.cluster, max(low, window.since), min(high, window.until))
        for low, high in months(window.since, window.until)
    ]
    return list(dict.fromkeys(windows))
