"""Federated jobs: a row REVOKED says that another cluster runs the job; it is no attempt and no interruption."""

from __future__ import annotations

from metrics.failures.interruptions import interruptions
from metrics.runs.runs import run_attempts, runs
from tests.metrics.tables import attempt, attempts, events, on_nodes

JOB = "67108865"
"""A federated id: the number of the cluster that the job came from stands above the 26th bit."""


def test_a_row_revoked_is_no_interruption_and_no_attempt() -> None:
    shadow = attempt(JOB, 0, None, 1, "REVOKED", cluster="b", n_nodes=0, milli_gpus=0)
    ran = attempts(attempt(JOB, 0, 0.5, 3, cluster="a"), shadow)
    joined = run_attempts(ran)
    result = runs(ran, joined).select("cluster", "n_attempts", "state").rows()
    assert result == [("a", 1, "COMPLETED"), ("b", 0, "REVOKED")]
    assert interruptions(ran, joined, on_nodes(ran, {}), events()).is_empty()


def test_revoked_row_that_names_a_node_is_no_interruption() -> None:
    ran = attempts(attempt(JOB, 0, 0.5, 3, "REVOKED"))
    assert interruptions(ran, run_attempts(ran), on_nodes(ran, {JOB: ["n1"]}), events()).is_empty()


def test_job_back_from_another_cluster_has_the_attempts_run_here() -> None:
    ran = attempts(attempt(JOB, 0, None, 3, "REVOKED", n_nodes=0, milli_gpus=0), attempt(JOB, 3, 3.5, 5, "COMPLETED"))
    (result,) = runs(ran, run_attempts(ran)).to_dicts()
    assert (result["n_attempts"], result["state"]) == (1, "COMPLETED")
