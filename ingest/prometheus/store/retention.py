"""`trackside retention`: removes samples and hours older than the configured age, and records each removal.

Samples are removed by whole UTC days, and only once every hour of them has its roll-up; hours are removed later than
their samples. Later computations use the hours where there are no samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.iso_time import iso
from ingest.prometheus.store.samples import roll_up
from ingest.prometheus.tables import GPUS, NODES, SampleTable
from ingest.tables import conform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from ingest.prometheus.settings import Retention, TelemetrySettings
    from queries.warehouse import Reader, Writer

EVERY: Final = timedelta(days=1)
"""Interval of the check in `serve`: whole days are removed."""

_SAMPLES: Final = {GPUS.name: GPUS, NODES.name: NODES}
_MISSING: Final[Mapping[str, str]] = {GPUS.name: "gpu_hours_missing", NODES.name: "node_hours_missing"}
_BETWEEN: Final[Mapping[str, str]] = {GPUS.name: "gpu_samples_between", NODES.name: "node_samples_between"}
_LAST: Final = "\U0010ffff"
"""Sorts after every name of a node."""

_DELETE: Final[Mapping[str, str]] = {"gpu_hours": "delete_gpu_hours_before", "node_hours": "delete_node_hours_before"}


@dataclass(frozen=True)
class Removal:
    """Rows to remove from a table of a cluster: those before a time. `bytes` are those of the files of samples."""

    cluster: str
    table: str
    before: datetime
    rows: int
    days: tuple[date, ...] = ()
    bytes: int | None = None


def due(reader: Reader | Writer, keep: Retention, *, now: datetime) -> list[Removal]:
    """Rows older than the configured age, by cluster and table. Schedulers' counts stay: they are few."""
    removals = []
    before = _day(now, keep.samples_days)
    if before is not None:
        days = reader.query("sample_days_before", before=before.date())
        for cluster, table in days.select("cluster", "table_name").unique(maintain_order=True).iter_rows():
            rows = days.filter(cluster=cluster, table_name=table)
            n_rows, n_bytes = rows.select(pl.col("rows", "bytes").sum()).row(0)
            removals.append(Removal(cluster, table, before, n_rows, tuple(rows["day"]), n_bytes))
    before = _day(now, keep.hours_days)
    if before is not None:
        hours = reader.query("hours_before", before=before)
        removals += [Removal(cluster, table, before, rows) for cluster, table, rows in hours.iter_rows()]
    return removals


def _day(now: datetime, days: float) -> datetime | None:
    """The beginning of the first day that is to be kept; None where all are."""
    if not days:
        return None
    return datetime.combine((now - timedelta(days=days)).astimezone(UTC).date(), time(), UTC)


def retain(writer: Writer, settings: TelemetrySettings, *, now: datetime) -> list[Removal]:
    """Remove all due rows or none, and record them in `removals`."""
    removals = due(writer, settings.retention, now=now)
    if not removals:
        return []
    with writer.transaction():
        for removal in removals:
            if removal.table in _SAMPLES:
                for day in removal.days:
                    _roll_up_what_is_not(writer, settings, _SAMPLES[removal.table], removal.cluster, day)
                    writer.remove_partition(removal.table, removal.cluster, day)
        for table, before in {(each.table, each.before) for each in removals if each.table in _DELETE}:
            writer.run(_DELETE[table], before=before)
        writer.append("removals", _noted(removals, now))
    return removals


def _roll_up_what_is_not(writer: Writer, settings: TelemetrySettings, of: SampleTable, cluster: str, day: date) -> None:
    """Compute missing roll-ups of a day's samples, so that no sample is removed without one."""
    begin = datetime.combine(day, time(), UTC)
    missing = writer.query(_MISSING[of.name], cluster=cluster, since=begin, until=begin + timedelta(days=1))
    for hour in missing["ts"]:
        span = {"since": hour, "until": hour + timedelta(hours=1), "first": "", "last": _LAST, "metrics": ""}
        rows = writer.query(_BETWEEN[of.name], cluster=cluster, **span)
        roll_up(writer, settings, of, conform(rows.with_columns(cluster=pl.lit(cluster)), of.schema))


def _noted(removals: Sequence[Removal], now: datetime) -> pl.DataFrame:
    """Rows of `removals`."""
    return pl.DataFrame(
        [
            {
                "removed_at": now,
                "cluster": each.cluster,
                "table_name": each.table,
                "before": each.before,
                "rows": each.rows,
            }
            for each in removals
        ]
    )


def logged(removal: Removal) -> dict[str, object]:
    """The log line of a removal."""
    return {"cluster": removal.cluster, "table": removal.table, "before": iso(removal.before), "rows": removal.rows}
