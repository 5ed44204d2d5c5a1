"""Objects as others write them: parts that are missing, lists within lists, pods that do not say when they ended."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_store import load
from tests.support.command import trackside
from tests.support.kubernetes.objects import Object, as_list, as_yaml, at, moment, owner, pod, queued, workload

if TYPE_CHECKING:
    from pathlib import Path

ATTEMPTS = "SELECT name, state, reason, exit_code, n_gpus::DOUBLE, ended_at, end_guessed FROM attempts ORDER BY ALL"
READY = {"type": "Ready", "status": "False", "lastTransitionTime": at(1)}


def given(one: Object, value: object, *path: str) -> Object:
    """The object with a value somewhere in it."""
    made = copy.deepcopy(one)
    inner = made
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = value
    return made


def ended(state: Object, **status: object) -> Object:
    """A failed pod with the state of its container."""
    main = {"name": "main", "restartCount": 0, "state": state}
    return given(pod("a"), {"phase": "Failed", "startTime": at(1), "containerStatuses": [main], **status}, "status")


def rows(folder: Path, sql: str = ATTEMPTS) -> list[tuple[Any, ...]]:
    with open_reader(folder / "w") as reader:
        return reader.frame(sql).rows()


def attempts(folder: Path, *objects: Object) -> list[tuple[Any, ...]]:
    load(folder / "w", as_list(*objects))
    return rows(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        ("status",),
        ("metadata", "namespace"),
        ("metadata", "labels"),
        ("status", "conditions"),
        ("spec", "initContainers"),
    ],
)
def test_null_is_read_as_left_out(tmp_path: Path, path: tuple[str, ...]) -> None:
    assert [row[:2] for row in attempts(tmp_path, given(pod("a"), None, *path))] == [("a", "RUNNING")]


def test_lists_within_lists_are_opened(tmp_path: Path) -> None:
    bare = {name: value for name, value in pod("a").items() if name not in {"kind", "apiVersion"}}
    inner = {"kind": "PodList", "apiVersion": "v1", "items": [bare]}
    whole = {"kind": "List", "items": [inner, {"kind": "List", "items": [pod("b", node="h2")]}]}
    load(tmp_path / "w", json.dumps(whole).encode())
    assert [row[0] for row in rows(tmp_path)] == ["a", "b"]


def test_lists_without_end_are_refused(tmp_path: Path) -> None:
    nested = pod("deep")
    for _ in range(200):
        nested = {"kind": "List", "items": [nested]}
    load(tmp_path / "w", as_list(pod("a"), nested))
    assert [row[0] for row in rows(tmp_path)] == ["a"]
    assert "too deep" in rows(tmp_path, "SELECT reason FROM rejects")[0][0]


def test_only_owner_controls_without_saying_so(tmp_path: Path) -> None:
    above = {name: value for name, value in owner("PyTorchJob", "t").items() if name != "controller"}
    pods = [pod(f"t-{number}", above=above, node=f"h{number}", ended=30) for number in range(2)]
    assert attempts(tmp_path, workload("PyTorchJob", "t"), *pods) == [
        ("t", "COMPLETED", None, None, 16, moment(30), None)
    ]


def test_init_container_that_failed_ends_the_pod(tmp_path: Path) -> None:
    init = {"name": "i", "state": {"terminated": {"exitCode": 17, "reason": "Error", "finishedAt": at(9)}}}
    one = ended({"waiting": {"reason": "PodInitializing"}}, initContainerStatuses=[init], conditions=[READY])
    assert attempts(tmp_path, one) == [("a", "FAILED", "Error", 17, 8, moment(9), None)]


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_evicted_pod_without_a_time_ends_when_last_alive(tmp_path: Path, order: tuple[int, int]) -> None:
    evicted = given(pod("a"), {"phase": "Failed", "reason": "Evicted", "startTime": at(1)}, "status")
    looks = [[pod("a"), pod("b", node="h2", gpus=0, created=20)], [evicted, pod("c", node="h3", gpus=0, created=40)]]
    (tmp_path / "alone").mkdir()
    assert attempts(tmp_path / "alone", evicted) == [("a", "FAILED", "Evicted", None, 8, moment(1), True)]
    for number in order:
        found = attempts(tmp_path, *looks[number])
    assert found == [("a", "FAILED", "Evicted", None, 8, moment(21), True)]


def test_ends_of_unknown_containers_are_those_of_the_node(tmp_path: Path) -> None:
    unknown = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": None}}
    one = ended(unknown, conditions=[{**READY, "lastTransitionTime": at(12)}])
    assert attempts(tmp_path, one) == [("a", "FAILED", "ContainerStatusUnknown", 137, 8, moment(12), None)]


def test_input_of_the_future_alone_is_refused(tmp_path: Path) -> None:
    assert attempts(tmp_path, pod("f", created=10**6)) == []
    assert rows(tmp_path, "SELECT count(*) FROM rejects") == [(1,)]


def test_job_of_ray_says_how_it_ended(tmp_path: Path) -> None:
    status = {"jobStatus": "FAILED", "jobDeploymentStatus": "Complete", "endTime": at(40)}
    above = [workload("RayJob", "r", status=status), workload("RayCluster", "r-1", above=owner("RayJob", "r"))]
    (row,) = attempts(tmp_path, *above, pod("r-0", above=owner("RayCluster", "r-1"), ended=39))
    assert row[:2] == ("r", "FAILED")


def test_priority_class_of_a_newer_kueue_is_read(tmp_path: Path) -> None:
    one = queued("q", ("QuotaReserved", False, 1, "Pending"), above=owner("Job", "q"))
    one["apiVersion"] = "kueue.x-k8s.io/v1beta2"
    one["spec"]["priorityClassRef"] = {"kind": "WorkloadPriorityClass", "name": "high"}
    load(tmp_path / "w", as_list(one))
    assert rows(tmp_path, "SELECT priority_class FROM kueue_workloads") == [("high",)]


@pytest.mark.parametrize("text", [b'{"apiVersion": "v1", "items": [], "kind": "List"}', as_yaml()])
def test_list_without_objects_is_no_mistake(tmp_path: Path, text: bytes) -> None:
    """What `kubectl get trainjobs` prints where there are none."""
    (tmp_path / "o").write_bytes(text)
    done = trackside("ingest", "kubernetes", str(tmp_path / "o"), "--cluster", "c", "--warehouse", str(tmp_path / "w"))
    assert done.returncode == 0
    assert "0 rows: 0 loaded" in done.stderr
