"""Pods of kube-state-metrics beside those of objects: each pod once, by its uid, the object first.

Metrics have no labels of pods and no uids of owners. So a pod is in the job of the object of that name that existed
when the pod was created, if one was loaded, and else in a job identified by its name alone.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.pods import OF_REASON, SLURM_JOB, SLURM_NODE, SLURM_NODE_KINDS, SLURM_SCHEDULERS, WORK
from ingest.tables import columns_of

PODS: Final = columns_of("pods")
LISTS: Final = columns_of("object_lists")
_POD: Final = ["cluster", "uid"]
_KEPT: Final = ("ended_at", "state", "reason", "exit_code")


def with_metered(
    pods: pl.DataFrame, metered: pl.DataFrame, workloads: pl.DataFrame, slurm_nodes: pl.DataFrame
) -> pl.DataFrame:
    """Rows of `pods`, with those that only kube-state-metrics reported, and ends that only it observed.

    Args:
        pods: rows of `pods`.
        metered: rows of `metered_pods`.
        workloads: rows of `workloads`.
        slurm_nodes: `cluster` and `node` of Slurm's nodes: pods of these names are such nodes.
    """
    if metered.is_empty():
        return pods
    rows = _as_pods(metered, pods, workloads, slurm_nodes)
    others = rows.join(pods, on=_POD, how="anti")
    later = rows.filter(pl.col("ended_at").is_not_null()).select(
        *_POD, *(pl.col(name).alias(f"m_{name}") for name in _KEPT)
    )
    observed = rows.select(*_POD, metered_at="seen_at")
    known = pods.join(later, on=_POD, how="left", maintain_order="left").join(
        observed, on=_POD, how="left", maintain_order="left"
    )
    ended_unseen = pl.col("ended_at").is_null() & pl.col("m_ended_at").is_not_null() & pl.col("deleted_at").is_null()
    filled = known.with_columns(
        *(pl.when(ended_unseen).then(f"m_{name}").otherwise(name).alias(name) for name in _KEPT),
        seen_at=pl.max_horizontal("seen_at", "metered_at"),
    )
    return pl.concat([filled.select(list(PODS)), others.select(list(PODS))])


def lists_with_metered(lists: pl.DataFrame, namespaces: pl.DataFrame) -> pl.DataFrame:
    """Rows of `object_lists`, with those that follow from kube-state-metrics."""
    own = namespaces.select("cluster", "namespace", "seen_at", kind=pl.lit("Pod"))
    return pl.concat([lists, own.select(list(LISTS))])


def _as_pods(
    metered: pl.DataFrame, pods: pl.DataFrame, workloads: pl.DataFrame, slurm_nodes: pl.DataFrame
) -> pl.DataFrame:
    """Metered pods with the columns of `pods`."""
    named = slurm_nodes.select("cluster", name="node").unique().with_columns(is_node=pl.lit(value=True))
    of_node = pl.col("owner_kind").is_in(sorted(SLURM_NODE_KINDS)) | pl.col("is_node")
    of_job = pl.any_horizontal(pl.col("scheduler_name").str.ends_with(end) for end in SLURM_SCHEDULERS)
    running = pl.when(pl.col("node").is_null()).then(pl.lit("PENDING")).otherwise(pl.lit("RUNNING"))
    created = pl.coalesce("created_at", "scheduled_at", "first_seen_at")
    rows = (
        metered.join(named, on=["cluster", "name"], how="left", maintain_order="left")
        .with_columns(
            created_at=created,
            scheduled_at=pl.when(pl.col("node").is_not_null()).then(pl.coalesce("scheduled_at", created)),
            role=pl.when(of_node.fill_null(value=False))
            .then(pl.lit(SLURM_NODE))
            .when(of_job.fill_null(value=False))
            .then(pl.lit(SLURM_JOB))
            .otherwise(pl.lit(WORK)),
            slot=_slot(),
            state=pl.when(pl.col("phase") == "Succeeded")
            .then(pl.lit("COMPLETED"))
            .when(pl.col("phase") == "Failed")
            .then(pl.col("reason").replace_strict(OF_REASON, default="FAILED"))
            .otherwise(running),
            restarts=pl.lit(0),
        )
        .drop("phase", "job_name")
    )
    owned = _with_owners(rows, pods, workloads)
    missing = [pl.lit(None).alias(name) for name in PODS if name not in owned.columns]
    return owned.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in PODS.items())


def _slot() -> pl.Expr:
    """The place of a pod of an indexed Job, named JOB-INDEX-RANDOM. Other pods have constant names, or no place."""
    rest = pl.col("name").str.strip_prefix(pl.concat_str("job_name", pl.lit("-")))
    index = rest.str.extract(r"^(\d+)-[a-z0-9]{5}$", 1)
    of_job = pl.concat_str("job_name", pl.lit("-"), index)
    return pl.when(pl.col("job_name").is_null()).then("name").otherwise(of_job)


def _with_owners(rows: pl.DataFrame, pods: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Pods with `owner_uid`: that of the last object of this kind and name that was made before."""
    name = ["cluster", "namespace", "owner_kind", "owner_name"]
    of_objects = workloads.select(
        "cluster", "namespace", "created_at", owner_kind="kind", owner_name="name", owner_uid="uid"
    )
    of_pods = pods.select("cluster", "namespace", "created_at", "owner_kind", "owner_name", "owner_uid").drop_nulls()
    known = pl.concat([of_objects, of_pods.select(of_objects.columns)]).unique([*name, "owner_uid"], keep="first")
    dated = known.sort("created_at").rename({"created_at": "owner_created_at"})
    return rows.sort("created_at").join_asof(
        dated, left_on="created_at", right_on="owner_created_at", by=name, check_sortedness=False
    )
