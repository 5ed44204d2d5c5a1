"""A node as a row of `nodes`: its GPUs, since it joined.

A node object has one inventory: a host that is replaced gets an object of its own, and with it another row.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from ingest.kubernetes.gpus import gpus_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.kubernetes.objects import Node

MODEL_LABELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.nvidia.com/model")
LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels that are kept."""


def node_row(node: Node, *, cluster: str) -> dict[str, Any]:
    """The row; `last_seen_at` is left to the caller. A node whose GPUs are shared has as many as its label says.

    Raises:
        QuantityError: its GPUs are no number.
    """
    meta = node.metadata
    capacity = node.status.capacity or {}
    n_gpus = gpus_of(capacity)
    labelled = meta.label("nvidia.com/gpu.count")
    if n_gpus is None:
        n_gpus = Decimal(labelled) if labelled and labelled.isdigit() else Decimal(0)
    cpus = str(capacity.get("cpu", ""))
    kept = [f"{name}={text}" for name in LABELS if (text := meta.label(name))]
    return {
        "cluster": cluster,
        "node": meta.name,
        "valid_from": meta.creationTimestamp,
        "n_gpus": n_gpus,
        "gpu_model": meta.label(*MODEL_LABELS),
        "n_cpus": int(cpus) if cpus.isdigit() and len(cpus) <= 9 else None,
        "labels": kept,
        "evidence": "accounting",
    }


def times_of(node: Node) -> Iterable[datetime]:
    """All times that it reports."""
    yield node.metadata.creationTimestamp
    for one in node.status.conditions or ():
        yield from (time for time in (one.lastTransitionTime, one.lastHeartbeatTime) if time)
