"""Hours of busy GPUs in the warehouse, day by day: a day whose samples are what they were is not read again."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import polars as pl

from app.results.telemetry.busy_hours import digest, sampled_hours
from ingest.tables import columns_of, conform
from metrics.anomalies.hours import HOUR_US, Limits

if TYPE_CHECKING:
    from datetime import date

    from app.compute.outcome import Progress
    from app.config.settings import Rules
    from queries.warehouse import Writer

_DAY = timedelta(days=1)


def write_busy_hours(
    writer: Writer, cluster: str, rules: Rules, *, now: datetime, full: bool, progress: Progress
) -> int:
    """Bring the stored hours of a cluster in line with its samples, within the open transaction.

    Args:
        writer: the warehouse.
        cluster: whose samples.
        rules: when a sample shows its GPU busy.
        now: kept as `computed_at` of the days that are computed.
        full: compute every day, also those whose samples are unchanged.
        progress: receives which days are being computed, and the share of them that is done.

    Returns:
        How many days were computed.
    """
    limits = Limits(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    days = {row["day"]: row for row in writer.query("busy_days", cluster=cluster).iter_rows(named=True)}
    digests = {day: digest(row, limits) for day, row in days.items()}
    changed = [
        day for day, made_of in digests.items() if made_of is not None and (full or days[day]["inputs"] != made_of)
    ]
    for day in (day for day, made_of in digests.items() if made_of is None):
        writer.remove_partition("gpu_busy_hours", cluster, day)
    for number, day in enumerate(changed):
        progress(f"busy hours, day {number + 1:,} of {len(changed):,}", number / len(changed))
        writer.write_partition("gpu_busy_hours", cluster, day, rows_of_day(writer, cluster, day, limits))
    if changed or None in digests.values():
        anew = set(changed)
        account = [(cluster, day, made_of, now if day in anew else days[day]["computed_at"])
                   for day, made_of in digests.items() if made_of is not None]  # fmt: skip
        writer.delete("busy_days", pl.DataFrame({"cluster": [cluster]}))
        writer.append("busy_days", pl.DataFrame(account, schema=columns_of("busy_days"), orient="row"))
    return len(changed)


def rows_of_day(writer: Writer, cluster: str, day: date, limits: Limits) -> pl.DataFrame:
    """Rows of `gpu_busy_hours` of a day, by GPU and hour."""
    begin = datetime.combine(day, time(), UTC)
    hours = sampled_hours(writer, cluster, begin, begin + _DAY, limits)
    at = pl.from_epoch(pl.col("hour") * HOUR_US, "us").dt.replace_time_zone("UTC")
    return conform(hours.with_columns(cluster=pl.lit(cluster), ts=at), columns_of("gpu_busy_hours"))
