"""Labels of kube-state-metrics: the object of a series, and GPUs of a resource by its exported name."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from ingest.mig import AMD_PARTITION, share_of_a_gpu

WHOLE: Final = frozenset(
    {
        *("nvidia_com_gpu", "nvidia_com_pgpu", "amd_com_gpu"),
        *("gpu_intel_com_i915", "gpu_intel_com_xe", "habana_ai_gaudi"),
    }
)
"""Resources of which one is a GPU, as the exporter writes their names."""

SLICE: Final = re.compile(rf"nvidia_com_mig_(?=.)|amd_com_(?={AMD_PARTITION}$)")
"""Prefixes of the names of resources that are parts of a GPU."""

MOST_GPUS: Final = 1024


def label_of(labels: dict[str, str], name: str) -> str:
    """A label of the object; where the exporter's own labels use the same names, the object's are exported_..."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def gpus_of_resource(resource: str, amount: float) -> Decimal | None:
    """GPUs of an extended resource; None: it is none.

    >>> gpus_of_resource("nvidia_com_gpu", 8.0), gpus_of_resource("nvidia_com_mig_3g_40gb", 2.0)
    (Decimal('8'), Decimal('0.857'))
    >>> gpus_of_resource("gpu_intel_com_xe", 8.0), gpus_of_resource("amd_com_cpx_nps4", 16.0)
    (Decimal('8'), Decimal('2.000'))
    >>> gpus_of_resource("cpu", 96.0)
    """
    if not 0 < amount <= MOST_GPUS:
        return None
    if resource in WHOLE:
        return Decimal(int(amount))
    if part := SLICE.match(resource):
        kind = resource[part.end() :]
        share = Decimal(share_of_a_gpu(kind if resource.startswith("amd") else kind.replace("_", ".")))
        return (int(amount) * share).quantize(Decimal("0.001"))
    return None
