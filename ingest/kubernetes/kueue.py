"""Kueue's Workloads as rows of `kueue_workloads` and `kueue_conditions`.

A Workload stands for a job in a queue: quota is reserved for it, it is admitted, perhaps evicted, and queued again. Its
conditions are overwritten in each round, so each is kept with the time at which it began to hold.

Source: Kueue's API (kueue.x-k8s.io, Workload), and the message of its preemption: "Preempted to accommodate a workload
(UID: ..., JobUID: ...) due to ...". When quota is reserved again, the conditions Evicted and Preempted hold no longer,
and keep that message behind "Previously: " (SetQuotaReservation in pkg/workload/workload.go).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from ingest.kubernetes.gpus import gpus_of_pod
from ingest.kubernetes.objects import Condition, Metadata, PodSpec, identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from decimal import Decimal

    from ingest.kubernetes.objects import OwnerReference

CONDITIONS: Final = ("QuotaReserved", "Admitted", "PodsReady", "Evicted", "Preempted", "Requeued", "Finished")
"""Conditions that are kept."""

PREEMPTOR: Final = re.compile(r"\(UID: ([^,)\s]+)(?:, JobUID: ([^,)\s]+))?\)")
ENDED: Final = "Previously: "
"""Begins the message of a condition that held until quota was reserved again."""

UNKNOWN: Final = "UNKNOWN"
Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]


class PodTemplate(msgspec.Struct):
    """Template of the pods of a set."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class PodSet(msgspec.Struct):
    """Pods of one shape."""

    count: Count = 1
    template: PodTemplate = msgspec.field(default_factory=PodTemplate)


class ClassReference(msgspec.Struct):
    """A priority class; since v1beta2 in the place of its name."""

    name: str | None = None


class KueueSpec(msgspec.Struct):
    """Specification of a Workload."""

    queueName: str | None = None
    priority: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    priorityClassName: str | None = None
    priorityClassRef: ClassReference | None = None
    podSets: list[PodSet] | None = None


class Admission(msgspec.Struct):
    """Admission of a Workload."""

    clusterQueue: str | None = None


class Evictions(msgspec.Struct):
    """Number of evictions for a reason."""

    count: Count = 0


class SchedulingStats(msgspec.Struct):
    """Kueue's counts."""

    evictions: list[Evictions] | None = None


class KueueStatus(msgspec.Struct):
    """Status of a Workload."""

    conditions: list[Condition] | None = None
    admission: Admission | None = None
    schedulingStats: SchedulingStats | None = None


class KueueWorkload(msgspec.Struct):
    """A Workload."""

    metadata: Metadata
    spec: KueueSpec = msgspec.field(default_factory=KueueSpec)
    status: KueueStatus = msgspec.field(default_factory=KueueStatus)


def workload_row(workload: KueueWorkload, *, cluster: str) -> dict[str, Any]:
    """The row of `kueue_workloads`; `seen_at` is left to the caller.

    Raises:
        QuantityError: its GPUs are no number.
    """
    meta, spec, status = workload.metadata, workload.spec, workload.status
    owner = _owner(meta)
    stats = status.schedulingStats
    return {
        **{name: value for name, value in identity(meta, cluster=cluster).items() if name != "user"},
        "owner_kind": owner.kind if owner else None,
        "owner_name": owner.name if owner else None,
        "owner_uid": owner.uid if owner else None,
        "queue": spec.queueName,
        "cluster_queue": status.admission.clusterQueue if status.admission else None,
        "priority": spec.priority,
        "priority_class": spec.priorityClassName or (spec.priorityClassRef.name if spec.priorityClassRef else None),
        "n_pods": sum(one.count for one in spec.podSets) if spec.podSets else None,
        "n_gpus": _gpus(spec.podSets or ()),
        "evictions": sum(one.count for one in stats.evictions) if stats and stats.evictions else None,
    }


def condition_rows(workload: KueueWorkload, *, cluster: str) -> list[dict[str, Any]]:
    """Rows of `kueue_conditions`; `last_seen_at` is left to the caller."""
    kept = [one for one in workload.status.conditions or () if one.type in CONDITIONS and one.lastTransitionTime]
    return [
        {
            "cluster": cluster,
            "uid": workload.metadata.uid,
            "condition": one.type,
            "holds": one.holds,
            "since": one.lastTransitionTime,
            "reason": one.reason,
            **_preemptor(one),
        }
        for one in kept
    ]


def times_of(workload: KueueWorkload) -> Iterable[datetime]:
    """All times that it reports."""
    yield workload.metadata.creationTimestamp
    yield from (one.lastTransitionTime for one in workload.status.conditions or () if one.lastTransitionTime)


def _owner(meta: Metadata) -> OwnerReference | None:
    """The job: the Workload's controller, else its first owner (a group of pods)."""
    return meta.controller() or next(iter(meta.ownerReferences or ()), None)


def _gpus(sets: Iterable[PodSet]) -> Decimal | None:
    """GPUs of all pods; None: unknown."""
    each = [(one.count, gpus_of_pod(one.template.spec)) for one in sets]
    known = [count * gpus for count, gpus in each if gpus is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(each) else None


def is_preemption(condition: Condition) -> bool:
    """Whether it holds because a Workload made room for another: of Workloads, and of pods that Kueue stopped."""
    return condition.holds and PREEMPTOR.search(condition.message or "") is not None


def _preemptor(condition: Condition) -> dict[str, str | None]:
    """The preempting workload, from the message; also of a preemption before quota was reserved again."""
    message = condition.message or ""
    match = PREEMPTOR.search(message) if condition.holds or message.startswith(ENDED) else None
    uids = match.groups() if match else (None, None)
    uid, job_uid = (None if text == UNKNOWN else text for text in uids)
    return {"preemptor_uid": uid, "preemptor_job_uid": job_uid}
