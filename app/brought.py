"""How many rows of each source the warehouse has now, and how many of them the last load brought.

A load says how many rows it took in, new ones and known ones alike. Which were new is told by the growth of the table
that the source feeds; it is kept beside the data version among the facts about the warehouse itself, one per source of
a cluster, and written in the transaction that writes the rows.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from ingest.frames import Parsed, SourceName
    from queries.warehouse import Reader, Writer

Counts = dict[str, int]
"""Rows of each table that a source feeds."""


def rows_there(source: Reader | Writer) -> dict[tuple[str, str], Counts]:
    """Rows of each source of a cluster that are there now, by table: (cluster, source) to counts."""
    return _counts(source, None)


def note(writer: Writer, parsed: Parsed, *, now: datetime) -> None:
    """Keep how much an input made its source grow; called when its rows are written, before its account is.

    What several clusters' rows of one input brought stands with the first of them, as its row counts do.
    """
    clusters = sorted(parsed.clusters)
    kept = {cluster: _kept(writer, cluster, parsed.source) for cluster in clusters}
    there = _counts(writer, parsed.source)
    grown = [
        _growth(parsed, _before(writer, cluster, parsed.source, kept[cluster]), there.get((cluster, parsed.source), {}))
        for cluster in clusters
    ]
    total = _sum(*grown)
    for cluster in clusters:
        last = 0 if cluster != clusters[0] else None if total is None else min(total, parsed.rows_loaded)
        before = kept[cluster]
        goes_on = before is not None and before["loaded_at"] == _text(now)
        told = {
            "loaded_at": _text(now),
            "rows": there.get((cluster, parsed.source), {}),
            "last": last,
            "new": _sum(before["new"], last) if before is not None and goes_on else last,
        }
        fact = pl.DataFrame({"key": [_key(cluster, parsed.source)], "value": [json.dumps(told, sort_keys=True)]})
        writer.replace("meta", fact, keys=["key"])


def brought(writer: Writer, parsed: Parsed, *, now: datetime) -> int | None:
    """New rows that the input just loaded brought; None where nobody counted."""
    for cluster in sorted(parsed.clusters)[:1]:
        kept = _kept(writer, cluster, parsed.source)
        if kept and kept["loaded_at"] == _text(now):
            return _number(kept["last"])
    return None


def new_rows(source: Reader | Writer, cluster: str, kind: str, loaded_at: datetime) -> int | None:
    """New rows that everything loaded at that moment brought; None where nobody counted."""
    kept = _kept(source, cluster, kind)
    return _number(kept["new"]) if kept and kept["loaded_at"] == _text(loaded_at) else None


def _before(writer: Writer, cluster: str, kind: SourceName, kept: dict[str, Any] | None) -> Counts | None:
    """The counts after the load before this one; None where an older Trackside wrote it and counted nothing."""
    if kept is not None:
        counts: Counts = kept["rows"]
        return counts
    loaded = writer.query("status_sources").filter(pl.col("cluster") == cluster, pl.col("source") == kind)
    return {} if loaded.is_empty() else None


def _growth(parsed: Parsed, before: Counts | None, now: Counts) -> int | None:
    """Rows that came to the source's table: the first that the input has rows for.

    Merging may make one row of two that were there; a table that shrinks has nothing new.
    """
    if before is None:
        return None
    fed = next((name for name in now if not parsed.frames.get(name, _SOME).is_empty()), None)
    return 0 if fed is None else max(now[fed] - before.get(fed, 0), 0)


def _sum(*numbers: int | None) -> int | None:
    """The sum of counts that are all known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


_SOME = pl.DataFrame({"": [0]})
"""In place of frames that are not at hand: accounting is written block by block."""


def _counts(source: Reader | Writer, kind: SourceName | None) -> dict[tuple[str, str], Counts]:
    found: dict[tuple[str, str], Counts] = {}
    for cluster, name, fed, count in source.query("rows_there", source=kind).rows():
        found.setdefault((cluster, name), {})[fed] = count
    return found


def _key(cluster: str, kind: str) -> str:
    return f"rows of {kind} of {cluster}"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _kept(source: Reader | Writer, cluster: str, kind: str) -> dict[str, Any] | None:
    value = source.meta(_key(cluster, kind))
    found: dict[str, Any] | None = None if value is None else json.loads(value)
    return found


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
