"""Why nodes were out of service, and who took them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.node_reasons import driver

if TYPE_CHECKING:
    from app.window import RowSource, Window


def last_reasons(source: RowSource, window: Window) -> pl.DataFrame:
    """Why each node was last out of service within the window: `cluster`, `node`, `last_reason`, `driven_by`.

    `driven_by` is kubernetes, slurm, health_check or person, by the words of the reason; null where they name none.
    """
    states = source.query("node_states", cluster=window.cluster).filter(
        (pl.col("started_at") < window.until) & (pl.col("ended_at").is_null() | (pl.col("ended_at") >= window.since))
    )
    last = states.sort("started_at", "state", "reason").group_by("cluster", "node").last()
    drivers = [driver(reason, actor) for reason, actor in last.select("reason", "actor").rows()]
    return last.select(
        "cluster",
        "node",
        pl.format("{}: {}", "state", pl.col("reason").fill_null("no reason given")).alias("last_reason"),
        pl.Series("driven_by", drivers, dtype=pl.String),
    )
