"""A real API server: objects go through their lives by a script, and the warehouse has what the script knows.

Watches are cut by killing the server, events are compacted away, and the reader's token is revoked while it reads.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import requests
import yaml

from app.fleet.manifests import Deployment, manifests
from ingest.kubernetes.live import ingest as live
from ingest.kubernetes.live.rbac import rbac_manifest
from ingest.kubernetes.settings import Kubernetes
from queries.warehouse import open_reader, open_writer
from tests.lab.api_server import ApiServerLab, need_api_server, stamp
from tests.lab.processes import LabError, now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ingest.store.report import LoadReport
    from tests.support.kubernetes.objects import Object

PODS = "/api/v1/namespaces/team-a/pods"
JOBS = "/apis/kubeflow.org/v1/namespaces/team-a/pytorchjobs"
QUEUED = "/apis/kueue.x-k8s.io/v1beta1/namespaces/team-a/workloads"
TOKENS = "/api/v1/namespaces/trackside/serviceaccounts/trackside/token"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/trackside/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A server that is killed leaves connections that only the garbage collector ends."""

BORN = timedelta(seconds=2)
"""What creation and assignment may differ by from the script's clock: the server stamps these, to the second."""


@pytest.fixture(scope="module")
def lab() -> Iterator[ApiServerLab]:
    need_api_server()
    with ApiServerLab() as server:
        for name in ("team-a", "trackside"):
            server.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": name}})
        for manifest in yaml.safe_load_all(rbac_manifest()):
            server.create(PATHS[manifest["kind"]], manifest)
        for host in ("host-0", "host-1"):
            server.create("/api/v1/nodes", {"kind": "Node", "metadata": {"name": host}})
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": stamp()}
            status = {"capacity": {"nvidia.com/gpu": "8", "cpu": "96"}, "conditions": [ready]}
            server.patch(f"/api/v1/nodes/{host}/status", {"status": status})
        yield server


def clock() -> datetime:
    """The time by the script's own clock."""
    return datetime.fromtimestamp(now(), UTC)


class Script:
    """The controller, the scheduler and the kubelets; `truth` is what it did and when, by its own clock.

    `others` are the pods that earlier scripts left.
    """

    def __init__(self, lab: ApiServerLab) -> None:
        self.lab = lab
        self.others = {pod["metadata"]["name"] for pod in lab.call("GET", PODS)["items"]}
        self.truth: dict[str, tuple[str, datetime, datetime | None]] = {}

    def job(self, name: str) -> Object:
        """A PyTorchJob; the reference to it."""
        container = {"name": "pytorch", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}
        template = {"spec": {"containers": [container]}}
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
        body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}
        made = self.lab.create(JOBS, body)
        return {
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name, "uid": made["metadata"]["uid"],
            "controller": True,
        }  # fmt: skip

    def run(self, name: str, above: Object, host: str) -> None:
        """Create a pod, assign it to a node and start it."""
        container = {"name": "pytorch", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
        meta = {"name": name, "ownerReferences": [above]}
        self.lab.create(PODS, {"kind": "Pod", "metadata": meta, "spec": {"containers": [container]}})
        binding = {"kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": host}}
        self.lab.create(f"{PODS}/{name}/binding", binding)
        self._status(name, "Running", {"running": {"startedAt": stamp()}})
        self.truth[name] = ("RUNNING", clock(), None)

    def end(self, name: str, code: int) -> None:
        """Its container ends."""
        at = clock().replace(microsecond=0)
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": stamp(at.timestamp())}
        self._status(name, "Succeeded" if code == 0 else "Failed", {"terminated": ended})
        self.truth[name] = ("COMPLETED" if code == 0 else "FAILED", self.truth[name][1], at)

    def remove(self, name: str) -> None:
        """The pod object goes."""
        self.lab.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    def _status(self, name: str, phase: str, state: Object) -> None:
        container = {
            "name": "pytorch", "image": "train", "imageID": "", "ready": phase == "Running", "restartCount": 0,
            "state": state,
        }  # fmt: skip
        self.lab.patch(f"{PODS}/{name}/status", {"status": {"phase": phase, "containerStatuses": [container]}})


class Reader:
    """Trackside with the role that it ships, and a token that is bound to an object, so that it can be revoked."""

    def __init__(self, lab: ApiServerLab, folder: Path) -> None:
        self.lab, self.folder, self._number = lab, folder, 0
        self.new_token()
        (folder / "config").write_text(
            "current-context: lab\n"
            "contexts: [{name: lab, context: {cluster: lab, user: reader}}]\n"
            f"clusters: [{{name: lab, cluster: {{server: '{lab.url}', certificate-authority: '{lab.authority}'}}}}]\n"
            "users: [{name: reader, user: {tokenFile: token}}]\n"
        )

    def new_token(self) -> None:
        """What the kubelet does before a token expires."""
        self._number += 1
        secret = self.lab.create(
            "/api/v1/namespaces/trackside/secrets",
            {"kind": "Secret", "metadata": {"name": f"bound-{self.folder.name.replace('_', '-')}-{self._number}"}},
        )
        bound = {"kind": "Secret", "apiVersion": "v1", "name": secret["metadata"]["name"]}
        bound["uid"] = secret["metadata"]["uid"]
        made = self.lab.create(TOKENS, {"kind": "TokenRequest", "spec": {"boundObjectRef": bound}})
        self.secret = secret["metadata"]["name"]
        (self.folder / "token").write_text(made["status"]["token"])

    def read(self, **settings: Any) -> LoadReport:
        moment = clock()
        kubernetes = Kubernetes(kubeconfig=self.folder / "config", replay_s=2, page=2, retries=6, **settings)
        with open_writer(self.folder / "w", verb="test", now=moment) as writer:
            (report,) = live.ingest_live(writer, kubernetes, cluster="k", now=moment, progress=lambda *_: None)
        assert report.error is None, report.error
        return report

    def pods(self) -> dict[str, tuple[str, datetime, datetime | None]]:
        with open_reader(self.folder / "w") as reader:
            rows = reader.frame("SELECT name, state, scheduled_at, ended_at FROM pods").rows()
        return {name: tuple(values) for name, *values in rows}

    def attempts(self) -> list[tuple[Any, ...]]:
        with open_reader(self.folder / "w") as reader:
            return reader.frame("SELECT name, state, node_list, n_gpus FROM attempts ORDER BY submitted_at").rows()


FLEET = {
    "ServiceAccount": "/api/v1/namespaces/fleet/serviceaccounts",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/fleet/networkpolicies",
    "Service": "/api/v1/namespaces/fleet/services",
    "Deployment": "/apis/apps/v1/namespaces/fleet/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/fleet/horizontalpodautoscalers",
    "CronJob": "/apis/batch/v1/namespaces/fleet/cronjobs",
}
STRICT = "?dryRun=All&fieldValidation=Strict"


def test_server_takes_the_manifests_of_a_fleet(lab: ApiServerLab) -> None:
    """Each field is known to it, and its pods keep to the standard that the namespace enforces."""
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    lab.create("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "fleet", "labels": enforced}})
    objects = manifests(Deployment(namespace="fleet"))
    lab.create(FLEET["ServiceAccount"], objects[0])
    for one in objects[1:]:
        lab.create(FLEET[one["kind"]] + STRICT, one)
        if one["kind"] == "Deployment":
            template = {"kind": "Pod", "apiVersion": "v1", **one["spec"]["template"]}
            template["metadata"] = template["metadata"] | {"name": "one"}
            lab.create(f"/api/v1/namespaces/fleet/pods{STRICT}", template)
            rooted = {**template, "spec": {**template["spec"], "securityContext": {"runAsUser": 0}}}
            with pytest.raises(LabError, match="violates PodSecurity"):
                lab.create(f"/api/v1/namespaces/fleet/pods{STRICT}", rooted)
    with pytest.raises(LabError, match="unknown field"):
        lab.create(FLEET["Service"] + STRICT, objects[2] | {"spec": {**objects[2]["spec"], "portz": []}})


@contextmanager
def renewed_while_reading(lab: ApiServerLab, reader: Reader) -> Iterator[list[int]]:
    """The reader's token is replaced and the old one revoked during its first watch; the statuses of its requests.

    The server is killed besides: it goes on believing a token for ten seconds.
    """
    statuses: list[int] = []
    get = requests.Session.get

    def sending(session: requests.Session, url: str, **options: Any) -> requests.Response:
        answer = get(session, url, **options)
        statuses.append(answer.status_code)
        return answer

    def replace() -> None:
        old = reader.secret
        reader.new_token()
        lab.call("DELETE", f"/api/v1/namespaces/trackside/secrets/{old}")
        restarted(lab)

    timer = threading.Timer(1, replace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests.Session, "get", sending)
        timer.start()
        yield statuses
        timer.join()


def warned(report: LoadReport) -> list[str]:
    assert report.parsed is not None
    return [warning.code for warning in report.parsed.warnings]


def restarted(lab: ApiServerLab) -> None:
    """The server is killed and comes back; etcd goes on."""
    lab.kill()
    lab.start()


def agree(reader: Reader, script: Script, *, but: tuple[str, ...] = ()) -> None:
    """The warehouse has what the script did; ends to the second of the source."""
    stored = reader.pods()
    assert set(stored) - script.others == set(script.truth) - set(but)
    for name, (state, begun, ended) in script.truth.items():
        if name not in but:
            assert (stored[name][0], stored[name][2]) == (state, ended), name
            assert abs(stored[name][1] - begun) <= BORN


def test_lives_of_objects_are_those_of_the_script(lab: ApiServerLab, tmp_path: Path) -> None:
    script, reader = Script(lab), Reader(lab, tmp_path)
    above = script.job("cut")
    script.run("cut-worker-0", above, "host-0")
    assert warned(reader.read()) == []
    script.end("cut-worker-0", 1)
    script.remove("cut-worker-0")
    script.run("cut-worker-1", above, "host-1")
    assert warned(reader.read()) == []
    agree(reader, script)
    with open_reader(tmp_path / "w") as warehouse:
        assert warehouse.frame("SELECT node, CAST(n_gpus AS INT) FROM nodes ORDER BY 1").rows() == [
            ("host-0", 8), ("host-1", 8),
        ]  # fmt: skip

    restart = threading.Timer(1, restarted, [lab])  # in the midst of the watch of the first kind
    restart.start()
    script.end("cut-worker-1", 0)
    reader.read()
    restart.join()
    reader.read()
    agree(reader, script)

    script.run("cut-worker-2", above, "host-0")
    with renewed_while_reading(lab, reader) as statuses:
        reader.read()
    assert 401 in statuses
    agree(reader, script)
    script.end("cut-worker-2", 0)


def test_compacted_events_are_missed_and_reported(lab: ApiServerLab, tmp_path: Path) -> None:
    script, reader = Script(lab), Reader(lab, tmp_path)
    above = script.job("compacted")
    script.run("compacted-worker-0", above, "host-0")
    reader.read()
    others = set(reader.pods()) - set(script.truth)
    script.run("unseen", above, "host-1")
    script.end("unseen", 1)
    script.remove("unseen")
    script.end("compacted-worker-0", 0)
    lab.compact()
    restarted(lab)  # its cache of events is empty, too
    assert "events_missed" in warned(reader.read())
    stored = reader.pods()
    assert set(stored) - others == {"compacted-worker-0"}
    assert stored["compacted-worker-0"][2] == script.truth["compacted-worker-0"][2]
    assert warned(reader.read()) == []


def test_eviction_by_kueue_is_followed_to_the_last_pod(lab: ApiServerLab, tmp_path: Path) -> None:
    script, reader = Script(lab), Reader(lab, tmp_path)
    above = script.job("queued")
    containers = [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": containers}}}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "queued-1", "ownerReferences": [above]},
        "spec": {"queueName": "research", "podSets": [pod_set]},
    }
    lab.create(QUEUED, body)
    reader.read()
    waiting = [row for row in reader.attempts() if row[0] == "queued"]
    assert waiting == [("queued", "PENDING", None, 0)]
    script.run("queued-worker-0", above, "host-0")
    reader.read()
    evicted = clock().replace(microsecond=0)
    condition = {
        "type": "Evicted", "status": "True", "reason": "Preempted", "lastTransitionTime": stamp(evicted.timestamp()),
        "message": "Preempted to accommodate a workload (UID: other, JobUID: UNKNOWN) due to prioritization",
    }  # fmt: skip
    lab.patch(f"{QUEUED}/queued-1/status", {"status": {"conditions": [condition]}})
    time.sleep(2.1)
    script.end("queued-worker-0", 143)
    script.remove("queued-worker-0")
    lab.patch(f"{QUEUED}/queued-1/status", {"status": {"conditions": []}})  # as the next admission overwrites it
    reader.read()
    gone = script.truth["queued-worker-0"][2]
    with open_reader(tmp_path / "w") as warehouse:
        sql = "SELECT evicted_at, preemptor_uid, gone_at, n_gpus FROM evictions"
        assert warehouse.frame(sql).rows() == [(evicted, "other", gone, 8)]
    assert ("queued", "PREEMPTED", "host-0", 8) in reader.attempts()


def test_reader_may_list_and_watch_and_nothing_else(lab: ApiServerLab) -> None:
    rules = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    user = "system:serviceaccount:trackside:trackside"

    def allowed(verb: str, resource: str, group: str = "") -> bool:
        what = {"verb": verb, "resource": resource, "group": group}
        body = {**rules, "spec": {"user": user, "resourceAttributes": what}}
        return bool(lab.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"]["allowed"])

    assert all(allowed(verb, "pods") for verb in ("list", "watch"))
    assert allowed("list", "workloads", "kueue.x-k8s.io")
    refused = [("get", "secrets"), ("list", "secrets"), ("delete", "pods"), ("patch", "nodes"), ("create", "pods/exec")]
    assert not any(allowed(verb, resource) for verb, resource in refused)
