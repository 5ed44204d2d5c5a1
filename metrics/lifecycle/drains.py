"""Drains that Slurm records in two parts: requested, in a snapshot of nodes; an event, once the last job is gone.

Between the two, the snapshot's drain ends with its last observation. Where a job that ran then ended as the event
begins, with the same reason, the node drained all the while: Slurm makes an event of a drain only when its last job has
left.
"""

from __future__ import annotations

from typing import Final

import polars as pl

JOB_GONE_S: Final = 60
"""The event follows the end of the last job within so long."""

_KEY = ["cluster", "node"]


def candidates(states: pl.DataFrame) -> pl.DataFrame:
    """Drains that end before an event of the same reason begins.

    Args:
        states: `cluster`, `node`, `started_at`, `ended_at`, `state`, `reason`, `source`; other columns are kept.

    Returns:
        `_row` (of the drain in `states`), `cluster`, `node`, `seen_at` (its end), `event_at`.
    """
    drained = states.with_row_index("_row").filter(pl.col("state").is_in(["drained", "maintenance"]))
    reported = drained.filter((pl.col("source") == "slurm.nodes") & pl.col("ended_at").is_not_null())
    events = drained.filter(pl.col("source") == "slurm.events").select(*_KEY, "reason", event_at="started_at")
    pairs = reported.select("_row", *_KEY, "reason", seen_at="ended_at").join(
        events, on=[*_KEY, "reason"], nulls_equal=True
    )
    later = pairs.filter(pl.col("event_at") > pl.col("seen_at")).sort("_row", "event_at")
    return later.unique("_row", keep="first", maintain_order=True).drop("reason")


def whole_drains(states: pl.DataFrame, attempt_nodes: pl.DataFrame) -> pl.DataFrame:
    """States with drains that go on until their event begins.

    Args:
        states: as of `candidates`.
        attempt_nodes: `cluster`, `node`, `started_at`, `ended_at` of attempts on nodes.

    Returns:
        The same rows and columns.
    """
    found = candidates(states)
    if found.is_empty():
        return states
    left = attempt_nodes.select(*_KEY, began="started_at", finished="ended_at")
    within = pl.duration(seconds=JOB_GONE_S)
    drained = (
        found.join(left, on=_KEY)
        .filter(
            (pl.col("began") < pl.col("seen_at"))
            & (pl.col("finished") >= pl.col("seen_at"))
            & pl.col("finished").is_between(pl.col("event_at") - within, pl.col("event_at"))
        )
        .select("_row", "event_at")
        .unique()
    )
    joined = states.with_row_index("_row").join(drained, on="_row", how="left", maintain_order="left")
    return joined.with_columns(ended_at=pl.coalesce("event_at", "ended_at")).select(states.columns)
