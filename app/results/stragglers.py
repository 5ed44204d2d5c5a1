"""Rank times of a window: what slow ranks and sessions that straggle are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames

if TYPE_CHECKING:
    from app.window import Source, Window


def rank_times(source: Source, window: Window, run: str | None = None) -> pl.DataFrame:
    """Rank times of steps that began in the window, as `frames.RANK_STEPS`: of all runs, or of the run or job named."""
    rows = source.query("rank_steps", cluster=window.cluster, since=window.since, until=window.until)
    if run is not None:
        rows = rows.filter((pl.col("run_id") == run) | (pl.col("job_id") == run))
    return frames.conform(rows, frames.RANK_STEPS)
