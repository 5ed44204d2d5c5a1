"""A node as a row of `nodes`: its GPUs, since it joined; and its conditions, from which its states follow.

A node object has one inventory: a host that is replaced gets an object of its own, and with it another row.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.kubernetes.gpus import QuantityError, gpus_of, quantity
from ingest.kubernetes.shares import PARTITION, SHARED, SINGLE
from ingest.kubernetes.sources import OBJECTS
from ingest.mig import share_of_a_gpu
from ingest.node_reasons import meaning_of
from ingest.tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from ingest.kubernetes.objects import KubernetesNode, Metadata, NodeCondition

MODEL_LABELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.nvidia.com/model")
PARTITION_LABEL: Final = "amd.com/compute-memory-partition"
"""Label of AMD's node labeller: how all GPUs of the node are partitioned, such as cpx_nps4."""

LABELLED: Final = re.compile(r"^\d{1,4}$")
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


FAULTS: Final = ("gpu", "network", "storage", "memory", "software", "check")
"""Causes of `ingest.node_reasons` that are faults of a node."""

READY: Final = "Ready"
UNSCHEDULABLE: Final = "Unschedulable"
CORDON_TAINT: Final = "node.kubernetes.io/unschedulable"
SYSTEM_TAINTS: Final = ("node.kubernetes.io/", "nvidia.com/gpu")
"""Taints that Kubernetes itself sets, or that every GPU node has."""

WELL: Final = re.compile(r"(Ready|Healthy|OK|Available)$")
"""Conditions that report health; most others report a fault, or work in progress."""

BUSY: Final = frozenset({"CWActive"})
"""Conditions unrelated to health: CoreWeave's, that a node has workloads."""

ACTION: Final = re.compile(r"""recommended ?action["' ]*[:=]["' ]*(\w+)""", re.IGNORECASE)
MARKS: Final = ("dgxc.nvidia.com/nvsentinel-state", "sunk.coreweave.com/drain")
"""Labels and annotations with the reason of a cordon: NVSentinel's state of the repair, SUNK's drain reason."""

QUARANTINE: Final = "quarantineHealthEvent"
"""NVSentinel's annotation: the event as JSON, with the recommended action."""

PLANNED: Final = r"^Maintenance(Planned|InProgress)\b"
"""Conditions of Kubernetes' node life cycle (KEP-5683) that mark a cordon as planned."""

LONGEST_REASON: Final = 500

NODE_STATES: Final = columns_of("node_states")
HEALTH_EVENTS: Final = columns_of("health_events")


def node_row(node: KubernetesNode, *, cluster: str) -> dict[str, Any]:
    """The row; `last_seen_at` is left to the caller.

    A node whose GPUs are shared, or that has no device plugin, has the number of GPUs in its label. Under MIG's
    strategy `single` each resource is a slice, and a partition where AMD's GPUs are partitioned.

    Raises:
        QuantityError: its GPUs are no number, or are shared and no label has their number.
    """
    meta = node.metadata
    capacity = node.status.capacity or {}
    n_gpus = gpus_of(capacity)
    count = meta.label("nvidia.com/gpu.count") or ""
    labelled = Decimal(count) if LABELLED.match(count) else None
    model = _model(meta, capacity)
    if labelled is not None and (not n_gpus or model.endswith(SHARED)):
        n_gpus = labelled
    if n_gpus is None:
        message = "its GPUs are shared, and no label nvidia.com/gpu.count has their number"
        raise QuantityError(message)
    if re.search(SINGLE, model):
        n_gpus = (n_gpus * Decimal(share_of_a_gpu(model.removesuffix(SHARED)))).quantize(Decimal("0.001"))
    cpus = str(capacity.get("cpu", ""))
    kept = [f"{name}={text}" for name in LABELS if (text := meta.label(name))]
    return {
        "cluster": cluster,
        "node": meta.name,
        "valid_from": meta.creationTimestamp,
        "n_gpus": n_gpus,
        "gpu_model": model or None,
        "n_cpus": int(cpus) if cpus.isdigit() and len(cpus) <= 9 else None,
        "labels": kept,
        "evidence": "accounting",
    }


def _model(meta: Metadata, capacity: Mapping[str, str | float]) -> str:
    """The model of its GPUs; partitions that the device plugin offers as whole GPUs are named at its end."""
    model, partition = meta.label(*MODEL_LABELS) or "", meta.label(PARTITION_LABEL)
    offered = partition and quantity(capacity.get("amd.com/gpu", 0))
    return f"{model}{PARTITION}{partition}" if offered and share_of_a_gpu(partition or "") < 1 else model


def condition_rows(node: KubernetesNode, *, cluster: str) -> list[dict[str, Any]]:
    """Rows of `node_conditions`; `last_seen_at`, and a `since` that the node does not have, are the caller's."""
    conditions = node.status.conditions or ()
    ready = [one for one in conditions if one.type == READY]
    rows = [(READY, one.holds, one.lastTransitionTime, None if one.holds else one.reason) for one in ready]
    others = [one for one in conditions if one.type and one.type != READY and _is_active(one)]
    rows += [(one.type, one.holds, one.lastTransitionTime, _words(one)) for one in others]
    if node.spec.unschedulable:
        taints = node.spec.taints or ()
        since = next((taint.timeAdded for taint in taints if taint.key == CORDON_TAINT), None)
        rows.append((UNSCHEDULABLE, True, since, _why_cordoned(node, others)))
    names = ("condition", "holds", "since", "reason")
    return [{"cluster": cluster, "node": node.metadata.name, **dict(zip(names, row, strict=True))} for row in rows]


def _is_active(condition: NodeCondition) -> bool:
    """Whether a condition reports a fault, or work in progress. One with status Unknown reports nothing."""
    is_well = WELL.search(condition.type) is not None
    return condition.type not in BUSY and condition.status == ("False" if is_well else "True")


def _words(condition: NodeCondition) -> str | None:
    """Its reason and message."""
    return ": ".join(text for text in (condition.reason, condition.message) if text)[:LONGEST_REASON] or None


def _why_cordoned(node: KubernetesNode, conditions: list[NodeCondition]) -> str | None:
    """Reasons of a cordon: conditions that hold, marks of repair systems, and taints."""
    meta = node.metadata
    marks = [f"{name.partition('/')[2]}: {text}" for name in MARKS if (text := meta.label(name))]
    action = ACTION.search(meta.label(QUARANTINE) or "")
    marks += [f"Recommended Action={action[1]}"] if action else []
    own = [f"{one.type} ({words})" if (words := _words(one)) else one.type for one in conditions]
    keys = {taint.key for taint in node.spec.taints or () if not taint.key.startswith(SYSTEM_TAINTS)}
    ordered = sorted(own, key=lambda text: not text.startswith("Maintenance"))
    return ", ".join([*ordered, *marks, *sorted(keys)])[:LONGEST_REASON] or None


def events_of(conditions: pl.DataFrame) -> pl.DataFrame:
    """Rows of `health_events`: conditions other than Ready and cordons, when each began to hold.

    A condition that matches a rule of `ingest/node_reasons.toml` for faults is a warning, all others are information.
    None is critical: jobs continue under them.

    Args:
        conditions: rows of `node_conditions`, with Slurm's names of nodes that have some.
    """
    others = conditions.filter(~pl.col("condition").is_in([READY, UNSCHEDULABLE])).sort("last_seen_at")
    rows = others.unique(["cluster", "node", "condition", "since"], keep="last", maintain_order=True)
    causes = [meaning_of(f"{name}: {why or ''}").cause for name, why in rows.select("condition", "reason").iter_rows()]
    known = rows.with_columns(cause=pl.Series(causes, dtype=pl.String))
    of_health = known.with_columns(
        ts="since",
        kind=pl.lit("condition"),
        code="condition",
        device="condition",
        detail="reason",
        severity=pl.when(pl.col("cause").is_in(FAULTS)).then(pl.lit("warning")).otherwise(pl.lit("info")),
        source=pl.lit(OBJECTS),
        evidence=pl.lit("telemetry"),
        action=pl.col("reason").str.extract(ACTION.pattern.replace("recommended", "(?i)recommended"), 1),
        **{"class": pl.lit("NODE")},
    )
    missing = [pl.lit(None).alias(name) for name in HEALTH_EVENTS if name not in of_health.columns]
    return (
        of_health.with_columns(missing)
        .select(pl.col(name).cast(kind) for name, kind in HEALTH_EVENTS.items())
        .sort("cluster", "node", "ts", "code")
    )


def states_of(conditions: pl.DataFrame, nodes: pl.DataFrame, lists: pl.DataFrame) -> pl.DataFrame:
    """Rows of `node_states`: down while not ready, drained while cordoned, unknown where neither is observed.

    A node that became ready again without an observation before was not ready until then; the beginning of that outage
    is unknown. The end of a cordon is not recorded: it lasts until the first list of nodes without it.

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
    snapshots = lists.filter(pl.col("kind") == "Node").select("cluster", listed_at="seen_at").sort("listed_at")
    cordons = conditions.filter(pl.col("condition") == UNSCHEDULABLE).sort("last_seen_at")
    drained = cordons.join_asof(
        snapshots,
        left_on="last_seen_at",
        right_on="listed_at",
        by="cluster",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    ).select(
        *key, "reason", started_at="since", ended_at="listed_at", state=pl.lit("drained"), state_raw=pl.lit("cordoned")
    )
    planned = (pl.col("state") == "drained") & pl.col("reason").str.contains(PLANNED).fill_null(value=False)
    rows = pl.concat([down, unseen, drained]).with_columns(
        source=pl.lit(OBJECTS), actor=pl.lit(None, dtype=pl.String), planned=planned
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in NODE_STATES.items())


def times_of(node: KubernetesNode) -> Iterable[datetime]:
    """All times that it reports."""
    yield node.metadata.creationTimestamp
    for one in node.status.conditions or ():
        yield from (time for time in (one.lastTransitionTime, one.lastHeartbeatTime) if time)
