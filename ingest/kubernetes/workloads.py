"""Objects that control pods as rows of `workloads`: what controls them in turn, and how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingest.kubernetes.objects import identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.kubernetes.objects import Workload, WorkloadStatus

KUBEFLOW: Final = frozenset({"TrainJob", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob"})
KINDS: Final = KUBEFLOW | {"JobSet", "Job", "Workflow", "LeaderWorkerSet", "RayJob", "RayCluster"}
"""Kinds that are read. Pods of others (ReplicaSet, StatefulSet, DaemonSet) are each a workload of its own."""

OF_CONDITION: Final = {
    "Failed": "FAILED",
    "Complete": "COMPLETED",
    "Completed": "COMPLETED",
    "Succeeded": "COMPLETED",
}
OF_PHASE: Final = {
    "Succeeded": "COMPLETED",
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Error": "FAILED",
    "Aborted": "FAILED",
    "Terminated": "FAILED",
    "Pending": "PENDING",
    "Running": "RUNNING",
}
"""Argo's and Volcano's phases."""


def workload_row(workload: Workload, *, cluster: str) -> dict[str, Any]:
    """The row; `seen_at` is left to the caller."""
    return {**identity(workload.metadata, cluster=cluster), "kind": workload.kind, **_outcome(workload.status)}


def times_of(workload: Workload) -> Iterable[datetime]:
    """All times that it reports."""
    yield workload.metadata.creationTimestamp
    status = workload.status
    known = [status.completionTime, status.finishedAt, *(one.lastTransitionTime for one in status.conditions or ())]
    yield from (time for time in known if time)


def _outcome(status: WorkloadStatus) -> dict[str, Any]:
    """`ended_at`, `state` and `reason`."""
    for condition in status.conditions or ():
        if condition.holds and condition.type in OF_CONDITION:
            state = "TIMEOUT" if condition.reason == "DeadlineExceeded" else OF_CONDITION[condition.type]
            return {
                "ended_at": status.completionTime or condition.lastTransitionTime,
                "state": state,
                "reason": condition.reason,
            }
    phase = status.phase or (status.state.get("phase") if isinstance(status.state, dict) else None)
    state = OF_PHASE.get(str(phase), "PENDING" if _suspended(status) else "RUNNING")
    return {"ended_at": status.finishedAt, "state": state, "reason": None}


def _suspended(status: WorkloadStatus) -> bool:
    return any(one.type == "Suspended" and one.holds for one in status.conditions or ())
