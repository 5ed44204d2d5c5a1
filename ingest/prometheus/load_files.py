"""`trackside ingest prometheus FILE...`: telemetry from files. One transaction per file."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ingest.files.decompress import ZSTD, decompressed
from ingest.files.input import Input
from ingest.prometheus.files.openmetrics import parse_openmetrics
from ingest.prometheus.files.parquet_readings import columns_of_readings, parse_readings
from ingest.prometheus.files.parquet_tables import MAGIC, columns_of, parse_table
from ingest.prometheus.files.table_rules import table_of_columns
from ingest.prometheus.store.samples import load
from ingest.prometheus.target import TelemetryRequest, cluster_of, mapping_of
from ingest.store.report import FAULTS, Report, fault_of
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus.settings import TelemetrySettings
    from ingest.tables import Parsed
    from queries.warehouse import Writer


def ingest_files(
    writer: Writer,
    settings: TelemetrySettings,
    files: Sequence[str],
    target: TelemetryRequest,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Load OpenMetrics text or Parquet, distinguished by how they begin; gzip and zstd are unpacked.

    A file is loaded in one transaction, with a report for each source. One that cannot be used is reported
    and leaves nothing behind; the others are loaded.
    """
    reports: list[Report] = []
    for number, name in enumerate(files):

        def report_progress(share: str, name: str = name, number: int = number) -> None:
            progress(f"{name}{share}", number, len(files))

        report_progress("")
        try:
            source = Input(name)
            inputs = _parse(writer, settings, target, source, now, report_progress)
            named = next((cluster for parsed in inputs for cluster in sorted(parsed.clusters)), None)
            fallback = named or cluster_of(writer, settings, target)
            request = from_file(source.name, target.since, target.until)
            inputs = load(writer, settings, inputs, fallback, request=request, digest=source.digest(), now=now)
        except FAULTS as error:
            reports.append(Report(name, error=fault_of(name, error)))
        else:
            reports += [Report(name, parsed) for parsed in inputs]
    return reports


def _parse(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    settings: TelemetrySettings,
    target: TelemetryRequest,
    source: Input,
    now: datetime,
    report_progress: Callable[[str], None],
) -> list[Parsed]:
    """The content of a file, source by source."""
    blocks = _blocks(source, report_progress)
    first = next(blocks, b"")
    if first.startswith(MAGIC):
        return _parse_parquet(writer, settings, target, first + b"".join(blocks), source.name, now)
    return parse_openmetrics(
        chain([first], blocks),
        origin=source.name,
        cluster=cluster_of(writer, settings, target),
        interval_s=settings.prometheus.interval_s,
        now=now,
        since=target.since,
        until=target.until,
        mapping=mapping_of(settings),
    )


def _parse_parquet(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: TelemetrySettings, target: TelemetryRequest, data: bytes, name: str, now: datetime
) -> list[Parsed]:
    """Rows of a table of the warehouse, or raw readings."""
    columns = columns_of(data, name)
    readings = columns_of_readings(columns) if table_of_columns(columns) is None else None
    if readings is None:
        cluster = None if target.cluster is None and "cluster" in columns else cluster_of(writer, settings, target)
        return [parse_table(data, origin=name, cluster=cluster, since=target.since, until=target.until)]
    return parse_readings(
        data,
        readings,
        origin=name,
        cluster=cluster_of(writer, settings, target),
        interval_s=settings.prometheus.interval_s,
        now=now,
        since=target.since,
        until=target.until,
        mapping=mapping_of(settings),
    )


def _blocks(source: Input, report_progress: Callable[[str], None]) -> Iterator[bytes]:
    """A file's bytes, decompressed; reports its progress."""
    plain = source if not source.head.startswith(ZSTD) else decompressed(source, origin=source.name)
    for block in plain:
        if source.done:
            report_progress(f" ({100 * source.done // source.size} %)")
        yield block
