"""A pod as a row of `pods`: the time in which it held its GPUs, and its outcome in Slurm's words.

Source of what reasons mean: the Kubernetes documentation, "Pod Lifecycle", "Disruptions" (condition DisruptionTarget)
and "Node Shutdowns"; kubelet's and the scheduler's reasons by their names; Kueue's condition TerminationTarget of a pod
that it stops, with the message of the eviction (pkg/controller/jobs/pod/pod_controller.go).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ingest.kubernetes.gangs import gang_of
from ingest.kubernetes.gpus import fraction_of, gpus_of_pod, has_gpus
from ingest.kubernetes.kueue import is_preemption
from ingest.kubernetes.objects import identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.kubernetes.objects import Condition, ContainerStatus, KubernetesPod, Metadata, Terminated

WORK: Final = "work"
SLURM_NODE: Final = "slurm_node"
SLURM_JOB: Final = "slurm_job"

SLURM_NODE_KINDS: Final = frozenset({"NodeSet"})
"""Kinds whose pods are Slurm nodes: Slinky's and SUNK's."""

SLURM_NODE_LABELS: Final = {
    "app.kubernetes.io/name": frozenset({"slurmd"}),
    "slurm.nebius.ai/worker": frozenset({"true"}),
}
"""Labels of pods that are Slurm nodes."""

SLURM_JOB_LABELS: Final = ("scheduler.slinky.slurm.net/slurm-jobid", "slinky.slurm.net/slurm-jobid")
"""Labels and annotations of pods with a placeholder job in Slurm (slurm-bridge)."""

SLURM_SCHEDULERS: Final = ("slurm-bridge-scheduler", "-slurm-scheduler")
"""Suffixes of the names of schedulers that let Slurm place pods: slurm-bridge's and SUNK's."""

TRY: Final = re.compile(r"\(\d{1,9}\)$")
"""End of the name of a node of Argo that is a try of a step. Items of a step end otherwise: `fan(0:a)`."""

DISRUPTED: Final = "DisruptionTarget"
TERMINATION_TARGET: Final = "TerminationTarget"
"""Condition of a pod of its own or of a group that Kueue stops."""

OF_DISRUPTION: Final = {
    "PreemptionByScheduler": "PREEMPTED",
    "EvictionByEvictionAPI": "PREEMPTED",
    "DeletionByTaintManager": "NODE_FAIL",
    "DeletionByPodGC": "NODE_FAIL",
    "TerminationByKubelet": "NODE_FAIL",
}
"""Reasons for which the system ends a pod, with Slurm's state for each."""

OF_REASON: Final = {
    "NodeLost": "NODE_FAIL",
    "NodeShutdown": "NODE_FAIL",
    "Shutdown": "NODE_FAIL",
    "Terminated": "NODE_FAIL",
    "UnexpectedAdmissionError": "NODE_FAIL",
    "DeadlineExceeded": "TIMEOUT",
    "Preempting": "PREEMPTED",
    "Preempted": "PREEMPTED",
    "OOMKilled": "OUT_OF_MEMORY",
}
"""The same for the reasons of a pod and of its containers."""


def pod_row(pod: KubernetesPod, *, cluster: str) -> dict[str, Any]:
    """The row; `deleted_at` and `seen_at` are left to the caller.

    Raises:
        QuantityError: its GPUs are no number.
    """
    meta, spec, status = pod.metadata, pod.spec, pod.status
    owner = meta.controller()
    conditions = {condition.type: condition for condition in status.conditions or ()}
    ends = _ends(pod)
    scheduled = conditions.get("PodScheduled")
    failed = next(iter(sorted((end for end in ends if end.exitCode), key=_moment_of)), None)
    has_node = bool(spec.nodeName)
    n_gpus = gpus_of_pod(spec)
    gang = gang_of(meta)
    restart = _number(meta.label("jobset.sigs.k8s.io/restart-attempt"))
    return {
        **identity(meta, cluster=cluster),
        "role": _role(pod),
        "slot": (gang.place if gang else None) or _slot(meta, owner.kind if owner else None),
        "gang": gang.text if gang else None,
        "restart_attempt": gang.number if gang and gang.number is not None else restart,
        "scheduled_at": _first_time(scheduled, status.startTime, meta.creationTimestamp) if has_node else None,
        "ended_at": _ended(pod, ends, conditions),
        "deletion_requested_at": meta.deletion_requested,
        "node": spec.nodeName or None,
        "n_gpus": fraction_of(meta) if n_gpus == 0 else n_gpus,
        **_outcome(pod, conditions, failed),
        "restarts": max((one.restartCount for one in _counted(pod)), default=0),
        "priority_class": spec.priorityClassName,
        "slurm_job_id": meta.label(*SLURM_JOB_LABELS),
    }


def container_end_rows(pod: KubernetesPod, *, cluster: str) -> list[dict[str, Any]]:
    """Rows of `container_ends`: containers restarted in place. Of a pod with GPUs only containers that have some.

    Raises:
        QuantityError: its GPUs are no number.
    """
    rows = []
    for status in _counted(pod):
        end = status.lastState.terminated if status.lastState else None
        if end and end.finishedAt:
            rows.append(
                {
                    "cluster": cluster,
                    "uid": pod.metadata.uid,
                    "container": status.name,
                    "ended_at": end.finishedAt,
                    "exit_code": end.exitCode,
                    "reason": end.reason,
                }
            )
    return rows


def _counted(pod: KubernetesPod) -> list[ContainerStatus]:
    """Containers whose restarts begin an execution: of a pod with GPUs those that have some, else all."""
    of_gpus = {one.name for one in pod.spec.containers or () if has_gpus(one)}
    return [one for one in pod.status.containerStatuses or () if one.name in of_gpus or not of_gpus]


def times_of(pod: KubernetesPod) -> Iterable[datetime]:
    """All times that the pod reports: the observation is not before the latest of them."""
    yield pod.metadata.creationTimestamp
    if pod.metadata.deletion_requested:
        yield pod.metadata.deletion_requested
    if pod.status.startTime:
        yield pod.status.startTime
    for condition in pod.status.conditions or ():
        if condition.lastTransitionTime:
            yield condition.lastTransitionTime
    for one in (*(pod.status.initContainerStatuses or ()), *(pod.status.containerStatuses or ())):
        if one.state and one.state.running and one.state.running.startedAt:
            yield one.state.running.startedAt
        if one.state and one.state.terminated and one.state.terminated.finishedAt:
            yield one.state.terminated.finishedAt
        if one.lastState and one.lastState.terminated and one.lastState.terminated.finishedAt:
            yield one.lastState.terminated.finishedAt


def _role(pod: KubernetesPod) -> str:
    meta = pod.metadata
    owner = meta.controller()
    labels = meta.labels or {}
    if (owner and owner.kind in SLURM_NODE_KINDS) or any(
        labels.get(name) in values for name, values in SLURM_NODE_LABELS.items()
    ):
        return SLURM_NODE
    if meta.label(*SLURM_JOB_LABELS) or (pod.spec.schedulerName or "").endswith(SLURM_SCHEDULERS):
        return SLURM_JOB
    return WORK


def _slot(meta: Metadata, owner_kind: str | None) -> str | None:
    """Slot of the pod in its workload: a pod that replaces another has the same one."""
    labels = meta.labels or {}
    if labels.get("volcano.sh/job-name"):
        return meta.name  # a pod that replaces another has its name
    if owner_kind == "VirtualMachineInstance":
        return None  # each boot is an instance of its own, and names of pods end at random
    step = (meta.annotations or {}).get("workflows.argoproj.io/node-name")
    if step:
        return TRY.sub("", step)
    parts = [
        labels.get(name)
        for name in (
            "jobset.sigs.k8s.io/replicatedjob-name",
            "jobset.sigs.k8s.io/job-index",
            "training.kubeflow.org/replica-type",
            "training.kubeflow.org/replica-index",
            "leaderworkerset.sigs.k8s.io/group-index",
            "leaderworkerset.sigs.k8s.io/worker-index",
            "batch.kubernetes.io/job-completion-index",
        )
    ]
    named = [part for part in parts if part]
    if named:
        return "-".join(named)
    return None if owner_kind == "Job" else meta.name  # the names of a Job's pods end at random


def _ends(pod: KubernetesPod) -> list[Terminated]:
    """Ends of its containers, those of init containers first."""
    statuses = (*(pod.status.initContainerStatuses or ()), *(pod.status.containerStatuses or ()))
    return [one.state.terminated for one in statuses if one.state and one.state.terminated]


def _ended(pod: KubernetesPod, ends: list[Terminated], conditions: dict[str, Condition]) -> datetime | None:
    """End of its last container; for a pod on a lost node, the detection of the loss. None: not recorded."""
    if pod.status.phase not in {"Succeeded", "Failed"}:
        return None
    disrupted = conditions.get(DISRUPTED)
    finished = [end.finishedAt for end in ends if end.finishedAt]
    states = [one.state for one in pod.status.containerStatuses or ()]
    all_ended = bool(states) and all(state and state.terminated for state in states)
    none_began = bool(states) and not any(state and (state.terminated or state.running) for state in states)
    if len(finished) == len(ends) and (all_ended or (none_began and any(end.exitCode for end in ends))):
        return max(finished)
    if disrupted and disrupted.holds and disrupted.lastTransitionTime:
        return disrupted.lastTransitionTime
    ready = conditions.get("Ready")
    known = [*finished, *([ready.lastTransitionTime] if ready and ready.lastTransitionTime else [])]
    return max(known) if known else None


def _outcome(pod: KubernetesPod, conditions: dict[str, Condition], failed: Terminated | None) -> dict[str, Any]:
    """`state`, `reason` and `exit_code`."""
    phase = pod.status.phase
    if phase == "Succeeded":
        return {"state": "COMPLETED", "reason": None, "exit_code": 0}
    if phase != "Failed":
        state = "RUNNING" if pod.spec.nodeName else "PENDING"
        return {"state": state, "reason": pod.status.reason, "exit_code": None}
    disrupted = conditions.get(DISRUPTED)
    exit_code = failed.exitCode if failed else None
    if disrupted and disrupted.holds:
        state = OF_DISRUPTION.get(disrupted.reason or "", "FAILED")
        return {"state": state, "reason": disrupted.reason, "exit_code": exit_code}
    if _was_preempted(conditions.get(TERMINATION_TARGET), failed):
        return {"state": "PREEMPTED", "reason": "Preempted", "exit_code": exit_code}
    reason = pod.status.reason or (failed.reason if failed else None)
    return {"state": OF_REASON.get(reason or "", "FAILED"), "reason": reason, "exit_code": exit_code}


def _was_preempted(stopped: Condition | None, failed: Terminated | None) -> bool:
    """Whether Kueue stopped a pod to make room for others, before a container of it had failed."""
    if not stopped or not is_preemption(stopped):
        return False
    ended, since = failed.finishedAt if failed else None, stopped.lastTransitionTime
    return ended is None or since is None or since <= ended


def _first_time(condition: Condition | None, *others: datetime | None) -> datetime | None:
    if condition and condition.holds and condition.lastTransitionTime:
        return condition.lastTransitionTime
    return next((time for time in others if time), None)


def _moment_of(end: Terminated) -> float:
    return end.finishedAt.timestamp() if end.finishedAt else float("inf")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 9 else None
