"""What waiting work lost to nodes out of service, and to runs that came back from a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.failures.interruptions import every_restart
from app.results.placement.rows import cluster_of
from metrics import frames
from metrics.placement.delays import by_outages, by_restarts

if TYPE_CHECKING:
    from app.window import RowSource, Window


def delay_rows(source: RowSource, window: Window) -> tuple[pl.DataFrame, int]:
    """Jobs delayed in the window (`metrics.placement.delays.DELAYS`), and how many that waited are not judged."""
    attempts = frames.conform(source.query("attempts", cluster=window.cluster), frames.ATTEMPTS)
    waited, unjudged = by_outages(attempts, cluster_of(source, window), since=window.since, until=window.until)
    interruptions = source.query("interruptions", **window.parameters)
    of_whom = attempts.select(*frames.ATTEMPT_KEY, "user", "account", "partition")
    preempted = by_restarts(frames.conform(interruptions, frames.INTERRUPTIONS), every_restart(source, window)).drop(
        "user", "account", "partition"
    )
    again = preempted.join(of_whom, on=list(frames.ATTEMPT_KEY), how="left")
    return pl.concat([waited, again.select(waited.columns)]), unjudged
