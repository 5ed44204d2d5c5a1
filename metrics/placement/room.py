"""Room: which sizes of jobs could start at a moment within blocks (or leaf switches), and which nodes are left over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.metric import Metric
from metrics.placement.spans import since_known

if TYPE_CHECKING:
    from datetime import datetime

UNPLACED: Final = "(unknown)"
"""The block of nodes whose place is unknown: they are in no segment of several nodes."""

_NODE: Final = ["cluster", "node"]
NONE_RESERVED: Final = pl.DataFrame(schema=dict.fromkeys(_NODE, frames.TEXT))


def standing(
    attempt_nodes: pl.DataFrame,
    places: pl.DataFrame,
    *,
    inventory: pl.DataFrame,
    node_states: pl.DataFrame,
    at: datetime,
    reserved: pl.DataFrame = NONE_RESERVED,
) -> pl.DataFrame:
    """State of each node right before a moment, and its block.

    Args:
        attempt_nodes: `frames.ATTEMPT_NODES`.
        places: `metrics.placement.spans.PLACES`.
        inventory: `frames.INVENTORY`.
        node_states: `frames.NODE_STATES`: out of service.
        at: the moment: intervals that end there still hold.
        reserved: `cluster` and `node` of nodes that a reservation keeps for some then.

    Returns:
        A row for each node of the inventory: `cluster`, `node`, `block`, `milli_gpus`, `taken` (thousandths held;
        null: unknown), `out` (out of service), `reserved`, `idle` (in service, not reserved and none held), `attempts`
        (who holds it).
    """
    moment = frames.instant(at)
    over = pl.col("ended_at").is_null() | (pl.col("ended_at") >= moment)
    now = (pl.col("started_at") < moment) & over
    held = attempt_nodes.filter(now).group_by(_NODE).agg(
        pl.when(pl.col("milli_gpus").null_count() == 0).then(pl.col("milli_gpus").sum()).alias("taken"),
        pl.struct(*frames.ATTEMPT_KEY).alias("attempts"),
    )  # fmt: skip
    out = node_states.filter(now).select(_NODE).unique().with_columns(out=pl.lit(value=True))
    before = pl.col("valid_from") <= moment
    latest = (
        since_known(places)
        .group_by(_NODE, maintain_order=True)
        .agg(pl.coalesce(pl.col("path").filter(before).last(), pl.col("path").first()).alias("path"))
    )
    return (
        inventory.filter(now)
        .group_by(_NODE)
        .agg(pl.col("milli_gpus").max())
        .filter(pl.col("milli_gpus") > 0)
        .join(held, on=_NODE, how="left")
        .join(out, on=_NODE, how="left")
        .join(reserved.select(_NODE).unique().with_columns(reserved=pl.lit(value=True)), on=_NODE, how="left")
        .join(latest, on=_NODE, how="left")
        .with_columns(
            out=pl.col("out").fill_null(value=False),
            reserved=pl.col("reserved").fill_null(value=False),
            block=pl.when(pl.col("path").list.len() > 0).then(pl.col("path").list.join("/")).fill_null(UNPLACED),
            idle=pl.col("attempts").is_null() & pl.col("out").is_null() & pl.col("reserved").is_null(),
            taken=pl.when(pl.col("attempts").is_null()).then(0).otherwise("taken"),
        )
        .drop("path")
        .sort(_NODE)
    )


def blocks(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes, GPUs and attempts of each block.

    Args:
        nodes: as `standing` returns them.

    Returns:
        By `cluster` and `block`: `nodes`, `out`, `idle`, `idle_gpus`, `gpus`; `attempts` that hold nodes in it, and
        `across`, those of them that hold nodes of other blocks, too.
    """
    held = nodes.select("cluster", "block", "attempts").explode("attempts").drop_nulls("attempts").unique()
    reach = held.with_columns(across=pl.len().over("attempts") > 1)
    per_block = reach.group_by("cluster", "block").agg(
        pl.len().cast(frames.COUNT).alias("attempts"), pl.col("across").sum().cast(frames.COUNT)
    )
    return (
        nodes.group_by("cluster", "block")
        .agg(
            pl.len().cast(frames.COUNT).alias("nodes"),
            pl.col("out").sum().cast(frames.COUNT),
            pl.col("idle").sum().cast(frames.COUNT),
            (pl.col("milli_gpus").filter("idle").sum() / 1000).alias("idle_gpus"),
            (pl.col("milli_gpus").sum() / 1000).alias("gpus"),
        )
        .join(per_block, on=["cluster", "block"], how="left")
        .with_columns(pl.col("attempts", "across").fill_null(0))
        .sort("cluster", "block")
    )


def segments(nodes: pl.DataFrame) -> pl.DataFrame:
    """Job sizes that could start on idle nodes if each of their segments must lie in one block.

    Args:
        nodes: as `standing` returns them.

    Returns:
        By `cluster` and `segment` (1, 2, 4, ... and the largest block's nodes): `idle` nodes, `segments` that they
        make, `usable` nodes in those, the largest job that could start (`usable_gpus` GPUs), `left_over` idle nodes
        outside of any; `whole`, segments that there are with all nodes in service and idle.
    """
    per_block = nodes.group_by("cluster", "block").agg(
        pl.len().alias("all"), pl.col("idle").sum(), pl.col("milli_gpus").filter("idle").min().alias("each")
    )
    rows = []
    for (cluster,), own in per_block.group_by("cluster", maintain_order=True):
        placed = own.filter(pl.col("block") != UNPLACED)
        largest = int(placed["all"].max() or 1)  # type: ignore[arg-type]  # polars types max() broadly
        sizes = sorted({*(2**power for power in range(largest.bit_length()) if 2**power <= largest), largest})
        for size in sizes:
            of = own if size == 1 else placed
            made = of["idle"] // size
            usable = made * size
            rows.append(
                {
                    "cluster": cluster,
                    "segment": size,
                    "idle": int(own["idle"].sum()),
                    "segments": int(made.sum()),
                    "usable": int(usable.sum()),
                    "usable_gpus": float((usable * of["each"].fill_null(0)).sum()) / 1000,
                    "left_over": int(own["idle"].sum()) - int(usable.sum()),
                    "whole": int((of["all"] // size).sum()),
                }
            )
    schema: frames.Schema = {
        "cluster": frames.TEXT,
        **dict.fromkeys(("segment", "idle", "segments", "usable"), frames.COUNT),
        "usable_gpus": frames.NUMBER,
        **dict.fromkeys(("left_over", "whole"), frames.COUNT),
    }
    return pl.DataFrame(rows, schema=schema).sort("cluster", "segment")


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="aligned_room",
        unit="ratio",
        summary="Share of idle nodes that a job in segments of a size could use, each segment within one block.",
        formula="segment size x sum over blocks of floor(idle nodes / segment size) / idle nodes, at a moment",
        query="node_places",
        function=segments,
        interval="none: a census at a moment",
        source="ours; Slurm's --segment (topology/block)",
        show="placement",
    ),
)
