"""Evictions by Kueue: the execution that each ended, the preempting workload, and the actual end of its pods.

An eviction is an order: quota is free again in Kueue at once, the GPUs when the last pod has ended. In between others
wait although the queue has room.

A Workload that was admitted again no longer has the time of its last eviction, but may still record that it was a
preemption. The preemption ended the execution before the new quota if a signal stopped pods of that: it came before the
first of these ends. Kueue did not stop pods that had ended long before it found the job inactive (Requeued). Such an
eviction has no row in `evictions`, whose times are exact.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.workloads import with_roots
from ingest.tables import columns_of

EVICTIONS: Final = columns_of("evictions")

SAME_S: Final = "2s"
"""Largest distance between the beginnings of the conditions Evicted and Preempted of one order."""

INACTIVE_S: Final = 300
"""Longest time between the end of a stopped job's last pod and its requeue by Kueue."""

SIGNAL_STATUSES: Final = (137, 143)
"""Exit statuses of containers ended by SIGKILL and SIGTERM."""

_UID: Final = ("cluster", "uid")
_JOB: Final = ("cluster", "job")
_ATTEMPT: Final = ("cluster", "scheduler", "job_id", "submitted_at")


def orders_of(queued: pl.DataFrame, conditions: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Evictions that Kueue ordered, with the job of each.

    Args:
        queued: rows of `kueue_workloads`.
        conditions: rows of `kueue_conditions`.
        workloads: rows of `workloads`.

    Returns:
        Columns of `evictions` that follow from Kueue alone, and `root_uid`: the outermost object, or the pod.
    """
    held = conditions.filter("holds")
    evicted = held.filter(pl.col("condition") == "Evicted").with_columns(evicted_at="since").sort("since")
    preempted = held.filter(pl.col("condition") == "Preempted").select(
        *_UID, "since", preemption="reason", by_uid="preemptor_uid", by_job="preemptor_job_uid"
    )
    rows = evicted.join_asof(
        preempted.sort("since"), on="since", by=list(_UID), strategy="nearest", tolerance=SAME_S, check_sortedness=False
    )
    return (
        rows.with_columns(
            preemptor_uid=pl.coalesce("preemptor_uid", "by_uid"), job_uid=pl.coalesce("preemptor_job_uid", "by_job")
        )
        .join(_jobs(queued, workloads), on=_UID)
        .join(_names(queued, workloads), on=["cluster", "preemptor_uid"], how="left")
        .join(_names_of_jobs(workloads), on=["cluster", "job_uid"], how="left")
        .with_columns(preemptor=pl.coalesce("preemptor", "preemptor_job"))
        .drop("preemptor_job")
    )


def remembered_of(queued: pl.DataFrame, conditions: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Preemptions of which only the next reservation of quota was observed.

    Args:
        queued: rows of `kueue_workloads`.
        conditions: rows of `kueue_conditions`.
        workloads: rows of `workloads`.

    Returns:
        `cluster`, `root_uid`, `reserved_at`, and `requeued_at`: since when the job waits again at the latest, or since
        an earlier preemption; null: not recorded.
    """
    rows = conditions.filter(pl.col("condition") == "Evicted").sort(*_UID, "since", "holds")
    ordered = pl.col("holds").shift(1).over(_UID).fill_null(value=False)
    named = pl.any_horizontal(pl.col("preemptor_uid", "preemptor_job_uid").is_not_null())
    ended = rows.filter(~pl.col("holds") & named & ~ordered).rename({"since": "reserved_at"}).sort("reserved_at")
    requeued = conditions.filter("holds", (pl.col("condition") == "Requeued") & (pl.col("reason") == "Preempted"))
    waits = requeued.select(*_UID, requeued_at="since").sort("requeued_at")
    dated = ended.join_asof(
        waits, left_on="reserved_at", right_on="requeued_at", by=list(_UID), check_sortedness=False
    )  # fmt: skip
    return dated.join(_jobs(queued, workloads), on=_UID).select("cluster", "root_uid", "reserved_at", "requeued_at")


def stopped_of(pods: pl.DataFrame, remembered: pl.DataFrame) -> pl.DataFrame:
    """Latest possible times of preemptions without a recorded time: `cluster`, `job`, `evicted_at`, `evicted_for`.

    Args:
        pods: all pods of jobs, with `job`, `held_from` and `held_until`.
        remembered: `cluster`, `job`, `reserved_at`, `requeued_at`: `remembered_of`, with the job of each.

    Returns:
        No row of a preemption whose execution has no pod ended by a signal: its pods ended by themselves.
    """
    # Pods of a group may be replaced before there is quota: they wait, gated, for a node.
    before = pods.join(remembered, on=_JOB).filter(pl.col("held_from") < pl.col("reserved_at"))
    last_begun = pl.col("held_from").max().over(*_JOB, "reserved_at")
    by_signal = (pl.col("state") == "FAILED") & pl.col("exit_code").is_in(SIGNAL_STATUSES)
    stopped = by_signal | pl.col("state").is_in(["PREEMPTED", "CANCELLED"])
    ended = before.filter(
        stopped & (pl.col("held_until") > last_begun) & (pl.col("held_until") <= pl.col("reserved_at"))
    )
    orders = ended.group_by(*_JOB, "reserved_at", "requeued_at").agg(
        evicted_at=pl.col("held_until").min(), gone_at=pl.col("held_until").max()
    )
    inactive = pl.col("gone_at") + pl.duration(seconds=INACTIVE_S)
    at_once = (pl.col("requeued_at") <= inactive).fill_null(value=True)
    return orders.filter(at_once).select(*_JOB, "evicted_at", evicted_for=pl.lit("Preempted"))


def evictions_of(
    orders: pl.DataFrame, attempts: pl.DataFrame, placements: pl.DataFrame, conditions: pl.DataFrame
) -> pl.DataFrame:
    """Rows of `evictions`.

    Args:
        orders: as `orders_of` returns them, with `job_id`: the job of each, null where no pod was observed.
        attempts: rows of `attempts`.
        placements: rows of `placements`.
        conditions: rows of `kueue_conditions`.
    """
    admitted = conditions.filter("holds", pl.col("condition") == "Admitted").select(*_UID, admitted_at="since")
    rows = orders.sort("evicted_at").join_asof(
        admitted.sort("admitted_at"), left_on="evicted_at", right_on="admitted_at", by=list(_UID), strategy="forward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    ran = attempts.filter(pl.col("started_at").is_not_null()).select(
        *_ATTEMPT, "started_at", attempt_gpus="n_gpus", gone_at="ended_at"
    )
    rows = rows.sort("evicted_at").join_asof(
        ran.sort("started_at"), left_on="evicted_at", right_on="started_at", by=["cluster", "job_id"],
        strategy="backward", check_sortedness=False,
    )  # fmt: skip
    ended_before = pl.col("gone_at") < pl.col("evicted_at")
    rows = rows.with_columns(pl.when(~ended_before.fill_null(value=False)).then("gone_at")).join(
        _held_after(rows, placements), on=[*_UID, "evicted_at"], how="left"
    )
    gone_s = (pl.col("gone_at") - pl.col("evicted_at")).dt.total_microseconds() / 1e6
    rows = rows.with_columns(
        n_gpus=pl.col("attempt_gpus"), gone_s=gone_s, held_gpu_s=pl.when(gone_s.is_not_null()).then("held_gpu_s")
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in EVICTIONS.items()).sort(*_UID, "evicted_at")


def _jobs(queued: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """The job of each Workload: `root_uid`, `kind`, `name` and its queues."""
    own = queued.select(
        *("cluster", "namespace", "queue", "cluster_queue", "owner_kind", "owner_name", "owner_uid"),
        workload_uid="uid",
        uid=pl.coalesce("owner_uid", "uid"),
        name=pl.coalesce("owner_name", "name"),
        own_kind="owner_kind",
    )
    rows = with_roots(own, workloads).with_columns(
        kind=pl.when(pl.col("root_kind") == "Pod").then("own_kind").otherwise("root_kind")
    )
    return rows.select(
        "cluster", "root_uid", "kind", "queue", "cluster_queue", uid="workload_uid",
        name=pl.concat_str("namespace", "root_name", separator="/"),
    )  # fmt: skip


def _names(queued: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    return _jobs(queued, workloads).select("cluster", preemptor_uid="uid", preemptor="name")


def _names_of_jobs(workloads: pl.DataFrame) -> pl.DataFrame:
    return workloads.select("cluster", job_uid="uid", preemptor_job=pl.concat_str("namespace", "name", separator="/"))


def _held_after(rows: pl.DataFrame, placements: pl.DataFrame) -> pl.DataFrame:
    """GPU-seconds that the pods of evicted executions held after the order; null where unknown."""
    parts = rows.select(*_ATTEMPT, "uid", "evicted_at").join(placements, on=_ATTEMPT)
    left = pl.max_horizontal((pl.col("ended_at") - pl.col("evicted_at")).dt.total_microseconds() / 1e6, pl.lit(0.0))
    known = pl.col("ended_at").is_not_null() & pl.col("n_gpus").is_not_null()
    held = pl.when(known).then(left * pl.col("n_gpus").cast(pl.Float64))
    return parts.group_by(*_UID, "evicted_at").agg(held_gpu_s=pl.when(held.null_count() == 0).then(held.sum()))
