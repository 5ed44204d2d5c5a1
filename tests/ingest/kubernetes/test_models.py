"""Fixtures are objects as the published models have them, in each state of their life."""

from __future__ import annotations

import pytest

from tests.ingest.kubernetes.test_attempts import gang, tree
from tests.ingest.kubernetes.test_gangs import restarted
from tests.ingest.kubernetes.test_nodes import node, told
from tests.support.kubernetes.models import faults
from tests.support.kubernetes.objects import Object, completed, owner, pod, workload

PODS = {
    "waits": pod("p", node=None),
    "runs": pod("p", above=owner("Job", "j"), labels={"a": "b"}),
    "completed": pod("p", ended=3),
    "failed": pod("p", ended=3, exit_code=137, reason="OOMKilled"),
    "evicted": pod("p", ended=3, disrupted="DeletionByTaintManager"),
    "restarted in place": restarted("p", 3),
    "slices": pod("p", resource="nvidia.com/mig-3g.40gb", gpus=2),
    "claims": pod("p", gpus=0, resourceClaims=[{"name": "gpu"}]),
    "sidecar": pod("p", initContainers=[{"name": "log", "restartPolicy": "Always"}]),
}
NODES = {
    "ready": node("a", seen=1),
    "gone": node("a", seen=1, ready=False),
    "cordoned": node("a", seen=1, cordoned=1),
    "in trouble": told(node("a", seen=1), ("KernelDeadlock", "True", 1, "DockerHung", "hung")),
}


@pytest.mark.parametrize("state", PODS)
def test_pods_are_pods_of_the_published_model(state: str) -> None:
    assert faults(PODS[state]) == []


@pytest.mark.parametrize("state", NODES)
def test_nodes_are_nodes_of_the_published_model(state: str) -> None:
    assert faults(NODES[state]) == []


@pytest.mark.parametrize("kind", ["Job", "JobSet", "TrainJob"])
@pytest.mark.parametrize(
    "status",
    [{}, completed(5), completed(5, kind="Failed", reason="BackoffLimitExceeded"), completed(5, kind="Suspended")],
)
def test_workloads_are_those_of_the_published_models(kind: str, status: Object) -> None:
    assert faults(workload(kind, "w", status=status)) == []


def test_gangs_and_trees_are_of_the_published_models() -> None:
    objects = [*tree(restarts=1), *gang(0, created=1, ended=30), *gang(1, created=31, ended=None)]
    assert [faults(one) for one in objects] == [[]] * len(objects)


def test_fault_of_an_object_is_found() -> None:
    wrong = pod("p")
    wrong["status"]["containerStatus"] = [{"name": "main"}]
    assert faults(wrong) == ["Pod.status.containerStatus is no field"]
    wrong["spec"]["containers"] = "none"
    assert len(faults(wrong)) == 1
