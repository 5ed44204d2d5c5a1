"""When eligible work waited, on the nodes where it could have run: what tells idle GPUs from unwanted ones."""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.intervals import union


def waiting_demand(
    attempts: pl.DataFrame, nodes: pl.DataFrame, inventory: pl.DataFrame, covered: pl.DataFrame
) -> pl.DataFrame:
    """When eligible work that asks for GPUs waited, on the nodes where it could have run.

    A job waits from `eligible_at` until it starts, or until it ends without having started, or until the end of the
    data. It could run on the nodes of its partitions; where the inventory names no partitions, on any node. A job that
    its user holds, that depends on another, or that asks for what no node or rule allows, waits for no node.

    Args:
        attempts: `frames.ATTEMPTS`.
        nodes: `frames.NODES`, of which the newest partitions of each node count.
        inventory: `frames.INVENTORY`, the nodes there were.
        covered: `frames.COVERAGE`.

    Returns:
        `frames.DEMAND`; a node's intervals do not overlap.
    """
    ends = covered.group_by("cluster").agg(pl.col("ended_at").max().alias("_end"))
    waits = (
        attempts.filter((pl.col("req_milli_gpus") > 0) | (pl.col("milli_gpus") > 0))
        .filter(~(pl.col("started_at").is_null() & pl.col("reason").fill_null("").str.contains(_NOT_WAITING)))
        .join(ends, on="cluster")
        .with_columns(until=pl.coalesce("started_at", "ended_at", "_end"))
        .filter(pl.col("eligible_at") < pl.col("until"))
        .select(
            "cluster",
            pl.col("partition").fill_null("").str.split(",").alias("partition"),
            pl.col("eligible_at").dt.epoch("us").alias("started"),
            pl.col("until").dt.epoch("us").alias("ended"),
        )
        .explode("partition")
    )
    queues = waits.select("cluster", "partition").unique().sort("cluster", "partition").with_row_index("lane")
    queued = union(waits.join(queues, on=["cluster", "partition"]).select("lane", "started", "ended"))
    places = _places(nodes, inventory, queues).sort("lane")
    homes = places.select("cluster", "node").unique().sort("cluster", "node").with_row_index("home")
    at_nodes = queued.join(places, on="lane").join(homes, on=["cluster", "node"])
    merged = union(at_nodes.select(pl.col("home").alias("lane"), "started", "ended"))
    full = merged.join(homes, left_on="lane", right_on="home").with_columns(
        started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
    )
    return frames.conform(full, frames.DEMAND)


_NOT_WAITING = r"^(JobHeld|Dependency|BadConstraints|PartitionNodeLimit|PartitionTimeLimit|.*NotAllowed|Invalid)"
"""Slurm's reasons of jobs that no idle node could start."""


def _places(nodes: pl.DataFrame, inventory: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Which nodes serve which queue (a partition of a cluster, `lane`)."""
    newest = nodes.sort("valid_from").group_by("cluster", "node").agg(pl.col("partitions").last())
    there = inventory.select("cluster", "node").unique().join(newest, on=["cluster", "node"], how="left")
    told = pl.col("partitions").list.len().fill_null(0) > 0
    by_name = queues.join(
        there.filter(told).explode("partitions"), left_on=["cluster", "partition"], right_on=["cluster", "partitions"]
    )
    anywhere = queues.join(there.filter(~told).select("cluster", "node"), on="cluster")
    return pl.concat([by_name.select("lane", "cluster", "node"), anywhere.select("lane", "cluster", "node")])
