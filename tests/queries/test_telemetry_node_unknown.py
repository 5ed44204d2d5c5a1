"""Telemetry of hosts that are no node counts for nothing: that is a warning, with an inventory or without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest

from ingest.tables import ATTEMPTS, GPU_HOURS, NODE_LISTS, NODES, conform
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 10, 1, tzinfo=UTC)

JOB = {
    "cluster": "c", "scheduler": "slurm", "job_id": "1", "display_id": "1", "submitted_at": START,
    "started_at": START, "ended_at": START + timedelta(hours=1), "state": "COMPLETED", "node_list": "n[1-2]",
    "n_nodes": 2, "n_gpus": 16,
}  # fmt: skip
INVENTORY = {
    "cluster": "c", "node": "n1", "valid_from": START, "last_seen_at": START, "n_gpus": 8, "evidence": "accounting",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables", "unknown"),
    [
        ({}, []),
        ({"stored.attempts": JOB}, ["10.1.1.1"]),
        ({"nodes": INVENTORY}, ["10.1.1.1", "n2"]),
        ({"stored.attempts": JOB, "nodes": INVENTORY}, ["10.1.1.1"]),
    ],
    ids=["telemetry alone", "accounting", "inventory", "both"],
)
def test_telemetry_of_hosts_that_are_no_node(
    tmp_path: Path, tables: dict[str, dict[str, object]], unknown: list[str]
) -> None:
    hours = pl.DataFrame(
        [
            {"cluster": "c", "node": node, "gpu": "0", "ts": START, "metric": "sm_active", "covered_s": 3600.0}
            for node in ("n1", "n2", "10.1.1.1")
        ]
    )
    schemas = {"stored.attempts": ATTEMPTS, "nodes": NODES}
    with open_writer(tmp_path / "w", verb="t", now=START) as writer, writer.transaction():
        writer.append("gpu_hours", conform(hours, GPU_HOURS))
        writer.append("node_lists", pl.DataFrame({"node_list": ["n[1-2]"], "nodes": [["n1", "n2"]]}, NODE_LISTS))
        for table, row in tables.items():
            writer.append(table, conform(pl.DataFrame([row]), schemas[table]))
    with open_reader(tmp_path / "w") as reader:
        found = [each for each in reader.checks() if each.check.name == "source_telemetry_node_unknown"]
    assert [each.sample["node"].to_list() for each in found] == [unknown] * bool(unknown)
    assert [each.check.description.partition("(names differ?): ")[2] for each in found] == [", ".join(unknown)] * bool(
        unknown
    )
