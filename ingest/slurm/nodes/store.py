"""Nodes into the warehouse: inventories, states, topology, reservations, merged with the existing rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from ingest.slurm.nodes.merge import merge_node_states, merge_nodes, merge_topology
from ingest.slurm.nodes.reservations import maintenance_states, merge_reservations

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.tables import SourceName
    from queries.warehouse import Writer

    MergeIntervals = Callable[[pl.DataFrame, pl.DataFrame, pl.DataFrame], pl.DataFrame]


def write_node_states(writer: Writer, states: pl.DataFrame) -> None:
    """States of nodes, merged with those of the same nodes."""
    keys = ["cluster", "node"]
    existing = writer.matching("node_states", states, keys=keys)
    writer.replace("node_states", merge_node_states(existing, states), keys=keys)


def write_nodes(writer: Writer, nodes: pl.DataFrame, *, whole: bool = True) -> None:
    """Inventories; `whole`: a node that the snapshot lacks is gone."""
    merge = partial(merge_nodes, whole=whole)
    _write_intervals(writer, "nodes", nodes, merge, source="slurm.nodes")


def write_topology(writer: Writer, places: pl.DataFrame, *, whole: bool = True) -> None:
    """Places in the network; `whole`: a node that the snapshot lacks is gone."""
    merge = partial(merge_topology, whole=whole)
    _write_intervals(writer, "node_topology", places, merge, source="slurm.topology")


def _write_intervals(
    writer: Writer, table: str, observed: pl.DataFrame, merge: MergeIntervals, *, source: SourceName
) -> None:
    """A snapshot may end or cut the intervals of nodes that it lacks: the whole cluster is written again."""
    clusters = observed.select("cluster").unique()
    existing = writer.matching(table, clusters, keys=["cluster"])
    snapshots = writer.query_with("complete_snapshots", {"incoming": clusters}, once=True, source=source)
    writer.replace(table, merge(existing, observed, snapshots), keys=["cluster"])


def write_reservations(writer: Writer, reservations: pl.DataFrame) -> None:
    """Reservations, and the maintenance that follows from all of them, which replaces the stored one."""
    clusters = reservations.select("cluster").unique()
    existing = writer.matching("reservations", clusters, keys=["cluster"])
    merged = merge_reservations(existing, reservations)
    writer.replace("reservations", merged, keys=["cluster"])
    writer.delete("node_states", clusters.with_columns(source=pl.lit("slurm.reservations")))
    writer.append("node_states", maintenance_states(merged))


def write_settings(writer: Writer, settings: pl.DataFrame) -> None:
    """Settings of a cluster: the newest value counts."""
    writer.replace("cluster_settings", settings, keys=["cluster", "name"])
