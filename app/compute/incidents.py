"""Health events that belong together, and the attempts that they touched: rows of two tables, of one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.failures.health_incidents import HEALTH_EVENTS, attempts_for_incidents, incidents

if TYPE_CHECKING:
    from app.compute.attempt_nodes import AttemptNodes
    from queries.warehouse import Writer

TABLES = ("health_incidents", "attempt_health")


def write_incidents(writer: Writer, cluster: str, attempts: pl.DataFrame, on_nodes: AttemptNodes) -> None:
    """Write the incidents of a cluster, and whom they touched.

    Args:
        writer: the warehouse.
        cluster: whose.
        attempts: `frames.ATTEMPTS`.
        on_nodes: those on nodes.
    """
    events = frames.conform(writer.query("health_events", cluster=cluster), HEALTH_EVENTS)
    held = on_nodes.of(attempts_for_incidents(events, attempts))
    for table, rows in zip(TABLES, incidents(events, attempts, held), strict=True):
        writer.bring_in_line(table, rows, key=pl.DataFrame({"cluster": [cluster]}))
