"""Node states and inventories: newly read rows put together with those of the warehouse.

Like `ingest.merge` for attempts, these look at contents only, never at which side a row came from: loading twice
equals loading once, and halves in any order equal the whole.
"""

from __future__ import annotations

import polars as pl

from ingest.frames import NODE_STATES, NODES, conform


def merge_node_states(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per state of a node. An end, once known, replaces "still lasts"; a later end replaces an earlier one.

    Two states that began in one second (one of them may have lasted no time) are told apart by Slurm's own word.

    Args:
        frames: rows of `node_states`.

    Returns:
        The same columns, sorted by cluster, node and start.
    """
    key = ["cluster", "node", "started_at", "source", "state_raw"]
    rest = [name for name in NODE_STATES if name not in (*key, "ended_at")]
    every = pl.concat([conform(frame, NODE_STATES) for frame in frames])
    # The row with the latest end speaks; among equals the one whose texts sort last, which is as good as any and
    # the same in every order.
    spoken = every.sort(["ended_at", *rest], nulls_last=False).group_by(key).agg(pl.col("ended_at", *rest).last())
    return conform(spoken, NODE_STATES).sort(key)


def merge_nodes(*frames: pl.DataFrame) -> pl.DataFrame:
    """Inventories as intervals: equal observations of a node that follow each other become one row.

    Args:
        frames: rows of `nodes`.

    Returns:
        The same columns, sorted by cluster, node and first observation.
    """
    node = ["cluster", "node"]
    values = [name for name in NODES if name not in (*node, "valid_from", "last_seen_at")]
    every = pl.concat([conform(frame, NODES) for frame in frames]).unique().sort(*node, "valid_from", "last_seen_at")
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*node, *values))
    return conform(
        every.with_columns(spell=(~same).fill_null(value=True).cum_sum())
        .group_by("spell", maintain_order=True)
        .agg(
            pl.col(*node, *values).first(),
            pl.col("valid_from").min(),
            pl.col("last_seen_at").max(),
        ),
        NODES,
    ).sort(*node, "valid_from")
