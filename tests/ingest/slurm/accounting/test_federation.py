"""Several clusters in one dump, and federated jobs, as sacct -M and sacct of a federation print them.

`federation.sacct.txt` is of two real clusters (22.05.8): jobs 67108865 to 67108868 came from the first of them, bench,
and the last of these ran on the other one.
"""

from __future__ import annotations

import polars as pl
import pytest

from tests.support.slurm.parsing import DATA, attempt, parse, text
from tests.support.slurm.row_accounts import on_nodes

FEDERATED = (2 << 26) + 7
"""Job 7 of the cluster that is number 2 in its federation."""


def test_equal_ids_of_several_clusters_stay_separate() -> None:
    parsed = parse(text({"Cluster": "a"}, {"Cluster": "b", "State": "FAILED", "ExitCode": "1:0"}))
    assert parsed.clusters == {"a", "b"}
    assert parsed.rows_duplicate == 0
    result = parsed.frames["attempts"].sort("cluster").select("cluster", "job_id", "state").rows()
    assert result == [("a", "7", "COMPLETED"), ("b", "7", "FAILED")]
    nodes = on_nodes(parsed).group_by("cluster").agg(pl.col("n_gpus").sum()).sort("cluster").rows()
    assert [(name, int(gpus)) for name, gpus in nodes] == [("a", 16), ("b", 16)]


def test_a_federated_id_is_kept_whole() -> None:
    result = attempt({"JobID": str(FEDERATED), "JobIDRaw": str(FEDERATED)})
    assert result["job_id"] == result["display_id"] == str(FEDERATED)


@pytest.mark.parametrize("nodes", ["None assigned", "n[1-2]"])
def test_revoked_sibling_holds_nothing_whatever_its_row_has(nodes: str) -> None:
    row = {"JobID": str(FEDERATED), "JobIDRaw": str(FEDERATED), "State": "REVOKED", "NodeList": nodes, "NNodes": "1"}
    parsed = parse(text(row))
    result = parsed.frames["attempts"].row(0, named=True)
    assert (result["state"], result["n_nodes"], int(result["n_gpus"])) == ("REVOKED", 0, 0)
    assert result["started_at"] is None
    assert result["ended_at"] is not None
    assert on_nodes(parsed).is_empty()
    assert parsed.warnings == []


def test_federated_job_ran_on_one_cluster_and_is_revoked_on_one() -> None:
    """Each job ran on one of the two clusters, and is revoked on the other."""
    parsed = parse((DATA / "federation.sacct.txt").read_bytes())
    attempts = parsed.frames["attempts"]
    assert (parsed.rows_read, parsed.rows_loaded, parsed.rows_rejected) == (10, 10, 0)
    assert parsed.clusters == {"bench", "other"}
    ran = attempts.filter(pl.col("n_nodes") > 0)
    assert dict(ran.select("job_id", "cluster").rows()) == {
        "67108865": "bench", "67108866": "bench", "67108867": "bench", "67108868": "other", "134217729": "other",
        "134217731": "other",
    }  # fmt: skip
    assert set(ran["state"]) == {"COMPLETED"}
    revoked = attempts.filter(state="REVOKED").sort("job_id")
    assert revoked.select("job_id", "cluster").rows() == [
        *((job, "other") for job in ("67108865", "67108866", "67108867")), ("67108868", "bench"),
    ]  # fmt: skip
    assert revoked.select("started_at", "node_list").null_count().row(0) == (4, 4)
    assert [int(gpus) for gpus in on_nodes(parsed)["n_gpus"].sort()] == [1, 1, 1, 1, 1, 8]
