"""A node as a row of `nodes`: its GPUs, since it joined; and its conditions, of which its states follow.

A node object has one inventory: a host that is replaced gets an object of its own, and with it another row.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.kubernetes.gpus import gpus_of
from ingest.kubernetes.sources import OBJECTS
from ingest.tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.kubernetes.objects import Node

MODEL_LABELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.nvidia.com/model")
LABELS: Final = (
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "network.topology.nvidia.com/datacenter",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/block",
    "network.topology.nvidia.com/leaf",
    "fabric.topograph.run/tier-3",
    "fabric.topograph.run/tier-2",
    "fabric.topograph.run/tier-1",
    "fabric.topograph.run/tier-0",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "backend.coreweave.cloud/fabric",
    "ib.coreweave.cloud/superpod",
    "backend.coreweave.cloud/leafgroup",
    "ds.coreweave.com/nvlink.domain",
    "network.topology.nvidia.com/accelerator",
    "accelerator.topograph.run/domain",
    "nvidia.com/gpu.clique",
)
"""Labels that are kept. From the fourth on they are the node's place in the network, the outermost first: those of
Topograph, EKS, GKE, CoreWeave and the GPU operator; the named query `node_places` makes a path of them."""


READY: Final = "Ready"
UNSCHEDULABLE: Final = "Unschedulable"
CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
SYSTEM_TAINTS: Final = ("node.kubernetes.io/", "nvidia.com/gpu")
"""Taints of which Kubernetes itself makes the reason, or that every GPU node has."""

NODE_STATES: Final = columns_of("node_states")


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


def condition_rows(node: Node, *, cluster: str) -> list[dict[str, Any]]:
    """Rows of `node_conditions`; `last_seen_at`, and a `since` that the node does not have, are the caller's."""
    ready = [one for one in node.status.conditions or () if one.type == READY]
    rows = [(READY, one.holds, one.lastTransitionTime, None if one.holds else one.reason) for one in ready]
    if node.spec.unschedulable:
        taints = node.spec.taints or ()
        since = next((taint.timeAdded for taint in taints if taint.key == CORDON_TAINT), None)
        others = sorted({taint.key for taint in taints if not taint.key.startswith(SYSTEM_TAINTS)})
        rows.append((UNSCHEDULABLE, True, since, ", ".join(others) or None))
    names = ("condition", "holds", "since", "reason")
    return [{"cluster": cluster, "node": node.metadata.name, **dict(zip(names, row, strict=True))} for row in rows]


def states_of(conditions: pl.DataFrame, nodes: pl.DataFrame, lists: pl.DataFrame) -> pl.DataFrame:
    """Rows of `node_states`: down while not ready, drained while cordoned, unknown where neither is observed.

    A node that became ready again without an observation of the time before was not ready at its end, and it is unknown
    since when. Of the end of a cordon nothing is recorded: it lasts until the first list of nodes without it.

    Args:
        conditions: rows of `node_conditions`.
        nodes: rows of `nodes`: when each joined.
        lists: rows of `object_lists`.
    """
    key = ["cluster", "node"]
    ready = conditions.filter(pl.col("condition") == READY).sort(*key, "since")
    begins = ready.with_columns(next_since=pl.col("since").shift(-1).over(key))
    down = begins.filter(~pl.col("holds")).select(
        *key, "reason", started_at="since", ended_at="next_since", state=pl.lit("down"), state_raw=pl.lit("NotReady")
    )
    joined = nodes.group_by(key).agg(joined=pl.col("valid_from").min())
    observed = pl.coalesce(pl.col("last_seen_at").shift(1).over(key), "joined")
    was_ready = pl.col("holds").shift(1).over(key).fill_null(value=True)
    unseen = (
        ready.join(joined, on=key, how="left")
        .with_columns(observed=observed, was_ready=was_ready)
        .filter(pl.col("holds") & pl.col("was_ready") & (pl.col("observed") < pl.col("since")))
        .select(
            *key, reason=pl.lit(None, dtype=pl.String), started_at="observed", ended_at="since",
            state=pl.lit("unknown"), state_raw=pl.lit("not observed"),
        )
    )  # fmt: skip
    looks = lists.filter(pl.col("kind") == "Node").select("cluster", look="seen_at").sort("look")
    cordons = conditions.filter(pl.col("condition") == UNSCHEDULABLE).sort("last_seen_at")
    drained = cordons.join_asof(
        looks,
        left_on="last_seen_at",
        right_on="look",
        by="cluster",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    ).select(*key, "reason", started_at="since", ended_at="look", state=pl.lit("drained"), state_raw=pl.lit("cordoned"))
    rows = pl.concat([down, unseen, drained]).with_columns(
        source=pl.lit(OBJECTS), actor=pl.lit(None, dtype=pl.String), planned=pl.lit(value=False)
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in NODE_STATES.items())


def times_of(node: Node) -> Iterable[datetime]:
    """All times that it reports."""
    yield node.metadata.creationTimestamp
    for one in node.status.conditions or ():
        yield from (time for time in (one.lastTransitionTime, one.lastHeartbeatTime) if time)
