"""What accounting records of the use of what attempts held: Slurm's steps and summaries of jobstats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.usage import recorded

if TYPE_CHECKING:
    from app.window import RowSource


def recorded_use(source: RowSource, cluster: str) -> pl.DataFrame:
    """What each source records of attempts, a row per attempt and source: `metrics.usage.recorded.RECORDED`."""
    steps = recorded.assign_steps(source.query("usage_of_attempts", cluster=cluster))
    summaries = frames.conform(source.query("summaries_of_attempts", cluster=cluster), recorded.SUMMARIES)
    return pl.concat([recorded.by_slurm(steps), recorded.by_jobstats(summaries)])
