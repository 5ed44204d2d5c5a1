"""How often attempts are interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.base import CLAIMED_GPUS
from metrics.failure_rates import OVER_128, POOLED, around, buckets, failure_rates

if TYPE_CHECKING:
    from app.results.base import Source, Window


def failure_rate_rows(source: Source, window: Window, *, claimed_gpus: float = CLAIMED_GPUS) -> pl.DataFrame:
    """Failure rates and MTTF by class, way of counting and size."""
    attempts = source.query("attempts", cluster=window.cluster)
    events = source.query("interruptions", cluster=window.cluster, since=window.since, until=window.until)
    largest = attempts["milli_gpus"].max()
    top = largest / 1000 if isinstance(largest, int) else 0.0
    sizes = [POOLED, OVER_128, *buckets(top), around(claimed_gpus)]
    found = failure_rates(attempts, events, window.since, window.until, sizes)
    return found.with_columns(cluster=pl.lit(window.cluster))
