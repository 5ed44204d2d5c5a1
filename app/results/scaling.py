"""What scaling is computed from: the speed of each logged run by recipe and size, and its time to a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.results.mfu import flop_convention, kept_steps
from app.results.runs.run_logs import computed_logs
from metrics import frames
from metrics.mfu.mfu import FACTS, step_mfu
from metrics.scaling.speeds import run_speeds
from metrics.scaling.target import logged_times, token_times

if TYPE_CHECKING:
    import polars as pl

    from app.window import Source, Window
    from metrics.mfu.flops import Convention


def scaling_runs(
    source: Source, window: Window, *, tokens: float | None = None, convention: Convention | None = None
) -> pl.DataFrame:
    """Each run that logged steps in the window, by recipe, GPUs and global batch, with its time to the target.

    Args:
        source: where the rows are read from.
        window: where the steps begin.
        tokens: the target of the time: so many kept tokens; by default the target that the log itself records.
        convention: of the FLOP of an MFU, by default the configured one.

    Returns:
        `metrics.scaling.speeds.run_speeds`'s rows with `status` and `seconds` of the time to the target.
    """
    kept = kept_steps(source, window, (*FACTS, *frames.RECIPE))
    used = convention or flop_convention(source, window.cluster)
    times = logged_times(_events(source, window.cluster)) if tokens is None else token_times(kept, tokens)
    runs = run_speeds(step_mfu(kept, convention=used))
    return runs.join(times, on=["cluster", "run_id"], how="left", maintain_order="left")


def _events(source: Source, cluster: str) -> pl.DataFrame:
    """Events of run logs, by the runs that these are joined to."""
    key = ["cluster", "run_id", "scheduler", "job_id"]
    runs = computed_logs(source, cluster)[0].sessions.select(*key, "run").unique(maintain_order=True)
    logged = source.query("run_events", cluster=cluster)
    return logged.join(runs, on=key, nulls_equal=True).with_columns(run_id="run")
