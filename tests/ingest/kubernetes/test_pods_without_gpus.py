"""Pods without GPUs of a workload that holds some: they wait, start, and prepare, and hold nothing themselves."""

from __future__ import annotations

from typing import Any

from tests.ingest.kubernetes.test_attempts import derived
from tests.support.kubernetes.objects import Object, completed, moment, owner, pod, workload


def part(name: str, index: int, restart: int = 0, **values: Any) -> Object:
    """A pod of a replicated job of a TrainJob."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "llama",
        "jobset.sigs.k8s.io/replicatedjob-name": name,
        "batch.kubernetes.io/job-completion-index": str(index),
        "jobset.sigs.k8s.io/restart-attempt": str(restart),
    }
    return pod(f"llama-{name}-{index}-{restart}", above=owner("JobSet", "llama"), labels=labels, **values)


def trained(*pods: Object, status: Object | None = None) -> list[tuple[Any, ...]]:
    tree = [
        workload("TrainJob", "llama", status=status),
        workload("JobSet", "llama", above=owner("TrainJob", "llama")),
    ]
    attempts, placements = derived(*tree, *pods)
    assert {row["node"] for row in placements} <= {"host-1", "host-2"}
    return [(row["state"], row["started_at"], row["ended_at"], row["n_nodes"], row["n_gpus"]) for row in attempts]


def fetch(restart: int, begin: float, end: float, **values: Any) -> Object:
    return part(
        "model-initializer", 0, restart, gpus=0, node="cpu-1", created=begin, scheduled=begin, ended=end, **values
    )


def train(restart: int, begin: float, end: float | None, **values: Any) -> list[Object]:
    return [
        part("node", index, restart, node=f"host-{index + 1}", created=begin, scheduled=begin + 1, ended=end, **values)
        for index in range(2)
    ]


def test_initializers_are_waiting_time_and_no_attempts() -> None:
    tries = [fetch(0, 0, 10, exit_code=1), fetch(0, 12, 20)]
    tries[1]["metadata"] |= {"name": "again", "uid": "again"}
    rows = trained(*tries, *train(0, 20, 50), status=completed(50))
    assert rows == [("COMPLETED", moment(21), moment(50), 2, 16)]


def test_initializers_of_a_restart_belong_to_no_attempt_either() -> None:
    pods = [fetch(0, 0, 10), *train(0, 10, 30, exit_code=1), fetch(1, 31, 40), *train(1, 40, None)]
    assert trained(*pods) == [
        ("FAILED", moment(11), moment(30), 2, 16),
        ("RUNNING", moment(41), None, 2, 16),
    ]


def launched(launcher: Object, *workers: Object) -> dict[str, Any]:
    rows, _ = derived(workload("MPIJob", "mpi"), launcher, *workers)
    (row,) = rows
    return row


def mpi(name: str, **values: Any) -> Object:
    role, _, index = name.partition("-")
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": index}
    return pod(f"mpi-{name}", above=owner("MPIJob", "mpi"), labels=labels, **values)


def test_launcher_without_gpus_ends_its_job_but_starts_none() -> None:
    launcher = mpi("launcher-0", gpus=0, node="cpu-1", scheduled=0, ended=45, exit_code=3)
    row = launched(launcher, mpi("worker-0", scheduled=20, ended=44), mpi("worker-1", scheduled=25, ended=44))
    assert (row["started_at"], row["ended_at"], row["state"], row["exit_code"]) == (moment(20), moment(45), "FAILED", 3)
    assert (row["node_list"], row["n_gpus"]) == ("host-1", 16)


def test_job_whose_launcher_waits_for_workers_is_pending() -> None:
    launcher = mpi("launcher-0", gpus=0, node="cpu-1", scheduled=0)
    row = launched(launcher, mpi("worker-0", node=None))
    assert (row["state"], row["started_at"], row["req_gpus"]) == ("PENDING", None, 8)
    going_on = launched(launcher, mpi("worker-0", scheduled=20, ended=44))
    assert (going_on["state"], going_on["started_at"]) == ("RUNNING", moment(20))


def test_initializer_is_no_attempt_before_pods_with_gpus() -> None:
    assert trained(fetch(0, 0, 10)) == []
