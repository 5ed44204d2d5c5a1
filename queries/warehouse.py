"""The warehouse directory: the one place that opens DuckDB.

    DIR/warehouse.duckdb       relations, ledger and results; one writer process at a time
    DIR/raw/<table>/cluster=../day=../*.parquet   samples and steps, listed in the table `partitions`
    DIR/published/NNNNNNNN.duckdb, current        numbered read-only copies, and a pointer to the newest
    DIR/lock                   who writes (an flock: it is gone when its process is)

A writer works in transactions; when it is done it checkpoints and publishes a copy. Readers open the published
copy, so they work while a writer runs. Whatever instant a writer dies at, the next one finds the last committed
transaction, publishes it, and removes files that nothing refers to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import duckdb
import polars as pl
import pyarrow as pa

from queries import folder, partitions, texts
from queries.errors import (
    CheckError,
    CorruptWarehouseError,
    LockedWarehouseError,
    NewerWarehouseError,
    NoWarehouseError,
    QueryError,
    WarehouseError,
    WriteError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date, datetime
    from pathlib import Path

Params = dict[str, Any]

_RUN_AGAIN = "Make room (or get permission) and run it again: what was committed is kept, the rest is done again."
_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # How a new file is laid out: dictionaries over compressed text are half the work to write.
    "storage_compatibility_version": "v1.3.0",
    "write_buffer_row_group_count": "2",
}

ROW_GROUP = 122_880
"""Rows that DuckDB packs together. Handed over in portions of that size, they are packed on several cores at once."""

_HALF_THE_CORES = max(len(os.sched_getaffinity(0)) // 2, 1)


@dataclass(frozen=True)
class CheckResult:
    """A data check's outcome: how many rows offend, and the first of them."""

    check: texts.Check
    count: int
    sample: pl.DataFrame


class _Connection:
    """A DuckDB connection in UTC that speaks polars and the named queries."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.root = root
        self._connection = connection
        connection.execute("SET TimeZone = 'UTC'")

    def frame(self, sql: str, params: Params | None = None) -> pl.DataFrame:
        """Rows of a query of ours (never of a person's: see `user_sql`)."""
        try:
            found: pl.DataFrame = self._connection.execute(sql, params or {}).pl()
        except duckdb.OutOfMemoryException as error:
            raise WriteError(f"{self.root}: DuckDB ran out of memory: {_first_line(error)}") from error
        return found

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query; parameters it does not use are left out.

        Raises:
            KeyError: there is no query of that name, or a parameter of it is missing.
        """
        named = texts.named_queries()[name]
        return self.frame(named.sql, {key: params[key] for key in named.parameters})

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a declared table or view, in no particular order."""
        if name not in self.relations():
            raise QueryError(f"there is no table {name!r}; there are: {', '.join(sorted(self.relations()))}")
        return self.frame(f'SELECT * FROM "{name}"')  # noqa: S608 - a name from our own list

    def relations(self) -> frozenset[str]:
        """Names of all tables and views a person can read."""
        views = {view.name for view in texts.views()}
        return frozenset({table.shown for table in texts.all_tables()} | views)

    def meta(self, key: str) -> str | None:
        """A fact about the warehouse itself."""
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
        return None if row is None else str(row[0])

    @property
    def data_version(self) -> int:
        """Number of the last committed change."""
        return int(self.meta("data_version") or 0)

    def checks(self) -> list[CheckResult]:
        """Run every data check and return those that found something."""
        found = []
        for check in texts.checks():
            rows = self.frame(check.sql)
            if rows.height:
                found.append(CheckResult(check, rows.height, rows.head(5)))
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


class Reader(_Connection):
    """A published copy, opened read-only."""


class Writer(_Connection):
    """The one process that may change the warehouse."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """All or nothing: commits at the end with a new data version, rolls back on any error."""
        with _duckdb_errors(self.root):
            self._connection.execute("BEGIN TRANSACTION")
            try:
                yield self
                self._put_meta("data_version", str(self.data_version + 1))
                self._refresh_sample_views()
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):  # a failed statement may have ended the transaction already
                    self._connection.execute("ROLLBACK")
                raise

    def height(self, table: str) -> int:
        """How many rows a table has."""
        row = self._connection.execute(f"SELECT COUNT(*) FROM {_named(table)}").fetchone()  # noqa: S608 - our names
        return int(row[0]) if row else 0

    def append(self, table: str, rows: pl.DataFrame) -> None:
        """Add rows to a table; columns go by name, and those the frame lacks become null."""
        if rows.is_empty():
            return
        many = rows.height > ROW_GROUP
        with self._handed_over(_portions(rows) if many else rows) as name, self._in_bulk(many=many):
            self._connection.execute(f"INSERT INTO {_named(table)} BY NAME SELECT * FROM {name}")  # noqa: S608 - our names

    @contextlib.contextmanager
    def _in_bulk(self, *, many: bool) -> Iterator[None]:
        """Many rows are written twice as fast if their order need not be kept, on half the cores.

        The other half reads what is written next, and a core of ours that waits for another would only turn in circles.
        """
        if not many:
            yield
            return
        self._connection.execute(f"SET preserve_insertion_order = false; SET threads = {_HALF_THE_CORES}")
        try:
            yield
        finally:
            with contextlib.suppress(duckdb.Error):  # a failed insert may have ended the transaction
                self._connection.execute("RESET preserve_insertion_order; RESET threads")

    def replace(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> None:
        """Delete the table's rows that share these key columns with `rows`, then append `rows`."""
        self.delete(table, rows.select(keys).unique())
        self.append(table, rows)

    def delete(self, table: str, keys: pl.DataFrame) -> None:
        """Delete the table's rows whose values equal a row of `keys` in all its columns."""
        if keys.is_empty():
            return
        match = " AND ".join(f't."{column}" = k."{column}"' for column in keys.columns)
        with self._handed_over(keys) as name:
            self._connection.execute(f"DELETE FROM {_named(table)} AS t USING {name} AS k WHERE {match}")  # noqa: S608 - our names

    def append_new(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> None:
        """Append those rows whose key the table does not have yet (and each key once)."""
        if rows.is_empty():
            return
        rows = rows.unique(subset=list(keys), keep="first", maintain_order=True)
        match = " AND ".join(f't."{column}" IS NOT DISTINCT FROM f."{column}"' for column in keys)
        with self._handed_over(rows) as name:
            self._connection.execute(
                f"INSERT INTO {_named(table)} BY NAME SELECT * FROM {name} AS f "  # noqa: S608 - our names
                f"WHERE NOT EXISTS (SELECT 1 FROM {_named(table)} AS t WHERE {match})"
            )

    def query_with(self, name: str, frames: Mapping[str, pl.DataFrame], **params: object) -> pl.DataFrame:
        """Rows of a named query that reads frames, which are there for it under their names."""
        with contextlib.ExitStack() as stack:
            for key, rows in frames.items():
                stack.enter_context(self._handed_over(rows, key))
            return self.query(name, **params)

    def run(self, name: str, frames: Mapping[str, pl.DataFrame] | None = None, **params: object) -> None:
        """Run a named statement that writes, with frames available to it under their names."""
        named = texts.named_queries()[name]
        with contextlib.ExitStack() as stack:
            for key, rows in (frames or {}).items():
                stack.enter_context(self._handed_over(rows, key))
            self._connection.execute(named.sql, {key: params[key] for key in named.parameters})

    def stop_on_failed_checks(self) -> list[CheckResult]:
        """Run all checks: raise on those that stop, return those that warn.

        Raises:
            CheckError: a check that stops found rows. Within a transaction nothing is committed then.
        """
        found = self.checks()
        stops = [result for result in found if result.check.severity == "stop"]
        if stops:
            said = "\n".join(f"{r.check.name}: {r.check.description} ({r.count} rows)\n{r.sample}" for r in stops)
            raise CheckError(
                f"{self.root}: a data check failed, so nothing was changed.\n{said}\n"
                "This is a fault of Trackside or of a hand-edited warehouse, not of your data: please report it."
            )
        return found

    # Samples ---------------------------------------------------------------------------------------------------

    def write_partition(self, table: str, cluster: str, day: date, rows: pl.DataFrame) -> None:
        """Replace one cluster's day of a sample table by `rows`, within the open transaction.

        The new file is complete on disk before the manifest names it, and the old ones go only when no
        published copy names them any more: a crash at any point loses nothing.
        """
        with self._partitions(table) as files:
            files.replace(cluster, day, rows)

    def change_partition(
        self, table: str, cluster: str, day: date, rows: tuple[pl.DataFrame, pl.DataFrame], *, order: Sequence[str]
    ) -> None:
        """Take rows out of one cluster's day of a sample table and put others in, within the open transaction.

        `rows` are those that go (in full; each is there once) and those that come; `order` is what rows are sorted by.
        """
        with self._partitions(table) as files:
            files.change(cluster, day, *rows, order=order)

    def compact_partitions(self, table: str, cluster: str, *, before: date, order: Sequence[str]) -> None:
        """Make one file of those of each earlier day of a cluster that has several, within the open transaction."""
        with self._partitions(table) as files:
            files.compact(cluster, before=before, order=order)

    def remove_partition(self, table: str, cluster: str, day: date) -> None:
        """Take out one cluster's day of a sample table, within the open transaction."""
        with self._partitions(table) as files:
            files.retire(cluster, day)

    @contextlib.contextmanager
    def _partitions(self, table: str) -> Iterator[partitions.Files]:
        if table not in texts.sample_tables():
            raise QueryError(f"{table!r} is not a sample table; there are: {', '.join(texts.sample_tables())}")
        with _disk_errors(self.root):
            yield partitions.Files(self.root, self._connection, table, self.data_version + 1)

    def _refresh_sample_views(self) -> None:
        """Point the views of the sample tables at the files of the manifest."""
        for table in texts.sample_tables():
            self._connection.execute(_sample_view(self._connection, self.root, table, temporary=False))

    # Opening and publishing ------------------------------------------------------------------------------------

    def upgrade(self) -> None:
        """Apply the schema steps that this warehouse has not seen, then renew the views.

        Raises:
            NewerWarehouseError: it has seen steps that this Trackside does not know.
        """
        steps = texts.schema_steps()
        applied = self._applied_steps()
        if applied and max(applied) > steps[-1].number:
            raise NewerWarehouseError(
                f"{self.root}: this warehouse has schema {max(applied)}, written by a newer Trackside; this one knows "
                f"schema {steps[-1].number}.\nUpgrade Trackside, or point --warehouse at another directory. "
                "Nothing was changed."
            )
        for step in steps:
            if step.number not in applied:
                self._apply(step)
            elif applied[step.number] != step.sha256:
                raise CorruptWarehouseError(
                    f"{self.root}: schema step {step.name} is not the one this warehouse was made with (a development "
                    "version?).\nMake a new warehouse by ingesting into another directory. Nothing was changed."
                )
        made_of = _made_of(texts.views())
        if self.meta("views") == made_of and self.meta("root") == str(self.root):
            return
        with self.transaction():
            for view in texts.views():
                self._connection.execute(view.sql)
                self._connection.execute(f'COMMENT ON VIEW "{view.name}" IS {_literal(view.description)}')
            self._put_meta("views", made_of)
            self._put_meta("root", str(self.root))

    def _applied_steps(self) -> dict[int, str]:
        tables = self._connection.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'schema_steps'")
        row = tables.fetchone()
        if row is None or row[0] == 0:
            return {}
        return dict(self._connection.execute("SELECT step, sha256 FROM schema_steps").fetchall())

    def _apply(self, step: texts.Step) -> None:
        self._connection.execute("BEGIN TRANSACTION")
        self._connection.execute(step.sql)
        for table in texts.tables_of(step):
            self._connection.execute(f"COMMENT ON TABLE {table.name} IS {_literal(table.description)}")
            for column in table.columns:
                said = _literal(column.description)
                self._connection.execute(f'COMMENT ON COLUMN {table.name}."{column.name}" IS {said}')
        for name, column in texts.added_by(step):
            said = _literal(column.description)
            self._connection.execute(f'COMMENT ON COLUMN {name}."{column.name}" IS {said}')
        self._connection.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", [step.number, step.name, step.sha256])
        self._connection.execute("COMMIT")

    def publish(self) -> None:
        """Checkpoint, close, and make this version the one that readers see."""
        version = self.data_version
        with _disk_errors(self.root):
            before = folder.current_copy(self.root)
            if before is not None and int(before.stem) < version:  # files that it does not name go: so do their rows
                self._connection.execute("DELETE FROM partitions WHERE removed_version <= ?", [int(before.stem)])
            self._connection.execute("CHECKPOINT")
            paths = self._connection.execute("SELECT path, removed_version FROM partitions").fetchall()
            # Closed before copying: on POSIX, closing our own second descriptor of the file would drop DuckDB's lock.
            self.close()
            target = self.root / "published" / f"{version:08d}.duckdb"
            if folder.current_copy(self.root) != target:
                folder.copy_and_point(self.root / "warehouse.duckdb", target)
            folder.sweep(self.root, paths)

    def _put_meta(self, key: str, value: str) -> None:
        self._connection.execute("DELETE FROM meta WHERE key = ?", [key])
        self._connection.execute("INSERT INTO meta VALUES (?, ?)", [key, value])

    @contextlib.contextmanager
    def _handed_over(self, rows: pl.DataFrame | pa.RecordBatchReader, name: str = "handed_over") -> Iterator[str]:
        self._connection.register(name, rows.to_arrow() if isinstance(rows, pl.DataFrame) else rows)
        try:
            yield name
        finally:
            self._connection.unregister(name)


def _portions(rows: pl.DataFrame) -> pa.RecordBatchReader:
    """Rows as they lie in memory, to be read once from first to last: DuckDB cannot filter texts of this form."""
    table = rows.to_arrow(compat_level=pl.CompatLevel.newest())
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=ROW_GROUP))


@contextlib.contextmanager
def open_writer(root: Path, *, verb: str, now: datetime) -> Iterator[Writer]:
    """Open a warehouse for writing, making or upgrading it as needed; publish when the caller is done.

    Args:
        root: the warehouse directory.
        verb: what the caller is doing, for whoever meets the lock.
        now: the time, for the same purpose.

    Raises:
        LockedWarehouseError: another process is writing; the message names it.
        NoWarehouseError: the place holds something else.
        NewerWarehouseError, CorruptWarehouseError, WriteError: as they say.
    """
    root = root.absolute()
    folder.refuse_other_folders(root)
    with _disk_errors(root):
        root.mkdir(parents=True, exist_ok=True)
    with folder.locked(root, verb=verb, now=now):
        writer = Writer(root, _connect(root / "warehouse.duckdb", root, read_only=False))
        try:
            with _duckdb_errors(root):
                writer.upgrade()
            yield writer
            writer.publish()
        finally:
            writer.close()


@contextlib.contextmanager
def open_reader(root: Path) -> Iterator[Reader]:
    """Open the published copy for reading. It stays readable while a writer runs.

    Raises:
        NoWarehouseError: nothing has been published there yet.
        NewerWarehouseError, CorruptWarehouseError: as they say.
    """
    root = root.absolute()
    reader = Reader(root, _connect(_published(root), root, read_only=True))
    try:
        _refuse_newer(reader)
        if reader.meta("root") != str(root):  # the directory was moved: its views name files at the old place
            for table in texts.sample_tables():
                reader._connection.execute(_sample_view(reader._connection, root, table, temporary=True))  # noqa: SLF001 - our own class
        if reader.meta("views") != _made_of(texts.views()):  # the last writer was another Trackside
            for view in texts.views():
                reader._connection.execute(view.sql.replace("OR REPLACE VIEW", "OR REPLACE TEMP VIEW", 1))  # noqa: SLF001 - our own class
        yield reader
    finally:
        reader.close()


def _connect(path: Path, root: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(path), read_only=read_only, config=dict(_CONFIG))
    except duckdb.Error as error:
        if "lock" in str(error).lower():
            raise LockedWarehouseError(f"{path} is open in another program: {_first_line(error)}") from error
        _raise_if_disk(error, root)
        raise CorruptWarehouseError(_corrupt(path, root, error)) from error


_CUT_OFF = "could not read enough bytes"
"""What DuckDB says of a file that ends too early."""

_DISK = ("no space left", "disk full", "read-only file system", "permission denied", "quota exceeded")


def _raise_if_disk(error: Exception, root: Path) -> None:
    """DuckDB calls many things fatal that only need room or permission."""
    if any(words in str(error).lower() for words in _DISK):
        raise WriteError(f"{root} cannot be written: {_first_line(error)}.\n{_RUN_AGAIN}") from error


def _corrupt(path: Path, root: Path, error: Exception) -> str:
    copies = [copy.name for copy in sorted((root / "published").glob("*.duckdb")) if copy != path]
    way_back = (
        f"The published copy {root / 'published' / copies[-1]} may be whole: copy it over {root / 'warehouse.duckdb'} "
        "and ingest again; loading twice equals loading once."
        if copies
        else "Move the directory away and ingest again from the sources."
    )
    return f"{path} cannot be read as a warehouse: {_first_line(error)}\n{way_back}"


def _refuse_newer(reader: Reader) -> None:
    try:
        row = reader._connection.execute("SELECT max(step) FROM schema_steps").fetchone()  # noqa: SLF001 - our own class
    except duckdb.Error as error:
        raise CorruptWarehouseError(_corrupt(_published(reader.root), reader.root, error)) from error
    known = texts.schema_steps()[-1].number
    if row is not None and row[0] is not None and row[0] > known:
        raise NewerWarehouseError(
            f"{reader.root}: this warehouse has schema {row[0]}, written by a newer Trackside; this one knows schema "
            f"{known}.\nUpgrade Trackside to read it."
        )
    if row is not None and row[0] is not None and row[0] < known:
        raise WarehouseError(
            f"{reader.root}: this warehouse has schema {row[0]}; this Trackside needs schema {known}.\n"
            "Run: trackside compute    (or any ingest): the first writer upgrades it."
        )


def _published(root: Path) -> Path:
    current = folder.current_copy(root)
    if current is None:
        raise NoWarehouseError(
            f"there is no warehouse in {root} yet.\n"
            "Make one by ingesting something:  trackside ingest slurm   (or a file: trackside ingest slurm sacct.txt)\n"
            "Or point at another place with --warehouse DIR or $TRACKSIDE_WAREHOUSE."
        )
    return current


@contextlib.contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """Turn what a full or forbidden disk raises in our own file work into our error."""
    try:
        with _duckdb_errors(root):
            yield
    except OSError as error:
        raise WriteError(f"{root} cannot be written: {error.strerror or error}.\n{_RUN_AGAIN}") from error


@contextlib.contextmanager
def _duckdb_errors(root: Path) -> Iterator[None]:
    """Turn DuckDB's own errors about files and memory into ours; programming errors stay what they are."""
    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        if _CUT_OFF in str(error).lower():
            raise CorruptWarehouseError(_corrupt(root / "warehouse.duckdb", root, error)) from error
        raise WriteError(f"{root} cannot be written: {_first_line(error)}.\n{_RUN_AGAIN}") from error
    except (duckdb.FatalException, duckdb.SerializationException, duckdb.InternalException) as error:
        _raise_if_disk(error, root)
        raise CorruptWarehouseError(_corrupt(root / "warehouse.duckdb", root, error)) from error


def _made_of(views: Sequence[texts.Named]) -> str:
    """What tells these views from those of another version: `SELECT *` follows the schema, too."""
    last = texts.schema_steps()[-1].sha256
    return hashlib.sha256("".join([last, *(view.sql for view in views)]).encode()).hexdigest()


def _sample_view(connection: duckdb.DuckDBPyConnection, root: Path, table: str, *, temporary: bool) -> str:
    """SQL of the view that joins a sample table's declaration with its files."""
    rows = connection.execute(
        "SELECT path FROM partitions WHERE table_name = ? AND removed_version IS NULL ORDER BY path", [table]
    ).fetchall()
    files = ", ".join(_literal(str(root / path)) for (path,) in rows)
    reading = f" UNION ALL BY NAME SELECT * FROM read_parquet([{files}], hive_partitioning = false)" if files else ""  # noqa: S608 - our own names and files
    kind = "TEMP VIEW" if temporary else "VIEW"
    return f"CREATE OR REPLACE {kind} {table} AS SELECT * FROM raw.{table}{reading}"  # noqa: S608 - as above


def _named(table: str) -> str:
    """A table's name as SQL, with its schema if it has one."""
    return ".".join(f'"{part}"' for part in table.split("."))


def _literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
