"""Dynamic resource allocation: GPUs of claims and of slices, which are counted in devices and not in a resource.

A claim requests devices, and once it is allocated it names them. Administrators' access takes nothing from others. A
device of a driver of GPUs is a GPU, or a MIG slice by its name or profile; devices that several claims share, and
those of which only a part is consumed, are no number.

Source: resource.k8s.io v1, v1beta2, v1beta1 and v1alpha3 (ResourceClaim, ResourceSlice); NVIDIA/k8s-dra-driver-gpu,
names and attributes of devices; ROCm/k8s-gpu-dra-driver, device attributes.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from ingest.kubernetes.objects import Metadata  # noqa: TC001 - msgspec reads it
from ingest.kubernetes.shares import PARTITION
from ingest.mig import share_of_a_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingest.kubernetes.objects import KubernetesPod

CLAIM: Final = "ResourceClaim"
SLICE: Final = "ResourceSlice"

OF_GPUS: Final = re.compile(r"(^|[.-])gpu([.-]|$)")
"""Drivers of GPUs: gpu.nvidia.com, gpu.amd.com, gpu.intel.com; those of networks and of IMEX channels have none."""

CLASS_OF_GPUS: Final = re.compile(r"(^|[.-])(v?gpu|mig)([.-]|$)")
"""The same for classes of devices: mig.nvidia.com is of the driver gpu.nvidia.com."""

PARTITION_TYPE: Final = "amdgpu-partition"
"""Type of AMD's devices that are partitions of a GPU; their names do not show it."""

MIG_PARTS: Final = {0: 7, 5: 4, 9: 3, 14: 2, 15: 1, 19: 1, 20: 1}
"""Sevenths of a GPU by the number of its instance's profile: NVIDIA's driver calls a device gpu-0-mig-PROFILE-..."""

_MIG_NUMBERED: Final = re.compile(r"-mig-(\d{1,3})-\d+")
_THOUSANDTH: Final = Decimal("0.001")
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**6)]


class Exactly(msgspec.Struct):
    """Devices of one kind."""

    deviceClassName: str = ""
    allocationMode: str = "ExactCount"
    count: _Count = 1
    adminAccess: bool = False


class ClaimRequest(Exactly):
    """A request of a claim: up to v1beta1 its fields are its own, later those of `exactly`."""

    exactly: Exactly | None = None
    firstAvailable: list[Any] | None = None


class DeviceClaim(msgspec.Struct):
    """The requests of a claim."""

    requests: list[ClaimRequest] | None = None


class Allocated(msgspec.Struct):
    """A device that is allocated."""

    driver: str = ""
    device: str = ""
    request: str = ""
    adminAccess: bool = False
    shareID: str | None = None
    consumedCapacity: dict[str, Any] | None = None


class Devices(msgspec.Struct):
    """Results of the allocation: devices."""

    results: list[Allocated] | None = None


class Allocation(msgspec.Struct):
    """The allocation of a claim; before v1alpha3 without devices."""

    devices: Devices | None = None


class ClaimStatus(msgspec.Struct):
    """Status of a claim."""

    allocation: Allocation | None = None


class ClaimSpec(msgspec.Struct):
    """Specification of a claim."""

    devices: DeviceClaim | None = None


class ResourceClaim(msgspec.Struct):
    """A claim."""

    metadata: Metadata
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class ResourcePool(msgspec.Struct):
    """The pool that a slice is part of."""

    name: str = ""
    generation: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = 0


class Device(msgspec.Struct):
    """A device of a slice: up to v1beta1 its attributes are in `basic`."""

    name: str = ""
    attributes: dict[str, Any] | None = None
    basic: dict[str, Any] | None = None

    def attribute(self, name: str) -> str:
        """An attribute that is a text; empty: it has none."""
        attributes = self.attributes or (self.basic or {}).get("attributes") or {}
        for key, value in attributes.items():
            if key.rpartition("/")[2] == name and isinstance(value, dict):
                return str(value.get("string", ""))
        return ""


class SliceSpec(msgspec.Struct):
    """Devices that a driver offers."""

    driver: str = ""
    nodeName: str | None = None
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    devices: list[Device] | None = None


class ResourceSlice(msgspec.Struct):
    """A slice."""

    metadata: Metadata
    spec: SliceSpec = msgspec.field(default_factory=SliceSpec)


def claim_row(claim: ResourceClaim, *, cluster: str) -> dict[str, Any]:
    """The row of `resource_claims`; `seen_at` is left to the caller."""
    meta, allocation = claim.metadata, claim.status.allocation
    if allocation is None:
        requested = claim.spec.devices.requests if claim.spec.devices else None
        n_gpus = _requested(requested or ()) if requested else None
    else:
        results = allocation.devices.results if allocation.devices else None
        n_gpus = None if results is None else _sum(_of_device(one) for one in results if not one.adminAccess)
    return {"cluster": cluster, "uid": meta.uid, "namespace": meta.namespace, "name": meta.name, "n_gpus": n_gpus}


def pod_claim_rows(pod: KubernetesPod, *, cluster: str) -> list[dict[str, Any]]:
    """Rows of `pod_claims`; `seen_at` is left to the caller. A claim of a template has a name once it is created."""
    made = {one.name: one.resourceClaimName for one in pod.status.resourceClaimStatuses or ()}
    return [
        {
            "cluster": cluster,
            "uid": pod.metadata.uid,
            "entry": one.name,
            "claim": one.resourceClaimName or made.get(one.name),
        }
        for one in pod.spec.resourceClaims or ()
    ]


def slice_row(one: ResourceSlice, *, cluster: str) -> dict[str, Any] | None:
    """The row of `resource_slices`; None: it has no GPUs of one node."""
    spec = one.spec
    if not OF_GPUS.search(spec.driver) or not spec.nodeName:
        return None
    devices = spec.devices or []
    whole = [device for device in devices if not _is_mig(device)]
    models = sorted(
        {name + _partition(device) for device in whole or devices if (name := device.attribute("productName"))}
    )
    return {
        "cluster": cluster,
        "uid": one.metadata.uid,
        "node": spec.nodeName,
        "pool": spec.pool.name,
        "generation": spec.pool.generation,
        "n_gpus": Decimal(_n_whole(whole)) + _partitioned(whole, devices),
        "gpu_model": models[0] if models else None,
    }


def _is_mig(device: Device) -> bool:
    return device.attribute("type") == "mig" or "-mig-" in device.name


def _n_whole(devices: list[Device]) -> int:
    """GPUs of devices that are no MIG slices; a GPU's partitions, and the GPU as it is passed on, have one address."""
    addresses = [device.attribute("pciBusID") for device in devices]
    return len(set(filter(None, addresses))) + addresses.count("")


def _partition(device: Device) -> str:
    """Suffix of the model of a GPU for its partitions."""
    profile = device.attribute("partitionProfile")  # none where the driver partitions GPUs when they are claimed
    return f"{PARTITION}{profile}" if profile and device.attribute("type") == PARTITION_TYPE else ""


def _partitioned(whole: list[Device], devices: list[Device]) -> Decimal:
    """GPUs that are offered as slices only. A possible slice of an offered GPU is part of that GPU."""
    offered = {device.attribute("uuid") for device in whole} | {device.name for device in whole}
    parents = {
        device.attribute("parentUUID") or device.name.partition("-mig-")[0] for device in devices if _is_mig(device)
    }
    return Decimal(len(parents - offered))


def _requested(requests: Iterable[ClaimRequest]) -> Decimal | None:
    """GPUs that a claim requests; None: the number depends on the available devices."""
    return _sum(_of_request(one) for one in requests)


def _of_request(request: ClaimRequest) -> Decimal | None:
    if request.firstAvailable:
        return None
    one = request.exactly or request
    if one.adminAccess or not CLASS_OF_GPUS.search(one.deviceClassName):
        return Decimal(0)
    whole = one.allocationMode == "ExactCount" and not one.deviceClassName.startswith("mig")
    return Decimal(one.count) if whole else None


def _of_device(one: Allocated) -> Decimal | None:
    """GPUs of a device; None: a part of unknown size."""
    if not OF_GPUS.search(one.driver):
        return Decimal(0)
    if one.shareID or one.consumedCapacity:
        return None
    if "mig" not in one.device:
        return Decimal(1)
    if numbered := _MIG_NUMBERED.search(one.device):
        parts = MIG_PARTS.get(int(numbered[1]))
        return None if parts is None else Decimal(parts) / 7
    share = share_of_a_gpu(one.device)
    return Decimal(share) if share < 1 or re.search(r"mig-7g", one.device) else None


def _sum(each: Iterable[Decimal | None]) -> Decimal | None:
    """To a thousandth; None where one is unknown."""
    values = list(each)
    known = [one for one in values if one is not None]
    return sum(known, Decimal(0)).quantize(_THOUSANDTH) if len(known) == len(values) else None
