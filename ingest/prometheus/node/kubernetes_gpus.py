"""Labels of kube-state-metrics: which object a series is about, and GPUs of a resource by its exported name."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from ingest.mig import share_of_a_gpu

WHOLE: Final = frozenset({"nvidia_com_gpu", "nvidia_com_pgpu", "amd_com_gpu", "gpu_intel_com_i915", "habana_ai_gaudi"})
"""Resources of which one is a GPU, as the exporter writes their names."""

SLICE: Final = "nvidia_com_mig_"
MOST_GPUS: Final = 1024


def label_of(labels: dict[str, str], name: str) -> str:
    """A label; where labels of the exporter's own pod took the names, those that it is about are called exported_..."""
    return labels.get(f"exported_{name}") or labels.get(name, "")


def gpus_of_resource(resource: str, amount: float) -> Decimal | None:
    """GPUs of an extended resource; None: it is none.

    >>> gpus_of_resource("nvidia_com_gpu", 8.0), gpus_of_resource("nvidia_com_mig_3g_40gb", 2.0)
    (Decimal('8'), Decimal('0.857'))
    >>> gpus_of_resource("cpu", 96.0)
    """
    if not 0 < amount <= MOST_GPUS:
        return None
    if resource in WHOLE:
        return Decimal(int(amount))
    if resource.startswith(SLICE):
        share = Decimal(share_of_a_gpu(resource.removeprefix(SLICE).replace("_", ".")))
        return (int(amount) * share).quantize(Decimal("0.001"))
    return None
