"""Nodes of kube-state-metrics where no objects of nodes were loaded: their states and GPUs."""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.nodes import NODE_STATES, READY
from ingest.kubernetes.sources import OBJECTS
from ingest.tables import NODES

GONE_S: Final = 300
"""Seconds without a reading after which the state of a node is unknown."""

_NODE: Final = ["cluster", "node", "condition"]
_WORDS: Final = {"down": "NotReady", "drained": "cordoned", "unknown": "not observed"}


def metered_states(states: pl.DataFrame) -> pl.DataFrame:
    """Rows of `node_states`: down while it was read as not ready, drained while cordoned, unknown between readings.

    A state ends at the first reading of another one. The last state lasts, unless other nodes were read later.

    Args:
        states: rows of `metered_node_states`.
    """
    rows = states.sort(*_NODE, "started_at")
    after = pl.col("started_at").shift(-1).over(_NODE)
    gap_s = (
        pl.coalesce(after, pl.col("last_seen_at").max().over("cluster")) - pl.col("last_seen_at")
    ).dt.total_seconds()
    spans = rows.with_columns(after=after, is_cut=gap_s > GONE_S)
    ended = pl.when("is_cut").then("last_seen_at").otherwise("after")
    is_ready = pl.col("condition") == READY
    bad = spans.filter(pl.when(is_ready).then(~pl.col("holds")).otherwise("holds")).with_columns(
        ended_at=ended, state=pl.when(is_ready).then(pl.lit("down")).otherwise(pl.lit("drained"))
    )
    unseen = spans.filter(is_ready, "is_cut", pl.col("after").is_not_null()).with_columns(
        started_at="last_seen_at", ended_at="after", state=pl.lit("unknown")
    )
    made = pl.concat([bad, unseen.select(bad.columns)]).with_columns(
        state_raw=pl.col("state").replace_strict(_WORDS, return_dtype=pl.String),
        source=pl.lit(OBJECTS),
        reason=pl.lit(None, dtype=pl.String),
        actor=pl.lit(None, dtype=pl.String),
        planned=pl.lit(value=False),
    )
    return made.select(pl.col(name).cast(kind) for name, kind in NODE_STATES.items())


def metered_inventory(metered: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Rows of `nodes` from kube-state-metrics, for nodes without another inventory.

    Args:
        metered: rows of `metered_nodes`.
        nodes: rows of `nodes` from other sources.
    """
    own = metered.rename({"created_at": "valid_from"}).with_columns(evidence=pl.lit("accounting"))
    made = own.join(nodes, on=["cluster", "node"], how="anti")
    missing = [pl.lit(None).alias(name) for name in NODES if name not in made.columns]
    return made.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in NODES.items())
