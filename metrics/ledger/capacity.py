"""Capacity: the time that the data cover, and which nodes existed with how many GPUs.

This is what the ledger has to add up to, so each interval has its evidence: `accounting` where an inventory was
read, `assumed` before the first inventory and for nodes that no inventory names.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.intervals import sweep, union

_FAR = 2**62


def coverage(loads: pl.DataFrame, *, gap_s: float = 3600.0) -> pl.DataFrame:
    """Time that the accounting data cover, per cluster.

    The union of the loads' windows. Gaps of at most `gap_s` seconds are closed: consecutive monthly dumps end and
    begin with the last and first thing that happened, not at midnight. Longer gaps stay out of the ledger, since
    "nothing was loaded" is not "nothing ran".

    Args:
        loads: `cluster`, `started_at`, `ended_at`, one row per load; nulls are left out.
        gap_s: longest gap to close, in seconds.

    Returns:
        `frames.COVERAGE`, sorted by cluster and time.
    """
    known = loads.drop_nulls(["started_at", "ended_at"]).select(
        pl.col("cluster").alias("lane"),
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.col("ended_at").dt.epoch("us").alias("ended"),
    )
    return union(known, gap=round(gap_s * 1e6)).select(
        pl.col("lane").alias("cluster"),
        frames.from_us("started").alias("started_at"),
        frames.from_us("ended").alias("ended_at"),
    )


def inventory(
    nodes: pl.DataFrame, attempt_nodes: pl.DataFrame, node_states: pl.DataFrame, covered: pl.DataFrame
) -> pl.DataFrame:
    """Nodes that existed, with their GPUs, by time, within the covered time.

    - An inventory holds from its observation to the next one of that node; the last one for as long as the node
      keeps appearing in inventories (to the end of the data if it is in the newest).
    - From the first inventory on that lacks a node (`gone_at`) it is gone, until another one has it again. Should an
      attempt hold it meanwhile, it existed until that attempt's end, as `assumed`: that inventory was not whole.
    - The cluster's first inventory is extended backwards to the beginning of the data, as `assumed`. A node that
      turns up only in a later inventory exists from its first observation, as `assumed` until that inventory.
    - A node that no inventory names existed from its first to its last observation, with the most GPUs ever allocated
      on it at once, as `assumed`.
    - Nodes without GPUs are no capacity and are left out.

    Args:
        nodes: `frames.NODES`, inventories as observed.
        attempt_nodes: `frames.ATTEMPT_NODES`; running attempts (`ended_at` null) last to the end of the data.
        node_states: `frames.NODE_STATES`, which are observations too.
        covered: `frames.COVERAGE`.

    Returns:
        `frames.INVENTORY`, sorted; intervals of one node do not overlap.
    """
    held = _maybe_allocated(attempt_nodes, covered)
    observed_times = _observation_times(held, node_states)
    observed = pl.concat([_observed(nodes, observed_times), _used_when_gone(nodes, held)])
    assumed = _never_observed(nodes, held, observed_times)
    return _within(pl.concat([observed, assumed]), covered)


def allocated_intervals(attempt_nodes: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """Attempts on nodes as microseconds, running ones to the end of the cluster's data; those never started left out.

    Returns:
        The frame with `started`, `ended` (Int64) added, and only GPU-holding rows of clusters with coverage.
    """
    return _intervals(attempt_nodes.filter(pl.col("milli_gpus") > 0), covered)


def unknown_intervals(attempt_nodes: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """The same of attempts whose GPUs are unknown (`milli_gpus` null): they held between none and all of the node's."""
    return _intervals(attempt_nodes.filter(pl.col("milli_gpus").is_null()), covered)


def _intervals(attempt_nodes: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    ends = covered.group_by("cluster").agg(pl.col("ended_at").max().dt.epoch("us").alias("_end"))
    if ends.height == 1:  # of millions of rows a comparison is less work than a join
        cluster, end = ends.row(0)
        within = attempt_nodes.filter(pl.col("cluster") == cluster).with_columns(_end=pl.lit(end, dtype=pl.Int64))
    else:
        within = attempt_nodes.join(ends, on="cluster")
    return (
        within.with_columns(
            started=pl.col("started_at").dt.epoch("us"),
            ended=pl.coalesce(pl.col("ended_at").dt.epoch("us"), pl.col("_end")),
        )
        .filter(pl.col("started").is_not_null())
        .drop("_end")
    )


def _maybe_allocated(attempt_nodes: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """Times in which attempts held nodes with GPUs, or may have: `cluster`, `node`, `milli_gpus`, `started`, `ended`.

    Whose they were does not matter here, and there are millions of rows.
    """
    held = attempt_nodes.filter((pl.col("milli_gpus") > 0).fill_null(value=True))
    return _intervals(held.select("cluster", "node", "started_at", "ended_at", "milli_gpus"), covered).drop(
        "started_at", "ended_at"
    )


def _observation_times(held: pl.DataFrame, node_states: pl.DataFrame) -> pl.DataFrame:
    """First and last time that accounting or a node event names each node."""
    allocated = held.select("cluster", "node", "started", "ended")
    events = node_states.select(
        "cluster",
        "node",
        pl.col("started_at").dt.epoch("us").alias("started"),
        pl.coalesce("ended_at", "started_at").dt.epoch("us").alias("ended"),
    )
    return (
        pl.concat([allocated, events])
        .group_by("cluster", "node")
        .agg(pl.col("started").min().alias("first"), pl.col("ended").max().alias("last"))
    )


def _observed(nodes: pl.DataFrame, observed_times: pl.DataFrame) -> pl.DataFrame:
    """Intervals of the nodes that inventories name, the assumed interval before the first one included."""
    ordered = (
        nodes.with_columns(started=pl.col("valid_from").dt.epoch("us"), confirmed=pl.col("last_seen_at").dt.epoch("us"))
        .sort("cluster", "node", "started")
        .join(observed_times, on=["cluster", "node"], how="left")
        .with_columns(
            first_of_cluster=pl.col("started").min().over("cluster"),
            newest_of_cluster=pl.col("confirmed").max().over("cluster"),
            first_of_node=pl.col("started").min().over("cluster", "node"),
            next=pl.col("started").shift(-1).over("cluster", "node"),
            gone=pl.col("gone_at").dt.epoch("us"),
        )
    )
    still_listed = pl.col("confirmed") == pl.col("newest_of_cluster")
    last_sign = pl.max_horizontal("confirmed", "last")
    kept = ["cluster", "node", "started", "ended", "milli_gpus", "gpu_model", "evidence"]
    known = ordered.with_columns(
        ended=pl.coalesce("gone", "next", pl.when(still_listed).then(_FAR).otherwise(last_sign)),
        evidence=pl.lit("accounting"),
    ).select(kept)
    in_first = pl.col("first_of_node") == pl.col("first_of_cluster")
    before = (
        ordered.filter(pl.col("started") == pl.col("first_of_node"))
        .with_columns(
            ended=pl.col("started"),
            started=pl.when(in_first).then(-_FAR).otherwise(pl.min_horizontal("first", "started")),
            evidence=pl.lit("assumed"),
        )
        .select(kept)
    )
    return pl.concat([before, known])


def _used_when_gone(nodes: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """Nodes that attempts held although an inventory lacked them: to the end of the last such attempt."""
    gone = nodes.sort("cluster", "node", "valid_from").select(
        "cluster",
        "node",
        pl.col("gone_at").dt.epoch("us").alias("gone"),
        pl.col("valid_from").dt.epoch("us").shift(-1).over("cluster", "node").fill_null(_FAR).alias("back"),
        pl.col("milli_gpus").alias("had"),
        "gpu_model",
    )
    used = held.join(gone.drop_nulls("gone"), on=["cluster", "node"])
    return (
        used.filter((pl.col("started") < pl.col("back")) & (pl.col("ended") > pl.col("gone")))
        .group_by("cluster", "node", "gone", "back", "had", "gpu_model")
        .agg(pl.col("ended").max())
        .select(
            "cluster",
            "node",
            pl.col("gone").alias("started"),
            pl.min_horizontal("ended", "back").alias("ended"),
            pl.col("had").alias("milli_gpus"),
            "gpu_model",
            pl.lit("assumed").alias("evidence"),
        )
    )


def _never_observed(nodes: pl.DataFrame, held: pl.DataFrame, observed_times: pl.DataFrame) -> pl.DataFrame:
    """Nodes known only from allocations: first to last observation, the most GPUs ever held at once."""
    named = observed_times.select("cluster", "node").join(nodes, on=["cluster", "node"], how="anti")
    allocated = held.filter(pl.col("milli_gpus") > 0).join(named, on=["cluster", "node"], how="semi")
    lanes = allocated.select("cluster", "node").unique().sort("cluster", "node").with_row_index("lane")
    of_lanes = allocated.join(lanes, on=["cluster", "node"]).select("lane", "started", "ended", "milli_gpus")
    most = sweep([of_lanes]).group_by("lane").agg(pl.col("milli_gpus").max())
    return (
        lanes.join(most, on="lane")
        .join(observed_times, on=["cluster", "node"])
        .select(
            "cluster",
            "node",
            pl.col("first").alias("started"),
            pl.col("last").alias("ended"),
            "milli_gpus",
            pl.lit(None, dtype=pl.String).alias("gpu_model"),
            pl.lit("assumed").alias("evidence"),
        )
    )


def _within(intervals: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """Clip to the covered time."""
    windows = covered.select(
        "cluster",
        pl.col("started_at").dt.epoch("us").alias("from"),
        pl.col("ended_at").dt.epoch("us").alias("until"),
    )
    clipped = (
        intervals.filter(pl.col("milli_gpus") > 0)
        .join(windows, on="cluster")
        .with_columns(started=pl.max_horizontal("started", "from"), ended=pl.min_horizontal("ended", "until"))
        .filter(pl.col("started") < pl.col("ended"))
        .with_columns(started_at=frames.from_us("started"), ended_at=frames.from_us("ended"))
    )
    return frames.conform(clipped, frames.INVENTORY).sort("cluster", "node", "started_at")
