"""Hours in which GPUs were busy: as `compute` stored them, else samples block by block; roll-ups where neither is.

A day's hours are stored with a digest of what they were made of. Where that is what the day has now, they are the rows
that a scan of its samples would give, and the samples need not be read.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from metrics.anomalies.hours import (
    AVERAGED,
    HOUR_US,
    HOURS,
    INSTEAD,
    MEASURED,
    PLACE,
    busy_hours,
    hour_means,
    hour_sums,
)
from metrics.frames import conform
from queries.errors import CorruptWarehouseError

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.anomalies.hours import Limits
    from queries.warehouse import Reader, Writer

VERSION: Final = "1"
"""Part of every digest. To be raised whenever the same samples come to mean other hours."""

_HOUR: Final = 3600


class BusyHours:
    """Hours of the busy GPUs of a cluster.

    Args:
        source: the warehouse.
        cluster: the cluster.
        limits: when a sample shows its GPU busy.
    """

    def __init__(self, source: Reader | Writer, cluster: str, limits: Limits) -> None:
        self._source, self._cluster, self._limits = source, cluster, limits
        days = source.query("busy_days", cluster=cluster).iter_rows(named=True)
        self._stored = {
            row["day"] for row in days if row["inputs"] is not None and row["inputs"] == digest(row, limits)
        }

    def of_day(self, since: datetime, until: datetime) -> pl.DataFrame:
        """`metrics.anomalies.hours.BUSY_HOURS` between whole hours of a day."""
        rolled = self._source.query("gpu_rolled_busy_hours", cluster=self._cluster, since=since, until=until)
        return busy_hours(self._hours(since, until), rolled)

    def _hours(self, since: datetime, until: datetime) -> pl.DataFrame:
        if since.date() in self._stored:
            try:
                return self._of_stored(since, until)
            except CorruptWarehouseError:  # what was computed can be computed again
                pass
        return sampled_hours(self._source, self._cluster, since, until, self._limits)

    def _of_stored(self, since: datetime, until: datetime) -> pl.DataFrame:
        period = {"cluster": self._cluster, "since": since, "until": until}
        blocks = self._source.sample_blocks("gpu_busy_hours", **period)  # type: ignore[arg-type]  # these are its types
        hour = pl.col("ts").dt.epoch("us") // HOUR_US
        first, last = _hours_since_1970(since, until)
        within = [block.with_columns(hour=hour).filter(pl.col("hour").is_between(first, last, closed="left"))
                  for block in blocks]  # fmt: skip
        return conform(
            pl.concat([pl.LazyFrame(schema=HOURS), *(each.select(*HOURS) for each in within)]).collect(), HOURS
        )


def digest(day: dict[str, Any], limits: Limits) -> str | None:
    """What the hours of a day depend on, from a row of the named query `busy_days`; None where it has no samples."""
    if day["files"] is None:
        return None
    text = f"{VERSION}|{tuple(limits)}|{day['n_beside']}|{day['files']}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sampled_hours(
    source: Reader | Writer, cluster: str, since: datetime, until: datetime, limits: Limits
) -> pl.DataFrame:
    """Hours of a day as `metrics.anomalies.hours.HOURS`: no more than a block of samples is in memory at a time.

    The named query `gpu_busy_hours` has the same rows, in six times the time: it is what `--explain` shows.

    Args:
        source: the warehouse.
        cluster: the cluster.
        since: a whole hour.
        until: a later one, of the same day.
        limits: when a sample shows its GPU busy.
    """
    first, last = _hours_since_1970(since, until)
    blocks = source.sample_blocks("gpu_samples", cluster=cluster, since=since, until=until)
    return hour_means([hour_sums(needed(block), first, last, limits) for block in blocks])


def _hours_since_1970(since: datetime, until: datetime) -> tuple[int, int]:
    first, last = (round(moment.timestamp()) // _HOUR for moment in (since, until))
    return first, last


def needed(block: pl.LazyFrame) -> pl.DataFrame:
    """Columns of a block with values: those that replace tensor activity only where it is unknown."""
    rows = block.select(*PLACE, *MEASURED).collect()
    tensor = rows["tensor_active"]
    unknown = [name for name in AVERAGED if rows[name].null_count() == rows.height]
    if tensor.null_count() == 0 and not tensor.is_nan().any():
        return rows.drop(unknown)
    return rows.drop(unknown).hstack(block.select(INSTEAD).collect())
