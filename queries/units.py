"""Differences of two databases of a warehouse: the rows of a table, by cluster and day, as counts and digests.

A unit is the rows of one table that are of one cluster and one UTC day: the day of the first column of times or dates
that the table has. Rows of a table without a cluster, or without times, are of the unit null. A unit is the same in
two databases if it has as many rows in both, and the same sum of the digests of its rows: the order is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from queries import sql_files
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    import duckdb

_COUNTED: Final = {
    "main.meta": "key NOT IN ('root', 'views', 'incomplete_views', 'copying', 'copied', 'lake', 'changed')",
    "main.partitions": "removed_version IS NULL",
}
"""The rows of a table that are compared: not those about the place of a database."""

_NOT_COUNTED: Final = frozenset({"main.schema_steps"})
"""Tables that each database has of its own."""

_CHANGED: Final = "changed_units"


@dataclass(frozen=True)
class Shape:
    """A table as a database has it."""

    name: str
    """With its schema: `main.nodes`."""
    columns: tuple[str, ...]
    day: str | None
    """The column whose UTC day a row is of."""

    @property
    def sql(self) -> str:
        """The quoted name."""
        return ".".join(f'"{part}"' for part in self.name.split("."))

    @property
    def rows(self) -> str:
        """The condition on the rows that are compared."""
        return _COUNTED.get(self.name, "true")

    @property
    def unit(self) -> tuple[str, str]:
        """SQL for the cluster and the day of a row."""
        cluster = "CAST(cluster AS VARCHAR)" if "cluster" in self.columns else "CAST(NULL AS VARCHAR)"
        return cluster, "CAST(NULL AS DATE)" if self.day is None else f'CAST("{self.day}" AS DATE)'

    @property
    def in_changed_units(self) -> str:
        """The condition on rows of changed units: see `differing`."""
        cluster, day = self.unit
        return (
            f"EXISTS (SELECT 1 FROM temp.{_CHANGED} AS u WHERE u.table_name = {literal(self.name)} "
            f"AND u.cluster IS NOT DISTINCT FROM {cluster} AND u.day IS NOT DISTINCT FROM {day})"
        )


@dataclass(frozen=True, order=True)
class Unit:
    """Rows of a table, a cluster and a day; a row count of 0 is of a unit that is not there."""

    table: str
    cluster: str | None
    day: date | None
    rows: int
    digest: str

    @property
    def key(self) -> tuple[str, str | None, date | None]:
        """Identity of the unit."""
        return self.table, self.cluster, self.day


def shapes(connection: duckdb.DuckDBPyConnection, database: str) -> dict[str, Shape]:
    """The tables of an attached database, by name; of a lake's copy some are views."""
    found = connection.execute(
        "SELECT c.schema_name || '.' || c.table_name, list(c.column_name ORDER BY c.column_index), "
        "list(c.column_name ORDER BY c.column_index) "
        "FILTER (c.data_type IN ('DATE', 'TIMESTAMP WITH TIME ZONE'))[1] "
        "FROM duckdb_columns() AS c WHERE c.database_name = ? AND c.schema_name || '.' || c.table_name IN ? "
        "GROUP BY ALL ORDER BY ALL",
        [database, [each.name if "." in each.name else f"main.{each.name}" for each in sql_files.all_tables()]],
    )
    made = (Shape(name, tuple(columns), day) for name, columns, day in found.fetchall())
    return {shape.name: shape for shape in made if shape.name not in _NOT_COUNTED}


def of_table(connection: duckdb.DuckDBPyConnection, database: str, shape: Shape) -> list[Unit]:
    """The units of a table of an attached database."""
    cluster, day = shape.unit
    columns = ", ".join(f'"{column}"' for column in shape.columns)
    found = connection.execute(
        f"SELECT {cluster} AS cluster, {day} AS day, COUNT(*), CAST(SUM(hash({columns})) AS VARCHAR) "
        f'FROM "{database}".{shape.sql} WHERE {shape.rows} GROUP BY ALL HAVING COUNT(*) > 0'
    )
    return [Unit(shape.name, *row) for row in found.fetchall()]


def differing(source: Iterable[Unit], target: Iterable[Unit]) -> list[Unit]:
    """The units that are to be brought here: as they are there, with no rows where there are none."""
    current = {unit.key: unit for unit in source}
    stored = {unit.key: unit for unit in target}
    changed = [unit for key, unit in current.items() if stored.get(key) != unit]
    return changed + [Unit(*key, 0, "") for key in stored if key not in current]


def mark(connection: duckdb.DuckDBPyConnection, changed: Sequence[Unit]) -> None:
    """Have a temporary table name the changed units, for `in_changed_units`."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_CHANGED} AS "
        "SELECT unnest($tables::VARCHAR[]) AS table_name, unnest($clusters::VARCHAR[]) AS cluster, "
        "unnest($days::DATE[]) AS day",
        {
            "tables": [unit.table for unit in changed],
            "clusters": [unit.cluster for unit in changed],
            "days": [unit.day for unit in changed],
        },
    )


def bring(
    connection: duckdb.DuckDBPyConnection, shape: Shape, source: str, target: str, *, columns: Sequence[str]
) -> None:
    """Have the marked units of a table be in one attached database what they are in another.

    Args:
        connection: of both, within a transaction that writes the target.
        shape: of the table at the target.
        source: the database to read.
        target: the database to write.
        columns: those that both have; others become null.
    """
    named = ", ".join(f'"{column}"' for column in columns)
    condition = f"{shape.rows} AND {shape.in_changed_units}"
    if shape.name == "main.partitions" and target == current(connection):
        _retire(connection, shape)
    else:
        connection.execute(f'DELETE FROM "{target}".{shape.sql} WHERE {condition}')
    connection.execute(
        f'INSERT INTO "{target}".{shape.sql} BY NAME SELECT {named} FROM "{source}".{shape.sql} WHERE {condition}'
    )


def _retire(connection: duckdb.DuckDBPyConnection, shape: Shape) -> None:
    """Have files count no longer, rather than forget them: the copy that is published may be read still."""
    connection.execute(
        f"UPDATE {shape.sql} SET removed_version = (SELECT CAST(value AS BIGINT) FROM main.meta "
        f"WHERE key = 'data_version') WHERE {shape.rows} AND {shape.in_changed_units}"
    )


def current(connection: duckdb.DuckDBPyConnection) -> str:
    """The name of the database that a connection was opened with."""
    row = connection.execute("SELECT current_database()").fetchone()
    return "" if row is None else str(row[0])
