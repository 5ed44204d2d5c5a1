"""What is stored once and put together by views: nodes by their lists, first submissions, ids as people see them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.context import ParseContext
from ingest.slurm.accounting.sacct import parse_accounting
from ingest.slurm.write import write_input
from ingest.store.request import from_file
from queries.warehouse import open_writer
from tests.support.slurm.parsing import text
from tests.support.slurm.row_accounts import ON_NODES, on_nodes

if TYPE_CHECKING:
    from pathlib import Path

    from ingest.tables import Parsed

NOW = datetime(2026, 11, 23, tzinfo=UTC)
KEY = ["cluster", "scheduler", "job_id", "submitted_at"]


def loaded(root: Path, parsed: Parsed) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The attempts, and the nodes they held, as the warehouse tells them."""
    with open_writer(root, verb="test", now=NOW) as writer:
        write_input(writer, parsed, cluster=None, request=from_file("x"), data=b"", now=NOW)
        assert not [result for result in writer.checks() if result.check.severity == "stop"]
        return writer.table("attempts").sort(KEY), writer.table("attempt_nodes").sort(*KEY, "node")


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["n1", "n[1-3]", "n[8-11]", "n[1-2],m[07-12]", "None assigned"]), st.integers(0, 40)),
        min_size=1,
        max_size=8,
    )
)
def test_the_view_places_gpus_as_plain_python_does(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[str, int]]
) -> None:
    rows = [
        {"JobIDRaw": str(n), "NodeList": nodes, "NNodes": "", "AllocTRES": f"gres/gpu={gpus}"}
        for n, (nodes, gpus) in enumerate(jobs, 1)
    ]
    parsed = parse_accounting(text(*rows), ParseContext(origin="x"))
    _, result = loaded(tmp_path_factory.mktemp("w"), parsed)
    assert result.select(pl.col(name).cast(kind) for name, kind in ON_NODES.items()).equals(
        on_nodes(parsed).sort(*KEY, "node")
    )
    held = [gpus for nodes, gpus in jobs if nodes != "None assigned"]
    assert int(result["n_gpus"].sum()) == sum(held)


def test_parts_of_gpus_are_spread_by_the_thousandth(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer, writer.transaction():
        attempt = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": NOW, "state": "COMPLETED"}
        writer.append("stored.attempts", pl.DataFrame([attempt | {"n_nodes": 3, "n_gpus": 0.5, "node_list": "n[1-3]"}]))
        writer.append("node_lists", pl.DataFrame({"node_list": "n[1-3]", "nodes": [["n1", "n2", "n3"]]}))
        result = writer.table("attempt_nodes").sort("node")
    assert result.select(pl.col("n_gpus").cast(float), "evidence").rows() == [
        (0.167, "assumed"),
        (0.167, "assumed"),
        (0.166, "assumed"),
    ]


def test_unexpanded_node_list_stops_the_work(tmp_path: Path) -> None:
    with open_writer(tmp_path / "w", verb="test", now=NOW) as writer:
        attempt = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": NOW, "state": "COMPLETED"}
        with writer.transaction():
            held = pl.DataFrame([attempt | {"n_nodes": 2, "n_gpus": 2, "node_list": "n[1-2]"}])
            writer.append("stored.attempts", held)
        assert {result.check.name for result in writer.checks()} >= {"raw_node_lists", "raw_gpus_add_up"}
        with writer.transaction():
            writer.append("node_lists", pl.DataFrame({"node_list": "n[1-2]", "nodes": [["n1", "n1"]]}))
        assert "raw_node_lists" in {result.check.name for result in writer.checks()}
        with writer.transaction():
            writer.delete("node_lists", pl.DataFrame({"node_list": ["n[1-2]"]}))
            writer.append("node_lists", pl.DataFrame({"node_list": "n[1-2]", "nodes": [["n1", "n2"]]}))
        assert "raw_node_lists" not in {result.check.name for result in writer.checks()}


def test_attempts_of_a_requeued_job_have_its_first_submission(tmp_path: Path) -> None:
    rows = [
        {"JobID": "7_1", "NodeList": "n[9-11]", "NNodes": "3", "AllocTRES": "gres/gpu=8"},
        {"JobIDRaw": "8", "JobID": "8", "NodeList": "n1", "NNodes": "1", "AllocTRES": "gres/gpu=4"},
        {"JobIDRaw": "8", "JobID": "8", "DBIndex": "71", "Submit": "1795247800", "NodeList": "n[1-2]"},
        {"JobIDRaw": "6", "JobID": "6", "NodeList": "n4", "NNodes": "1", "AllocTRES": "cpu=2", "ReqTRES": "cpu=2"},
        {"JobIDRaw": "9", "JobID": "9", "Start": "Unknown", "End": "Unknown", "State": "PENDING", "NodeList": ""},
    ]
    parsed = parse_accounting(text(*rows), ParseContext(origin="x"))
    attempts, _ = loaded(tmp_path / "new", parsed)
    firsts = attempts.filter(pl.col("first_submitted_at") < pl.col("submitted_at"))
    assert firsts["job_id"].to_list() == ["8"]
    assert attempts["display_id"].to_list() == ["6", "7_1", "8", "8", "9"]
