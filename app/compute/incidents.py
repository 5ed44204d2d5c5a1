"""Health events that belong together, and the attempts that they touched: rows of two tables, of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.failures.health_incidents import HEALTH_EVENTS, incidents

if TYPE_CHECKING:
    from queries.warehouse import Writer

TABLES = ("health_incidents", "attempt_health")


def write_incidents(writer: Writer, cluster: str, attempts: pl.DataFrame, attempt_nodes: pl.DataFrame) -> None:
    """Write the incidents of a cluster, and whom they touched.

    Args:
        writer: the warehouse.
        cluster: whose.
        attempts: `frames.ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES`.
    """
    events = frames.conform(writer.query("health_events", cluster=cluster), HEALTH_EVENTS)
    for table, rows in zip(TABLES, incidents(events, attempts, attempt_nodes), strict=True):
        writer.bring_in_line(table, rows, key=pl.DataFrame({"cluster": [cluster]}))
