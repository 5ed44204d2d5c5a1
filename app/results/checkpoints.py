"""How often runs save checkpoints, and how often would lose least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.failures.failure_rates import failure_rate_rows
from app.results.runs.run_logs import computed_logs
from metrics import frames
from metrics.checkpoints.advice import Rate, checkpoint_advice, held_time, logged_saves, restart_overheads

if TYPE_CHECKING:
    from app.window import RowSource, Window

CHECKPOINT_ADVICE: Final = (
    "cluster", "run_id", "window_from", "window_until", "n_gpus", "n_checkpoints", "interval_s", "write_s",
    "restart_s", "mttf_s", "mttf_low_s", "mttf_high_s", "optimal_s", "optimal_low_s", "optimal_high_s", "loss_share",
    "optimal_loss_share", "gain_gpu_s", "note",
)  # fmt: skip
"""Columns of the table `checkpoint_advice`."""


def pooled_rate(rates: pl.DataFrame) -> Rate:
    """How often infrastructure interrupts a GPU, over jobs of all sizes: of rows of the table `failure_rates`."""
    pooled = rates.filter(
        (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts") & (pl.col("size") == "pooled")
    )
    if pooled.is_empty() or not pooled["exposure_gpu_days"].item():
        return Rate(None, None, None)
    return Rate(*pooled.select("rate_per_gpu_day", "rate_low", "rate_high").row(0))


def checkpoint_rows(
    source: RowSource, window: Window, *, rates: pl.DataFrame | None = None, only_logged: bool = False
) -> pl.DataFrame:
    """Runs that held GPUs in the window, with the checkpoints of their logs, and the advice.

    Args:
        source: where to read.
        window: of the runs' time, of the checkpoints and of the failure rate.
        rates: rows of `failure_rate_rows` of the window, where they are at hand.
        only_logged: leave out runs of which no log of steps was read.

    Returns:
        `metrics.checkpoints.advice.checkpoint_advice` with `name`, `user`, `logged` (a log of its steps was read),
        `window_from`, `window_until`.
    """
    logs, executed = computed_logs(source, window.cluster)
    attempts = source.query("attempts", cluster=window.cluster)
    joined = source.query("run_attempts", cluster=window.cluster)
    if only_logged:
        joined = joined.join(executed.select("cluster", run_id="run").unique(), on=["cluster", "run_id"], how="semi")
    known = source.query("runs", cluster=window.cluster, since=window.since, until=window.until)
    run = ["cluster", "run_id"]
    steps = executed.select("cluster", pl.col("run").alias("run_id")).unique().with_columns(logged=pl.lit(value=True))
    saves = logged_saves(logs.events, logs.sessions, executed, since=window.since, until=window.until)
    runs = (
        held_time(attempts, joined, since=window.since, until=window.until)
        .join(known.select(*run, "name", "user", "n_gpus"), on=run)
        .join(steps, on=run, how="left")
        .join(saves, on=run, how="left")
        .join(restart_overheads(executed, attempts), on=run, how="left")
        .with_columns(pl.col("logged").fill_null(value=False))
    )
    advice = checkpoint_advice(runs, pooled_rate(failure_rate_rows(source, window) if rates is None else rates))
    return advice.with_columns(
        window_from=frames.instant(window.since),
        window_until=frames.instant(window.until),
    )


def stored_checkpoint_advice(source: RowSource, window: Window, *, rates: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows of the table `checkpoint_advice`: runs whose steps were logged."""
    if computed_logs(source, window.cluster)[1].is_empty():
        return pl.DataFrame(schema=CHECKPOINT_ADVICE)  # without reading runs: most clusters have no log
    return checkpoint_rows(source, window, rates=rates, only_logged=True).select(CHECKPOINT_ADVICE)
