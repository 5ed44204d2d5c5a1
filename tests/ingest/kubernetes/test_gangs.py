"""Groups of plain pods, and containers that are restarted in place."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.attempts import attempts_of
from ingest.kubernetes.gangs import gang_of
from ingest.kubernetes.objects import Metadata
from ingest.kubernetes.parse import parse_objects
from ingest.kubernetes.workloads import with_roots
from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_attempts import NO_ALIASES, derived, shown
from tests.ingest.kubernetes.test_store import load
from tests.support.kubernetes.objects import NOW, Object, as_list, as_watch, at, moment, owner, pod, uid, workload

if TYPE_CHECKING:
    from pathlib import Path


def executed(*objects: Object) -> list[dict[str, Any]]:
    """Attempts of objects, with restarts in place."""
    frames = parse_objects(as_list(*objects), origin="x", cluster="c", now=NOW).frames
    pods, workloads = with_roots(frames["pods"], frames["workloads"]), frames["workloads"]
    ends = frames["container_ends"]
    attempts, _ = attempts_of(pods, workloads, frames["object_lists"], NO_ALIASES, ends=ends)
    return attempts.to_dicts()


def restarted(name: str, restart: float, *, code: int = 1, reason: str = "Error", **values: Any) -> Object:
    """A pod whose container ended once, and was started again."""
    one = pod(name, **values)
    end = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at(restart)}}
    one["status"]["containerStatuses"][0] |= {"restartCount": 1, "lastState": end}
    return one


# --- groups


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"kueue.x-k8s.io/pod-group-name": "g"}, ("PodGroup", "g", None, None)),
        ({"scheduling.x-k8s.io/pod-group": "g"}, ("PodGroup", "g", None, None)),
        ({"scheduling.k8s.io/group-name": "g"}, ("PodGroup", "g", None, None)),
        ({"scheduling.k8s.io/group-name": f"podgroup-{uid('x')}"}, None),
        ({"leaderworkerset.sigs.k8s.io/name": "s"}, ("LeaderWorkerSet", "s", None, None)),
        ({"determined": "7.ab-cd.2"}, ("Task", "7.ab-cd", None, 2)),
        ({"determined": "nonsense"}, None),
        ({"determined": "7.99999999999999999999"}, None),
        ({}, None),
    ],
)
def test_gang_of_a_pod_is_in_its_labels(labels: dict[str, str], expected: tuple[object, ...] | None) -> None:
    assert gang_of(Metadata("p", uid("x"), moment(0), labels=labels)) == expected


def test_plain_pods_of_a_group_are_one_attempt() -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "sweep"}
    pods = [pod(f"p-{index}", node=f"host-{index}", ended=30 + index, labels=labels) for index in range(3)]
    attempts, placements = derived(*pods, pod("other", node="host-9"))
    rows = {row["display_id"]: row for row in attempts}
    assert rows.keys() == {"team-a/sweep", "team-a/other"}
    sweep = rows["team-a/sweep"]
    assert (sweep["n_nodes"], sweep["n_gpus"], sweep["ended_at"]) == (3, Decimal(24), moment(32))
    assert len(placements) == 4


def test_pod_that_takes_a_place_in_its_group_begins_an_attempt() -> None:
    def member(name: str, index: int, **values: Any) -> Object:
        places = {"kueue.x-k8s.io/pod-group-name": "g", "kueue.x-k8s.io/pod-group-pod-index": str(index)}
        return pod(name, node=f"host-{index}", labels=places, **values)

    lives = member("a", 0, created=0)
    fails, follows = member("b", 1, created=0, ended=20, exit_code=1), member("c", 1, created=21)
    attempts, _ = derived(lives, fails, follows)
    assert [row["state"] for row in attempts] == ["FAILED", "RUNNING"]
    assert [row["n_gpus"] for row in attempts] == [Decimal(16)] * 2


def test_pods_of_a_leader_worker_set_are_its() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    pods = [
        pod(
            f"serve-0-{index}", above=owner("StatefulSet", "serve-0"), node=f"host-{index}",
            labels={**labels, "leaderworkerset.sigs.k8s.io/worker-index": str(index)},
        )
        for index in range(2)
    ]  # fmt: skip
    attempts, _ = derived(workload("LeaderWorkerSet", "serve"), *pods)
    assert [(row["display_id"], row["n_nodes"]) for row in attempts] == [("team-a/serve", 2)]
    without_the_object, _ = derived(*pods)
    assert [(row["display_id"], row["n_nodes"]) for row in without_the_object] == [("team-a/serve", 2)]


def test_allocations_of_a_task_are_attempts_of_one_job() -> None:
    pods = [
        pod(f"exp-{number}-{rank}", node=f"host-{rank}", created=begin, ended=end, exit_code=code,
            labels={"determined": f"7.ab.{number}"})
        for number, begin, end, code in ((1, 0, 20, 1), (2, 21, 60, 0)) for rank in range(2)
    ]  # fmt: skip
    attempts, _ = derived(*pods)
    assert shown(attempts) == [("FAILED", moment(0.5), moment(20)), ("COMPLETED", moment(21.5), moment(60))]
    assert len({row["job_id"] for row in attempts}) == 1


def test_group_in_another_namespace_is_another() -> None:
    one, two = (pod(name, node=name, labels={"pod-group-name": "g"}) for name in ("a", "b"))
    two["metadata"]["namespace"] = "team-b"
    assert len(derived(one, two)[0]) == 2


# --- restarts in place


def test_restart_in_place_ends_the_attempt_and_keeps_the_gpus() -> None:
    attempts = executed(restarted("solo", 20, ended=50))
    assert shown(attempts) == [("FAILED", moment(0.5), moment(20)), ("COMPLETED", moment(20), moment(50))]
    assert attempts[0]["exit_code"] == 1
    assert len({row["job_id"] for row in attempts}) == 1


def test_restart_in_place_of_one_pod_restarts_its_gang() -> None:
    def member(index: int) -> dict[str, Any]:
        labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)}
        return {"above": owner("PyTorchJob", "ddp"), "node": f"host-{index}", "labels": labels}

    pods = [restarted("w-0", 20, reason="OOMKilled", code=137, **member(0)), pod("w-1", **member(1))]
    attempts = executed(workload("PyTorchJob", "ddp"), *pods)
    assert shown(attempts) == [("OUT_OF_MEMORY", moment(0.5), moment(20)), ("RUNNING", moment(20), None)]
    assert [row["n_gpus"] for row in attempts] == [Decimal(16)] * 2


def test_restart_of_a_helper_without_gpus_is_none() -> None:
    one = restarted("solo", 20, ended=50)
    one["spec"]["containers"].append({"name": "logger"})
    one["status"]["containerStatuses"][0]["name"] = "logger"
    assert len(executed(one)) == 1


@pytest.mark.parametrize(("counted", "expected"), [(1, [0, 1]), (3, [0, 3])])
def test_restarts_are_those_before_an_execution(counted: int, expected: list[int]) -> None:
    """All that were observed have a row: only those of which no end was may be missing."""
    one = restarted("solo", 20, ended=50)
    one["status"]["containerStatuses"][0]["restartCount"] = counted
    assert [row["restarts"] for row in executed(one)] == expected


def test_restarts_of_helpers_are_not_counted() -> None:
    one = pod("solo", ended=50)
    one["spec"]["containers"].append({"name": "logger"})
    one["status"]["containerStatuses"].append({"name": "logger", "restartCount": 7})
    assert [row["restarts"] for row in executed(one)] == [0]


def test_restart_outside_of_the_life_of_its_pod_is_none() -> None:
    assert len(executed(restarted("solo", 60, ended=50))) == 1
    assert len(executed(restarted("solo", 0.2, ended=50))) == 1


@pytest.mark.slow
def test_each_restart_that_a_watch_shows_is_kept(tmp_path: Path) -> None:
    shown_first, shown_last = restarted("solo", 20), restarted("solo", 40, code=0, reason="Completed")
    for order in ((shown_first, shown_last), (shown_last, shown_first)):
        root = tmp_path / str(order[0] is shown_last)
        load(root, *(as_watch(("MODIFIED", one)) for one in (*order, order[0])))
        with open_reader(root) as reader:
            rows = reader.frame("SELECT state, started_at, ended_at FROM attempts ORDER BY started_at").rows()
        assert rows == [
            ("FAILED", moment(0.5), moment(20)),
            ("COMPLETED", moment(20), moment(40)),
            ("RUNNING", moment(40), None),
        ]
