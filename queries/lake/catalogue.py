"""A lake's catalogue: which files make up its tables, at one snapshot; what a commit changes of that.

Each warehouse that is committed to a lake is an *origin*, named by its own id. The files of an origin are below a
folder of that name, and only its committer adds or removes them:

    ORIGIN/tables/main.gpu_time/cluster=C/2026-10/VERSION-ROWS-DIGEST.parquet   of a table, a cluster and a month
    ORIGIN/raw/gpu_samples/cluster=C/day=2026-10-31/VERSION.parquet             samples, as its manifest names them

A file is in the catalogue whole or not at all: no row of one is ever deleted alone.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import duckdb

from queries import sql_files
from queries.errors import CorruptWarehouseError, NoWarehouseError
from queries.lake import engine
from queries.lake.faults import BucketError, BusyError, catalogue_errors, no_lake
from queries.lake.storage import storage_of
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from queries.lake.address import Address
    from queries.lake.storage import Storage

ORIGINS: Final = "main.origins"
"""The table of the facts of each origin: those of its table `meta`, its schema steps, and ours."""

_FACTS: Final = "origin VARCHAR NOT NULL, key VARCHAR NOT NULL, value VARCHAR NOT NULL"

_BUSY_S: Final = 60.0
"""How long to wait for another process to close the file that holds the catalogue: it is open for a commit."""

_TABLE_FILE: Final = re.compile(
    r"(?P<origin>[^/]+)/tables/(?P<table>[\w.]+)/(?:cluster=(?P<cluster>[^/]*)/)?(?P<span>[^/]+)/"
    r"\d+-(?P<rows>\d+)-(?P<digest>\d+)\.parquet"
)
_SAMPLE_FILE: Final = re.compile(r"(?P<origin>[^/]+)/(?P<path>raw/(?P<table>\w+)/cluster=(?P<cluster>[^/]*)/.+)")


_PLACE: Final = r"([^/]+)/(?:tables/[\w.]+|raw/\w+)/(?:cluster=([^/]*)/)?.+"
"""Origin and cluster of a file of either kind."""

_FILES_NOW: Final = (
    "SELECT path, record_count, EXISTS (SELECT 1 FROM META.ducklake_delete_file AS d "
    "WHERE d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL) AS is_changed "
    "FROM META.ducklake_data_file AS f WHERE f.end_snapshot IS NULL"
)


_NAMES: Final = (
    "SELECT path FROM META.ducklake_data_file WHERE true",
    "SELECT path FROM META.ducklake_files_scheduled_for_deletion WHERE true",
)

_CLUSTERS: Final = (
    "WITH places AS (SELECT path, record_count, is_changed, "
    "regexp_extract(replace(path, $data_path, ''), $pattern, ['origin', 'cluster']) AS place FROM (FILES)) "
    "SELECT place.origin, place.cluster, min_by(path, (not is_changed, path)), any_value(record_count), "
    "bool_or(is_changed) FROM places GROUP BY ALL"
)


@dataclass(frozen=True)
class CatalogueFile:
    """A file in the catalogue.

    Attributes:
        address: as the catalogue names it.
        name: within the lake.
        origin: whose it is.
        table: with its schema: `main.gpu_time`, `raw.gpu_samples`.
        cluster: of all its rows; None of a table without one.
        span: `2026-10`, `all`; empty for samples.
        rows: how many.
        digest: of its rows; empty for samples.
    """

    address: str
    name: str
    origin: str
    table: str
    cluster: str | None
    span: str
    rows: int
    digest: str


def entry_of(address: str, name: str, rows: int) -> CatalogueFile | None:
    """Entry of a file, from its name; None if it is none of Trackside's names.

    >>> entry_of("/l/o/tables/main.runs/cluster=a/2026-10/00000002-3-99.parquet",
    ...     "o/tables/main.runs/cluster=a/2026-10/00000002-3-99.parquet", 3).span
    '2026-10'
    """
    if found := _TABLE_FILE.fullmatch(name):
        cluster = found["cluster"]
        of = None if cluster is None else unquote(cluster)
        return CatalogueFile(address, name, found["origin"], found["table"], of, found["span"], rows, found["digest"])
    if found := _SAMPLE_FILE.fullmatch(name):
        table = f"raw.{found['table']}"
        return CatalogueFile(address, name, found["origin"], table, unquote(found["cluster"]), "", rows, "")
    return None


class Catalogue:
    """An attached catalogue."""

    def __init__(self, address: Address, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        self.address = address
        self._connection = connection
        self._lake = name
        self.data_path = self._setting("data_path")
        self.storage: Storage = storage_of(self.data_path.rstrip("/"))

    def _setting(self, key: str) -> str:
        row = self._rows("SELECT value FROM META.ducklake_metadata WHERE key = ? AND scope IS NULL", [key])
        return str(row[0][0]) if row else ""

    def _rows(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[object, ...]]:
        """Rows of a statement, in which LAKE is the attached lake, META the schema of its catalogue's tables.

        No value is part of the text: a path may have these words in it.
        """
        with catalogue_errors(self.address):
            named = sql.replace("META.", f"{self._meta}.").replace("LAKE", self._lake)
            return self._connection.execute(named, values).fetchall()

    @property
    def _meta(self) -> str:
        return f"__ducklake_metadata_{self._lake}"

    def _chosen(self, sql: str, origin: str | None = None) -> str:
        """SQL for rows that the catalogue's own database chooses; with an origin, those of its files.

        A catalogue keeps the files that count no longer, of all origins. DuckDB would read all of them from PostgreSQL.
        """
        mine = sql if origin is None else f"{sql} AND position({literal(origin)} IN path) > 0"
        if self.address.kind != "postgres":
            return mine
        return f"SELECT * FROM postgres_query('{self._meta}', {literal(mine.replace('META.', 'public.'))})"  # noqa: S608 - our own text

    @contextlib.contextmanager
    def one_view(self) -> Iterator[None]:
        """Read one state of the catalogue with several statements: in PostgreSQL, with few round trips.

        A catalogue in a file is read by statement, for it cannot be changed during a transaction of a reader.
        """
        with contextlib.nullcontext() if self.address.kind != "postgres" else self._transaction():
            yield

    def snapshot(self) -> int:
        """Number of the newest snapshot."""
        return int(str(self._rows("SELECT max(snapshot_id) FROM META.ducklake_snapshot")[0][0]))

    def identity(self) -> str:
        """Identity of this lake, which differs from that of an earlier lake at this address."""
        return str(self._rows("SELECT schema_uuid FROM META.ducklake_schema ORDER BY schema_id LIMIT 1")[0][0])

    def entries(self, origin: str | None = None) -> list[CatalogueFile]:
        """The files that make up the tables now, of one origin or of all.

        Raises:
            CorruptWarehouseError: something else than Trackside has changed the lake.
        """
        found = self._rows(f"FROM ({self._chosen(_FILES_NOW, origin)}) ORDER BY path")
        entries = [self._entry(*row) for row in found]
        return [entry for entry in entries if origin in {None, entry.origin}]

    def clusters_of_others(self, origin: str) -> dict[str, str]:
        """Of each cluster that the lake has of another origin, which that is.

        DuckDB reads the names of all files that count for it; but only a row of each cluster is made here.

        Raises:
            CorruptWarehouseError: something else than Trackside has changed the lake.
        """
        found = self._rows(
            _CLUSTERS.replace("FILES", self._chosen(_FILES_NOW)),
            {"data_path": self.data_path, "pattern": f"^{_PLACE}$"},
        )
        others = {}
        for of, cluster, path, rows, is_changed in found:
            if not of or is_changed:
                self._entry(path, rows, is_changed)
            if of != origin and cluster:
                others[unquote(str(cluster))] = str(of)
        return others

    def _entry(self, address: object, rows: object, deleted: object) -> CatalogueFile:
        entry = entry_of(str(address), self.storage.name(str(address)), int(str(rows)))
        if entry is None or deleted:
            raise CorruptWarehouseError(
                f"{self.address}: {address} was added or changed by another program than Trackside.\n"
                "Take back what it did (DuckLake keeps earlier snapshots), or copy the warehouses into a new lake."
            )
        return entry

    def known(self, origin: str) -> set[str]:
        """Names of all files of an origin that any snapshot needs, or that are to be removed with one."""
        addresses = self._rows(" UNION ALL ".join(self._chosen(names, origin) for names in _NAMES))
        names = {self.storage.name(str(address)) for (address,) in addresses}
        return {name for name in names if name.startswith(f"{origin}/")}

    def is_complete(self) -> bool:
        """Whether it has every table and column of this Trackside's schema."""
        existing = self._columns()
        expected = {full_name(table.name): {each.name for each in table.columns} for table in sql_files.all_tables()}
        return ORIGINS in existing and all(columns <= existing.get(name, set()) for name, columns in expected.items())

    def read_facts(self, entries: Iterable[CatalogueFile]) -> list[tuple[str, str, str]]:
        """The rows of the table of origins that are in its files among some.

        The files are read themselves: to plan a question of the table, DuckLake loads the columns of all tables, which
        takes most of the time of looking for a new snapshot, and memory that it does not give back.
        """
        files = [entry.address for entry in entries if entry.table == ORIGINS]
        if not files:
            return []
        rows = self._rows("SELECT origin, key, value FROM read_parquet(?, hive_partitioning = false)", [files])
        return [(str(o), str(k), str(v)) for o, k, v in rows]

    # Changes -------------------------------------------------------------------------------------------------------

    def make_tables(self) -> None:
        """Make the tables that it lacks, and the columns that they lack."""
        existing = self._columns()
        expected = {full_name(each.name): [(c.name, c.type) for c in each.columns] for each in sql_files.all_tables()}
        with self._transaction():
            for schema in sorted({_split(name)[0] for name in expected}):
                self._rows(f"CREATE SCHEMA IF NOT EXISTS LAKE.{schema}")
            self._rows(f"CREATE TABLE IF NOT EXISTS LAKE.{ORIGINS} ({_FACTS})")
            for name, columns in expected.items():
                self._make_table(name, columns, existing.get(name))

    def _make_table(self, name: str, columns: Sequence[tuple[str, str]], existing: Iterable[str] | None) -> None:
        if existing is None:
            named = ", ".join(f'"{column}" {kind}' for column, kind in columns)
            self._rows(f"CREATE TABLE LAKE.{name} ({named})")
            return
        for column, kind in columns:
            if column not in existing:
                self._rows(f'ALTER TABLE LAKE.{name} ADD COLUMN "{column}" {kind.removesuffix(" NOT NULL")}')

    def _columns(self) -> Mapping[str, set[str]]:
        found = self._rows(
            "SELECT s.schema_name || '.' || t.table_name, c.column_name FROM META.ducklake_column AS c "
            "JOIN META.ducklake_table AS t ON t.table_id = c.table_id AND t.end_snapshot IS NULL "
            "JOIN META.ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL "
            "WHERE c.end_snapshot IS NULL AND c.parent_column IS NULL"
        )
        columns: dict[str, set[str]] = {}
        for table, column in found:
            columns.setdefault(str(table), set()).add(str(column))
        return columns

    def commit(self, gone: Iterable[CatalogueFile], new: Iterable[CatalogueFile], message: str) -> None:
        """Have some files count no longer and others count, in one transaction.

        Raises:
            WriteError: it failed; nothing is changed.
        """
        with self._transaction():
            for table, entries in by_table(gone).items():
                self._remove(table, entries)
            for table, entries in by_table(new).items():
                schema, name = _split(table)
                self._rows(
                    f"CALL ducklake_add_data_files('LAKE', ?, ?, schema => '{schema}', hive_partitioning => false, "
                    "allow_missing => true)",
                    [name, [entry.address for entry in entries]],
                )
            self._rows("CALL ducklake_set_commit_message('LAKE', 'trackside', ?)", [message])

    def _remove(self, table: str, entries: Sequence[CatalogueFile]) -> None:
        """Have files of a table count no longer.

        Raises:
            CorruptWarehouseError: they have other rows than are to go: with the new files some would count twice.
        """
        named = ", ".join("?" for _ in entries)
        statement = f"DELETE FROM LAKE.{table} WHERE filename IN ({named})"  # noqa: S608 - our own names
        [[removed]] = self._rows(statement, [entry.address for entry in entries])
        expected = sum(entry.rows for entry in entries)
        if removed != expected:
            raise CorruptWarehouseError(
                f"{self.address}: {table} was to lose {expected} rows that are replaced, and has {removed} of them.\n"
                "Nothing was committed. Run it again; if it happens again, please report it."
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._rows("BEGIN TRANSACTION")
        try:
            yield
            self._rows("COMMIT")
        except BaseException:
            with contextlib.suppress(duckdb.Error):  # a failed commit has ended it already
                self._connection.execute("ROLLBACK")
            raise

    def expire(self, before: datetime, *, dry_run: bool = False) -> list[str]:
        """Forget the snapshots before a time but for the newest, and remove the files that only they name.

        Args:
            before: the time.
            dry_run: whether nothing is forgotten and removed.

        Returns:
            The names of the files.
        """
        if dry_run:
            self._rows("BEGIN TRANSACTION")
        try:
            self._rows("CALL ducklake_expire_snapshots('LAKE', older_than => CAST(? AS TIMESTAMPTZ))", [before])
            gone = self._rows("CALL ducklake_cleanup_old_files('LAKE', cleanup_all => true, dry_run => ?)", [dry_run])
        finally:
            if dry_run:
                self._rows("ROLLBACK")
        return [self.storage.name(str(path)) for (path,) in gone]


def _split(table: str) -> tuple[str, str]:
    """Schema and name of a table.

    >>> _split("main.runs"), _split("runs")
    (('main', 'runs'), ('main', 'runs'))
    """
    schema, _, name = table.rpartition(".")
    return schema or "main", name


def full_name(table: str) -> str:
    """A table's name with its schema."""
    return ".".join(_split(table))


def by_table(entries: Iterable[CatalogueFile]) -> dict[str, list[CatalogueFile]]:
    """The files of each table that has any."""
    tables: dict[str, list[CatalogueFile]] = {}
    for entry in entries:
        tables.setdefault(entry.table, []).append(entry)
    return tables


@contextlib.contextmanager
def attached(address: Address, *, read_only: bool, create_at: Path | str | None = None) -> Iterator[Catalogue]:
    """Attach a lake's catalogue.

    Args:
        address: where it is.
        read_only: whether nothing is going to be changed.
        create_at: where the files of a new lake are going to be; None if there has to be one.

    Raises:
        NoWarehouseError: there is none.
        WarehouseError: it cannot be reached, or an extension is not installed.
    """
    with _file_lock(address), engine.connection() as connection, contextlib.ExitStack() as stack:
        engine.load(connection, "ducklake", *_SCANNERS[address.kind])
        name = stack.enter_context(_attached(address, connection, read_only=read_only, create_at=create_at))
        yield Catalogue(address, connection, name)


def exists(address: Address) -> bool:
    """Whether there is a lake, though perhaps an unfinished one."""
    try:
        with attached(address, read_only=True):
            return True
    except NoWarehouseError:
        return False


_FILES: Final = threading.Lock()
"""DuckDB attaches a file once in a process."""


def _file_lock(address: Address) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext() if address.file is None else _FILES


_SCANNERS: Final[dict[str, tuple[str, ...]]] = {
    "postgres": ("postgres_scanner",),
    "sqlite": ("sqlite_scanner",),
    "duckdb": (),
}


@contextlib.contextmanager
def _attached(
    address: Address, connection: duckdb.DuckDBPyConnection, *, read_only: bool, create_at: Path | str | None
) -> Iterator[str]:
    if create_at is None and address.file is not None and not address.file.exists():
        raise NoWarehouseError(no_lake(address))
    options = ["READ_ONLY"] if read_only else ["DATA_INLINING_ROW_LIMIT 0"]
    if create_at is None:
        options.append("CREATE_IF_NOT_EXISTS false")
    else:
        options.append(f"DATA_PATH {literal(f'{create_at}/')}")
    until = time.monotonic() + _BUSY_S
    engine.renew_s3(connection)
    if not read_only:
        engine.count_change()
    with contextlib.ExitStack() as stack:
        while True:
            try:
                with catalogue_errors(address):
                    name = stack.enter_context(engine.attached(connection, str(address), ", ".join(options)))
                break
            except BusyError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)
            except BucketError:
                engine.permit_s3(connection)
        yield name
