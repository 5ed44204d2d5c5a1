"""Several clusters in one dump, and federated jobs, as sacct -M and sacct of a federation print them."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.helpers import attempt, parse, text

FEDERATED = (2 << 26) + 7
"""Job 7 of the cluster that is number 2 in its federation."""


def test_rows_of_several_clusters_stay_apart_though_their_ids_are_the_same() -> None:
    parsed = parse(text({"Cluster": "a"}, {"Cluster": "b", "State": "FAILED", "ExitCode": "1:0"}))
    assert parsed.clusters == {"a", "b"}
    assert parsed.rows_duplicate == 0
    found = parsed.frames["attempts"].sort("cluster").select("cluster", "job_id", "state").rows()
    assert found == [("a", "7", "COMPLETED"), ("b", "7", "FAILED")]
    nodes = parsed.frames["attempt_nodes"].group_by("cluster").agg(pl.col("n_gpus").sum()).sort("cluster").rows()
    assert [(name, int(gpus)) for name, gpus in nodes] == [("a", 16), ("b", 16)]


def test_a_federated_id_is_kept_whole() -> None:
    found = attempt({"JobID": str(FEDERATED), "JobIDRaw": str(FEDERATED)})
    assert found["job_id"] == found["display_id"] == str(FEDERATED)


@pytest.mark.parametrize("nodes", ["None assigned", "n[1-2]"])
def test_a_sibling_that_was_revoked_holds_nothing_whatever_else_its_row_says(nodes: str) -> None:
    row = {"JobID": str(FEDERATED), "JobIDRaw": str(FEDERATED), "State": "REVOKED", "NodeList": nodes, "NNodes": "1"}
    parsed = parse(text(row))
    found = parsed.frames["attempts"].row(0, named=True)
    assert (found["state"], found["n_nodes"], int(found["n_gpus"])) == ("REVOKED", 0, 0)
    assert found["started_at"] is None
    assert found["ended_at"] is not None
    assert parsed.frames["attempt_nodes"].is_empty()
    assert parsed.warnings == []
