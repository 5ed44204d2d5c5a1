"""The warehouse directory: the one place that opens DuckDB.

    DIR/warehouse.duckdb       relations, ledger and results; one writer process at a time
    DIR/raw/<table>/cluster=../day=../*.parquet   samples and steps, listed in the table `partitions`
    DIR/published/NNNNNNNN.duckdb, current        numbered read-only copies, and a pointer to the newest
    DIR/lock                   who writes (an flock: it is gone when its process is)
    DIR/set-aside/             what was damaged, or what nothing refers to; nothing reads it

A writer works in transactions; when it is done it checkpoints and publishes a copy. Readers open the published
copy, so they work while a writer runs. Whatever instant a writer dies at, the next one finds the last committed
transaction, publishes it, and removes files that nothing refers to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import duckdb
import polars as pl
import pyarrow as pa

from queries import directory, integrity, parquet_days, permissions, recovery, sql_files, upgrade
from queries.errors import CheckError, CorruptWarehouseError, NoWarehouseError, QueryError, WriteError
from queries.memo import Memo
from queries.opening import KINDS, connect, corrupt, disk_errors, duckdb_errors, explained, first_line
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date, datetime
    from pathlib import Path

Params = dict[str, Any]

T = TypeVar("T")

MADE = 12
"""How many things made of a published copy are kept in memory."""

ROW_GROUP = 122_880
"""Rows that DuckDB packs together. Handed over in portions of that size, they are packed on several cores at once."""

_INCOMPLETE: Final = "incomplete_views"
"""Fact of the warehouse: sample tables whose views leave out damaged files."""

_HALF_THE_CORES = max(len(os.sched_getaffinity(0)) // 2, 1)


@dataclass(frozen=True)
class CheckResult:
    """A data check's outcome: how many rows offend, and the first of them."""

    check: sql_files.Check
    count: int
    sample: pl.DataFrame


class _Connection:
    """A DuckDB connection in UTC that speaks polars and the named queries."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.root = root
        self._connection = connection
        self._path = path
        with duckdb_errors(root, path):
            connection.execute("SET TimeZone = 'UTC'")

    def frame(self, sql: str, params: Params | None = None) -> pl.DataFrame:
        """Rows of a query of ours (never of a person's: see `user_sql`).

        Raises:
            CorruptWarehouseError: something that the query reads is damaged or missing.
        """
        try:
            self._have_samples(sql, params or {})
            found: pl.DataFrame = self._connection.execute(sql, params or {}).pl()
        except duckdb.OutOfMemoryException as error:
            raise WriteError(f"{self.root}: DuckDB ran out of memory: {first_line(error)}") from error
        except KINDS as error:
            raise explained(error, self._path, self.root) from error
        return found

    def _have_samples(self, sql: str, params: Params) -> None:
        """Have the views of the samples that a query reads be of its cluster and time, and check the files."""
        for table in integrity.sample_tables_in(sql):
            cluster, first, last = integrity.scope(sql, params)
            files = integrity.live_files(self._connection, table, cluster=cluster, first=first, last=last)
            integrity.require(self.root, files)
            self._connection.execute(_sample_view(self.root, table, files, temporary=True))

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
            KeyError: there is no query of that name, or a parameter of it is missing.
        """
        named = sql_files.named_queries()[name]
        return self.frame(named.sql, {key: params[key] for key in named.parameters})

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:  # noqa: ARG002 - see `Reader`
        """What `make` returns: nothing is kept of rows that may change."""
        return make()

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a declared table or view, in no particular order."""
        if name not in self.relations():
            raise QueryError(f"there is no table {name!r}; there are: {', '.join(sorted(self.relations()))}")
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
        """Run every data check and return those that found something.

        A warning that needs damaged samples says that it could not be checked: what needs none is not kept back.
        """
        found = []
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
                found.append(CheckResult(check, rows.height, rows.head(5)))
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


class Reader(_Connection):
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


class Writer(_Connection):
    """The one process that may change the warehouse."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, lock: directory.Lock) -> None:
        super().__init__(root, connection, root / directory.DATABASE)
        self._lock = lock
        self._highest = directory.highest_number(root)
        self._written: list[Path] = []
        self._changed_samples: set[str] = set()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """All or nothing: commits at the end with a new data version, rolls back on any error."""
        with duckdb_errors(self.root):
            self._connection.execute("BEGIN TRANSACTION")
            try:
                yield self
                version = self._next_version
                self._put_meta("data_version", str(version))
                self._refresh_sample_views()
                self._note(committed=version)
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(duckdb.Error):  # a failed statement may have ended the transaction already
                    self._connection.execute("ROLLBACK")
                for file in self._written:
                    file.unlink(missing_ok=True)
                raise
            finally:
                self._written.clear()
                self._changed_samples.clear()

    @property
    def _next_version(self) -> int:
        """The number of the next change: higher than that of any file in the directory, so that none is used twice."""
        return max(self.data_version, self._highest) + 1

    def _note(self, **versions: int) -> None:
        """Write into the lock which state of which database a write-ahead log belongs to."""
        known = self._noted = {**getattr(self, "_noted", {}), "warehouse": self.meta("warehouse"), **versions}
        self._lock.note(database=known)

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

    def matching(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> pl.DataFrame:
        """The table's rows that share these key columns with one of `rows`: as they are stored, in no particular order.

        Raises:
            KeyError: there is no such table.
            QueryError: the table has no such column.
        """
        with self._handed_over(rows.select(keys).unique()) as name:
            return self.frame(_matching(table, name, keys))

    def matching_samples(
        self, table: str, rows: pl.DataFrame, *, keys: Sequence[str], cluster: str, since: datetime, until: datetime
    ) -> pl.DataFrame:
        """As `matching`, of the samples of a cluster that begin in a time: only files of these days are read."""
        within = " WHERE t.cluster = $cluster AND t.ts >= $since AND t.ts < $until"
        with self._handed_over(rows.select(keys).unique()) as name:
            params = {"cluster": cluster, "since": since, "until": until}
            return self.frame(_matching(table, name, keys) + within, params)

    def query_with(self, name: str, frames: Mapping[str, pl.DataFrame], **params: object) -> pl.DataFrame:
        """Rows of a named query that reads frames, which are there for it under their names."""
        with contextlib.ExitStack() as stack:
            for key, rows in frames.items():
                stack.enter_context(self._handed_over(rows, key))
            return self.query(name, **params)

    def run(self, name: str, frames: Mapping[str, pl.DataFrame] | None = None, **params: object) -> None:
        """Run a named statement that writes, with frames available to it under their names."""
        named = sql_files.named_queries()[name]
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
    def _partitions(self, table: str) -> Iterator[parquet_days.Files]:
        if table not in sql_files.sample_tables():
            raise QueryError(f"{table!r} is not a sample table; there are: {', '.join(sql_files.sample_tables())}")
        self._changed_samples.add(table)
        with disk_errors(self.root):
            yield parquet_days.Files(self.root, self._connection, table, self._next_version, self._written)

    def forget_file(self, file: integrity.File) -> int:
        """Have a damaged file count no longer, within the open transaction; returns how many rows its day had."""
        with self._partitions(file.table) as files:
            return files.forget(file.cluster, file.day, file.path)

    def _refresh_sample_views(self) -> None:
        """Point the views of changed sample tables at the files of the manifest: people open them with their DuckDB.

        A view that had to leave out damaged files is renewed at each commit, until they are back.
        """
        incomplete = set((self.meta(_INCOMPLETE) or "").split())
        for table in sorted(self._changed_samples | incomplete):
            files = integrity.live_files(self._connection, table)
            whole = _view_whole(self._connection, self.root, table, files, temporary=False)
            (incomplete.discard if whole else incomplete.add)(table)
        if incomplete or self.meta(_INCOMPLETE) is not None:
            self._put_meta(_INCOMPLETE, " ".join(sorted(incomplete)))

    # Opening and publishing ------------------------------------------------------------------------------------

    def begin(self, *, checkpoint: bool) -> None:
        """Bring the schema up to date; with `checkpoint` take in the write-ahead log of a writer that was killed.

        Raises:
            CorruptWarehouseError, NewerWarehouseError: its schema is not ours; nothing was changed.
        """
        applied = upgrade.applied_steps(self._connection)
        upgrade.refuse_other_schemas(self.root, applied)
        if checkpoint:
            self._connection.execute("CHECKPOINT")
        if applied:
            self._note(opened=self.data_version, committed=self.data_version)
        upgrade.apply_missing_steps(self._connection, applied)
        self._renew_views()
        if not applied:
            self._note(opened=0, committed=self.data_version)

    def _renew_views(self) -> None:
        """Make the views anew if another Trackside made them, or if the directory was moved."""
        made_of = _made_of(sql_files.views())
        if self.meta("views") == made_of and self.meta("root") == str(self.root) and self.meta("warehouse"):
            return
        with self.transaction():
            self._changed_samples.update(sql_files.sample_tables())
            if not self.meta("warehouse"):
                self._put_meta("warehouse", uuid.uuid4().hex)
            for view in sql_files.views():
                self._connection.execute(view.sql)
                self._connection.execute(f'COMMENT ON VIEW "{view.name}" IS {literal(view.description)}')
            self._put_meta("views", made_of)
            self._put_meta("root", str(self.root))

    def publish(self) -> None:
        """Checkpoint, close, and make this version the one that readers see."""
        version = self.data_version
        with disk_errors(self.root):
            current, gone = directory.pointed(self.root), []
            before = version if current is None else directory.number(current)
            if before < version:  # files that the copy before this one does not name go: so do their rows
                gone = self._connection.execute(
                    "DELETE FROM partitions WHERE removed_version <= ? RETURNING path", [before]
                ).fetchall()
            self._connection.execute("CHECKPOINT")
            kept = {path for (path,) in self._connection.execute("SELECT path FROM partitions").fetchall()}
            # Closed before copying: on POSIX, closing our own second descriptor of the file would drop DuckDB's lock.
            self.close()
            self._lock.note(database={})  # a write-ahead log that lies there from now on is not ours
            target = self.root / "published" / f"{version:08d}.duckdb"
            if directory.pointed(self.root) != target:
                directory.copy_and_point(self.root / directory.DATABASE, target)
            directory.sweep(self.root, [path for (path,) in gone if path not in kept])

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
def open_writer(
    root: Path, *, verb: str, now: datetime, group: str | None = None, repair: bool = False
) -> Iterator[Writer]:
    """Open a warehouse for writing, making, restoring or upgrading it as needed; publish when the caller is done.

    Args:
        root: the warehouse directory.
        verb: what the caller is doing, for whoever meets the lock.
        now: the time, for the same purpose.
        group: whose members may read the warehouse; without one only its owner may.
        repair: put a damaged or mixed-up directory right as a person has asked for (see `queries.recovery`).

    Raises:
        LockedWarehouseError: another process is writing; the message names it.
        NoWarehouseError: the place holds something else.
        NewerWarehouseError, CorruptWarehouseError, WriteError: as they say.
    """
    root = root.absolute()
    directory.refuse_other_folders(root)
    with permissions.private(root, group), directory.locked(root, verb=verb, now=now) as lock:
        with disk_errors(root):
            recovery.before_opening(root, lock.before, repair=repair)
        left_open = (root / directory.WAL).exists()
        writer = Writer(root, connect(root / directory.DATABASE, root, read_only=False), lock)
        try:
            with duckdb_errors(root):
                writer.begin(checkpoint=left_open)
            yield writer
            writer.publish()
        finally:
            writer.close()


@contextlib.contextmanager
def open_reader(root: Path, memo: Memo | None = None) -> Iterator[Reader]:
    """Open the published copy for reading. It stays readable while a writer runs.

    Args:
        root: the warehouse directory.
        memo: what was made of this copy by readers before; nothing if None.

    Raises:
        NoWarehouseError: nothing has been published there yet.
        NewerWarehouseError, CorruptWarehouseError: as they say.
    """
    root = root.absolute()
    path = _published(root)
    reader = Reader(root, connect(path, root, read_only=True), path, memo)
    try:
        with duckdb_errors(root, path):
            _refuse_other_schemas(reader)
            _renew_views(reader)
        yield reader
    finally:
        reader.close()


def _renew_views(reader: Reader) -> None:
    """Have views that were made elsewhere, or by another Trackside, be as they ought to be here."""
    connection = reader._connection  # noqa: SLF001 - our own class
    if reader.meta("root") != str(reader.root):  # the directory was moved: its views name files at the old place
        for table in sql_files.sample_tables():
            files = integrity.live_files(connection, table)
            _view_whole(connection, reader.root, table, files, temporary=True)
    if reader.meta("views") != _made_of(sql_files.views()):  # the last writer was another Trackside
        for view in sql_files.views():
            connection.execute(view.sql.replace("OR REPLACE VIEW", "OR REPLACE TEMP VIEW", 1))


def _refuse_other_schemas(reader: Reader) -> None:
    try:
        applied = upgrade.applied_steps(reader._connection)  # noqa: SLF001 - our own class
    except duckdb.Error as error:
        raise CorruptWarehouseError(corrupt(_published(reader.root), reader.root, first_line(error))) from error
    if not applied:
        raise CorruptWarehouseError(corrupt(_published(reader.root), reader.root, "it has no tables of a warehouse"))
    upgrade.refuse_other_schemas(reader.root, applied)
    upgrade.refuse_missing_steps(reader.root, applied)


def _published(root: Path) -> Path:
    permissions.refuse_unreadable(root)
    current = directory.current_copy(root)
    lost = directory.lost_copy(root)
    if current is not None and lost is not None:
        raise CorruptWarehouseError(
            f"{root}: the published copy {lost} is missing; those before it lack what was loaded last.\n"
            "The next command that writes publishes it anew: trackside compute   (or trackside doctor --repair)"
        )
    if current is None and (root / directory.DATABASE).exists():
        raise NoWarehouseError(
            f"{root}: nothing is published: the first load is under way or was stopped, or published/ was not copied.\n"
            "The next command that writes publishes what there is:  trackside compute   (or any ingest)"
        )
    if current is None and directory.raw_files(root):
        directory.refuse_database_without_copies(root)
    if current is None:
        raise NoWarehouseError(
            f"there is no warehouse in {root} yet.\n"
            "Make one by ingesting something:  trackside ingest slurm   (or a file: trackside ingest slurm sacct.txt)\n"
            "Or point at another place with --warehouse DIR or $TRACKSIDE_WAREHOUSE."
        )
    return current


def _made_of(views: Sequence[sql_files.Named]) -> str:
    """What tells these views from those of another version: `SELECT *` follows the schema, too."""
    last = sql_files.schema_steps()[-1].sha256
    return hashlib.sha256("".join([last, *(view.sql for view in views)]).encode()).hexdigest()


def _sample_view(root: Path, table: str, files: Sequence[integrity.File], *, temporary: bool) -> str:
    """SQL of the view that joins a sample table's declaration with files."""
    named = ", ".join(literal(str(root / file.path)) for file in files)
    reading = f" UNION ALL BY NAME SELECT * FROM read_parquet([{named}], hive_partitioning = false)" if named else ""  # noqa: S608 - our own names and files
    kind = "TEMP VIEW" if temporary else "VIEW"
    return f"CREATE OR REPLACE {kind} {table} AS SELECT * FROM raw.{table}{reading}"  # noqa: S608 - as above


def _view_whole(
    connection: duckdb.DuckDBPyConnection, root: Path, table: str, files: Sequence[integrity.File], *, temporary: bool
) -> bool:
    """Make the view of all of a table's files but those that are damaged: DuckDB opens some of them for it.

    Nobody reads less unawares: whoever reads by way of this module has the manifest's files checked first.

    Returns:
        Whether no file had to be left out.
    """
    bad = {damage.file for damage in integrity.damaged(root, files, digest=False)}
    try:
        whole = [file for file in files if file not in bad]
        connection.execute(_sample_view(root, table, whole, temporary=temporary))
    except duckdb.Error:
        bad = {damage.file for damage in integrity.damaged(root, files)}
        whole = [file for file in files if file not in bad]
        connection.execute(_sample_view(root, table, whole, temporary=temporary))
    return not bad


def _matching(table: str, rows: str, keys: Sequence[str]) -> str:
    """SQL for the rows of a declared table that share key columns with those of a frame."""
    declared = sql_files.table(table)
    unknown = sorted(set(keys) - {column.name for column in declared.columns})
    if unknown:
        raise QueryError(f"table {table} has no column {', '.join(unknown)}")
    name = declared.name if table not in sql_files.sample_tables() else table
    columns = ", ".join(f'"{key}"' for key in keys)
    return f"SELECT t.* FROM {_named(name)} AS t SEMI JOIN {rows} USING ({columns})"  # noqa: S608 - declared names


def _named(table: str) -> str:
    """A table's name as SQL, with its schema if it has one."""
    return ".".join(f'"{part}"' for part in table.split("."))
