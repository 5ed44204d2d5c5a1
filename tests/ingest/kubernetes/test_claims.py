"""GPUs that no resource counts: claims of dynamic resource allocation, slices of nodes, shared and divided GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queries.warehouse import open_reader
from tests.ingest.kubernetes.test_store import load
from tests.support.kubernetes.objects import Object, as_list, at, owner, pod, queued, uid, workload
from tests.support.orders import three_orders

if TYPE_CHECKING:
    from pathlib import Path

GPU = {"name": "g", "deviceClassName": "gpu.nvidia.com", "count": 4}
MIG_SEVENTH = "gpu-1-mig-19-4-1"


def device(name: str, driver: str = "gpu.nvidia.com", **more: object) -> Object:
    return {"request": "g", "driver": driver, "pool": "host-1", "device": name, **more}


def claim(*devices: Object, requests: list[Object] | None = None, name: str = "c", version: str = "v1") -> Object:
    """A claim: allocated where devices are given."""
    allocation = {"allocation": {"devices": {"results": list(devices)}}} if devices else {}
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team-a", "uid": uid(name), "creationTimestamp": at(0)},
        "spec": {"devices": {"requests": requests or [{"name": "g", "exactly": GPU}]}},
        "status": allocation,
    }


def claiming(name: str, *, template: bool = False, **values: Any) -> Object:
    """A pod with the claim `c`, of its own or made of a template."""
    one = pod(name, gpus=0, **values)
    one["spec"]["resourceClaims"] = [{"name": "g", **({"resourceClaimTemplateName": "t"} if template else {})}]
    if template:
        one["status"]["resourceClaimStatuses"] = [{"name": "g", "resourceClaimName": "c"}]
    else:
        one["spec"]["resourceClaims"][0]["resourceClaimName"] = "c"
    return one


def node(capacity: Object, **labels: str) -> Object:
    named = {f"nvidia.com/{name.replace('_', '.')}": value for name, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "host-1", "uid": uid("host-1"), "creationTimestamp": at(0), "labels": named},
        "status": {"capacity": capacity},
    }


def offered(*devices: Object, generation: int = 1, name: str = "s") -> Object:
    """A slice of the node host-1."""
    pool = {"name": "host-1", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "host-1", "pool": pool, "devices": list(devices)}
    meta = {"name": name, "uid": uid(name), "creationTimestamp": at(0)}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta, "spec": spec}


def read(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_reader(folder / "w") as reader:
        return reader.frame(sql).rows()


def held(folder: Path, *objects: Object) -> list[float | None]:
    """GPUs of the attempts that began, by name."""
    load(folder / "w", as_list(*objects))
    return [gpus for (gpus,) in read(folder, "SELECT n_gpus::DOUBLE FROM attempts WHERE n_nodes > 0 ORDER BY name")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        ([device("gpu-0"), device("gpu-1")], [2]),
        ([device("gpu-0-mig-3g.40gb-0"), device(MIG_SEVENTH)], [0.571]),
        ([device("gpu-0", adminAccess=True), device("gpu-1")], [1]),
        ([device("gpu-0", adminAccess=True)], []),  # a monitor: nothing is taken from others
        ([device("eth0", "dra.net")], []),
        ([device("gpu-0"), device("channel-0", "compute-domain.nvidia.com")], [1]),
        ([device("gpu-0", shareID="s", consumedCapacity={"memory": "10Gi"})], [None]),
        ([device("gpu-0-mig-77-0-1")], [None]),
    ],
)
@pytest.mark.parametrize("template", [False, True])
def test_allocated_devices_are_gpus_of_the_pod(
    tmp_path: Path, devices: list[Object], gpus: list[float | None], *, template: bool
) -> None:
    assert held(tmp_path, claiming("a", template=template), claim(*devices)) == gpus


@pytest.mark.slow
@pytest.mark.parametrize(
    ("request_", "gpus"),
    [
        (GPU, 4),
        ({"name": "g", "exactly": GPU}, 4),
        ({"name": "g", "exactly": {**GPU, "allocationMode": "All"}}, None),
        ({"name": "g", "firstAvailable": [{"name": "a"}]}, None),
        ({"name": "g", "exactly": {**GPU, "deviceClassName": "mig.nvidia.com"}}, None),
    ],
)
def test_claim_without_devices_has_what_it_requests(tmp_path: Path, request_: Object, gpus: int | None) -> None:
    load(tmp_path / "w", as_list(claiming("a", node=None), claim(requests=[request_], version="v1beta1")))
    assert read(tmp_path, "SELECT req_gpus::INT FROM attempts") == [(gpus,)]


def test_claim_that_is_not_known_is_unknown(tmp_path: Path) -> None:
    assert held(tmp_path, claiming("a")) == [None]


def test_pods_that_share_a_claim_share_its_gpus(tmp_path: Path) -> None:
    one = claim(device("gpu-0"), device("gpu-1"))
    together = [claiming("a", ended=30), claiming("b", ended=30)]
    assert held(tmp_path, one, *together, claiming("later", created=40, ended=50)) == [1, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("order", three_orders(range(3)))
def test_order_of_claims_and_pods_does_not_matter(tmp_path: Path, order: tuple[int, ...]) -> None:
    objects = [claiming("a", ended=30), claim(device("gpu-0")), node({"cpu": "8"})]
    for number in order:
        gpus = held(tmp_path, objects[number])
    assert gpus == [1]


def test_slices_are_the_gpus_of_a_node(tmp_path: Path) -> None:
    def whole(number: int) -> Object:
        attributes = {"type": {"string": "gpu"}, "uuid": {"string": f"U{number}"}, "productName": {"string": "H100"}}
        return {"name": f"gpu-{number}", "attributes": attributes}

    part = {"type": {"string": "mig"}, "parentUUID": {"string": "U0"}}
    devices = [*map(whole, range(4)), {"name": "gpu-0-mig-1g.10gb-0", "basic": {"attributes": part}}]
    void = offered(*map(whole, range(8)), name="old")
    load(tmp_path / "w", as_list(node({"cpu": "8"}), offered(*devices, generation=2), void))
    assert read(tmp_path, "SELECT n_gpus::INT, gpu_model FROM nodes") == [(4, "H100")]


def test_claimed_partitions_of_amd_gpus_are_parts(tmp_path: Path) -> None:
    def partition(number: int) -> Object:
        texts = {"type": "amdgpu-partition", "productName": "MI300X", "partitionProfile": "cpx_nps4"}
        texts["resource.kubernetes.io/pciBusID"] = f"0000:{number // 8:02}:00.0"
        return {"name": f"gpu-{number}-{128 + number}", "attributes": {k: {"string": v} for k, v in texts.items()}}

    amd = offered(*map(partition, range(16)))
    amd["spec"]["driver"] = "gpu.amd.com"
    named = claim(device("gpu-3-131", driver="gpu.amd.com"), device("gpu-9-137", driver="gpu.amd.com"))
    assert held(tmp_path, node({"cpu": "8"}), amd, named, claiming("a", ended=30)) == [0.25]
    assert read(tmp_path, "SELECT n_gpus::INT FROM nodes") == [(2,)]


def test_gpus_that_are_partitioned_when_claimed_are_whole_ones(tmp_path: Path) -> None:
    """AMD's driver offers each GPU in each of its modes; of a claimed one nothing tells the part."""

    def mode(number: int, name: str) -> Object:
        kind = "amdgpu" if name.startswith("spx") else "amdgpu-partition"
        texts = {"type": kind, "productName": "MI300X", "resource.kubernetes.io/pciBusID": f"0000:0{number}:00.0"}
        return {"name": f"gpu-{number}-{name}", "attributes": {k: {"string": v} for k, v in texts.items()}}

    amd = offered(*(mode(number, name) for number in range(8) for name in ("dpx-nps2", "cpx-nps4")))
    amd["spec"]["driver"] = "gpu.amd.com"
    part = device("gpu-3-cpx-nps4", driver="gpu.amd.com") | {"consumedCapacity": {"partitions": "1"}}
    assert held(tmp_path, node({"cpu": "8"}), amd, claim(part), claiming("a", ended=30)) == [None]
    assert read(tmp_path, "SELECT n_gpus::INT, gpu_model FROM nodes") == [(8, "MI300X")]


def test_slices_of_divided_gpus_are_counted_by_gpu(tmp_path: Path) -> None:
    parts = [
        {"name": f"m{number}", "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": f"U{number % 2}"}}}
        for number in range(6)
    ]
    load(tmp_path / "w", as_list(offered(*parts), node({"cpu": "8"})))
    assert read(tmp_path, "SELECT n_gpus::INT FROM nodes") == [(2,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "capacity", "of_node", "of_pod"),
    [
        ({"gpu_product": "A100-SXM4-40GB-MIG-1g.5gb", "gpu_count": "56"}, "56", 8, 1),  # the pod has 7 of them
        ({"gpu_product": "Tesla-T4-SHARED", "gpu_count": "2", "gpu_replicas": "4"}, "8", 2, None),
        ({"gpu_product": "H100", "gpu_count": "8"}, "0", 8, 7),  # its device plugin is away
        ({"gpu_product": "A100-SXM4-40GB-MIG-1g.5gb"}, "0", 0, 1),  # likewise, and so is what counts them in a label
    ],
)
def test_resource_that_is_a_part_is_counted_as_one(
    tmp_path: Path, labels: dict[str, str], capacity: str, of_node: int, of_pod: float | None
) -> None:
    assert held(tmp_path, pod("a", gpus=7), node({"nvidia.com/gpu": capacity}, **labels)) == [of_pod]
    assert read(tmp_path, "SELECT n_gpus::DOUBLE FROM nodes") == [(of_node,)]


def test_node_with_an_unknown_number_of_gpus_is_rejected(tmp_path: Path) -> None:
    """40 time slices may be of 8 GPUs or of 4: counted as none, the pods on them held none, too."""
    slices = "nvidia.com/gpu.shared"
    assert held(tmp_path, pod("a", gpus=1, resource=slices), node({slices: "40"})) == [None]
    assert read(tmp_path, "SELECT n_gpus FROM nodes") == []
    reason = "Node: its GPUs are shared, and no label nvidia.com/gpu.count has their number"
    assert read(tmp_path, "SELECT reason FROM rejects") == [(reason,)]


@pytest.mark.parametrize(
    ("resource", "label", "gpus", "of_node"),
    [
        ("amd.com/cpx_nps4", "cpx_nps4", 0.25, 8),
        ("amd.com/gpu", "cpx_nps4", 0.25, 8),
        ("amd.com/dpx_nps1", None, 1, 32),
        ("amd.com/gpu", "spx_nps1", 2, 64),
        ("amd.com/gpu", "MI300A cpx_nps1", 0.333, 10.667),
    ],
)
def test_partitions_of_amd_gpus_are_parts_of_them(
    tmp_path: Path, resource: str, label: str | None, gpus: float, of_node: float
) -> None:
    host = node({resource: "64"})
    if label:
        model, _, partition = label.rpartition(" ")
        labels = {"amd.com/compute-memory-partition": partition, "amd.com/gpu.product-name": model}
        host["metadata"]["labels"] = labels
    assert held(tmp_path, pod("a", resource=resource, gpus=2), host) == [gpus]
    assert read(tmp_path, "SELECT n_gpus::DOUBLE FROM nodes") == [(of_node,)]


@pytest.mark.parametrize(("others", "requested"), [([], 1.0), ([{"amd.com/gpu": "8"}], 8.0)])
def test_waiting_pod_requests_parts_where_all_nodes_have_them(
    tmp_path: Path, others: list[dict[str, str]], requested: float
) -> None:
    host = node({"amd.com/gpu": "64"})
    host["metadata"]["labels"] = {"amd.com/compute-memory-partition": "cpx_nps4"}
    whole = [{**node(each), "metadata": {**host["metadata"], "name": "whole", "labels": {}}} for each in others]
    waits = pod("a", node=None, resource="amd.com/gpu", gpus=8)
    suspended = queued("b-1", ("QuotaReserved", False, 1, "Pending"), above=owner("Job", "b"), gpus=8)
    load(tmp_path / "w", as_list(host, *whole, waits, workload("Job", "b"), suspended))
    assert read(tmp_path, "SELECT req_gpus::DOUBLE FROM attempts") == [(requested,), (requested,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resource", "gpus"),
    [
        ("nvidia.com/GH100_H100_SXM5_80GB", 2),
        ("nvidia.com/NVIDIA_A40-48Q", None),
        ("nvidia.com/gpumem", None),
        ("volcano.sh/vgpu-number", None),
        ("aliyun.com/gpu-mem", None),
    ],
)
def test_resource_that_divides_gpus_is_no_number(tmp_path: Path, resource: str, gpus: float | None) -> None:
    assert held(tmp_path, pod("a", resource=resource, gpus=2)) == [gpus]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        ({"gpu-fraction": "0.5"}, [0.5]),
        ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, [0.5]),
        ({"gpu-memory": "4096"}, [None]),
        ({}, []),
    ],
)
def test_fraction_of_an_annotation_is_counted(
    tmp_path: Path, annotations: dict[str, str], gpus: list[float | None]
) -> None:
    one = pod("a", gpus=0)
    one["metadata"]["annotations"] = annotations
    assert held(tmp_path, one) == gpus
