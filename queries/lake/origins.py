"""The facts of each warehouse that is committed to a lake: what its table `meta` holds, its schema, its last commit."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from queries import changes, sql_files
from queries.lake.catalogue import ORIGINS
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import duckdb

    from queries.copying import AttachedCopy
    from queries.lake.catalogue import Catalogue, CatalogueFile
    from queries.lake.storage import Storage

TOKEN, COMMITTED_AT, COMMITTED_BY, SCHEMA = "lake_token", "lake_committed_at", "lake_committed_by", "lake_schema"
"""Facts of ours: which commit was the last, when it was made and by whom, and digests of the schema steps."""

STATE: Final = "lake_state"
"""Another: what distinguishes the committed data version (see `queries.changes`), as far as that is known."""

OURS: Final = frozenset({TOKEN, COMMITTED_AT, COMMITTED_BY, SCHEMA, STATE})

_OF_THE_PLACE: Final = frozenset({"root", "views", "incomplete_views", "copying", "copied", "lake", changes.FACT})
"""Facts about the place of a database, which mean nothing elsewhere: as in `queries.units`."""


def facts(lake: Catalogue, entries: Iterable[CatalogueFile]) -> dict[str, dict[str, str]]:
    """The facts of each origin that has files among some: those of the very commit that these files are of."""
    found: dict[str, dict[str, str]] = {}
    for origin, key, value in lake.read_facts(entries):
        found.setdefault(origin, {})[key] = value
    return found


def portable(source: AttachedCopy) -> dict[str, str]:
    """The facts of a warehouse that hold anywhere, and its schema."""
    return {key: value for key, value in source.facts.items() if key not in _OF_THE_PLACE} | {SCHEMA: schema()}


def schema() -> str:
    """The schema steps of this Trackside, each with the beginning of its digest."""
    return " ".join(f"{step.number}:{step.sha256[:16]}" for step in sql_files.schema_steps())


def is_same_state(source: AttachedCopy, lake_facts: Mapping[str, str]) -> bool:
    """Whether the lake has this very state: one restored from a backup may have the same data version as another."""
    return portable(source) | _state(source) == {
        key: value for key, value in lake_facts.items() if key not in _NOT_COMPARED
    }


_NOT_COMPARED: Final = OURS - {SCHEMA, STATE}


def _state(source: AttachedCopy) -> dict[str, str]:
    """Digest of the state of a warehouse, if its last writer recorded it."""
    state = changes.of_warehouse(source.facts).state(source.version)
    return {} if state is None else {STATE: state}


def write(
    connection: duckdb.DuckDBPyConnection, storage: Storage, source: AttachedCopy, token: str, now: datetime
) -> tuple[str, int]:
    """Write the file of an origin's facts; returns its name and how many rows it has."""
    by = f"{socket.gethostname()}:{source.root}"
    rows = portable(source) | {TOKEN: token, COMMITTED_AT: now.isoformat(timespec="seconds"), COMMITTED_BY: by}
    rows |= _state(source)
    origin = source.facts["warehouse"]
    name = f"{origin}/tables/{ORIGINS}/all/{source.version:08d}-{len(rows)}-{int(token, 16)}.parquet"
    values = ", ".join(f"({literal(origin)}, {literal(key)}, {literal(value)})" for key, value in rows.items())
    with storage.writing(name) as file:
        connection.execute(
            f"COPY (SELECT * FROM (VALUES {values}) AS f(origin, key, value)) TO {literal(str(file))} (FORMAT parquet)"  # noqa: S608 - quoted values
        )
    return name, len(rows)
