"""Dynamic resource allocation through the real API server: slices, claims and their pods, listed and then watched."""

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

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""A server that is killed leaves connections that only the garbage collector ends."""

GROUP = "/apis/resource.k8s.io/v1beta2"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.nvidia.com"
STRICT = "?fieldValidation=Strict"


@pytest.fixture
def lab() -> Iterator[ApiServerLab]:
    need_api_server()
    with ApiServerLab() as server:
        yield server


def offer(lab: ApiServerLab) -> None:
    """A node, and the slice in which its driver offers eight GPUs."""
    lab.create("/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "host-1"}})
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
    devices = [{"name": f"gpu-{number}", "attributes": attributes} for number in range(8)]
    pool = {"name": "host-1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "host-1", "pool": pool, "devices": devices}
    kind = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "ResourceSlice", "metadata": {"name": "host-1-gpus"}}
    lab.create(f"{GROUP}/resourceslices{STRICT}", {**kind, "spec": spec})


def run(lab: ApiServerLab, name: str, *gpus: int) -> None:
    """A pod that claims GPUs and has them, and begins."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": len(gpus)}
    kind = {"apiVersion": "resource.k8s.io/v1beta2", "kind": "ResourceClaim", "metadata": {"name": name}}
    lab.create(CLAIMS + STRICT, {**kind, "spec": {"devices": {"requests": [{"name": "g", "exactly": exactly}]}}})
    container = {"name": "main", "image": "train", "resources": {"claims": [{"name": "g"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "g", "resourceClaimName": name}]}
    made = lab.create(PODS + STRICT, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    results = [{"request": "g", "driver": DRIVER, "pool": "host-1", "device": f"gpu-{number}"} for number in gpus]
    holder = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    allocated = {"allocation": {"devices": {"results": results}}, "reservedFor": [holder]}
    lab.patch(f"{CLAIMS}/{name}/status{STRICT}", {"status": allocated})
    binding = {"kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "host-1"}}
    lab.create(f"{PODS}/{name}/binding", binding)
    state(lab, name, "Running", {"running": {"startedAt": stamp()}})


def end(lab: ApiServerLab, name: str) -> None:
    """The pod ends, and its claim is given back and goes."""
    state(lab, name, "Succeeded", {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": stamp()}})
    lab.call("DELETE", f"{CLAIMS}/{name}")


def state(lab: ApiServerLab, name: str, phase: str, of_container: dict[str, Any]) -> None:
    container = {"name": "main", "image": "train", "imageID": "", "ready": True, "restartCount": 0}
    status = {"phase": phase, "containerStatuses": [{**container, "state": of_container}]}
    lab.patch(f"{PODS}/{name}/status", {"status": status})


def stored(lab: ApiServerLab, folder: Path) -> list[tuple[Any, ...]]:
    """Attempts after another reading: a list at first, from then on what the watches give."""
    (folder / "config").write_text(
        "current-context: lab\ncontexts: [{name: lab, context: {cluster: lab, user: admin}}]\n"
        f"clusters: [{{name: lab, cluster: {{server: '{lab.url}', certificate-authority: '{lab.authority}'}}}}]\n"
        f"users: [{{name: admin, user: {{token: {ADMIN}}}}}]\n"
    )
    moment = datetime.fromtimestamp(now(), UTC)
    with open_writer(folder / "w", verb="test", now=moment) as writer:
        settings = Kubernetes(kubeconfig=folder / "config")
        (report,) = live.ingest_live(writer, settings, cluster="k", now=moment, progress=lambda *_: None)
    assert report.error is None
    assert report.parsed is not None
    assert report.parsed.rows_rejected == 0
    with open_reader(folder / "w") as reader:
        return reader.frame("SELECT name, n_gpus::DOUBLE, node_list, state FROM attempts ORDER BY name").rows()


def test_claimed_devices_are_the_gpus_of_their_pods(lab: ApiServerLab, tmp_path: Path) -> None:
    offer(lab)
    run(lab, "first", 0, 1, 2, 3)
    assert stored(lab, tmp_path) == [("first", 4, "host-1", "RUNNING")]
    run(lab, "second", 4, 5)
    end(lab, "first")
    assert stored(lab, tmp_path) == [("first", 4, "host-1", "COMPLETED"), ("second", 2, "host-1", "RUNNING")]
    with open_reader(tmp_path / "w") as reader:
        assert reader.frame("SELECT node, n_gpus FROM nodes").rows() == [("host-1", 8)]
