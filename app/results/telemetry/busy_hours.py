"""Hours in which GPUs were busy: samples of the warehouse block by block, and roll-ups where there are no samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metrics.anomalies.hours import INSTEAD, MEANT, MEASURED, PLACE, busy_hours, hour_sums

if TYPE_CHECKING:
    from datetime import datetime

    import polars as pl

    from metrics.anomalies.hours import Limits
    from queries.warehouse import Reader, Writer


def hours_of_day(
    reader: Reader | Writer, cluster: str, since: datetime, until: datetime, limits: Limits
) -> pl.DataFrame:
    """Hours of a day as `metrics.anomalies.hours.BUSY_HOURS`: no more than a block of samples is in memory at a time.

    The named query `gpu_busy_hours` has the same rows, in six times the time: it is what `--explain` shows.

    Args:
        reader: the warehouse.
        cluster: the cluster.
        since: a whole hour.
        until: a later one, of the same day.
        limits: when a sample shows its GPU busy.
    """
    first, last = (round(moment.timestamp()) // 3600 for moment in (since, until))
    blocks = reader.sample_blocks("gpu_samples", cluster=cluster, since=since, until=until)
    parts = [hour_sums(needed(block), first, last, limits) for block in blocks]
    rolled = reader.query("gpu_rolled_busy_hours", cluster=cluster, since=since, until=until)
    return busy_hours(parts, rolled)


def needed(block: pl.LazyFrame) -> pl.DataFrame:
    """Columns of a block that say something: those that stand in for tensor activity only where it is unknown."""
    rows = block.select(*PLACE, *MEASURED).collect()
    tensor = rows["tensor_active"]
    unknown = [name for name in MEANT if rows[name].null_count() == rows.height]
    if tensor.null_count() == 0 and not tensor.is_nan().any():
        return rows.drop(unknown)
    return rows.drop(unknown).hstack(block.select(INSTEAD).collect())
