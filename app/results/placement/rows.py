"""Where attempts lie in the network, what that goes with, and what room there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.slurm.formats.nodelist import expand_column
from metrics import frames
from metrics.placement import effect, room
from metrics.placement.spans import PLACES, NodePlaces, by_size, spans

if TYPE_CHECKING:
    from datetime import datetime

    from app.window import RowSource, Window


def size_label(milli_gpus: pl.Expr) -> pl.Expr:
    """The size bucket of a number of GPUs, as `metrics.failures.exposure.buckets` names them: 513-1024."""
    high = 2 ** (milli_gpus / 1000).log(2).sub(1e-9).ceil().clip(0).cast(pl.Int64)
    low = high // 2 + 1
    return (
        pl.when(high == 1).then(pl.lit("1")).when(high == 2).then(pl.lit("2")).otherwise(pl.format("{}-{}", low, high))
    )


def places(source: RowSource, window: Window) -> pl.DataFrame:
    """The place of each node over time: `metrics.placement.spans.PLACES`."""
    return frames.conform(source.query("node_places", cluster=window.cluster), PLACES)


def span_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """Attempts on several nodes that began in the window: `metrics.placement.spans.SPANS`, with `run_id`."""
    return source.memo(("span_rows", window), lambda: _span_rows(source, window))


def _span_rows(source: RowSource, window: Window) -> pl.DataFrame:
    cluster = window.cluster
    begun = source.query("attempts_begun", **window.parameters)
    nodes = frames.conform(source.query("nodes", cluster=cluster), frames.NODES)
    rows = spans(
        frames.conform(begun, frames.ATTEMPTS),
        _held(source, cluster, window.since, window.until),
        places(source, window),
        nodes=nodes,
        inventory=frames.conform(source.query("inventory_of", cluster=cluster), frames.INVENTORY),
        node_states=frames.conform(source.query("node_states", cluster=cluster), frames.NODE_STATES),
        since=window.since,
        until=window.until,
    )
    runs = source.query("run_attempts", cluster=cluster).select(*frames.ATTEMPT_KEY, "run_id")
    return rows.join(runs, on=list(frames.ATTEMPT_KEY), how="left", maintain_order="left")


def _held(source: RowSource, cluster: str, since: datetime, until: datetime) -> pl.DataFrame:
    """`frames.ATTEMPT_NODES` of the attempts that began before `until` and had not ended before `since`."""
    rows = source.query("attempt_nodes_in", cluster=cluster, since=since, until=until)
    return frames.conform(rows, frames.ATTEMPT_NODES)


def cluster_of(source: RowSource, window: Window) -> NodePlaces:
    """The cluster's nodes: their places and partitions, and when how many of their GPUs were free."""
    cluster = window.cluster
    return NodePlaces(
        frames.conform(source.query("attempt_nodes", cluster=cluster), frames.ATTEMPT_NODES),
        places(source, window),
        frames.conform(source.query("nodes", cluster=cluster), frames.NODES),
        frames.conform(source.query("inventory_of", cluster=cluster), frames.INVENTORY),
        frames.conform(source.query("node_states", cluster=cluster), frames.NODE_STATES),
    )


def sums(rows: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """Placement by size bucket or run: `metrics.placement.spans.by_size`."""
    size = size_label(pl.col("milli_gpus")) if dimension == "size" else pl.col("run_id").fill_null("(unknown)")
    order = rows.with_columns(subject=size).group_by("subject").agg(pl.col("milli_gpus").max().alias("most"))
    return by_size(rows, size).join(order, on="subject").with_columns(n_gpus=pl.col("most") / 1000).drop("most")


def standing_rows(source: RowSource, window: Window) -> pl.DataFrame:
    """What each node was doing at the end of the window: `metrics.placement.room.standing`."""
    cluster, at = window.cluster, window.until
    return room.standing(
        _held(source, cluster, at, at),
        places(source, window),
        inventory=frames.conform(source.query("inventory_of", cluster=cluster), frames.INVENTORY),
        node_states=frames.conform(source.query("node_states", cluster=cluster), frames.NODE_STATES),
        at=at,
        reserved=_reserved(source, window),
    )


def _reserved(source: RowSource, window: Window) -> pl.DataFrame:
    """Nodes that a reservation keeps at the end of the window: `cluster` and `node`."""
    lists = source.query("reserved_node_lists", cluster=window.cluster, at=window.until)
    named = lists.join(expand_column(lists["node_list"]), left_on="node_list", right_on="text")
    return named.select("cluster", node="nodes").explode("node").drop_nulls()


def effect_rows(source: RowSource, window: Window, rows: pl.DataFrame) -> pl.DataFrame:
    """What goes with spanning more: `metrics.placement.effect.effects`."""
    steps = source.query("step_times_of_attempts", **window.parameters)
    broken = source.query("interruptions", **window.parameters).filter(pl.col("class") == "infrastructure")
    times = steps.cast({name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY})
    return effect.effects(rows, times, frames.conform(broken, frames.INTERRUPTIONS), size_label(pl.col("milli_gpus")))
