"""Attempts of gangs of pods: when they hold which GPUs where, restarts, and how they end."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from ingest.kubernetes.attempts import attempts_of
from ingest.kubernetes.parse import parse_objects
from ingest.kubernetes.workloads import with_roots
from tests.support.kubernetes.objects import NOW, Object, as_list, at, completed, moment, owner, pod, workload

if TYPE_CHECKING:
    from datetime import datetime

NO_ALIASES = pl.DataFrame(schema={"cluster": pl.String, "name": pl.String, "node": pl.String})


def derived(*objects: Object, aliases: pl.DataFrame = NO_ALIASES) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Attempts and placements of objects that one list has."""
    frames = parse_objects(as_list(*objects), origin="x", cluster="c", now=NOW).frames
    pods = with_roots(frames["pods"], frames["workloads"])
    attempts, placements = attempts_of(pods, frames["workloads"], frames["object_lists"], aliases)
    return attempts.to_dicts(), placements.to_dicts()


def gang(restart: int, *, created: float, ended: dict[int, float] | float | None, **values: object) -> list[Object]:
    """Four pods of a JobSet's restart, on four hosts."""
    pods = []
    for index in range(4):
        end = ended[index] if isinstance(ended, dict) else ended
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": str(index),
            "jobset.sigs.k8s.io/restart-attempt": str(restart),
        }
        own: dict[str, Any] = {
            name: value[index] if isinstance(value, dict) else value for name, value in values.items()
        }
        name = f"llama-node-0-{index}-{restart}"
        job = owner("Job", f"llama-node-{restart}")
        pods.append(pod(name, above=job, node=f"host-{index}", created=created, ended=end, labels=labels, **own))
    return pods


def tree(*, restarts: int, status: Object | None = None) -> list[Object]:
    """A TrainJob, its JobSet, and a Job for each restart."""
    train, jobset = owner("TrainJob", "llama"), owner("JobSet", "llama")
    jobs = [workload("Job", f"llama-node-{number}", above=jobset) for number in range(restarts + 1)]
    return [workload("TrainJob", "llama", status=status), workload("JobSet", "llama", above=train), *jobs]


def shown(attempts: list[dict[str, Any]]) -> list[tuple[str, datetime, datetime | None]]:
    return [(row["state"], row["started_at"], row["ended_at"]) for row in attempts]


def test_gang_is_one_attempt_under_the_outermost_name() -> None:
    attempts, placements = derived(*tree(restarts=0, status=completed(61)), *gang(0, created=1, ended=60))
    assert shown(attempts) == [("COMPLETED", moment(1.5), moment(60))]
    row = attempts[0]
    assert (row["scheduler"], row["display_id"], row["name"], row["account"]) == (
        "kubeflow", "team-a/llama", "llama", "team-a",
    )  # fmt: skip
    assert (row["n_nodes"], row["n_gpus"], row["submitted_at"]) == (4, Decimal(32), moment(0))
    assert [(each["node"], each["n_gpus"]) for each in placements] == [(f"host-{n}", Decimal(8)) for n in range(4)]


def test_restart_is_an_attempt_and_lingering_pods_stay_in_theirs() -> None:
    first = gang(0, created=1, ended={0: 30, 1: 30, 2: 30, 3: 31.5}, exit_code={0: 1, 1: 1, 2: 1, 3: 137})
    attempts, placements = derived(*tree(restarts=1), *first, *gang(1, created=31, ended=None))
    assert shown(attempts) == [("FAILED", moment(1.5), moment(31.5)), ("RUNNING", moment(31.5), None)]
    assert [row["n_gpus"] for row in attempts] == [Decimal(32), Decimal(32)]
    assert len(placements) == 8
    assert attempts[0]["job_id"] == attempts[1]["job_id"]
    assert attempts[0]["exit_code"] == 1


def test_lost_node_explains_an_end_though_peers_failed_first() -> None:
    lost = {0: None, 1: None, 2: "DeletionByTaintManager", 3: None}
    first = gang(0, created=1, ended={0: 30, 1: 30, 2: 35, 3: 30}, exit_code={0: 1, 1: 1, 2: 137, 3: 1}, disrupted=lost)
    attempts, _ = derived(*tree(restarts=1), *first, *gang(1, created=36, ended=None))
    assert (attempts[0]["state"], attempts[0]["failed_node"]) == ("NODE_FAIL", "host-2")
    assert attempts[0]["reason"] == "DeletionByTaintManager"


def test_pods_that_live_on_hold_their_gpus_once() -> None:
    job = owner("PyTorchJob", "elastic")
    workers = [pod(f"elastic-worker-{n}", above=job, node=f"host-{n}", created=0, ended=100) for n in range(2)]
    replaced = [
        pod("elastic-worker-2", above=job, node="host-2", created=0, ended=40, exit_code=1),
        pod("elastic-worker-2", above=job, node="host-3", created=41, ended=100),
    ]
    attempts, placements = derived(
        workload("PyTorchJob", "elastic", status=completed(100, kind="Succeeded")), *workers, *replaced
    )
    assert shown(attempts) == [("FAILED", moment(0.5), moment(40)), ("COMPLETED", moment(40), moment(100))]
    held = {(row["node"], row["started_at"], row["ended_at"]) for row in placements}
    assert held == {
        ("host-0", moment(0.5), moment(40)), ("host-0", moment(40), moment(100)),
        ("host-1", moment(0.5), moment(40)), ("host-1", moment(40), moment(100)),
        ("host-2", moment(0.5), moment(40)), ("host-3", moment(41.5), moment(100)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({"exit_code": 137, "reason": "OOMKilled"}, "OUT_OF_MEMORY"),
        ({"exit_code": 1}, "FAILED"),
        ({"exit_code": 143, "disrupted": "PreemptionByScheduler"}, "PREEMPTED"),
        ({"exit_code": 137, "disrupted": "TerminationByKubelet"}, "NODE_FAIL"),
        ({}, "COMPLETED"),
    ],
)
def test_single_pod_ends_in_slurms_words(ending: dict[str, Any], state: str) -> None:
    attempts, _ = derived(pod("alone", ended=30, **ending))
    assert [row["state"] for row in attempts] == [state]
    assert attempts[0]["scheduler"] == "kubernetes"


def test_retries_of_a_job_without_indices_are_attempts() -> None:
    job = owner("Job", "retry")
    pods = [pod(f"retry-{n}x7", above=job, created=n * 20, ended=n * 20 + 10, exit_code=int(n < 2)) for n in range(3)]
    attempts, _ = derived(workload("Job", "retry", status=completed(50)), *pods)
    assert [row["state"] for row in attempts] == ["FAILED", "FAILED", "COMPLETED"]
    assert len({row["job_id"] for row in attempts}) == 1


def test_pods_of_a_job_that_ran_side_by_side_are_one_attempt() -> None:
    job = owner("Job", "wide")
    pods = [pod(f"wide-{n}", above=job, node=f"host-{n}", created=n, ended=50) for n in range(3)]
    attempts, _ = derived(workload("Job", "wide", status=completed(50)), *pods)
    assert [(row["state"], row["n_gpus"]) for row in attempts] == [("COMPLETED", Decimal(24))]


def test_steps_of_a_workflow_are_jobs_and_their_retries_attempts() -> None:
    flow = owner("Workflow", "flow")
    steps = [("flow.train(0)", 0, 1), ("flow.train(1)", 20, 0), ("flow.eval", 40, 0)]
    pods = []
    for name, created, code in steps:
        each = pod(f"flow-{created}", above=flow, created=created, ended=created + 10, exit_code=code)
        each["metadata"]["annotations"] = {"workflows.argoproj.io/node-name": name}
        pods.append(each)
    attempts, _ = derived(workload("Workflow", "flow", status={"phase": "Succeeded", "finishedAt": at(50)}), *pods)
    assert [(row["scheduler"], row["state"]) for row in attempts] == [
        ("argo", "COMPLETED"), ("argo", "FAILED"), ("argo", "COMPLETED"),
    ]  # fmt: skip
    assert len({row["job_id"] for row in attempts}) == 2


def step(name: str, created: float, ended: float | None, **values: Any) -> Object:
    """A pod of a workflow that is over, as a step of it."""
    each = pod(f"flow-{name}", above=owner("Workflow", "flow"), created=created, ended=ended, **values)
    each["metadata"]["annotations"] = {"workflows.argoproj.io/node-name": f"flow.{name}"}
    return each


FAILED_FLOW = workload("Workflow", "flow", status={"phase": "Failed", "finishedAt": at(50)})


def test_items_of_a_step_are_jobs_of_their_own() -> None:
    """Items are `NAME(INDEX:VALUE)`, tries of one have a number behind that."""
    first = step("fan(0:a)", 5, 20)
    tries = [step("fan(1:b)(0)", 5, 10, exit_code=1, node="host-2"), step("fan(1:b)(1)", 15, 30, node="host-2")]
    attempts, _ = derived(FAILED_FLOW, first, *tries)
    assert [(row["job_id"].split(".")[-2], row["state"], row["n_gpus"]) for row in attempts] == [
        ("fan(0:a)", "COMPLETED", 8), ("fan(1:b)", "FAILED", 8), ("fan(1:b)", "COMPLETED", 8),
    ]  # fmt: skip


def test_steps_have_times_and_outcomes_of_their_own() -> None:
    """A workflow fails by one of its steps; the others completed, and waited since their pods were made."""
    attempts, _ = derived(FAILED_FLOW, step("good", 10, 20), step("bad", 25, 45, exit_code=2), step("lost", 25, None))
    found = {row["job_id"].split(".")[-2]: (row["state"], row["submitted_at"], row["end_guessed"]) for row in attempts}
    assert found == {
        "good": ("COMPLETED", moment(10), None),
        "bad": ("FAILED", moment(25), None),
        "lost": ("CANCELLED", moment(25), True),  # over with the workflow at the latest
    }


def test_workload_that_a_step_made_is_one_gang() -> None:
    flow, train = owner("Workflow", "flow"), owner("PyTorchJob", "flow-train")
    pods = [
        pod(f"flow-train-{kind}-0", above=train, node=f"host-{kind}", ended=40, labels={
            "training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": "0",
        })
        for kind in ("master", "worker")
    ]  # fmt: skip
    made = workload("PyTorchJob", "flow-train", above=flow, status=completed(41, kind="Succeeded"))
    attempts, _ = derived(FAILED_FLOW, made, *pods)
    assert [(row["scheduler"], row["state"], row["n_gpus"]) for row in attempts] == [
        ("kubeflow", "COMPLETED", Decimal(16))
    ]


def test_retried_ray_job_has_another_cluster_and_attempt() -> None:
    job = owner("RayJob", "tune")
    objects = [workload("RayJob", "tune")]
    for number, (created, ended, code) in enumerate(((0, 20, 1), (25, 50, 0))):
        cluster = owner("RayCluster", f"tune-{number}")
        objects.append(workload("RayCluster", f"tune-{number}", created=created, above=job))
        objects += [
            pod(f"{name}-{number}", above=cluster, node=host, created=created, ended=ended, exit_code=code)
            for name, host in (("head-x", "host-1"), ("worker-b", "host-2"), ("worker-a", "host-3"))
        ]
    attempts, _ = derived(*objects)
    assert [(row["state"], row["n_gpus"]) for row in attempts] == [("FAILED", 24), ("COMPLETED", 24)]


def test_pods_of_services_are_jobs_and_those_without_gpus_none() -> None:
    web = owner("ReplicaSet", "web")
    pods = [pod(f"web-{n}", above=web, node=f"host-{n}", gpus=1) for n in range(2)]
    attempts, _ = derived(*pods, pod("coredns", gpus=0))
    assert [row["name"] for row in attempts] == ["web-0", "web-1"]


def test_pods_that_are_slurm_nodes_or_slurm_jobs_are_no_attempts() -> None:
    slurmd = pod("gpu-0", above=owner("NodeSet", "gpu"))
    bridged = pod("bridged", labels={"scheduler.slinky.slurm.net/slurm-jobid": "77"})
    placed = pod("placed", schedulerName="tenant-slurm-slurm-scheduler")
    assert derived(slurmd, bridged, placed) == ([], [])


def test_unknown_gpus_of_a_pod_are_unknown_in_its_attempt() -> None:
    attempts, placements = derived(
        pod("shared", resource="nvidia.com/gpu.shared", gpus=1), pod("dra", gpus=0, resourceClaims=[{"name": "gpu"}])
    )
    assert [row["n_gpus"] for row in attempts] == [None, None]
    assert [row["n_gpus"] for row in placements] == [None, None]


def test_slices_of_gpus_are_parts_of_one() -> None:
    attempts, _ = derived(pod("mig", resource="nvidia.com/mig-3g.40gb", gpus=2))
    assert [row["n_gpus"] for row in attempts] == [Decimal("0.857")]


def test_pod_that_waits_holds_nothing() -> None:
    attempts, placements = derived(pod("waits", node=None))
    assert [(row["state"], row["started_at"], row["n_gpus"], row["req_gpus"]) for row in attempts] == [
        ("PENDING", None, Decimal(0), Decimal(8)),
    ]  # fmt: skip
    assert placements == []


@pytest.mark.parametrize("queued_s", [0, 60])
def test_workers_of_different_histories_restart_together(queued_s: int) -> None:
    """One was replaced before, so the restarts of both that follow are its third and fourth life, and the other's next.

    The first restart dates from the failure, since the other worker lives on; those of both from the replacements.

    Pods that wait for a minute hold nothing before the other's replacement comes.
    """
    lives = {0: [0, 120.6, 360.6, 600.6], 1: [0, 360.7, 600.7]}
    ends = {0: [120, 360, 600, 720], 1: [360, 600, 720]}
    pods = [
        pod(
            f"pt-worker-{index}-{life}", above=owner("PyTorchJob", "pt"), node=f"g{index}", created=created,
            scheduled=created + queued_s / 60, ended=ended, exit_code=int(ended < 720),
            labels={"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": str(index)},
        )
        for index in lives
        for life, (created, ended) in enumerate(zip(lives[index], ends[index], strict=True))
    ]  # fmt: skip
    attempts, placements = derived(workload("PyTorchJob", "pt"), *pods)
    assert [row["submitted_at"] for row in attempts] == [moment(at) for at in (0, 120, 360.6, 600.6)]
    assert {row["n_gpus"] for row in attempts} == {16}
    assert {row["submitted_at"] for row in placements} == {row["submitted_at"] for row in attempts}
    held = sum((row["ended_at"] - row["started_at"]).total_seconds() / 60 * 8 for row in placements)
    alive = [end - begin for index in lives for begin, end in zip(lives[index], ends[index], strict=True)]
    assert held == pytest.approx(sum(8 * (lived - queued_s / 60) for lived in alive))


def test_an_attempt_without_gpu_time_misplaces_no_other() -> None:
    """A pod that is replaced before it is placed, and again: those between have no row, the others their own GPUs."""
    labels = {"batch.kubernetes.io/job-completion-index": "0"}
    above = owner("Job", "j")
    pods = [
        pod("j-a", above=above, created=0, scheduled=0, ended=60, exit_code=1, labels=labels, node="n1"),
        pod("j-b", above=above, created=61, node=None, labels=labels),
        pod("j-c", above=above, created=61.5, scheduled=90, ended=120, labels=labels, node="n3"),
    ]
    attempts, placements = derived(workload("Job", "j"), *pods)
    starts = {row["submitted_at"]: row["started_at"] for row in attempts}
    assert [(row["node"], starts[row["submitted_at"]], row["started_at"]) for row in placements] == [
        ("n1", moment(0), moment(0)),
        ("n3", moment(90), moment(90)),
    ]
