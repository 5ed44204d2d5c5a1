"""`trackside ingest prometheus FILE...`: telemetry from files. One transaction per file."""

from __future__ import annotations

import codecs
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from ingest.delimited.reader import as_utf_8, utf_16
from ingest.errors import InputError
from ingest.files.input import Input
from ingest.prometheus.files.api_json import as_openmetrics, is_api_json
from ingest.prometheus.files.openmetrics import parse_openmetrics
from ingest.prometheus.files.parquet_readings import columns_of_readings, parse_readings
from ingest.prometheus.files.parquet_tables import MAGIC, blocks, columns_of, parse_table
from ingest.prometheus.files.table_rules import table_of_columns
from ingest.prometheus.store.samples import load, load_parts
from ingest.prometheus.target import TelemetryRequest, cluster_of, mapping_of
from ingest.store.report import FAULTS, LoadReport, fault_of
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    import polars as pl

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
) -> list[LoadReport]:
    """Load OpenMetrics text, answers of the HTTP API, or Parquet, distinguished by their beginning, packed or not.

    A file is loaded in one transaction, with a report for each source. One that cannot be used is reported
    and leaves nothing behind; the others are loaded.
    """
    reports: list[LoadReport] = []
    for number, name in enumerate(files):

        def report_progress(share: str, name: str = name, number: int = number) -> None:
            progress(f"{name}{share}", number, len(files))

        report_progress("")
        try:
            with Input(name) as source:
                parsed = _load(writer, settings, target, source, now, report_progress)
        except FAULTS as error:
            reports.append(LoadReport(name, error=fault_of(name, error)))
        else:
            reports += [LoadReport(name, each) for each in parsed]
    return reports


def _load(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    settings: TelemetrySettings,
    target: TelemetryRequest,
    source: Input,
    now: datetime,
    report_progress: Callable[[str], None],
) -> list[Parsed]:
    """Load a file: its content source by source, or a large table in parts."""
    request = from_file(source.name, target.since, target.until)
    parts_of_file = _blocks(source, report_progress)
    first = next(parts_of_file, b"")
    if first.startswith(MAGIC):
        data = first + b"".join(parts_of_file)
        of_time = blocks(data, source.name)
        if len(of_time) > 1:
            parts = _table_parts(writer, settings, target, data, source.name, of_time, report_progress)
            named = partial(cluster_of, writer, settings, target)
            return [load_parts(writer, settings, parts, named, request=request, digest=source.digest(), now=now)]
        inputs = _parse_parquet(writer, settings, target, data, source.name, now)
    else:
        inputs = parse_openmetrics(
            _text(first, parts_of_file, source.name),
            origin=source.name,
            cluster=cluster_of(writer, settings, target),
            interval_s=settings.prometheus.interval_s,
            now=now,
            since=target.since,
            until=target.until,
            mapping=mapping_of(settings),
        )
    mine = next((cluster for parsed in inputs for cluster in sorted(parsed.clusters)), None)
    fallback = mine or cluster_of(writer, settings, target)
    return load(writer, settings, inputs, fallback, request=request, digest=source.digest(), now=now)


def _text(first: bytes, rest: Iterator[bytes], name: str) -> Iterable[bytes]:
    """A file that is no Parquet as OpenMetrics text; answers of the HTTP API, and UTF-16, are held whole."""
    chunks = chain([first], rest)
    if utf_16(first) is None and not is_api_json(first.removeprefix(codecs.BOM_UTF8)):
        return chunks
    text = as_utf_8(_whole(chunks, name))
    return as_openmetrics(text, origin=name) if is_api_json(text) else [text]


def _whole(chunks: Iterable[bytes], name: str) -> bytes:
    """All of a file that cannot be read in parts.

    Raises:
        InputError: it is too large for that.
    """
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST_WHOLE:
            raise InputError(
                f"{name}: more than {LARGEST_WHOLE >> 30} GiB; request a shorter time, or load OpenMetrics"
            )
    return b"".join(parts)


LARGEST_WHOLE: Final = 1 << 30
"""Bytes of a file that is held whole."""


def _table_parts(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    settings: TelemetrySettings,
    target: TelemetryRequest,
    data: bytes,
    name: str,
    of_time: Sequence[pl.Expr | None],
    report_progress: Callable[[str], None],
) -> Iterator[Parsed]:
    """Rows of a table of the warehouse, block by block."""
    cluster = _cluster_of_rows(writer, settings, target, columns_of(data, name))
    for number, block in enumerate(of_time):
        report_progress(f" (block {number + 1} of {len(of_time)})")
        yield parse_table(data, origin=name, cluster=cluster, since=target.since, until=target.until, block=block)


def _cluster_of_rows(
    writer: Writer, settings: TelemetrySettings, target: TelemetryRequest, columns: Collection[str]
) -> str | None:
    """The cluster of rows that name none; None where the rows have a column for it."""
    named_by_rows = target.cluster is None and "cluster" in columns
    return None if named_by_rows else cluster_of(writer, settings, target)


def _parse_parquet(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: TelemetrySettings, target: TelemetryRequest, data: bytes, name: str, now: datetime
) -> list[Parsed]:
    """Rows of a table of the warehouse, or raw readings."""
    columns = columns_of(data, name)
    readings = columns_of_readings(columns) if table_of_columns(columns) is None else None
    if readings is None:
        cluster = _cluster_of_rows(writer, settings, target, columns)
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
    for block in source:
        if source.done:
            report_progress(f", {100 * source.done // source.size} % of it read")
        yield block
