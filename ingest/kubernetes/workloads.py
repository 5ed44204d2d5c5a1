"""Objects that control pods as rows of `workloads`: their own controllers, and their outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.kubernetes.gangs import JOB_SET, TASK
from ingest.kubernetes.objects import JobState, identity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.kubernetes.objects import Workload, WorkloadStatus

KUBEFLOW: Final = frozenset({"TrainJob", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob"})
INSTANCE: Final = "VirtualMachineInstance"
MACHINES: Final = frozenset({"VirtualMachine", INSTANCE})
"""KubeVirt's: an instance is one boot of a machine, and a pod holds its devices."""

RAY_CLUSTER: Final = "RayCluster"
RAY: Final = ("RayJob", RAY_CLUSTER)
WORKFLOW: Final = "Workflow"
"""Argo's: each of its steps is a job of its own, be it a pod or a workload that the step made."""

JOB: Final = "Job"
KINDS: Final = KUBEFLOW | MACHINES | {"JobSet", JOB, WORKFLOW, "LeaderWorkerSet", *RAY}
"""Kinds that are read. Pods of others (ReplicaSet, StatefulSet, DaemonSet) are each a workload of its own."""

OF_CONDITION: Final = {
    "Failed": "FAILED",
    "Complete": "COMPLETED",
    "Completed": "COMPLETED",
    "Succeeded": "COMPLETED",
}
OF_PHASE: Final = {
    "Succeeded": "COMPLETED",
    "Completed": "COMPLETED",
    "Failed": "FAILED",
    "Error": "FAILED",
    "Aborted": "FAILED",
    "Terminated": "FAILED",
    "Pending": "PENDING",
    "Running": "RUNNING",
    "Scheduling": "PENDING",
    "Scheduled": "PENDING",
    "SUCCEEDED": "COMPLETED",
    "FAILED": "FAILED",
    "STOPPED": "CANCELLED",
    "PENDING": "PENDING",
}
"""Argo's, Volcano's and KubeVirt's phases, and Ray's statuses of a job."""

DEEPEST: Final = 5
"""Most levels of owners that are followed."""


def workload_row(workload: Workload, *, cluster: str) -> dict[str, Any]:
    """The row; `seen_at` is left to the caller."""
    named = identity(workload.metadata, cluster=cluster)
    return {**named, "kind": workload.kind, **_outcome(workload.status), "is_work_queue": _is_work_queue(workload)}


def _is_work_queue(workload: Workload) -> bool:
    """Whether its pods work by themselves: they never run all at once, or their number is open.

    A Job with a parallelism of 0 is paused: how many of its pods run at once is unknown.

    Source: the Kubernetes documentation, "Jobs", "Parallel execution for Jobs".
    """
    if workload.kind != JOB or workload.spec is None:
        return False
    completions, parallelism = workload.spec.completions, workload.spec.parallelism
    at_once = parallelism if isinstance(parallelism, int) else 1
    return 0 < at_once < completions if isinstance(completions, int) else at_once > 1


def with_roots(pods: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Pods with the workload that each belongs to: `root_uid`, `root_kind`, `root_name`.

    Args:
        pods: rows of `pods`.
        workloads: rows of `workloads`. Where an owner is not among them, the chain ends with the reference to it.

    Pods of a group (`gang`) that no such object controls belong to the group. It has a uid only where its object is
    among the workloads. `execution` is the uid of a controller that is created again for each execution; else empty.
    """
    followed = pl.col("owner_kind").is_in(sorted(KINDS))
    grouped = pl.col("gang").is_not_null() if "gang" in pods.columns else pl.lit(value=False)
    rows = pods.with_columns(
        root_uid=pl.when(followed).then("owner_uid").when(~grouped).then("uid"),
        root_kind=pl.when(followed).then("owner_kind").when(~grouped).then(pl.lit("Pod")),
        root_name=pl.when(followed).then("owner_name").when(~grouped).then("name"),
    )
    if "gang" in pods.columns:
        rows = _with_groups(_with_places_by_order(rows), workloads)
    above = workloads.filter(pl.col("owner_kind").is_in(sorted(KINDS - {WORKFLOW}))).select(
        "cluster", "owner_uid", "owner_kind", "owner_name", root_uid="uid"
    )
    rows = _climbed(rows, above)
    if "gang" in pods.columns:
        rows = _without_work_queues(_climbed(_with_job_sets(rows, workloads), above), workloads)
    return rows.drop("owner_uid", "owner_kind", "owner_name")


def _without_work_queues(rows: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Pods of a Job that is a work queue are each a workload of its own.

    Those of Kueue's Jobs are not: Kueue admits, evicts and queues a Job as a whole, and may lower its parallelism.
    """
    queues = workloads.filter(pl.col("is_work_queue").fill_null(value=False), pl.col("queue").is_null())
    alone = rows.join(queues.select("cluster", root_uid="uid"), on=["cluster", "root_uid"], how="semi")
    if alone.is_empty():
        return rows
    users = queues.select("cluster", root_uid="uid", of_job="user")
    own = alone.join(users, on=["cluster", "root_uid"], how="left").with_columns(
        root_uid="uid",
        root_kind=pl.lit("Pod"),
        root_name="name",
        slot="name",
        user=pl.coalesce("user", "of_job"),
    )
    return pl.concat([rows.join(alone.select("cluster", "uid"), on=["cluster", "uid"], how="anti"), own.drop("of_job")])


def without_admitted_queues(workloads: pl.DataFrame, queued: pl.DataFrame) -> pl.DataFrame:
    """Rows of `workloads`, of which those are no work queues that a Workload of Kueue (`queued`) is of.

    Not each of them has a label with its queue.
    """
    admitted = queued.select("cluster", uid="owner_uid", is_admitted=pl.lit(value=True)).unique()
    rows = workloads.join(admitted, on=["cluster", "uid"], how="left", maintain_order="left")
    is_work_queue = pl.col("is_work_queue") & pl.col("is_admitted").is_null()
    return rows.with_columns(is_work_queue=is_work_queue).drop("is_admitted")


def _with_places_by_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Pods with random names, by their order in a controller that is created again for each execution.

    A RayJob that is tried again gets another cluster, and a virtual machine that boots again another instance. Pods of
    one instance that follow each other are a machine that moved, not one that booted.
    """
    order = pl.col("created_at").rank("ordinal").over("cluster", "owner_uid").cast(pl.String)
    replaced = pl.col("owner_kind").is_in([RAY_CLUSTER, INSTANCE]).fill_null(value=False)
    return rows.sort("name").with_columns(
        slot=pl.when(replaced).then(order).otherwise("slot"),
        execution=pl.when(replaced).then("owner_uid").otherwise(pl.lit("")),
    )


def _climbed(rows: pl.DataFrame, above: pl.DataFrame) -> pl.DataFrame:
    """Pods with the outermost root that is known, from the one they have on."""
    for _ in range(DEEPEST):
        rows = rows.drop("owner_uid", "owner_kind", "owner_name").join(above, on=["cluster", "root_uid"], how="left")
        rows = rows.with_columns(
            root_uid=pl.coalesce("owner_uid", "root_uid"),
            root_kind=pl.coalesce("owner_kind", "root_kind"),
            root_name=pl.coalesce("owner_name", "root_name"),
        )
    return rows


def _with_job_sets(rows: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Pods of a Job that was not loaded, under the JobSet that their label names.

    A JobSet deletes its Jobs at a restart and makes new ones, so that no list has the old ones any more. Of several
    JobSets of one name it is the latest that existed before the pod; one that was not loaded has no uid.
    """
    orphan = (pl.col("root_kind") == JOB) & pl.col("gang").str.starts_with(f"{JOB_SET}/").fill_null(value=False)
    if not rows.select(orphan.any()).item():
        return rows
    name = pl.when(orphan).then(pl.col("gang").str.strip_prefix(f"{JOB_SET}/"))
    found = (
        rows.with_columns(set_name=name)
        .sort("created_at")
        .join_asof(
            _job_sets(workloads),
            left_on="created_at",
            right_on="since",
            by=["cluster", "namespace", "set_name"],
            check_sortedness=False,
        )
    )
    of_set = pl.col("set_name").is_not_null()
    return found.with_columns(
        root_kind=pl.when(of_set).then(pl.lit(JOB_SET)).otherwise("root_kind"),
        root_name=pl.coalesce("set_name", "root_name"),
        root_uid=pl.when(of_set).then("set_uid").otherwise("root_uid"),
    ).select(rows.columns)


def _job_sets(workloads: pl.DataFrame) -> pl.DataFrame:
    """JobSets with their creation times; one named by its Jobs only has none and sorts first."""
    names = ["cluster", "namespace", "set_name", "set_uid"]
    known = workloads.filter(pl.col("kind") == JOB_SET).select(
        "cluster", "namespace", set_name="name", set_uid="uid", since="created_at"
    )
    of_jobs = workloads.filter(pl.col("owner_kind") == JOB_SET).sort("created_at")
    named = of_jobs.select("cluster", "namespace", set_name="owner_name", set_uid="owner_uid").unique(
        names, maintain_order=True
    )
    never = pl.lit(0).cast(workloads.schema["created_at"]).alias("since")
    return pl.concat([named.join(known, on=names, how="anti").with_columns(never), known]).sort(
        "since", maintain_order=True
    )


def _with_groups(rows: pl.DataFrame, workloads: pl.DataFrame) -> pl.DataFrame:
    """Pods with the root that their group is, where they have no other."""
    kind, name = (pl.col("gang").str.splitn("/", 2).struct.field(f"field_{place}") for place in range(2))
    named = workloads.select("cluster", "namespace", root_kind="kind", root_name="name", group_uid="uid").unique(
        ["cluster", "namespace", "root_kind", "root_name"], keep="last", maintain_order=True
    )
    groups = rows.with_columns(root_kind=pl.coalesce("root_kind", kind), root_name=pl.coalesce("root_name", name)).join(
        named, on=["cluster", "namespace", "root_kind", "root_name"], how="left", maintain_order="left"
    )
    ordered = pl.col("name").rank("ordinal").over("cluster", "namespace", "gang", "restart_attempt")
    counted = pl.col("gang").str.starts_with(f"{TASK}/") & pl.col("root_uid").is_null()
    return groups.with_columns(
        root_uid=pl.coalesce("root_uid", "group_uid"),
        slot=pl.when(counted).then(ordered.cast(pl.String)).otherwise("slot"),
    ).drop("group_uid")


def times_of(workload: Workload) -> Iterable[datetime]:
    """All times that it reports."""
    yield workload.metadata.creationTimestamp
    status = workload.status
    known = [
        status.completionTime,
        status.finishedAt,
        status.endTime,
        *(one.lastTransitionTime for one in status.conditions or ()),
    ]
    known += [one.phaseTransitionTimestamp for one in status.phaseTransitionTimestamps or ()]
    known += [status.state.lastTransitionTime] if isinstance(status.state, JobState) else []
    yield from (time for time in known if time)


def _outcome(status: WorkloadStatus) -> dict[str, Any]:
    """`ended_at`, `state` and `reason`."""
    for condition in status.conditions or ():
        if condition.holds and condition.type in OF_CONDITION:
            state = "TIMEOUT" if condition.reason == "DeadlineExceeded" else OF_CONDITION[condition.type]
            return {
                "ended_at": status.completionTime or condition.lastTransitionTime,
                "state": state,
                "reason": condition.reason or None,
            }
    of_volcano = status.state if isinstance(status.state, JobState) else JobState()
    phase = status.phase or of_volcano.phase or status.jobStatus
    state = OF_PHASE.get(str(phase), "PENDING" if _suspended(status) else "RUNNING")
    is_over = state in {"COMPLETED", "FAILED", "CANCELLED"}
    reached = (one.phaseTransitionTimestamp for one in status.phaseTransitionTimestamps or () if one.phase == phase)
    known = status.finishedAt, status.endTime, next(reached, None), of_volcano.lastTransitionTime
    ended_at = next((time for time in known if time), None) if is_over else status.finishedAt
    return {"ended_at": ended_at, "state": state, "reason": of_volcano.reason or None}


def _suspended(status: WorkloadStatus) -> bool:
    return any(one.type == "Suspended" and one.holds for one in status.conditions or ())
