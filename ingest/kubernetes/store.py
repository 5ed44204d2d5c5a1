"""`trackside ingest kubernetes`: objects into the warehouse, one transaction per file, and the attempts that follow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.files.input import Input
from ingest.future import without_future
from ingest.kubernetes.attempts import attempts_of, jobs_of
from ingest.kubernetes.bridge import bridged
from ingest.kubernetes.evictions import evictions_of, orders_of, remembered_of
from ingest.kubernetes.metered import lists_with_metered, with_metered
from ingest.kubernetes.metered_nodes import metered_inventory, metered_states
from ingest.kubernetes.nodes import events_of, states_of
from ingest.kubernetes.parse import ENDED_KEY, LISTS, NODE_KEY, OBSERVED, parse_objects
from ingest.kubernetes.pods import SLURM_JOB, SLURM_NODE
from ingest.kubernetes.repairs import with_repairs
from ingest.kubernetes.shares import nodes_by_slices, requested, with_shares
from ingest.kubernetes.sources import OBJECTS, SCHEDULERS, SOURCES
from ingest.kubernetes.waiting import waiting_of
from ingest.kubernetes.workloads import with_roots, without_admitted_queues
from ingest.store.clusters import only_cluster
from ingest.store.each_file import load_each
from ingest.store.loads import Repetition, write_account
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from ingest.store.report import LoadReport
    from ingest.store.request import LoadRequest
    from ingest.tables import Parsed
    from queries.warehouse import Writer

UNNAMED: Final = "Kubernetes objects name"
"""Beginning of the message where the cluster of the objects is unknown."""

TABLES: Final = (
    *("pods", "workloads", "object_lists", "node_conditions", "kueue_workloads", "kueue_conditions"),
    *("container_ends", "metered_pods", "metered_namespaces"),
    *("nodes", "pod_claims", "resource_claims", "resource_slices", "metered_node_states", "metered_nodes"),
)
"""Tables from which attempts, states of nodes and evictions follow."""


def ingest_files(
    writer: Writer,
    files: Sequence[str],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Load files of objects, each in a transaction of its own, in any order and any number of times.

    Args:
        writer: the warehouse.
        files: names of files; `-` is standard input.
        cluster: their cluster; if None, the only one with accounting.
        now: stored as the time of loading; objects of later are refused.
        progress: called with the current file, its number, and the number of files.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """

    def named() -> str:
        return cluster or only_cluster(writer, UNNAMED)

    return load_each(files, partial(_load, writer, now=now), cluster=named, progress=progress)


def _load(writer: Writer, name: str, cluster: str, *, now: datetime) -> Parsed:
    source = Input(name)
    parsed = parse_objects(source.whole_text(), origin=source.name, cluster=cluster, now=now)
    parsed = without_future(parsed, origin=source.name, now=now)
    request, digest = from_file(source.name), source.digest()
    with writer.transaction():
        return write_parsed(writer, parsed, cluster, request=request, digest=digest, now=now)


def write_parsed(
    writer: Writer, parsed: Parsed, cluster: str, *, request: LoadRequest, digest: str, now: datetime
) -> Parsed:
    """Write objects, the rows derived from them, and the account of their load. Call it within a transaction.

    Args:
        writer: the warehouse.
        parsed: the objects.
        cluster: cluster of the objects.
        request: what was requested.
        digest: of the input.
        now: stored as the time of loading.

    Returns:
        `parsed` with how many of its rows are new.
    """
    repetition = Repetition(writer, SOURCES[0], request=request, digest=digest)
    for table, (row, time_column, _) in OBSERVED.items():
        _write_latest(writer, table, parsed.frames[table], key=row, time_column=time_column)
    writer.append_new("object_lists", parsed.frames["object_lists"], keys=list(LISTS))
    writer.append_new("container_ends", parsed.frames["container_ends"], keys=ENDED_KEY)
    derive(writer, cluster)
    parsed = repetition.counted(parsed)
    write_account(writer, parsed, request=request, digest=digest, now=now)
    return parsed


def _write_latest(writer: Writer, table: str, observed: pl.DataFrame, *, key: Sequence[str], time_column: str) -> None:
    """Keep the latest observation of each object; a removal reported by a watch is final."""
    if observed.is_empty():
        return
    existing = writer.matching(table, observed, keys=key).select(observed.columns)
    rows = pl.concat([existing, observed]).sort(time_column, *[name for name in ("state",) if name in observed.columns])
    if "deleted_at" in rows.columns:
        rows = rows.with_columns(pl.col("deleted_at", "alive_at").max().over(key))
    writer.replace(table, rows.unique(key, keep="last", maintain_order=True), keys=key)


def derive(writer: Writer, cluster: str) -> None:
    """Derive attempts, and states of nodes, again from all objects of a cluster and the loaded data of Slurm.

    Slurm's accounting and inventory may be loaded after the objects: `compute` derives once more.
    """
    key = pl.DataFrame({"cluster": [cluster]})
    pods, workloads, lists, conditions, queued, transitions, ends, metered, namespaces, *devices = (
        writer.matching(table, key, keys=["cluster"]) for table in TABLES
    )
    workloads = without_admitted_queues(workloads, queued)
    named = metered.select("cluster", node="name")
    slurm_nodes = writer.query_with("known_nodes", {"incoming": named}) if metered.height else named
    pods = with_metered(pods, metered, workloads, slurm_nodes)
    nodes, named_claims, claims, slices, metered_conditions, metered_nodes = devices
    of_slices = nodes_by_slices(nodes, slices)
    known_nodes = pl.concat([nodes.join(of_slices, on=NODE_KEY, how="anti"), of_slices])
    pods, queued = with_shares(pods, known_nodes, named_claims, claims), requested(queued, known_nodes)
    writer.replace("nodes", of_slices, keys=NODE_KEY)
    lists = lists_with_metered(lists, namespaces)
    names = _slurm_names(writer, pods)
    work = with_roots(_without_slurm_jobs(writer, cluster, pods), workloads)
    jobs = jobs_of(work)
    orders = orders_of(queued, transitions, workloads).join(jobs, on=["cluster", "root_uid"], how="left")
    remembered = remembered_of(queued, transitions, workloads).join(jobs, on=["cluster", "root_uid"])
    attempts, placements = attempts_of(work, workloads, lists, names, orders, remembered=remembered, ends=ends)
    waiting = waiting_of(queued, transitions, workloads, lists, attempts=attempts, orders=orders)
    _write_attempts(writer, cluster, pl.concat([attempts, waiting]), placements)
    writer.delete("evictions", key)
    writer.append("evictions", evictions_of(orders, attempts, placements, transitions))
    writer.delete("nodes", names.select("cluster", node="name"))
    own = conditions.join(names, left_on=["cluster", "node"], right_on=["cluster", "name"], how="anti")
    own_rows = key.with_columns(source=pl.lit(OBJECTS))
    writer.delete("health_events", own_rows)
    writer.append("health_events", events_of(_by_slurm_names(conditions, names)))
    writer.delete("node_states", own_rows)
    if lists.filter(pl.col("kind") == "Node").is_empty():  # of nodes there are metrics only
        _write_metered_nodes(writer, cluster, metered_conditions, metered_nodes)
    else:
        objects = writer.matching("nodes", key, keys=["cluster"])
        writer.append("node_states", with_repairs(states_of(own, objects, lists), own, objects))


def _write_metered_nodes(writer: Writer, cluster: str, conditions: pl.DataFrame, metered: pl.DataFrame) -> None:
    """Nodes of kube-state-metrics. Slurm has an inventory and states of its own, of the same hosts by other names."""
    made = metered.select("cluster", "node", valid_from="created_at")
    writer.delete("nodes", made)
    if writer.query("coverage", cluster=cluster, source="slurm.accounting").is_empty():
        others = writer.matching("nodes", made.select("cluster", "node").unique(), keys=["cluster", "node"])
        writer.append("nodes", metered_inventory(metered, others))
        writer.append("node_states", metered_states(conditions))


def _write_attempts(writer: Writer, cluster: str, attempts: pl.DataFrame, placements: pl.DataFrame) -> None:
    made = pl.DataFrame({"cluster": cluster, "scheduler": SCHEDULERS})
    for table, rows in (("stored.attempts", attempts), ("placements", placements)):
        writer.delete(table, made)
        writer.append(table, rows)
    writer.run("name_pods_of_determined")
    node_lists = attempts.select("node_list", nodes=pl.col("node_list").str.split(",")).drop_nulls()
    writer.append_new("node_lists", node_lists, keys=["node_list"])
    writer.delete("resubmissions", made)
    writer.run("add_resubmissions", {"jobs": attempts.select("cluster", "scheduler", "job_id").unique()})


def _without_slurm_jobs(writer: Writer, cluster: str, pods: pl.DataFrame) -> pl.DataFrame:
    """Pods whose GPUs are under no job of Slurm's accounting; those that outlived their job are recorded."""
    key = pl.DataFrame({"cluster": [cluster]})
    writer.delete("outlived_jobs", key)
    claimed = pods.filter(pl.col("role") == SLURM_JOB)
    if claimed.is_empty():
        return pods
    accounted = not writer.query("coverage", cluster=cluster, source="slurm.accounting").is_empty()
    ids = claimed.select("cluster", scheduler=pl.lit("slurm"), job_id="slurm_job_id").drop_nulls().unique()
    jobs = writer.query_with("ends_of_jobs", {"incoming": ids}, once=True)
    work, outlived = bridged(pods, jobs, accounted=accounted)
    writer.append("outlived_jobs", outlived)
    return work


def _by_slurm_names(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Rows of nodes, by Slurm's names where there are any."""
    renamed = names.select("cluster", slurm_node="node", node="name")
    joined = rows.join(renamed, on=["cluster", "node"], how="left", maintain_order="left")
    return joined.with_columns(node=pl.coalesce("slurm_node", "node")).drop("slurm_node")


def _slurm_names(writer: Writer, pods: pl.DataFrame) -> pl.DataFrame:
    """Slurm's names of hosts whose slurmd runs in a pod: `cluster`, `name`, `node`."""
    daemons = pods.filter((pl.col("role") == SLURM_NODE) & pl.col("node").is_not_null())
    latest = daemons.sort("scheduled_at").unique(["cluster", "node"], keep="last", maintain_order=True)
    names = latest.select("cluster", name="node", node="name")
    return names.join(
        writer.query_with("known_nodes", {"incoming": names.select("cluster", "node")}), on=["cluster", "node"]
    )
