"""What the demo says about the disagreements that were planted into its sources."""

from __future__ import annotations

from typing import Any

import polars as pl


def compared_agreement(rows: pl.DataFrame, truth: list[dict[str, Any]]) -> str:
    """How many of the planted disagreements of Slurm and Kubernetes were found, to the second.

    Args:
        rows: the table `sync_intervals`.
        truth: `node`, `kind`, `since` and `until` (seconds since 1970; None while it lasts) of each that was planted.
    """
    until = pl.when(pl.col("ended_by") != "open").then(pl.col("ended_at").dt.epoch("s"))
    ends = rows.select("node", "kind", pl.col("started_at").dt.epoch("s"), until.alias("until"))
    found = set(ends.rows())
    same = [each for each in truth if (each["node"], each["kind"], each["since"], each["until"]) in found]
    return f"Planted disagreements of Slurm and Kubernetes: {len(same)} of {len(truth)} found, to the second"
