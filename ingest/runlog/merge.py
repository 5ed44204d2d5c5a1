"""Sessions and events of run logs are merged: each may come again, in any order, with the same result."""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.runlog.steps import best
from ingest.tables import RUN_EVENTS, conform

SESSION_KEY: Final = ("cluster", "run_id", "scheduler", "job_id", "rank", "started_at")
EVENT_KEY: Final = ("cluster", "run_id", "scheduler", "job_id", "ts", "kind", "step")


def merge_sessions(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per session, the most complete one: a log that has grown since ends later.

    Reading the same again counts as having read it later; an older copy does not.
    """
    again = pl.col("read_at").max().over([*SESSION_KEY, "ended_at"])
    return best(rows.with_columns(read_at=again), SESSION_KEY, latest="ended_at")


def merge_events(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per event, with all that its lines record: when it ended, when it was safe."""
    recompute = [
        pl.col("submitted_at").max(),
        pl.col("ended_at").max(),
        pl.col("durable_at").min(),
        pl.col("blocking").max(),
        pl.col("detail").max(),
    ]
    merged = rows.group_by(EVENT_KEY).agg(recompute)
    return conform(merged, RUN_EVENTS).sort(EVENT_KEY, nulls_last=True)
