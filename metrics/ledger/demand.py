"""Times in which eligible work waited, on the nodes where it could have run: whether idle GPUs were in demand.

The cause of waiting is in `metrics.ledger.demand_causes`; where the data do not show it, it stays null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from metrics import frames
from metrics.intervals import merge_equal, sweep, union
from metrics.ledger.capacity import allocated_intervals, unknown_intervals
from metrics.ledger.demand_causes import CAUSES, Idle, causes
from metrics.wait_reasons import BY_A_RULE, NOT_WAITING

_SLURM: Final = "slurm"


def waiting(
    attempts: pl.DataFrame,
    nodes: pl.DataFrame,
    inventory: pl.DataFrame,
    covered: pl.DataFrame,
    *,
    attempt_nodes: pl.DataFrame | None = None,
    node_states: pl.DataFrame | None = None,
    blocks: pl.DataFrame | None = None,
) -> Waiting:
    """Inputs of demand: the waits of eligible work that requests GPUs, and the nodes where it could have run.

    A job waits from `eligible_at` until it starts, or until it ends without having started, or until the end of the
    data. It could run on the nodes of its partitions; where the inventory names no partitions, or accounting none of
    the job, on any node. A job that its user holds, that depends on another, or that requests what no node or rule
    allows, waits for no node. A job of another scheduler than Slurm whose request is unknown (shared GPUs, claims)
    waits for some part of a GPU, so any idle GPU may be what it waits for. That of Slurm's may be none at all.

    Accounting keeps one reason for each job: the last one that was neither `Priority` nor `Resources`, even of a job
    that started. So a reason alone never decides; `metrics.ledger.demand_causes` has the rules.

    Args:
        attempts: `frames.ATTEMPTS`.
        nodes: `frames.NODES`, of which the newest partitions of each node count.
        inventory: `frames.INVENTORY`, the nodes that existed.
        covered: `frames.COVERAGE`.
        attempt_nodes: `frames.ATTEMPT_NODES`, who held what. Without it idle GPUs are unknown, and every
            cause is null.
        node_states: `frames.NODE_STATES`: a node in any of these states is not idle. None: all are in service.
        blocks: `cluster`, `node`, `block`: which nodes are neighbours, for jobs that request segments. None: unknown.
    """
    waits = _waits(attempts, covered)
    queues = waits.select("cluster", "partition").unique().sort("cluster", "partition").with_row_index("lane")
    serving = _serving(nodes, inventory)
    places = _places(serving, queues)
    homes = places.select("cluster", "node").unique().sort("cluster", "node").with_row_index("home")
    return Waiting(
        waits, queues, serving, places, homes, inventory, covered, attempt_nodes=attempt_nodes,
        node_states=node_states, blocks=blocks,
    )  # fmt: skip


@dataclass(frozen=True)
class Waiting:
    """Inputs of demand.

    It is local in time: the demand of a day follows from the jobs that waited and the nodes that existed on it.

    Attributes:
        waits: as `_waits` returns it.
        queues: `lane`, `cluster`, `partition`.
        serving: as `_serving` returns it.
        places: as `_places` returns it.
        homes: `home` (the node's number), `cluster`, `node`.
        inventory: `frames.INVENTORY`.
        covered: `frames.COVERAGE`.
        attempt_nodes: `frames.ATTEMPT_NODES`; None: every cause is null.
        node_states: `frames.NODE_STATES`.
        blocks: `cluster`, `node`, `block`.
    """

    waits: pl.DataFrame
    queues: pl.DataFrame
    serving: pl.DataFrame
    places: pl.DataFrame
    homes: pl.DataFrame
    inventory: pl.DataFrame
    covered: pl.DataFrame
    attempt_nodes: pl.DataFrame | None
    node_states: pl.DataFrame | None
    blocks: pl.DataFrame | None

    def demand(self, low: int | None = None, high: int | None = None) -> pl.DataFrame:
        """Demand, `frames.DEMAND`, from one UTC midnight to before another (microseconds since 1970), or all of it.

        A node's intervals do not overlap.
        """
        waits = self.waits if low is None or high is None else _clipped(self.waits, low, high)
        waits = waits.join(self.queues, on=["cluster", "partition"]).drop("partition")
        served = self.places.join(self.homes, on=["cluster", "node"]).select("lane", "home")
        at_nodes = union(waits.select("lane", "started", "ended")).join(served, on="lane")
        demand = union(at_nodes.select(pl.col("home").alias("lane"), "started", "ended"))
        result = demand.with_columns(pl.lit(None, dtype=pl.String).alias("cause"))
        if self.attempt_nodes is not None:
            idle = _idle(
                self.homes, demand, self.inventory, attempt_nodes=_during(self.attempt_nodes, low, high),
                node_states=self.node_states, covered=self.covered,
            )  # fmt: skip
            result = _with_causes(demand, causes(waits, served, idle, _blocks(self.homes, self.blocks)))
        full = result.join(self.homes, left_on="lane", right_on="home").with_columns(
            started_at=frames.from_us("started"), ended_at=frames.from_us("ended")
        )
        return frames.conform(full, frames.DEMAND)

    def by_time(self) -> tuple[pl.DataFrame, ...]:
        """Inputs of a day's demand that are in no other input of the ledger, with `started` and `ended`."""
        states = frames.empty(frames.NODE_STATES) if self.node_states is None else self.node_states
        return self.waits, states.select("cluster", "node", *_TIMES), self._nodes()

    def lasting(self) -> str:
        """Digest of what the demand of every day depends on: how large the nodes of a partition are."""
        kinds = (
            self._nodes()
            .group_by("cluster", "serves")
            .agg(pl.col("milli_gpus").max(), pl.col("block").is_not_null().all())
        )
        return f"{kinds.height} {kinds.hash_rows(seed=0).sum()} {self.attempt_nodes is None}"

    def _nodes(self) -> pl.DataFrame:
        """Nodes while they existed: the partitions that they serve, and their block."""
        key = ["cluster", "node"]
        names = pl.col("partitions").list.sort().list.join(",").alias("serves")
        existing = self.inventory.select(*key, "milli_gpus", *_TIMES).join(
            self.serving.select(*key, names), on=key, how="left"
        )
        if self.blocks is None:
            return existing.with_columns(block=pl.lit(None, dtype=pl.String))
        return existing.join(self.blocks.unique(key), on=key, how="left")


_TIMES: Final = (
    pl.col("started_at").dt.epoch("us").alias("started"),
    pl.col("ended_at").dt.epoch("us").fill_null(2**62).alias("ended"),
)


def _clipped(rows: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    return rows.filter((pl.col("started") < high) & (pl.col("ended") > low)).with_columns(
        pl.col("started", "ended").clip(low, high)
    )


def _during(attempt_nodes: pl.DataFrame, low: int | None, high: int | None) -> pl.DataFrame:
    """Attempts on nodes that may have held them between two moments."""
    if low is None or high is None:
        return attempt_nodes
    since, until = (pl.lit(each).cast(frames.TIME) for each in (low, high))
    over = pl.col("ended_at").is_null() | (pl.col("ended_at") > since)
    return attempt_nodes.filter((pl.col("started_at") < until) & over)


_WAITING: Final = (
    "cluster", "scheduler", "partition", "reason", "eligible_at", "started_at", "ended_at", "req_milli_gpus",
    "milli_gpus", "req_nodes", "req_segment",
)  # fmt: skip


def _waits(attempts: pl.DataFrame, covered: pl.DataFrame) -> pl.DataFrame:
    """Jobs that wait, once for each partition that they name.

    Returns:
        `cluster`, `partition`, `started`, `ended` (microseconds), `need` (thousandths of GPUs in all), `nodes` and
        `segment` (null: unknown), `rule` (its last reason is one).
    """
    ends = covered.group_by("cluster").agg(pl.col("ended_at").max().alias("_end"))
    requested = pl.col("req_milli_gpus")
    some_part = requested.is_null() & (pl.col("scheduler") != _SLURM)
    return (
        attempts.select(_WAITING)  # of some twenty columns: the join copies each
        .filter((requested > 0) | (pl.col("milli_gpus") > 0) | some_part)
        .filter(~(pl.col("started_at").is_null() & pl.col("reason").fill_null("").str.contains(NOT_WAITING)))
        .join(ends, on="cluster")
        .with_columns(until=pl.coalesce("started_at", "ended_at", "_end"))
        .filter(pl.col("eligible_at") < pl.col("until"))
        .select(
            "cluster",
            pl.col("partition").fill_null("").str.split(",").alias("partition"),
            pl.col("eligible_at").dt.epoch("us").alias("started"),
            pl.col("until").dt.epoch("us").alias("ended"),
            pl.when(requested > 0)
            .then(requested)
            .when(pl.col("milli_gpus") > 0)
            .then("milli_gpus")
            .otherwise(1)
            .alias("need"),
            pl.when(pl.col("req_nodes") > 0).then("req_nodes").alias("nodes"),
            pl.when(pl.col("req_segment") > 0).then("req_segment").alias("segment"),
            pl.col("reason").fill_null("").str.contains(BY_A_RULE).alias("rule"),
        )
        .explode("partition")
    )


def _serving(nodes: pl.DataFrame, inventory: pl.DataFrame) -> pl.DataFrame:
    """Nodes that existed and the partitions that they serve by the last report: `cluster`, `node`, `partitions`."""
    newest = nodes.sort("valid_from").group_by("cluster", "node").agg(pl.col("partitions").last())
    return inventory.select("cluster", "node").unique().join(newest, on=["cluster", "node"], how="left")


def _places(serving: pl.DataFrame, queues: pl.DataFrame) -> pl.DataFrame:
    """Nodes that serve each queue (a partition of a cluster, `lane`)."""
    has_partitions = pl.col("partitions").list.len().fill_null(0) > 0
    by_name = queues.join(
        serving.filter(has_partitions).explode("partitions"),
        left_on=["cluster", "partition"],
        right_on=["cluster", "partitions"],
    )
    # Unknown partitions, of the node or of the queue, rule no node out.
    anywhere = queues.join(serving, on="cluster").filter(~has_partitions | (pl.col("partition") == ""))
    return pl.concat([each.select("lane", "cluster", "node") for each in (by_name, anywhere)])


def _idle(
    homes: pl.DataFrame,
    demand: pl.DataFrame,
    inventory: pl.DataFrame,
    *,
    attempt_nodes: pl.DataFrame,
    node_states: pl.DataFrame | None,
    covered: pl.DataFrame,
) -> Idle:
    """Nodes that existed, attempts that held them, and times out of service, by number of the node.

    While an attempt runs on a node whose GPUs are unknown, none of the node's GPUs is known to be idle: it counts as
    out of service.
    """
    key = ["cluster", "node"]
    existing = inventory.join(homes, on=key).select("home", *_TIMES, pl.col("milli_gpus").alias("gpus"))
    held = allocated_intervals(attempt_nodes, covered).join(homes, on=key)
    states = frames.empty(frames.NODE_STATES) if node_states is None else node_states
    unclear = unknown_intervals(attempt_nodes, covered).join(homes, on=key)
    out = pl.concat([states.join(homes, on=key).select("home", *_TIMES), unclear.select("home", "started", "ended")])
    return Idle(
        demand.rename({"lane": "home"}),
        existing.filter(pl.col("gpus") > 0),
        held.select("home", "started", "ended", pl.col("milli_gpus").alias("gpus")),
        out,
    )


def _blocks(homes: pl.DataFrame, blocks: pl.DataFrame | None) -> pl.DataFrame:
    """The block of each node: `home`, `block` (a number)."""
    if blocks is None:
        return pl.DataFrame(schema={"home": pl.UInt32, "block": pl.Int64})
    known = homes.join(blocks, on=["cluster", "node"]).unique("home")
    named = pl.struct("cluster", "block").rank("dense").cast(pl.Int64) - 1
    return known.select("home", named.alias("block"))


def _with_causes(demand: pl.DataFrame, explained: pl.DataFrame) -> pl.DataFrame:
    """Cut the demand for nodes where the cause changes."""
    names = pl.DataFrame({"code": list(CAUSES), "cause": list(CAUSES.values())}, schema_overrides={"code": pl.Int64})
    waiting = demand.with_columns(pl.lit(1).alias("waiting"))
    cut = sweep([waiting, explained.rename({"home": "lane"})]).drop("waiting")
    return merge_equal(cut.join(names, on="code", how="left", maintain_order="left").drop("code"))
