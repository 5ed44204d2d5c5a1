"""Reading a warehouse that is open: tables, named queries, checks, as polars frames.

Samples that a query reads are compared with the manifest first: a damaged day is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import polars as pl

from queries import integrity, recovery, sql_files
from queries.errors import CorruptWarehouseError, QueryError, WriteError
from queries.memo import Memo
from queries.opening import KINDS, duckdb_errors, explained, first_line
from queries.sample_views import sample_view

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Params = dict[str, Any]

T = TypeVar("T")

MADE = 12
"""How many values derived from a published copy are cached in memory."""


@dataclass(frozen=True)
class CheckResult:
    """A data check's outcome: how many rows offend, and the first of them."""

    check: sql_files.Check
    count: int
    sample: pl.DataFrame


class Connection:
    """A DuckDB connection in UTC that runs the named queries and returns polars frames."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.root = root
        self._connection = connection
        self._path = path
        with duckdb_errors(root, path):
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def frame(self, sql: str, params: Params | None = None) -> pl.DataFrame:
        """Rows of a query of ours (never of a person's: see `user_sql`).

        Raises:
            CorruptWarehouseError: something that the query reads is damaged or missing.
        """
        try:
            self._have_samples(sql, params or {})
            frame: pl.DataFrame = self._connection.execute(sql, params or {}).pl()
        except duckdb.OutOfMemoryException as error:
            raise WriteError(f"{self.root}: DuckDB ran out of memory: {first_line(error)}") from error
        except KINDS as error:
            raise explained(error, self._path, self.root) from error
        return frame

    def _have_samples(self, sql: str, params: Params) -> None:
        """Have the views of the samples that a query reads be of its cluster and time, and check the files."""
        for table in integrity.sample_tables_in(sql):
            cluster, first, last = integrity.scope(sql, params)
            files = integrity.live_files(self._connection, table, cluster=cluster, first=first, last=last)
            integrity.require(self.root, files)
            self._connection.execute(sample_view(self.root, table, files, temporary=True))

    def files(self) -> list[integrity.File]:
        """The Parquet files of samples that count."""
        with duckdb_errors(self.root, self._path):
            return integrity.live_files(self._connection)

    def check_samples(self, sql: str) -> None:
        """Have the samples that a person's SQL may read be as they were written.

        Raises:
            CorruptWarehouseError: some are damaged or missing.
        """
        tables = integrity.sample_tables_named(sql)
        integrity.require(self.root, [file for file in self.files() if file.table in tables])

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query; parameters it does not use are left out.

        Raises:
            KeyError: no query has that name, or one of its parameters is missing.
        """
        named = sql_files.named_queries()[name]
        return self.frame(named.sql, {key: params[key] for key in named.parameters})

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:  # noqa: ARG002 - see `Reader`
        """What `make` returns: nothing is cached, since rows may change."""
        return make()

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a declared table or view, in no particular order."""
        if name not in self.relations():
            raise QueryError(f"there is no table {name!r}; the tables are: {', '.join(sorted(self.relations()))}")
        return self.frame(f'SELECT * FROM "{name}"')  # noqa: S608 - a name from our own list

    def row_counts(self, table: str) -> pl.DataFrame:
        """Rows of a table by `cluster`, and by `source` where it has one (else null): `n`.

        Rows in Parquet files are counted by the manifest, in which they were counted when they were written.
        """
        declared = next(each for each in sql_files.all_tables() if each.shown == table)
        if table in sql_files.sample_tables():
            rows = "SELECT cluster, NULL::VARCHAR AS source, CAST(SUM(rows) AS BIGINT) AS n FROM partitions"
            return self.frame(
                f"{rows} WHERE removed_version IS NULL AND table_name = $table GROUP BY ALL", {"table": table}
            )
        source = "source" if "source" in {column.name for column in declared.columns} else "NULL::VARCHAR AS source"
        return self.frame(f"SELECT cluster, {source}, COUNT(*) AS n FROM {declared.name} GROUP BY ALL", {})  # noqa: S608 - our names

    def relations(self) -> frozenset[str]:
        """Names of all tables and views a person can read."""
        views = {view.name for view in sql_files.views()}
        return frozenset(sql_files.tables().keys() | views)

    def meta(self, key: str) -> str | None:
        """A fact about the warehouse itself."""
        with duckdb_errors(self.root, self._path):
            row = self._connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
        return None if row is None else str(row[0])

    def fact_of_version(self, key: str) -> str | None:
        """A fact about this very data version; None if it was stored with another one, or never."""
        version, _, value = (self.meta(key) or "").partition(" ")
        return value if version == str(self.data_version) else None

    @property
    def data_version(self) -> int:
        """Number of the last committed change."""
        return int(self.meta("data_version") or 0)

    def tables(self) -> list[str]:
        """Names of the tables that the file itself holds, for `check_table`."""
        with duckdb_errors(self.root, self._path):
            return recovery.tables(self._connection)

    def check_table(self, name: str) -> None:
        """Read all of a table of `tables`.

        Raises:
            CorruptWarehouseError: it is damaged.
        """
        with duckdb_errors(self.root, self._path):
            recovery.read_table(self._connection, name)

    def checks(self) -> list[CheckResult]:
        """Run every data check and return those that failed.

        A warning that needs damaged samples reports that it could not be checked; the other checks still run.
        """
        frame = []
        for check in sql_files.checks():
            try:
                rows = self.frame(check.sql)
            except CorruptWarehouseError as error:
                if check.severity == "stop":
                    raise
                unchecked = f"not checked, for samples are damaged (trackside doctor lists them): {check.description}"
                rows = pl.DataFrame({"error": [str(error)]})
                check = replace(check, description=unchecked)  # noqa: PLW2901 - the same check
            if rows.height:
                frame.append(CheckResult(check, rows.height, rows.head(5)))
        return frame

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


class Reader(Connection):
    """A published copy, opened read-only.

    Args:
        root: the warehouse directory.
        connection: the open copy.
        path: its file.
        memo: what was made of this copy; a new one if None.
    """

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, path: Path, memo: Memo | None = None) -> None:
        super().__init__(root, connection, path)
        self._memo = Memo(MADE) if memo is None else memo

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key: a published copy never changes."""
        return self._memo.get((self._path, *key), make)
