"""The frames of metrics are declared apart from the tables (metrics may not import queries): here they are compared."""

from __future__ import annotations

import pytest

from ingest.tables import columns_of
from metrics import frames
from metrics.agreement import agreement
from metrics.failures import health_incidents

TABLES = {
    "attempts": frames.ATTEMPTS,
    "nodes": frames.NODES,
    "node_states": frames.NODE_STATES,
    "inventory": frames.INVENTORY,
    "gpu_time": frames.LEDGER,
    "run_attempts": frames.RUN_ATTEMPTS,
    "health_events": frames.EVENTS,
    "run_sessions": frames.SESSIONS,
    "steps": frames.STEPS,
    "run_events": frames.RUN_EVENTS,
    "rank_steps": frames.RANK_STEPS,
    "interruptions": frames.INTERRUPTIONS,
    "restarts": frames.RESTARTS,
    "health_incidents": health_incidents.INCIDENTS,
    "attempt_health": health_incidents.ATTEMPT_HEALTH,
    "sync_intervals": agreement.SYNC_INTERVALS,
}
"""Frames with the columns of a table, or some of them, and the table."""

ADDED = {
    "attempts": {"req_segment"},
    "nodes": {"gone_at"},
    "rank_steps": {"wall_s"},
}
"""Columns that a frame has and its table has not: the named query that reads the table makes them."""


@pytest.mark.parametrize("table", TABLES)
def test_frames_have_the_columns_and_types_of_their_table(table: str) -> None:
    declared = columns_of(table)
    others = ADDED.get(table, set()) | {name for name in TABLES[table] if name.endswith("milli_gpus")}
    frame = {name: kind for name, kind in TABLES[table].items() if name not in others}
    assert {name: declared.get(name) for name in frame} == frame


def test_gpus_in_thousandths_of_frames_are_decimals_in_tables() -> None:
    columns = {"attempts": "n_gpus", "nodes": "n_gpus", "inventory": "gpus", "gpu_time": "gpus", "restarts": "n_gpus"}
    for table, column in columns.items():
        assert TABLES[table]["milli_gpus"] == frames.COUNT
        assert columns_of(table)[column] == frames.GPUS


def test_health_events_of_incidents_are_columns_of_their_table() -> None:
    declared = columns_of("health_events")
    assert {name: declared[name] for name in health_incidents.HEALTH_EVENTS} == health_incidents.HEALTH_EVENTS


def test_results_are_the_rows_of_cluster_metrics() -> None:
    assert list(frames.RESULT.items()) == list(columns_of("cluster_metrics").items())
