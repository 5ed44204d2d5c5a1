"""Work that waits in Kueue's queues: a suspended job has no pods, and yet it waits for GPUs."""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.attempts import as_attempts, job_id
from ingest.kubernetes.lists import with_last_list
from ingest.kubernetes.workloads import KINDS, with_roots

_UID: Final = ("cluster", "uid")
_JOB: Final = ("cluster", "job")


def waiting_of(
    queued: pl.DataFrame,
    conditions: pl.DataFrame,
    workloads: pl.DataFrame,
    lists: pl.DataFrame,
    *,
    attempts: pl.DataFrame,
    orders: pl.DataFrame,
) -> pl.DataFrame:
    """Attempts that wait without pods.

    A job waits from its creation or its last eviction on, until its pods are created or its Workload is gone. A
    Workload that a later list lacks was cancelled, at the latest observation, which is marked as guessed.

    Args:
        queued: rows of `kueue_workloads`.
        conditions: rows of `kueue_conditions`.
        workloads: rows of `workloads`.
        lists: rows of `object_lists`.
        attempts: those of pods.
        orders: evictions, with `job_id`.
    """
    rows = _waiting(queued, conditions).filter(pl.col("owner_kind").is_in(sorted(KINDS)))
    named = with_roots(rows.with_columns(workload_uid="uid", uid="owner_uid"), workloads)
    named = named.with_columns(slot=pl.lit(None, dtype=pl.String)).with_columns(job=job_id())
    evicted = orders.group_by("cluster", uid="uid").agg(since=pl.col("evicted_at").max())
    begun = pl.max_horizontal("submitted_at", "started_at").max()
    tried = attempts.group_by("cluster", job="job_id").agg(tried_at=begun)
    waits = (
        with_last_list(named, lists, "Workload", "listed")
        .join(evicted, left_on=["cluster", "workload_uid"], right_on=_UID, how="left")
        .join(tried, on=_JOB, how="left")
        .filter(pl.col("tried_at").is_null() | (pl.col("tried_at") < pl.col("since")).fill_null(value=False))
    )
    return as_attempts(_rows(waits, workloads))


def _waiting(queued: pl.DataFrame, conditions: pl.DataFrame) -> pl.DataFrame:
    """Workloads that request GPUs and were neither admitted nor finished when they were last seen."""
    latest = conditions.sort("since").unique([*_UID, "condition"], keep="last")
    over = latest.filter("holds", pl.col("condition").is_in(["Admitted", "Finished"]))
    return queued.filter(pl.col("n_gpus").fill_null(1) > 0).join(over, on=_UID, how="anti")


def _rows(waits: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Input rows of `as_attempts`."""
    roots = workloads.select(
        "cluster",
        root_uid="uid",
        root_created="created_at",
        root_queue="queue",
        root_user="user",
        root_ended="ended_at",
    )
    gone = (pl.col("listed") > pl.col("seen_at")).fill_null(value=False)
    rows = waits.join(roots, on=["cluster", "root_uid"], how="left").unique(_JOB, keep="first", maintain_order=True)
    ended = pl.coalesce("root_ended", pl.when(gone).then("seen_at"))
    submitted = pl.coalesce("since", pl.min_horizontal("root_created", "created_at"))
    nothing = {name: pl.lit(None, dtype=pl.String) for name in ("why", "root_reason", "failed_node", "evicted_for")}
    return rows.with_columns(
        submitted_at=submitted,
        ended_at=pl.when(ended.is_not_null()).then(pl.max_horizontal(ended, submitted)),
        guessed=gone & pl.col("root_ended").is_null(),
        state=pl.when(ended.is_null()).then(pl.lit("PENDING")).otherwise(pl.lit("CANCELLED")),
        started_at=pl.lit(None, dtype=pl.Datetime("us", "UTC")),
        req_gpus="n_gpus",
        n_gpus=pl.lit(0),
        n_nodes=pl.lit(0),
        nodes=pl.lit([], dtype=pl.List(pl.String)),
        exit_code=pl.lit(None, dtype=pl.Int64),
        restarts=pl.lit(0),
        user=pl.lit(None, dtype=pl.String),
        was_evicted=pl.lit(value=False),
        **nothing,
    ).drop("uid", "priority")
