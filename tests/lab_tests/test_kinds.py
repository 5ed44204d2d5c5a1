"""Every kind in every state of its life, as the real API server takes it with the CRDs that the projects publish."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ingest.kubernetes.live import ingest as live
from ingest.kubernetes.settings import Kubernetes
from queries.warehouse import open_reader, open_writer
from tests.lab.api_server import ADMIN, ApiServerLab, need_api_server, stamp
from tests.lab.processes import now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kubernetes.objects import Object

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A server that is killed leaves connections that only the garbage collector ends."""

POD: Object = {"containers": [{"name": "main", "image": "train"}], "restartPolicy": "Never"}
JOB: Object = {"template": {"spec": POD}}
REPLICATED: Object = {"name": "node", "replicas": 1, "template": {"spec": JOB}}
MASTER: Object = {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "train"}]}}}
KINDS: dict[str, tuple[str, str, Object]] = {
    "Job": ("batch/v1", "jobs", JOB),
    "JobSet": ("jobset.x-k8s.io/v1alpha2", "jobsets", {"replicatedJobs": [REPLICATED]}),
    "TrainJob": ("trainer.kubeflow.org/v1alpha1", "trainjobs", {"runtimeRef": {"name": "torch"}}),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchjobs", {"pytorchReplicaSpecs": {"Master": MASTER}}),
    "Workflow": ("argoproj.io/v1alpha1", "workflows", {"entrypoint": "main"}),
}
"""Kinds with their version, plural and the least that they need."""

AT = stamp(now() - 60)


def condition(kind: str, reason: str = "Because") -> Object:
    """A condition that holds."""
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": AT}


STATES: list[tuple[str, str, Object, str, bool]] = [
    ("Job", "complete", {
        "startTime": AT, "completionTime": AT, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }, "COMPLETED", True),
    ("Job", "failed", {
        "startTime": AT, "conditions": [condition("FailureTarget"), condition("Failed")],
    }, "FAILED", True),
    ("Job", "late", {
        "startTime": AT,
        "conditions": [condition("FailureTarget", "DeadlineExceeded"), condition("Failed", "DeadlineExceeded")],
    }, "TIMEOUT", True),
    ("Job", "new", {}, "RUNNING", False),
    ("JobSet", "completed", {"conditions": [condition("Completed")]}, "COMPLETED", True),
    ("JobSet", "failed", {"conditions": [condition("Failed")]}, "FAILED", True),
    ("JobSet", "suspended", {"conditions": [condition("Suspended")]}, "PENDING", False),
    ("TrainJob", "complete", {"conditions": [condition("Complete")]}, "COMPLETED", True),
    ("TrainJob", "failed", {"conditions": [condition("Failed")]}, "FAILED", True),
    ("TrainJob", "suspended", {"conditions": [condition("Suspended")]}, "PENDING", False),
    ("PyTorchJob", "succeeded", {
        "completionTime": AT, "conditions": [condition("Running"), condition("Succeeded")], "replicaStatuses": {},
    }, "COMPLETED", True),
    ("PyTorchJob", "failed", {"conditions": [condition("Failed")], "replicaStatuses": {}}, "FAILED", True),
    ("PyTorchJob", "running", {"conditions": [condition("Running")], "replicaStatuses": {}}, "RUNNING", False),
    ("Workflow", "succeeded", {"phase": "Succeeded", "finishedAt": AT}, "COMPLETED", True),
    ("Workflow", "error", {"phase": "Error", "finishedAt": AT}, "FAILED", True),
    ("Workflow", "pending", {"phase": "Pending"}, "PENDING", False),
]  # fmt: skip
"""Kind, name, status, and what is to become of it: its state, and whether it has ended."""


@pytest.fixture(scope="module")
def lab() -> Iterator[ApiServerLab]:
    need_api_server()
    with ApiServerLab() as server:
        yield server


def test_kinds_are_read_in_every_state(lab: ApiServerLab, tmp_path: Path) -> None:
    strict = "?fieldValidation=Strict"
    for kind, name, status, _, _ in STATES:
        version, plural, spec = KINDS[kind]
        base = f"/apis/{version}/namespaces/default/{plural}"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        lab.create(base + strict, body)
        # Argo's workflows have no status of their own: it is a field like any other.
        lab.patch(f"{base}/{name}{'' if kind == 'Workflow' else '/status'}{strict}", {"status": status})
    assert stored(lab, tmp_path) == sorted(
        (kind, name, state, datetime.fromisoformat(AT) if ended else None) for kind, name, _, state, ended in STATES
    )


def stored(lab: ApiServerLab, folder: Path) -> list[tuple[Any, ...]]:
    (folder / "config").write_text(
        "current-context: lab\ncontexts: [{name: lab, context: {cluster: lab, user: admin}}]\n"
        f"clusters: [{{name: lab, cluster: {{server: '{lab.url}', certificate-authority: '{lab.authority}'}}}}]\n"
        f"users: [{{name: admin, user: {{token: {ADMIN}}}}}]\n"
    )
    moment = datetime.fromtimestamp(now(), UTC)
    kubernetes = Kubernetes(kubeconfig=folder / "config")
    with open_writer(folder / "w", verb="test", now=moment) as writer:
        (report,) = live.ingest_live(writer, kubernetes, cluster="k", now=moment, progress=lambda *_: None)
    assert report.error is None
    assert report.parsed is not None
    assert report.parsed.rows_rejected == 0
    with open_reader(folder / "w") as reader:
        return reader.frame("SELECT kind, name, state, ended_at FROM workloads ORDER BY kind, name").rows()
