"""Groups of nodes that are processed together, so that memory is bounded for any number of nodes."""

from __future__ import annotations

import polars as pl


def node_turns(counts: pl.DataFrame, at_once: int) -> pl.DataFrame:
    """The turn of each node, in the order of their names: nodes of one turn have about `at_once` rows together.

    >>> node_turns(pl.DataFrame({"node": ["b", "a", "c", "a"], "n": [6, 2, 5, 3]}), 10).rows()
    [('a', 0), ('b', 1), ('c', 1)]

    Args:
        counts: `node`, and `n`: rows of it; a node may be there several times.
        at_once: rows of a turn.
    """
    nodes = counts.group_by("node").agg(pl.col("n").sum()).sort("node")
    return nodes.select("node", turn=pl.col("n").cum_sum() // at_once)
