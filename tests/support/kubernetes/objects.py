"""Kubernetes objects as an API server returns them, from a few values."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import yaml

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
Object = dict[str, Any]


def at(minutes: float) -> str:
    """A time so many minutes after the beginning, as Kubernetes writes it."""
    return (BEGIN + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(minutes: float) -> datetime:
    """The same as a value."""
    return BEGIN + timedelta(minutes=minutes)


SPECS: dict[str, Object] = {
    "Job": {"template": {"spec": {"containers": []}}},
    "TrainJob": {"runtimeRef": {"name": "torch-distributed"}},
}
"""What a kind cannot be without."""

WITHOUT_COMPLETION = frozenset({"TrainJob", "JobSet"})
"""Kinds that end by a condition alone."""


def uid(name: str) -> str:
    """The uid of an object of that name."""
    return str(uuid5(NAMESPACE_URL, name))


def owner(kind: str, name: str) -> Object:
    """A reference to what controls an object."""
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid(f"{kind}/{name}"), "controller": True}


def workload(
    kind: str,
    name: str,
    *,
    created: float = 0,
    above: Object | None = None,
    status: Object | None = None,
    **spec: object,
) -> Object:
    """An object that controls pods; `spec` is what differs from the least that its kind needs."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid(f"{kind}/{name}"),
            "creationTimestamp": at(created),
            "ownerReferences": [above] if above else [],
        },
        "spec": SPECS.get(kind, {}) | spec,
        "status": {
            name: value
            for name, value in (status or {}).items()
            if name != "completionTime" or kind not in WITHOUT_COMPLETION
        },
    }


def completed(minutes: float, *, kind: str = "Complete", reason: str | None = None) -> Object:
    """The status of a workload that is over."""
    condition = {"type": kind, "status": "True", "lastTransitionTime": at(minutes), "reason": reason or ""}
    return {"conditions": [condition], **({"completionTime": at(minutes)} if kind.startswith("Compl") else {})}


def pod(
    name: str,
    *,
    above: Object | None = None,
    node: str | None = "host-1",
    gpus: float | str = 8,
    created: float = 0,
    scheduled: float | None = None,
    ended: float | None = None,
    exit_code: int = 0,
    reason: str | None = None,
    disrupted: str | None = None,
    labels: dict[str, str] | None = None,
    resource: str = "nvidia.com/gpu",
    identity: str | None = None,
    **spec: object,
) -> Object:
    """A pod that waits (without a node), runs, or has ended."""
    scheduled = created + 0.5 if scheduled is None else scheduled
    conditions: list[Object] = []
    if node:
        conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": at(scheduled)})
    if disrupted and ended is not None:
        conditions.append(
            {"type": "DisruptionTarget", "status": "True", "reason": disrupted, "lastTransitionTime": at(ended)}
        )
    state: Object = {"running": {"startedAt": at(scheduled + 0.5)}} if node else {"waiting": {}}
    phase = "Running" if node else "Pending"
    if ended is not None:
        word = reason or ("Completed" if exit_code == 0 else "Error")
        state = {"terminated": {"exitCode": exit_code, "reason": word, "finishedAt": at(ended)}}
        phase = "Succeeded" if exit_code == 0 and not disrupted else "Failed"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid(identity or f"pod/{name}/{created}"),
            "creationTimestamp": at(created),
            "labels": labels or {},
            "ownerReferences": [above] if above else [],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "resources": {"limits": {resource: str(gpus)}}}],
            **spec,
        },
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    }


def as_list(*objects: Object) -> bytes:
    """What `kubectl get -o json` prints."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


def as_yaml(*objects: Object) -> bytes:
    """What `kubectl get -o yaml` prints."""
    return yaml.safe_dump({"apiVersion": "v1", "items": list(objects), "kind": "List"}).encode()


def as_watch(*events: tuple[str, Object]) -> bytes:
    """What `kubectl get --watch --output-watch-events -o json` prints."""
    return "\n".join(json.dumps({"type": kind, "object": each}, indent=4) for kind, each in events).encode()


def queued(
    name: str,
    *conditions: tuple[str, bool, float, str],
    above: Object,
    created: float = 0,
    gpus: int = 8,
    pods: int = 1,
    preemptor: str | None = None,
) -> Object:
    """A Workload of Kueue; conditions are type, whether it holds, since when, and the reason."""
    message = f"Preempted to accommodate a workload (UID: {preemptor}, JobUID: UNKNOWN) due to prioritization"
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": uid(f"Workload/{name}"),
            "creationTimestamp": at(created),
            "ownerReferences": [above],
        },
        "spec": {
            "queueName": "research",
            "priority": 100,
            "podSets": [
                {
                    "name": "main",
                    "count": pods,
                    "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}},
                }
            ],
        },
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if holds else "False",
                    "lastTransitionTime": at(since),
                    "reason": reason,
                    "message": message if preemptor and kind in {"Evicted", "Preempted"} else "",
                }
                for kind, holds, since, reason in conditions
            ]
        },
    }
