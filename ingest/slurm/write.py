"""Writes parsed Slurm inputs into the warehouse, merged with its rows: one transaction and one account each."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from ingest.future import without_future
from ingest.load_warnings import LoadWarning
from ingest.slurm.accounting import store as accounting
from ingest.slurm.nodes import removals
from ingest.slurm.nodes import store as nodes
from ingest.slurm.people import store as people
from ingest.slurm.sources import BY_NAME
from ingest.store.loads import Growth, write_account

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import polars as pl

    from ingest.store.request import LoadRequest
    from ingest.tables import Parsed
    from queries.warehouse import Writer


def write_input(
    writer: Writer, parsed: Parsed, *, request: LoadRequest, data: bytes, now: datetime, cluster: str | None = None
) -> Parsed:
    """Write one parsed input: its rows merged with the existing ones, its rejects, and an account of it.

    An input without a row that could be loaded still covers its time, and its refused rows are kept: they
    are booked under `cluster`.

    Returns:
        The input with the warnings that follow from the existing rows, and how many of its rows are new.
    """
    with writer.transaction():
        growth = Growth(writer, BY_NAME[parsed.source])
        parsed = without_future(parsed, origin=request.origin, now=now)
        parsed = replace(parsed, warnings=[*parsed.warnings, *removals.removed(writer, parsed)])
        writers = WRITERS if parsed.rejects.is_empty() else WRITERS | IN_PART
        for name, frame in parsed.frames.items():
            if name in writers:
                writers[name](writer, frame)
        if "attempts" in parsed.frames:
            people.set_first_jobs(writer)
        fed = {name for name, frame in parsed.frames.items() if frame.height}
        parsed = growth.counted(parsed, fed)
        digest = hashlib.sha256(data).hexdigest()
        write_account(writer, _under_clusters(parsed, cluster), request=request, digest=digest, now=now)
    return parsed


def with_cluster(parsed: Parsed, cluster: str | None) -> Parsed:
    """A dump under its clusters, or else under `cluster`; one without any row has a warning."""
    return _under_clusters(replace(parsed, warnings=[*parsed.warnings, *empty_warnings(parsed)]), cluster)


def empty_warnings(parsed: Parsed) -> list[LoadWarning]:
    """A warning for a dump that has no rows. A quiet window is no mistake, but a wrong one looks the same."""
    question = BY_NAME[parsed.source].when_empty
    if parsed.rows_read or not question:
        return []
    if parsed.columns:
        return [LoadWarning("header_only", 0, question)]
    return [LoadWarning("empty_list", 0, question)] if parsed.source == "slurm.accounting" else []


def _under_clusters(parsed: Parsed, cluster: str | None) -> Parsed:
    """The input under the clusters that it names, or that its refused rows name, or else under `cluster`."""
    if parsed.clusters:
        return parsed
    clusters = set(parsed.rejects["cluster"]) or ({cluster} if cluster else set())
    return replace(parsed, clusters=frozenset(clusters))


WRITERS: Final[dict[str, Callable[[Writer, pl.DataFrame], None]]] = {
    "attempts": accounting.write_attempts,
    "node_lists": accounting.write_node_lists,
    "node_states": nodes.write_node_states,
    "nodes": nodes.write_nodes,
    "node_topology": nodes.write_topology,
    "reservations": nodes.write_reservations,
    "cluster_settings": nodes.write_settings,
    "job_gpus": accounting.write_job_gpus,
    "step_usage": accounting.write_step_usage,
    "job_summaries": accounting.write_job_summaries,
    "associations": people.write_associations,
    "users": people.write_users,
    "coordinators": people.write_coordinators,
    "qos": people.write_qos,
    "transactions": people.write_transactions,
    "scheduler_stats": people.write_scheduler_stats,
    "runaway_jobs": people.write_runaway,
}
"""How the rows of each table are merged with those of the warehouse. Other tables follow from these."""

IN_PART: Final[dict[str, Callable[[Writer, pl.DataFrame], None]]] = {
    "nodes": partial(nodes.write_nodes, whole=False),
    "node_topology": partial(nodes.write_topology, whole=False),
}
"""The same where some rows of the input were refused: what it lacks may be among those."""
