"""Determined's CSV of allocations to rows of `determined_allocations`.

Source: determined-ai/determined, master/internal/core.go, getResourceAllocations: a header, times as RFC 3339 (empty
where there is none), an experiment of 0 (or empty) for tasks that are part of none. Later versions add resource_pool.
"""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ingest.determined.sources import ALLOCATIONS
from ingest.errors import MissingColumnError, UnrecognisedInputError
from ingest.load_warnings import LoadWarning
from ingest.plausible import LONGEST_NAME
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, columns_of, conform, earliest_time, latest_time

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS: Final = columns_of("determined_allocations")
KEY: Final = ("cluster", "allocation_id")
NEEDED: Final = ("allocation_id", "slots", "start_time", "end_time")
WORKLOADS: Final = ("kind", "labels", "seconds")
"""Columns of the other export, /resources/allocation/raw, with rows for parts of allocations."""

MOST_SLOTS: Final = 1_000_000
_NONE: Final = frozenset({"", "0"})


class RefusedRow(NamedTuple):
    """A row that cannot be used."""

    line: int
    reason: str
    raw: str


def parse_allocations(data: bytes, *, origin: str, cluster: str) -> Parsed:
    """Read one export.

    Raises:
        UnrecognisedInputError: it is no such CSV.
        MissingColumnError: a column that is needed is missing.
    """
    reader = csv.reader(io.StringIO(data.decode("utf-8-sig", "replace"), newline=""))
    header = _header(reader, origin)
    rows: list[dict[str, Any]] = []
    refused: list[RefusedRow] = []
    for fields in _rows(reader, refused):
        try:
            rows.append(_row(fields, header, cluster))
        except ValueError as error:
            refused.append(RefusedRow(reader.line_num, str(error), ",".join(fields)[:RAW_LIMIT]))
    frame = pl.DataFrame(rows, schema=ROWS)
    kept = latest(frame)
    return Parsed(
        ALLOCATIONS,
        frozenset({cluster}),
        {"determined_allocations": kept},
        _rejects(refused, cluster, origin),
        rows_read=frame.height + len(refused),
        rows_loaded=kept.height,
        rows_duplicate=frame.height - kept.height,
        rows_rejected=len(refused),
        covers_from=earliest_time(kept["started_at"]),
        covers_until=latest_time(pl.concat([kept["started_at"], kept["ended_at"]])),
        columns=header,
        warnings=[LoadWarning("nodes_unknown", kept.height)] if kept.height else [],
    )


def latest(rows: pl.DataFrame) -> pl.DataFrame:
    """Each allocation once: a row with an end comes from a later export than one without."""
    ordered = rows.sort("ended_at", *[name for name in rows.columns if name != "ended_at"], nulls_last=False)
    return ordered.unique(KEY, keep="last", maintain_order=True).sort(KEY)


def _header(reader: Iterator[list[str]], origin: str) -> list[str]:
    header = [name.strip().lower() for name in next(reader, [])]
    if "allocation_id" not in header and set(WORKLOADS) <= set(header):
        raise UnrecognisedInputError(
            f"{origin} has workloads of experiments, no allocations; export: det resources allocations FROM UNTIL"
        )
    if "allocation_id" not in header:
        raise UnrecognisedInputError(f"{origin} is no export of Determined's allocations: no column allocation_id")
    for name in NEEDED:
        if name not in header:
            raise MissingColumnError(f"{origin} has no column {name}; it has {', '.join(header)}")
    return header


def _rows(reader: Iterator[list[str]], refused: list[RefusedRow]) -> Iterator[list[str]]:
    """Rows that are not blank, up to the first damage of the CSV."""
    try:
        yield from (fields for fields in reader if fields)
    except csv.Error as error:
        refused.append(RefusedRow(0, f"the CSV breaks: {error}", ""))


def _row(fields: list[str], header: list[str], cluster: str) -> dict[str, Any]:
    """A row.

    Raises:
        ValueError: it cannot be used; the message is the reason.
    """
    if len(fields) != len(header):
        raise ValueError(f"{len(fields)} fields where the header has {len(header)}: is the file cut off?")
    texts = dict(zip(header, (field.strip() for field in fields), strict=True))
    slots, name = texts["slots"], texts["allocation_id"]
    if not name or len(name) > LONGEST_NAME:
        raise ValueError("no allocation_id")
    if not (slots.isascii() and slots.isdigit() and len(slots) <= 7 and int(slots) <= MOST_SLOTS):
        raise ValueError(f"slots {slots[:40]!r} is no number of slots")
    started, ended = (_time(texts[column], column) for column in ("start_time", "end_time"))
    if started is None:
        raise ValueError("no start_time: it never got its slots")
    if ended is not None and ended < started:
        raise ValueError("end_time is before start_time")
    return {
        "cluster": cluster,
        "allocation_id": name,
        "task_type": texts.get("task_type") or None,
        "user": texts.get("username") or None,
        "workspace": texts.get("workspace_name") or None,
        "experiment_id": None if texts.get("experiment_id", "") in _NONE else texts["experiment_id"],
        "resource_pool": texts.get("resource_pool") or None,
        "slots": int(slots),
        "started_at": started,
        "ended_at": ended,
    }


def _time(text: str, column: str) -> datetime | None:
    """A time.

    Raises:
        ValueError: it is none, or has no offset from UTC.
    """
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{column} {text[:40]!r} is no time") from None
    if time.tzinfo is None:
        raise ValueError(f"{column} {text[:40]!r} has no offset from UTC: is the file cut off?")
    return time.astimezone(UTC) if time.year > 1 else None


def _rejects(refused: list[RefusedRow], cluster: str, origin: str) -> pl.DataFrame:
    rows = [
        {"cluster": cluster, "source": ALLOCATIONS, "origin": origin, "line": line or None, "reason": why, "raw": raw}
        for line, why, raw in refused
    ]
    return conform(pl.DataFrame(rows, schema=REJECTS), REJECTS)
