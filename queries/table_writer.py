"""Changing tables of a warehouse that is open: rows in and out, frames that SQL reads, and a note of what changed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import duckdb

from queries import sql_files
from queries.changes import (
    DAYLESS,
    WHOLE,
    Changes,
    months_inserted,
    months_of,
    months_of_deleted,
    months_of_keys,
    time_of,
    written,
)
from queries.errors import QueryError
from queries.opening import engine, threads
from queries.reader import Connection

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

ROW_GROUP = 122_880
"""Rows that DuckDB packs together. Handed over in portions of that size, they are packed on several cores at once."""


class TableWriter(Connection):
    """A connection that changes tables, and notes in `changes` of which and of which months."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        super().__init__(root, connection, path)
        self.changes = Changes()

    def height(self, table: str) -> int:
        """How many rows a table has."""
        row = self._connection.execute(f"SELECT COUNT(*) FROM {_qualified(table)}").fetchone()
        return int(row[0]) if row else 0

    def append(self, table: str, rows: pl.DataFrame) -> None:
        """Add rows to a table; columns go by name, and those the frame lacks become null."""
        if rows.is_empty():
            return
        many = rows.height > ROW_GROUP
        with self._handed_over(_portions(rows) if many else rows) as name, self._in_bulk(many=many):
            self._connection.execute(f"INSERT INTO {_qualified(table)} BY NAME SELECT * FROM {name}")
        self.changes.touch(table, months_of(rows, time_of(table)))

    @contextlib.contextmanager
    def _in_bulk(self, *, many: bool) -> Iterator[None]:
        """Many rows are written twice as fast if their order need not be preserved, on half the cores.

        The other half reads what is written next, and a core of ours that waits for another would only turn in circles.
        """
        if not many:
            yield
            return
        self._connection.execute("SET preserve_insertion_order = false")
        try:
            with threads(self._connection, engine().half_the_threads):
                yield
        finally:
            with contextlib.suppress(duckdb.Error):  # a failed insert may have ended the transaction
                self._connection.execute("RESET preserve_insertion_order")

    def replace(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> None:
        """Delete the table's rows that share these key columns with `rows`, then append `rows`."""
        self.delete(table, rows.select(keys).unique())
        self.append(table, rows)

    def delete(self, table: str, keys: pl.DataFrame) -> None:
        """Delete the table's rows whose values equal a row of `keys` in all its columns."""
        if keys.is_empty():
            return
        months = months_of_keys(table, keys)
        if keys.height == 1:  # ten times as fast as a join with a frame
            match = " AND ".join(f'"{column}" = ?' for column in keys.columns)
            self._delete(table, f"DELETE FROM {_qualified(table)} WHERE {match}", keys.row(0), months)
            return
        match = " AND ".join(f't."{column}" = k."{column}"' for column in keys.columns)
        with self._handed_over(keys, "deleted", once=months is not None) as name:
            self._delete(table, f"DELETE FROM {_qualified(table)} AS t USING {name} AS k WHERE {match}", months=months)

    def delete_where(self, table: str, condition: str, params: Mapping[str, object]) -> None:
        """Delete the table's rows of which a condition in SQL with `$parameters` is true."""
        self._delete(table, f"DELETE FROM {_qualified(table)} WHERE {condition}", params)

    def _delete(self, table: str, sql: str, params: object = (), months: Collection[str] | None = None) -> None:
        """Run a statement that deletes rows, and note their months; None: the months are read from the table."""
        if months is None:
            months = self._months_found(table, sql, params)
            if not months:
                return
        self._change(table, sql, params, months=months)

    def _months_found(self, table: str, sql: str, params: object) -> list[str]:
        """The months of the rows that a statement is going to delete."""
        column = time_of(table)
        if column is None:
            return [WHOLE]
        found = self._connection.execute(months_of_deleted(sql, column), params).fetchall()
        return [DAYLESS if month is None else f"{month:%Y-%m}" for (month,) in found]

    def _change(self, table: str, sql: str, params: object = (), *, months: Collection[str] = (WHOLE,)) -> None:
        """Run a statement that changes rows of some months; if there are any, note that."""
        row = self._connection.execute(sql, params).fetchone()
        if row is None or row[0]:
            self.changes.touch(table, months)

    def bring_in_line(
        self, table: str, rows: pl.DataFrame, *, key: pl.DataFrame, among: pl.DataFrame | None = None
    ) -> int:
        """Have the table's rows of a key be these; those that are stored as they ought to be are not written again.

        Args:
            table: its rows of a key are each there once.
            rows: what there has to be, each row once, all of them of that key.
            key: one row: columns and the values that rows of the table have in them.
            among: further columns and values, each once: only rows that have some of these are meant.

        Returns:
            How many rows were written.
        """
        stored = self._digests(table, key, among)
        fresh = self._digests_of(table, rows) if not (stored.is_empty() or rows.is_empty()) else stored.clear()
        gone = stored.join(fresh, on="digest", how="anti")
        if 2 * gone.height > stored.height or stored.is_empty():
            if not stored.is_empty():
                self.delete(table, key if among is None else key.join(among, how="cross"))
            self.append(table, rows)
            return rows.height
        if not gone.is_empty():
            with self._handed_over(gone.select("place"), "deleted", once=False) as name:
                self._delete(table, f"DELETE FROM {_qualified(table)} AS t USING {name} AS k WHERE t.rowid = k.place")
        new = rows[fresh.join(stored, on="digest", how="anti")["place"].sort()]
        self.append(table, new)
        return new.height

    def _digests(self, table: str, key: pl.DataFrame, among: pl.DataFrame | None) -> pl.DataFrame:
        """Digests of the stored rows of a key: `place` (DuckDB's number of a row), `digest`."""
        match = " AND ".join(f'"{column}" = ?' for column in key.columns)
        digest = _digest(table, [column.name for column in sql_files.table(table).columns])
        sql = f"SELECT rowid AS place, {digest} AS digest FROM {_qualified(table)}"
        if among is None:
            return self._connection.execute(f"{sql} WHERE {match}", key.row(0)).pl()
        columns = ", ".join(f'"{column}"' for column in among.columns)
        with self._handed_over(among, "some_values") as name:
            return self._connection.execute(f"{sql} SEMI JOIN {name} USING ({columns}) WHERE {match}", key.row(0)).pl()

    def _digests_of(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Digests of rows as the table would store them: `place` (in `rows`), `digest`."""
        placed = rows.with_row_index("place")
        with self._handed_over(_portions(placed) if placed.height > ROW_GROUP else placed) as name:
            digest = _digest(table, rows.columns)
            return self._connection.execute(f"SELECT place, {digest} AS digest FROM {name}").pl()

    def append_new(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> None:
        """Append those rows whose key the table does not have yet (and each key once)."""
        if rows.is_empty():
            return
        rows = rows.unique(subset=list(keys), keep="first", maintain_order=True)
        match = " AND ".join(f't."{column}" IS NOT DISTINCT FROM f."{column}"' for column in keys)
        with self._handed_over(rows) as name:
            self._change(
                table,
                f"INSERT INTO {_qualified(table)} BY NAME SELECT * FROM {name} AS f "
                f"WHERE NOT EXISTS (SELECT 1 FROM {_qualified(table)} AS t WHERE {match})",
                months=months_of(rows, time_of(table)),
            )

    def matching(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> pl.DataFrame:
        """The table's rows that share these key columns with one of `rows`: as they are stored, in no particular order.

        Raises:
            KeyError: no table has that name.
            QueryError: the table has no such column.
        """
        with self._handed_over(rows.select(keys).unique()) as name:
            return self.frame(_matching(table, name, keys))

    def matching_samples(
        self,
        table: str,
        rows: pl.DataFrame,
        *,
        keys: Sequence[str],
        cluster: str,
        since: datetime,
        until: datetime,
    ) -> pl.DataFrame:
        """As `matching`, of the samples of a cluster that begin in a time: only files of these days are read."""
        begins = sql_files.sample_time(table)
        within = f' WHERE t.cluster = $cluster AND t."{begins}" >= $since AND t."{begins}" < $until'
        with self._handed_over(rows.select(keys).unique()) as name:
            params = {"cluster": cluster, "since": since, "until": until}
            return self.frame(_matching(table, name, keys) + within, params)

    def query_with(
        self, name: str, frames: Mapping[str, pl.DataFrame], *, once: bool = False, **params: object
    ) -> pl.DataFrame:
        """Rows of a named query that reads frames: it refers to each by its name.

        `once`: whether it does no more than join each of them once. A window or an aggregate may read it twice.
        """
        with contextlib.ExitStack() as stack:
            for key, rows in frames.items():
                stack.enter_context(self._handed_over(rows, key, once=once))
            return self.query(name, **params)

    def query_of_attempts(self, name: str, some: pl.DataFrame, **params: object) -> pl.DataFrame:
        """Rows of a named query of `attempt_node_times` that are about some attempts (`some` has their keys)."""
        from queries.attempt_filter import restricted_to  # noqa: PLC0415 - few verbs need it

        with (
            self.views_computed_once(),
            self._handed_over(some, "some_attempts", once=False) as keys,
            restricted_to(self._connection, keys),
        ):
            return self.query(name, **params)

    def run(
        self, name: str, frames: Mapping[str, pl.DataFrame] | None = None, *, once: bool = False, **params: object
    ) -> None:
        """Run a named statement that writes, with frames available to it under their names; `once` as above.

        A frame that has the column of the table's time (`queries.changes.time_of`) has the times of what it inserts.
        """
        named = sql_files.named_queries()[name]
        with contextlib.ExitStack() as stack:
            for key, rows in (frames or {}).items():
                stack.enter_context(self._handed_over(rows, key, once=once))
            statement, values = named.sql, {key: params[key] for key in named.parameters}
            verb, table = written(statement)
            if verb == "DELETE FROM":
                self._delete(table, statement, values)
            else:
                months = months_inserted(table, (frames or {}).values()) if verb == "INSERT INTO" else (WHOLE,)
                self._change(table, statement, values, months=months)

    @contextlib.contextmanager
    def _handed_over(
        self, rows: pl.DataFrame | pa.RecordBatchReader, name: str = "handed_over", *, once: bool = True
    ) -> Iterator[str]:
        """Have SQL read rows under a name; `once` if it does no more than join them.

        To read an Arrow table, DuckDB imports `pyarrow.dataset`, which costs more than to read a few rows. They are
        handed over as a stream, which can be read once only, and on one core: as can all that is one row group.
        """
        import polars as pl  # noqa: PLC0415 - readers import this module, too

        few = isinstance(rows, pl.DataFrame) and rows.height <= ROW_GROUP
        readable = rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows
        lent = LentRows(readable)
        del readable
        handed_over = lent.__arrow_c_stream__() if few else lent
        with self._copied(handed_over, name) if few and not once else self._registered(handed_over, name):
            try:
                yield name
            finally:
                lent.take_back()

    @contextlib.contextmanager
    def _registered(self, readable: object, name: str) -> Iterator[None]:
        self._connection.register(name, readable)
        try:
            yield
        finally:
            self._connection.unregister(name)

    @contextlib.contextmanager
    def _copied(self, readable: object, name: str) -> Iterator[None]:
        with self._registered(readable, "handed_over"):
            self._connection.execute(f'CREATE TEMP TABLE "{name}" AS SELECT * FROM handed_over')
        try:
            yield
        finally:
            with contextlib.suppress(duckdb.Error):  # a failed transaction takes it back itself
                self._connection.execute(f'DROP TABLE temp."{name}"')


def _digest(table: str, columns: Collection[str]) -> str:
    """SQL for the digest of a row that has these columns of a table; the others are null."""
    types = [(column.name, column.type.removesuffix(" NOT NULL")) for column in sql_files.table(table).columns]
    values = (f'CAST("{name}" AS {kind})' if name in columns else f"CAST(NULL AS {kind})" for name, kind in types)
    return f"hash({', '.join(values)})"


def _matching(table: str, rows: str, keys: Sequence[str]) -> str:
    """SQL for the rows of a declared table that share key columns with those of a frame."""
    declared = sql_files.table(table)
    unknown = sorted(set(keys) - {column.name for column in declared.columns})
    if unknown:
        raise QueryError(f"table {table} has no column {', '.join(unknown)}")
    name = declared.name if table not in sql_files.sample_tables() else table
    columns = ", ".join(f'"{key}"' for key in keys)
    return f"SELECT t.* FROM {_qualified(name)} AS t SEMI JOIN {rows} USING ({columns})"


def _qualified(table: str) -> str:
    """A table's name as SQL, with its schema if it has one."""
    return ".".join(f'"{part}"' for part in table.split("."))


class LentRows:
    """Rows that DuckDB reads under a name, until they are taken back.

    DuckDB keeps what was registered within a transaction until its end: rows themselves would stay in memory so long.
    """

    def __init__(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        self.rows: pa.Table | pa.RecordBatchReader | None = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of Arrow's C interface; a table gives one as often as it is requested."""
        if self.rows is None:
            message = "rows were read after they were taken back"
            raise AssertionError(message)
        return self.rows.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]  # pyarrow has no types here

    def take_back(self) -> None:
        """Let go of the rows."""
        self.rows = None


def _portions(rows: pl.DataFrame) -> pa.RecordBatchReader:
    """Rows as they lie in memory, to be read once from first to last: DuckDB cannot filter texts of this form."""
    import polars as pl  # noqa: PLC0415 - readers import this module, too
    import pyarrow as pa  # noqa: PLC0415 - likewise

    table = rows.to_arrow(compat_level=pl.CompatLevel.newest())
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=ROW_GROUP))
