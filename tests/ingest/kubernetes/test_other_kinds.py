"""Volcano's jobs and KubeVirt's machines: their own shapes of state, and which of their pods follow each other."""

from __future__ import annotations

from decimal import Decimal

from tests.ingest.kubernetes.test_attempts import derived, shown
from tests.support.kubernetes.objects import Object, at, moment, owner, pod, workload


def volcano_job(phase: str, since: float) -> Object:
    """A job as Volcano reports it: conditions have no type."""
    status = {
        "state": {"phase": phase, "lastTransitionTime": at(since)},
        "conditions": [{"status": "Pending", "lastTransitionTime": at(0)}],
        "retryCount": 1,
    }
    return {**workload("Job", "mpi", status=status), "apiVersion": "batch.volcano.sh/v1alpha1"}


def task(name: str, created: float, ended: float | None, code: int = 0) -> Object:
    """A pod of it; older versions do not number the tasks."""
    labels = {"volcano.sh/job-name": "mpi", "volcano.sh/task-spec": "worker", "volcano.sh/queue-name": "gold"}
    host = f"host-{name[-1]}"
    return pod(name, above=owner("Job", "mpi"), node=host, created=created, ended=ended, exit_code=code, labels=labels)


def test_restart_of_a_volcano_job_is_an_attempt() -> None:
    pods = [task(f"mpi-worker-{number}", 1, 20, 1) for number in range(2)]
    pods += [task(f"mpi-worker-{number}", 21, 60) for number in range(2)]
    attempts, placements = derived(volcano_job("Completed", 61), *pods)
    assert shown(attempts) == [("FAILED", moment(1.5), moment(20)), ("COMPLETED", moment(21.5), moment(60))]
    assert [(row["partition"], row["n_gpus"]) for row in attempts] == [("gold", Decimal(16))] * 2
    assert len(placements) == 4


def test_pods_of_a_volcano_job_end_with_it() -> None:
    attempts, _ = derived(volcano_job("Aborted", 30), task("mpi-worker-0", 1, None))
    assert shown(attempts) == [("FAILED", moment(1.5), moment(30))]


def test_boots_of_a_virtual_machine_are_attempts_of_one_job() -> None:
    machine = workload("VirtualMachine", "desk", status={"printableStatus": "Running"})
    phases = [{"phase": "Succeeded", "phaseTransitionTimestamp": at(40)}]
    first = workload(
        "VirtualMachineInstance", "desk", created=1, above=owner("VirtualMachine", "desk"),
        status={"phase": "Succeeded", "phaseTransitionTimestamps": phases},
    )  # fmt: skip
    again = workload("VirtualMachineInstance", "desk-2", created=50, above=owner("VirtualMachine", "desk"))
    pods = [
        pod("virt-launcher-desk-a", above=owner("VirtualMachineInstance", "desk"), created=1, ended=40),
        pod("virt-launcher-desk-b", above=owner("VirtualMachineInstance", "desk-2"), created=50),
    ]
    attempts, _ = derived(machine, first, again, *pods)
    assert shown(attempts) == [("COMPLETED", moment(1.5), moment(40)), ("RUNNING", moment(50.5), None)]
    assert {(row["scheduler"], row["display_id"]) for row in attempts} == {("vm", "team-a/desk")}
    assert len({row["job_id"] for row in attempts}) == 1


def test_instance_without_a_machine_ends_by_its_phase() -> None:
    phases = [{"phase": "Running", "phaseTransitionTimestamp": at(2)}]
    phases.append({"phase": "Failed", "phaseTransitionTimestamp": at(25)})
    status = {"phase": "Failed", "phaseTransitionTimestamps": phases}
    above = owner("VirtualMachineInstance", "solo")
    attempts, _ = derived(workload("VirtualMachineInstance", "solo", status=status), pod("launcher", above=above))
    assert shown(attempts) == [("FAILED", moment(0.5), moment(25))]


def test_moved_machine_goes_on_and_a_rebooted_one_does_not() -> None:
    above = owner("VirtualMachine", "desk")
    boots = [
        workload("VirtualMachineInstance", name, created=created, above=above)
        for name, created in (("desk", 1), ("desk-2", 30))
    ]
    pods = [
        pod("virt-launcher-desk-b", above=owner("VirtualMachineInstance", "desk"), created=1, ended=20),
        pod("virt-launcher-desk-c", above=owner("VirtualMachineInstance", "desk-2"), created=30, ended=45),
        pod("virt-launcher-desk-a", above=owner("VirtualMachineInstance", "desk-2"), created=44, node="host-2"),
    ]
    attempts, placements = derived(workload("VirtualMachine", "desk"), *boots, *pods)
    assert [(row["state"], row["started_at"], row["node_list"]) for row in attempts] == [
        ("COMPLETED", moment(1.5), "host-1"),
        ("RUNNING", moment(30.5), "host-1,host-2"),
    ]
    assert [(row["node"], row["n_gpus"]) for row in placements] == [("host-1", 8), ("host-1", 8), ("host-2", 8)]
