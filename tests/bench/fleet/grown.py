"""A lake of many clusters at little cost: the files of one cluster, linked under the names of others.

Each has an origin, files and facts of its own in the catalogue, as if a directory of its own had been committed. What a
fleet's clusters cost to read and compute does not depend on how many there are; what their lake costs does, and that is
what such a lake is for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from queries.lake import catalogue as catalogues
from queries.lake.catalogue import ORIGINS, CatalogueFile, entry_of
from queries.sql_files import literal

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from queries.lake.address import Address
    from queries.lake.catalogue import Catalogue

FIRST: Final = "demo"
"""The cluster whose files the others have."""


def name_of(number: int) -> str:
    """Name of a cluster of the fleet."""
    return f"c{number:03d}"


def grow(address: Address, files: Path, clusters: range) -> None:
    """Add clusters of these numbers to a lake that has the first one, in a transaction each."""
    import duckdb

    with catalogues.attached(address, read_only=False) as lake, duckdb.connect() as connection:
        [origin] = {entry.origin for entry in lake.entries() if entry.cluster == FIRST}
        of_first = lake.entries(origin)
        facts = [(key, value) for _, key, value in lake.read_facts(of_first)]
        for number in clusters:
            new = f"{number:032x}"
            linked = [_linked(lake, entry, new, name_of(number), files) for entry in of_first if entry.table != ORIGINS]
            lake.commit([], [*linked, _facts(lake, connection, new, facts, files)], f"cluster {number}")


def _linked(lake: Catalogue, entry: CatalogueFile, origin: str, cluster: str, files: Path) -> CatalogueFile:
    """A file of the first cluster as one of another."""
    name = entry.name.replace(entry.origin, origin, 1).replace(f"cluster={FIRST}", f"cluster={cluster}")
    (files / name).parent.mkdir(parents=True, exist_ok=True)
    os.link(files / entry.name, files / name)
    return _entry(lake, name, entry.rows)


def _facts(
    lake: Catalogue, connection: duckdb.DuckDBPyConnection, origin: str, facts: list[tuple[str, str]], files: Path
) -> CatalogueFile:
    """The facts of the first cluster's warehouse as those of another."""
    mine = [(origin, key, origin if key == "warehouse" else value) for key, value in facts]
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in mine)
    name = f"{origin}/tables/{ORIGINS}/all/00000001-{len(mine)}-{int(origin, 16) + 1}.parquet"
    (files / name).parent.mkdir(parents=True, exist_ok=True)
    made = f"SELECT * FROM (VALUES {rows}) AS f(origin, key, value)"
    connection.execute(f"COPY ({made}) TO {literal(str(files / name))} (FORMAT parquet)")
    return _entry(lake, name, len(mine))


def _entry(lake: Catalogue, name: str, rows: int) -> CatalogueFile:
    entry = entry_of(lake.storage.address(name), name, rows)
    assert entry is not None, name
    return entry
