"""GPUs that a pod holds, by the extended resources of its containers."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from ingest.mig import AMD_PARTITION, share_of_a_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ingest.kubernetes.objects import Container, Metadata, PodSpec

WHOLE: Final = re.compile(r"^(nvidia\.com/(pgpu|gpu)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi)$")
"""Resources of which one is a GPU."""

PASSED: Final = re.compile(r"^nvidia\.com/(?!.*NVSWITCH)(G[A-Z]|AD|TU)\d{3}[A-Z]*_", re.IGNORECASE)
"""GPUs that are passed on to a virtual machine as a device, by chip and product: `nvidia.com/GH100_H100_SXM5_80GB`."""

SLICE: Final = re.compile(rf"^(?:nvidia\.com/mig-(?=.)|amd\.com/(?={AMD_PARTITION}$))(.+)$")
"""Resources of which one is a part of a GPU: `nvidia.com/mig-3g.40gb`, or under AMD's naming strategy `mixed`
`amd.com/cpx_nps4`."""

SHARED: Final = re.compile(
    r"^(nvidia\.com/(.*\.shared|gpumem(-percentage)?|gpucores|.*-\d+[ABCQ])|volcano\.sh/vgpu-.*|aliyun\.com/gpu-mem"
    r"|tencent\.com/vcuda-.*)$"
)
"""Resources of which several are one GPU; the pod does not show how many: time slices and MPS, HAMi's and Volcano's
vGPUs, gigabytes of Aliyun's, NVIDIA's vGPUs of virtual machines (`nvidia.com/NVIDIA_A40-48Q`)."""

FRACTION: Final = "gpu-fraction"
FRACTIONS: Final = "gpu-fraction-num-devices"
GIGABYTES: Final = "gpu-memory"
"""Annotations of KAI and Run:ai: a part of a GPU, of how many GPUs, and a part in bytes, which is no number of GPUs."""

ALWAYS: Final = "Always"
"""The restart policy of an init container that keeps running beside the others."""

_SUFFIXES: Final = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(1000)}
_THOUSANDTH: Final = Decimal("0.001")
_QUANTITY: Final = re.compile(r"^(\d{1,9}(?:\.\d{1,9})?)(m|k|e[+-]?\d|E[+-]?\d|)$")


class QuantityError(ValueError):
    """A quantity of a resource is not a number of GPUs."""


def gpus_of_pod(spec: PodSpec) -> Decimal | None:
    """GPUs that a pod holds while it is on its node; None: unknown.

    Containers run together, init containers before them and one after the other: the pod holds the larger of the two.
    Init containers that keep running (sidecars) count with the containers, and with each init container after them.

    Raises:
        QuantityError: a quantity is no number.
    """
    init = spec.initContainers or ()
    sidecars = [[one for one in init[:at] if one.restartPolicy == ALWAYS] for at in range(len(init) + 1)]
    together = [
        [*(spec.containers or ()), *sidecars[-1]],
        *([*others, one] for others, one in zip(sidecars, init, strict=False)),
    ]
    sums = [_sum(containers) for containers in together]
    known = [each for each in sums if each is not None]
    if len(known) < len(sums):
        return None
    most = max(known)
    return None if not most and spec.resourceClaims else most


def fraction_of(meta: Metadata) -> Decimal | None:
    """GPUs that annotations request where no resource does; None: a part of unknown size.

    Raises:
        QuantityError: a quantity is no number.
    """
    fraction = meta.label(FRACTION)
    if not fraction:
        return None if meta.label(GIGABYTES) else Decimal(0)
    return (quantity(fraction) * quantity(meta.label(FRACTIONS) or 1)).quantize(_THOUSANDTH)


def has_gpus(container: Container) -> bool:
    """Whether a container has GPUs, or parts of some.

    Raises:
        QuantityError: a quantity is no number.
    """
    return _sum([container]) != 0


def gpus_of(resources: Mapping[str, str | float]) -> Decimal | None:
    """GPUs of some extended resources, to a thousandth; None: unknown, some are shared.

    >>> gpus_of({"cpu": "96", "nvidia.com/gpu": "8"})
    Decimal('8.000')

    Raises:
        QuantityError: a quantity is no number.
    """
    total = Decimal(0)
    for name, amount in resources.items():
        if SHARED.match(name) and quantity(amount):
            return None
        if WHOLE.match(name) or PASSED.match(name):
            total += quantity(amount)
        elif match := SLICE.match(name):
            total += quantity(amount) * Decimal(share_of_a_gpu(match[1]))
    return total.quantize(_THOUSANDTH)


def _sum(containers: Iterable[Container]) -> Decimal | None:
    requested = [one.resources for one in containers if one.resources]
    each = [gpus_of({**(one.requests or {}), **(one.limits or {})}) for one in requested]
    return sum((one for one in each if one is not None), Decimal(0)) if None not in each else None


def quantity(amount: str | float) -> Decimal:
    """A quantity of a resource.

    >>> quantity("8"), quantity(8), quantity("500m")
    (Decimal('8'), Decimal('8'), Decimal('0.500'))

    Raises:
        QuantityError: it is none.
    """
    match = _QUANTITY.match(str(amount))
    if match is None:
        raise QuantityError(f"{str(amount)[:40]!r} is no number of GPUs")
    if match[2][:1] in {"e", "E"}:
        return Decimal(match[1] + match[2])
    return Decimal(match[1]) * _SUFFIXES[match[2]]
