"""Tests of anomalies in the warehouse, day by day: a day whose inputs are what they were is not tested again.

A day depends on the 28 days before it. So a day that changes has those after it tested again, from their stored hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.telemetry.anomalies import held_by
from app.results.telemetry.anomaly_days import (
    DAY,
    Hours,
    Stored,
    begin_of,
    days_tested,
    digests,
    hours_before,
    number_of,
)
from ingest.tables import columns_of, conform
from metrics import frames
from metrics.anomalies.day_sums import HOURS_A_DAY, SUBJECT
from metrics.anomalies.hours import Limits
from queries.errors import CorruptWarehouseError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date, datetime

    from app.compute.outcome import Progress
    from app.config.settings import Rules
    from app.results.telemetry.anomaly_days import DayTests
    from app.window import Window
    from queries.warehouse import Writer

_ORDER: Final = (*SUBJECT, "against", "sign")


def write_anomalies(
    writer: Writer, window: Window, rules: Rules, *, now: datetime, full: bool, progress: Progress
) -> int:
    """Bring the stored tests of a cluster in line with its telemetry, within the open transaction.

    Args:
        writer: the warehouse, with hours of busy GPUs as they are now.
        window: what is computed; tests are of its days.
        rules: when a sample shows its GPU busy.
        now: kept as `computed_at` of the days that are tested.
        full: test every day, also those whose inputs are unchanged.
        progress: receives which days are being tested, and the share of them that is done.

    Returns:
        How many days were tested.
    """
    cluster, first, last = window.cluster, window.since.date(), window.until.date() + DAY
    before = {row["day"]: row for row in writer.query("anomaly_days", cluster=cluster).iter_rows(named=True)}
    telemetry = writer.query("anomaly_inputs", cluster=cluster, first=first, last=last)["day"].to_list()
    if not before and not telemetry:
        return 0
    limits = Limits(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    hours = Hours(writer, cluster, limits, held_by(writer, window), window.until)
    made_of = digests(hours, first, last)
    changed = [day for day, text in made_of.items() if full or day not in before or before[day]["inputs"] != text]
    for day in before.keys() - made_of.keys():
        writer.remove_partition("anomaly_sums", cluster, day)
    account = {day: before[day] for day in made_of if day in before and day not in changed}
    if changed:
        for number, found in enumerate(_tested(hours, telemetry, changed)):
            progress(f"anomalies, day {number + 1:,} of {len(changed):,}", number / len(changed))
            writer.write_partition("anomaly_sums", cluster, found.day, _rows(cluster, found))
            account[found.day] = _account(hours, found, made_of[found.day], now)
    if changed or len(account) < len(before):
        writer.delete("anomaly_days", pl.DataFrame({"cluster": [cluster]}))
        rows = [{"cluster": cluster, **account[day]} for day in sorted(account)]
        writer.append("anomaly_days", pl.DataFrame(rows, schema=columns_of("anomaly_days")))
    return len(changed)


def _tested(hours: Hours, days: Collection[date], changed: Collection[date]) -> Iterator[DayTests]:
    """The tests of days that changed; of what is stored damaged, all that they depend on is made again."""
    hours_of_days = {day: _hours_of(hours, day) for day in changed}
    stored = Stored(hours, min(changed), max(changed) + DAY)
    try:
        yield from days_tested(hours, days, hours_of_days, stored, anew=changed)
    except CorruptWarehouseError:
        yield from days_tested(hours, days, hours_of_days, None)


def _hours_of(hours: Hours, day: date) -> tuple[int, int]:
    first = number_of(day) * HOURS_A_DAY
    return first, first + hours_before(day, hours.until)


def _rows(cluster: str, found: DayTests) -> pl.DataFrame:
    """Rows of `anomaly_sums` of a day, by subject and test."""
    at = pl.lit(begin_of(found.day), dtype=frames.TIME)
    return conform(found.sums.with_columns(cluster=pl.lit(cluster), ts=at), columns_of("anomaly_sums")).sort(_ORDER)


def _account(hours: Hours, found: DayTests, inputs: str, now: datetime) -> dict[str, Any]:
    return {
        "day": found.day,
        "inputs": inputs,
        "hours": hours_before(found.day, hours.until),
        "busy_hours": found.counts.busy,
        "compared_hours": found.counts.compared,
        "device_hours": found.counts.devices,
        "computed_at": now,
    }
