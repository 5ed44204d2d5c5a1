"""Interruptions, what they cost, and how long runs took to get going again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from app.results.base import Source, Window


def restart_rows(source: Source, window: Window) -> pl.DataFrame:
    """One row per restart in the window."""
    return source.query("restarts", cluster=window.cluster, since=window.since, until=window.until)


def interruption_costs(source: Source, window: Window) -> pl.DataFrame:
    """What interruptions cost, the newest first.

    Returns:
        `cluster`, `run_id`, `attempt_no`, `job_id`, `submitted_at`, `ended_at`, `class`, `cause`, `node`, `n_gpus`,
        `cost_gpu_s`: GPU-seconds of the interrupted attempt that were lost or stalled, but for what restarts in place
        took, and of the next one's startup; null where more than a tenth of the attempt was not seen. The components
        of a heterogeneous job are interrupted once, and are one row.
    """
    return source.query("interruption_costs", cluster=window.cluster, since=window.since, until=window.until)


def priced_interruptions(source: Source, window: Window) -> pl.DataFrame:
    """Interruptions, the newest first, each with what it cost.

    Returns:
        The named query `interruptions`, and `cost_gpu_s` as `interruption_costs` has it.
    """
    which = ["run_id", "attempt_no"]
    return (
        source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
        .join(interruption_costs(source, window).select(*which, "cost_gpu_s"), on=which, how="left")
        .sort("ended_at", "job_id", descending=[True, False])
    )


def node_failures(source: Source, window: Window) -> pl.DataFrame:
    """What infrastructure interruptions that name a node cost, by node, the most first.

    Returns:
        `cluster`, `node`, `interruptions`, `unpriced` (those whose cost cannot be told), `cause` (the most frequent),
        `cost_gpu_s`: GPU-seconds of those whose cost can be told, so the least it can be; null where none can.
    """
    cost = pl.col("cost_gpu_s")
    return (
        interruption_costs(source, window)
        .filter((pl.col("class") == "infrastructure") & pl.col("node").is_not_null())
        .group_by("cluster", "node")
        .agg(
            pl.len().alias("interruptions"),
            cost.null_count().alias("unpriced"),
            pl.col("cause").drop_nulls().mode().sort().first(),
            pl.when(cost.is_not_null().any()).then(cost.sum()),
        )
        .sort(cost.fill_null(0.0), "interruptions", "node", descending=[True, True, False])
    )
