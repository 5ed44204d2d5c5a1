"""When eligible work waited, on the nodes where it could have run: what tells idle GPUs from unwanted ones.

Why it waited is told where the data allow (`metrics.ledger.demand_causes`); where they do not, the cause stays null.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.intervals import merge_equal, sweep, union
from metrics.ledger.capacity import allocated_intervals
from metrics.ledger.demand_causes import CAUSES, Idle, causes


def waiting_demand(
    attempts: pl.DataFrame,
    nodes: pl.DataFrame,
    inventory: pl.DataFrame,
    covered: pl.DataFrame,
    *,
    attempt_nodes: pl.DataFrame | None = None,
    node_states: pl.DataFrame | None = None,
    blocks: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """When eligible work that asks for GPUs waited, on the nodes where it could have run, and what kept it waiting.

    A job waits from `eligible_at` until it starts, or until it ends without having started, or until the end of the
    data. It could run on the nodes of its partitions; where the inventory names no partitions, on any node. A job that
    its user holds, that depends on another, or that asks for what no node or rule allows, waits for no node.

    Accounting keeps one reason for each job: the last one that was neither `Priority` nor `Resources`, even of a job
    that started. So a reason alone never decides; `metrics.ledger.demand_causes` says what does.

    Args:
        attempts: `frames.ATTEMPTS`.
        nodes: `frames.NODES`, of which the newest partitions of each node count.
        inventory: `frames.INVENTORY`, the nodes there were.
        covered: `frames.COVERAGE`.
        attempt_nodes: `frames.ATTEMPT_NODES`, who held what. Without it nobody knows what was idle, and no cause is
            told.
        node_states: `frames.NODE_STATES`: a node in any of these states is not idle. None: all are in service.
        blocks: `cluster`, `node`, `block`: which nodes stand together, for jobs that ask for segments. None: unknown.

    Returns:
        `frames.DEMAND`; a node's intervals do not overlap.
    """
    waits = _waits(attempts, covered)
    queues = waits.select("cluster", "partition").unique().sort("cluster", "partition").with_row_index("lane")
    waits = waits.join(queues, on=["cluster", "partition"]).drop("partition")
    places = _places(nodes, inventory, queues)
    homes = places.select("cluster", "node").unique().sort("cluster", "node").with_row_index("home")
    served = places.join(homes, on=["cluster", "node"]).select("lane", "home")
    at_nodes = union(waits.select("lane", "started", "ended")).join(served, on="lane")
    wanted = union(at_nodes.select(pl.col("home").alias("lane"), "started", "ended"))
    found = wanted.with_columns(pl.lit(None, dtype=pl.String).alias("cause"))
    if attempt_nodes is not None:
        idle = _idle(homes, wanted, inventory, attempt_nodes=attempt_nodes, node_states=node_states, covered=covered)
        found = _with_causes(wanted, causes(waits, served, idle, _standing(homes, blocks)))
    full = found.join(homes, left_on="lane", right_on="home").with_columns(
        started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
    )
    return frames.conform(full, frames.DEMAND)


_NOT_WAITING = r"^(JobHeld|Dependency|BadConstraints|PartitionNodeLimit|PartitionTimeLimit|.*NotAllowed|Invalid)"
"""Slurm's reasons of jobs that no idle node could start."""

_BY_A_RULE = (
    r"^(QOS|Assoc(Grp|Max|iation)|Max\w+Per(Account|User|Job|Node|Limit)|AccountingPolicy|Licenses|JobArrayTaskLimit|"
    r"Reservation$)"
)
"""Slurm's reasons of jobs that wait for a rule: a limit, a licence, the beginning of a reservation."""


def _waits(attempts: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """Jobs that wait, once for each partition that they name.

    Returns:
        `cluster`, `partition`, `started`, `ended` (microseconds), `need` (thousandths of GPUs in all), `nodes` and
        `segment` (null: not told), `rule` (its last reason is one).
    """
    ends = covered.group_by("cluster").agg(pl.col("ended_at").max().alias("_end"))
    asked = pl.col("req_milli_gpus")
    return (
        attempts.filter((asked > 0) | (pl.col("milli_gpus") > 0))
        .filter(~(pl.col("started_at").is_null() & pl.col("reason").fill_null("").str.contains(_NOT_WAITING)))
        .join(ends, on="cluster")
        .with_columns(until=pl.coalesce("started_at", "ended_at", "_end"))
        .filter(pl.col("eligible_at") < pl.col("until"))
        .select(
            "cluster",
            pl.col("partition").fill_null("").str.split(",").alias("partition"),
            pl.col("eligible_at").dt.epoch("us").alias("started"),
            pl.col("until").dt.epoch("us").alias("ended"),
            pl.when(asked > 0).then(asked).otherwise("milli_gpus").alias("need"),
            pl.when(pl.col("req_nodes") > 0).then("req_nodes").alias("nodes"),
            pl.when(pl.col("req_segment") > 0).then("req_segment").alias("segment"),
            pl.col("reason").fill_null("").str.contains(_BY_A_RULE).alias("rule"),
        )
        .explode("partition")
    )


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


def _idle(
    homes: pl.DataFrame,
    wanted: pl.DataFrame,
    inventory: pl.DataFrame,
    *,
    attempt_nodes: pl.DataFrame,
    node_states: pl.DataFrame | None,
    covered: pl.DataFrame,
) -> Idle:
    """What there was, who held it and what was out of service, by number of the node."""
    key = ["cluster", "node"]
    ended = pl.col("ended_at").dt.epoch("us")
    times = (pl.col("started_at").dt.epoch("us").alias("started"), ended.fill_null(2**62).alias("ended"))
    there = inventory.join(homes, on=key).select("home", *times, pl.col("milli_gpus").alias("gpus"))
    held = allocated_intervals(attempt_nodes, covered).join(homes, on=key)
    states = frames.empty(frames.NODE_STATES) if node_states is None else node_states
    out = states.join(homes, on=key).select("home", *times)
    return Idle(
        wanted.rename({"lane": "home"}),
        there.filter(pl.col("gpus") > 0),
        held.select("home", "started", "ended", pl.col("milli_gpus").alias("gpus")),
        out,
    )


def _standing(homes: pl.DataFrame, blocks: pl.DataFrame | None) -> pl.DataFrame:
    """In which block each node stands: `home`, `block` (a number)."""
    if blocks is None:
        return pl.DataFrame(schema={"home": pl.UInt32, "block": pl.Int64})
    known = homes.join(blocks, on=["cluster", "node"]).unique("home")
    named = pl.struct("cluster", "block").rank("dense").cast(pl.Int64) - 1
    return known.select("home", named.alias("block"))


def _with_causes(wanted: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Cut when nodes were wanted where the cause changes."""
    names = pl.DataFrame({"code": list(CAUSES), "cause": list(CAUSES.values())}, schema_overrides={"code": pl.Int64})
    waiting = wanted.with_columns(pl.lit(1).alias("waiting"))
    pieces = sweep([waiting, told.rename({"home": "lane"})]).drop("waiting")
    return merge_equal(pieces.join(names, on="code", how="left", maintain_order="left").drop("code"))
