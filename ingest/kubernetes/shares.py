"""GPUs of pods and nodes that do not follow from their own objects alone: claims, slices, and parts of GPUs.

A resource `nvidia.com/gpu` is a GPU unless the node's labels differ: under MIG's strategy `single` it is a slice, under
time slicing (and MPS) one of several names of the same GPU. GPU feature discovery writes that into the node's model.
`amd.com/gpu` is a partition where the label of AMD's node labeller names one; we write that into the model.

Source: NVIDIA/k8s-device-plugin, docs of GPU feature discovery (nvidia.com/gpu.product, .count, .replicas);
ROCm/k8s-device-plugin, resource naming strategies and node labeller (amd.com/compute-memory-partition).
"""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from ingest.kubernetes.at_once import FAR
from ingest.mig import share_of_a_gpu
from ingest.tables import columns_of

SHARED: Final = "-SHARED"
PARTITION: Final = "-PARTITION-"
SINGLE: Final = r"-(?:MIG-|PARTITION-)(.+?)(?:-SHARED)?$"
"""Ends of a model."""

_ANY: Final = f"{SHARED}$|{SINGLE}"

_CLAIM: Final = ("cluster", "namespace", "claim")
_GPUS: Final = columns_of("pods")["n_gpus"]


def with_shares(pods: pl.DataFrame, nodes: pl.DataFrame, named: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """Pods with the GPUs that they hold, from all loaded objects.

    Args:
        pods: rows of `pods`.
        nodes: rows of `nodes`, by Kubernetes' names.
        named: rows of `pod_claims`.
        claims: rows of `resource_claims`.
    """
    own = _by_nodes(pods, nodes, _ANY)
    claiming = own["n_gpus"].is_null()
    claimed = _with_claims(own, named, claims)
    # Names of AMD's devices do not show that they are partitions, unlike MIG's.
    parts = _by_nodes(claimed, nodes, PARTITION)["n_gpus"]
    return claimed.with_columns(n_gpus=pl.when(claiming).then(parts).otherwise("n_gpus"))


def requested(queued: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Rows of `kueue_workloads` with the GPUs that they request: parts, where those of all nodes are."""
    nowhere = queued.with_columns(node=pl.lit(None, dtype=pl.String))
    return _by_nodes(nowhere, nodes, _ANY).drop("node")


def _by_nodes(pods: pl.DataFrame, nodes: pl.DataFrame, which: str) -> pl.DataFrame:
    """Pods whose resources are slices on their nodes, or names that several pods have for one GPU.

    A pod that waits for a node requests slices where all nodes with GPUs have the same ones.

    Args:
        pods: rows of `pods`.
        nodes: rows of `nodes`.
        which: regular expression; only on nodes with such a model.
    """
    models = nodes.sort("valid_from").unique(["cluster", "node"], keep="last", maintain_order=True)
    parts = models.filter(pl.col("gpu_model").str.contains(which))
    if parts.is_empty():
        return pods
    names = parts["gpu_model"].unique().to_list()
    shares = [share_of_a_gpu(name) if re.search(SINGLE, name) and not name.endswith(SHARED) else None for name in names]
    share = pl.col("gpu_model").replace_strict(names, shares, default=1.0, return_dtype=pl.Float64)
    # A node without GPUs, whose device plugin is down for example, offers none; its pods still hold parts.
    held = parts.select("cluster", "node", share=share, is_part=pl.lit(value=True))
    joined = pods.join(held, on=["cluster", "node"], how="left", maintain_order="left").join(
        _everywhere(models.filter(pl.col("n_gpus") > 0).with_columns(share=share)),
        on="cluster", how="left", maintain_order="left",
    )  # fmt: skip
    waits = pl.col("node").is_null() & pl.col("wherever").is_not_null()
    of_pod = pl.when(waits).then("wherever").otherwise("share")
    part = (pl.col("n_gpus").cast(pl.Float64) * of_pod).round(3).cast(_GPUS)
    is_part = (pl.col("is_part").fill_null(value=False) | waits) & (pl.col("n_gpus") > 0)
    return joined.with_columns(n_gpus=pl.when(is_part).then(part).otherwise("n_gpus")).select(pods.columns)


def _everywhere(of_nodes: pl.DataFrame) -> pl.DataFrame:
    """Part of a GPU that a resource is on every node (`wherever`), for clusters where it is the same."""
    shares = of_nodes.group_by("cluster").agg(
        wherever=pl.col("share").first(), same=(pl.col("share").n_unique() == 1) & pl.col("share").is_not_null().all()
    )
    return shares.filter("same").select("cluster", "wherever")


def _with_claims(pods: pl.DataFrame, named: pl.DataFrame, claims: pl.DataFrame) -> pl.DataFrame:
    """Pods whose GPUs are claims: each has an equal share of a claim with those that hold it at the same time."""
    unknown = pods.filter(pl.col("n_gpus").is_null())
    if named.is_empty() or unknown.is_empty():
        return pods
    held_until = pl.coalesce("ended_at", "deleted_at", FAR)
    spans = pods.select("cluster", "uid", "namespace", begin=pl.coalesce("scheduled_at", "created_at"), end=held_until)
    holders = named.join(spans, on=["cluster", "uid"]).select(*_CLAIM, "uid", "begin", "end")
    known = claims.sort("seen_at").unique(["cluster", "namespace", "name"], keep="last", maintain_order=True)
    gpus = known.select("cluster", "namespace", claim="name", gpus=pl.col("n_gpus").cast(pl.Float64))
    shares = holders.join(_holders_at_once(holders), on=[*_CLAIM, "uid"], how="left").join(gpus, on=_CLAIM, how="left")
    share = pl.col("gpus") / pl.col("together").fill_null(1)
    sums = shares.group_by("cluster", "uid").agg(
        of_claims=pl.when(share.null_count() == 0).then(share.sum()).round(3).cast(_GPUS)
    )
    joined = pods.join(sums, on=["cluster", "uid"], how="left", maintain_order="left")
    return joined.with_columns(n_gpus=pl.coalesce("n_gpus", "of_claims")).select(pods.columns)


def _holders_at_once(holders: pl.DataFrame) -> pl.DataFrame:
    """Number of pods that hold the claim of each at the same time, with itself."""
    many = holders.filter(pl.len().over(_CLAIM) > 1)
    others = many.select(*_CLAIM, other="uid", other_begin="begin", other_end="end")
    meet = (pl.col("other_begin") < pl.col("end")) & (pl.col("begin") < pl.col("other_end"))
    pairs = many.join(others, on=_CLAIM).filter(meet | (pl.col("uid") == pl.col("other")))
    return pairs.group_by(*_CLAIM, "uid").agg(together=pl.col("other").n_unique())


def nodes_by_slices(nodes: pl.DataFrame, slices: pl.DataFrame) -> pl.DataFrame:
    """Rows of `nodes` that have no GPUs as a resource, with those of their slices.

    Args:
        nodes: rows of `nodes`.
        slices: rows of `resource_slices`.
    """
    current = slices.filter(pl.col("generation") == pl.col("generation").max().over("cluster", "node", "pool"))
    offered = current.group_by("cluster", "node").agg(
        offered=pl.when(pl.col("n_gpus").null_count() == 0).then(pl.col("n_gpus").sum()),
        model=pl.col("gpu_model").drop_nulls().sort().first(),
    )
    rows = nodes.filter(pl.col("n_gpus") == 0).join(offered, on=["cluster", "node"])
    partitions = pl.when(pl.col("model").str.contains(PARTITION, literal=True)).then("model")
    made = rows.filter(pl.col("offered") > 0).with_columns(
        n_gpus=pl.col("offered").cast(nodes.schema["n_gpus"]), gpu_model=pl.coalesce(partitions, "gpu_model", "model")
    )
    return made.select(nodes.columns)
