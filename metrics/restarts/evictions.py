"""Evictions by a queue: how many, and how long the evicted held their GPUs after the order."""

from __future__ import annotations

import polars as pl

from metrics.unknown import known_sum

PREEMPTED = "Preempted"


def eviction_summary(evictions: pl.DataFrame, by: str) -> pl.DataFrame:
    """Evictions by one of their columns.

    Args:
        evictions: rows of `evictions`.
        by: column; evictions without a value in it are one row, whose value is null.

    Returns:
        The column, `n` evictions, `preempted` of them, `n_gone`: those whose pods are known to be gone, and of them the
        median, 90th percentile and longest of the seconds until then; `held_gpu_s`: GPU-seconds held in between, of the
        evictions of which that is known (`n_held`). Null where none is known. The most evictions first.

    >>> rows = pl.DataFrame({"queue": ["a", "a"], "reason": ["Preempted"] * 2, "gone_s": [20.0, None],
    ...                      "held_gpu_s": [160.0, None]})
    >>> eviction_summary(rows, "queue").row(0)
    ('a', 2, 2, 1, 20.0, 20.0, 20.0, 1, 160.0)
    """
    gone, held = pl.col("gone_s"), pl.col("held_gpu_s")
    return (
        evictions.group_by(by)
        .agg(
            n=pl.len().cast(pl.Int64),
            preempted=(pl.col("reason") == PREEMPTED).sum().cast(pl.Int64),
            n_gone=gone.count().cast(pl.Int64),
            gone_median_s=gone.median(),
            gone_p90_s=gone.quantile(0.9, interpolation="higher"),
            gone_max_s=gone.max(),
            n_held=held.count().cast(pl.Int64),
            held_gpu_s=known_sum(held),
        )
        .sort(-pl.col("n"), by, nulls_last=True)
    )
