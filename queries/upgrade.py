"""Schema steps: which of them a warehouse file has, which it lacks, and which warehouses this version refuses.

The steps up to the first release are one baseline: each table is declared once. What comes after it is a step of its
own, which is applied once and never edited.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import duckdb

from queries import sql_files
from queries.errors import CorruptWarehouseError, NewerWarehouseError, WarehouseError
from queries.opening import threads
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path


def applied_steps(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    """Number and digest of each schema step that a warehouse file has; none for an empty file."""
    try:  # to look it up in a list of all tables takes DuckDB five times as long
        return dict(connection.execute("SELECT step, sha256 FROM schema_steps").fetchall())
    except duckdb.CatalogException:
        return {}


def refuse_other_schemas(root: Path, applied: Mapping[int, str]) -> None:
    """Refuse a warehouse whose schema steps are not ours. It is not changed.

    Raises:
        CorruptWarehouseError: a development version before the first release made it.
        NewerWarehouseError: it has steps of a newer Trackside.
    """
    steps = sql_files.schema_steps()
    if any(applied.get(step.number, step.sha256) != step.sha256 for step in steps):
        raise CorruptWarehouseError(
            f"{root}: this warehouse was made by a development version of Trackside before the first release.\n"
            "Load your sources again into a new directory (--warehouse DIR), or take its tables out with "
            "`trackside export` of the version that made it. Nothing was changed."
        )
    if max(applied, default=0) > steps[-1].number:
        raise NewerWarehouseError(
            f"{root}: this warehouse has schema {max(applied)}, written by a newer Trackside; this one has schema "
            f"{steps[-1].number}.\nUpgrade Trackside, or point --warehouse at another directory. Nothing was changed."
        )


def refuse_missing_steps(root: Path, applied: Mapping[int, str]) -> None:
    """Refuse to read a warehouse that lacks steps: only a writer may apply them.

    Raises:
        WarehouseError: it does; the message names the command that upgrades it.
    """
    missing = [step.number for step in sql_files.schema_steps() if step.number not in applied]
    if missing:
        raise WarehouseError(
            f"{root}: this warehouse lacks schema {', '.join(f'{number:04d}' for number in missing)}, which this "
            "Trackside needs.\n"
            "Run: trackside compute    (or any ingest): the first writer upgrades it."
        )


def lost_parts(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Tables (`ledger`) and columns (`ledger.node`) that the applied schema steps made, and that a file lacks."""
    applied = applied_steps(connection)
    declared = sql_files.tables_after(tuple(step for step in sql_files.schema_steps() if step.number in applied))
    columns = {name: frozenset(names) for name, names in connection.execute(_COLUMNS).fetchall()}
    lost = []
    for shown, table in declared.items():
        existing = columns.get(table.name)
        if existing is None:
            lost.append(shown)
        else:
            lost += [f"{shown}.{column.name}" for column in table.columns if column.name not in existing]
    return lost


_COLUMNS: Final = """
SELECT if(schema_name = 'main', table_name, schema_name || '.' || table_name) AS name, list(column_name)
FROM duckdb_columns()
WHERE database_name = current_database() AND NOT internal
GROUP BY name
"""


def apply_missing_steps(connection: duckdb.DuckDBPyConnection, applied: Mapping[int, str]) -> None:
    """Apply the steps that a warehouse file lacks: all of them, or none.

    One core does it: there is nothing to share in a comment on a column, and a new file has a thousand of them.
    """
    missing = [step for step in sql_files.schema_steps() if step.number not in applied]
    if not missing:
        return
    with threads(connection, 1):
        connection.execute("BEGIN TRANSACTION")
        for step in missing:
            connection.execute(step.sql)
            connection.execute(";\n".join(_comments(step)))  # one by one they take twice as long
            connection.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", [step.number, step.name, step.sha256])
        connection.execute("COMMIT")


def _comments(step: sql_files.SchemaStep) -> Iterator[str]:
    """Statements that put a step's comments beside its tables and columns."""
    tables = sql_files.tables_of(step)
    yield from (f"COMMENT ON TABLE {table.name} IS {literal(table.description)}" for table in tables)
    columns = [(table.name, column) for table in tables for column in table.columns]
    for table, column in [*columns, *sql_files.added_by(step)]:
        yield f'COMMENT ON COLUMN {table}."{column.name}" IS {literal(column.description)}'


def views_digest(views: Sequence[sql_files.Named]) -> str:
    """A digest that distinguishes these views from those of another version: `SELECT *` follows the schema, too."""
    last = sql_files.schema_steps()[-1].sha256
    return hashlib.sha256("".join([last, *(view.sql for view in views)]).encode()).hexdigest()
