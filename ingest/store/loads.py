"""The account of a load: rows counted, refused rows kept with their reasons, one row of `loads` for each cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from datetime import datetime

    from ingest.source import IngestSource
    from ingest.store.request import LoadRequest
    from ingest.tables import Parsed
    from queries.warehouse import Writer

LOADS: Final = columns_of("loads")


class Growth:
    """Counts the new rows of the table that an input feeds; created before they are written."""

    def __init__(self, writer: Writer, source: IngestSource) -> None:
        self._writer = writer
        self._before = {table: self._height(table) for table in source.feeds}

    def counted(self, parsed: Parsed, fed: Container[str]) -> Parsed:
        """The input with its new rows: by how much the first of the source's tables grew that is among those `fed`.

        Merging may combine two existing rows; a table that shrinks has nothing new. An input's row that becomes several
        rows of the table (a switch, its nodes) counts once.
        """
        table = next((name for name in self._before if name in fed), None)
        grown = 0 if table is None else self._height(table) - self._before[table]
        return replace(parsed, rows_new=min(max(grown, 0), parsed.rows_loaded))

    def _height(self, table: str) -> int:
        return self._writer.height("stored.attempts" if table == "attempts" else table)


class Repetition:
    """Detects a file that was loaded before and is still complete; created before its rows are written.

    Its rows are already stored if the same bytes were loaded as the same source and no table grows by them. New rows of
    any other input, such as a log that has grown, are not counted.
    """

    def __init__(self, writer: Writer, source: IngestSource, *, request: LoadRequest, digest: str) -> None:
        self._writer = writer
        self._source = source
        of_file = request.transport in {"file", "stdin"}
        loaded = of_file and writer.query("same_loads", source=source.name, digest=digest)["n"].item()
        self._before = heights_fed(self._writer, self._source) if loaded else None

    def counted(self, parsed: Parsed) -> Parsed:
        """The input with `rows_new` 0 if all its rows are already stored."""
        known = self._before is not None and self._before == heights_fed(self._writer, self._source)
        return replace(parsed, rows_new=0) if known else parsed


def heights_fed(writer: Writer, source: IngestSource) -> dict[str, int]:
    """Rows of the tables that a source feeds."""
    counts = writer.row_counts(source.feeds).group_by("fed").agg(pl.col("n").sum())
    return dict(counts.sort("fed").iter_rows())


def write_account(writer: Writer, parsed: Parsed, *, request: LoadRequest, digest: str, now: datetime) -> None:
    """Store the refused rows, and the account of all rows; within the transaction that wrote the others.

    Args:
        writer: The warehouse.
        parsed: The input.
        request: The request of the load.
        digest: SHA-256 of the input.
        now: The time.
    """
    write_accounts(writer, [(parsed, request, digest)], rejects=parsed.rejects, now=now)


def write_accounts(
    writer: Writer, inputs: Iterable[tuple[Parsed, LoadRequest, str]], *, rejects: pl.DataFrame, now: datetime
) -> None:
    """As `write_account`, of several inputs at once.

    Args:
        writer: The warehouse.
        inputs: Each with the request of its load, and its SHA-256.
        rejects: The refused rows to keep.
        now: The time.
    """
    writer.append_new("rejects", rejects, keys=["cluster", "source", "reason", "raw"])
    rows = [
        _account(parsed, name, request=request, digest=digest, now=now)
        for parsed, request, digest in inputs
        for name in sorted(parsed.clusters)
    ]
    if rows:
        writer.append("loads", pl.concat(rows))


def _account(parsed: Parsed, cluster: str, *, request: LoadRequest, digest: str, now: datetime) -> pl.DataFrame:
    """The row of `loads`. Where an input has several clusters its row counts stand with the first of them."""
    first = cluster == min(parsed.clusters)
    counts = {
        "rows_read": parsed.rows_read,
        "rows_loaded": parsed.rows_loaded,
        "rows_duplicate": parsed.rows_duplicate,
        "rows_skipped": parsed.rows_skipped,
        "rows_rejected": parsed.rows_rejected,
        "rows_new": parsed.rows_new,
    }
    return pl.DataFrame(
        {
            "cluster": [cluster],
            "source": [parsed.source],
            "origin": [request.origin],
            "transport": [request.transport],
            "request": [request.request],
            "requested_from": [request.since],
            "requested_until": [request.until],
            "partial": [request.partial],
            "digest": [digest],
            "loaded_at": [now],
            "covers_from": [parsed.covers_from],
            "covers_until": [parsed.covers_until],
            **{name: [count if first else 0] for name, count in counts.items()},
            "columns": [parsed.columns],
            "warnings": [[warning.record() for warning in parsed.warnings] if first else []],
        },
        schema_overrides=LOADS,
    )
