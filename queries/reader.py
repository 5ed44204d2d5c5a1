"""Reading a warehouse that is open: tables, named queries, checks, as polars frames.

Samples that a query reads are compared with the manifest first: a damaged day is refused by name.
"""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from queries import check_outcomes, integrity, recovery, run_filter, sql_files
from queries.check_outcomes import CheckOutcome
from queries.errors import CorruptWarehouseError, QueryError, StoppedError, WriteError
from queries.memo import Memo
from queries.opening import connect, duckdb_errors, first_line
from queries.samples.views import sample_view

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import date
    from pathlib import Path

    import polars as pl

    from queries.sql_files import Check

Params = dict[str, Any]

T = TypeVar("T")

ALL_TIME: Final = datetime(1, 1, 1, tzinfo=UTC)
"""As the beginning of a time: all of it."""

MADE = 12
"""How many values derived from a published copy are cached in memory."""

MADE_BYTES = 512 << 20
"""Bytes of memory that the frames among them take together."""


EXPANDED: Final = ("accounted_gpus", "attempt_estimated_gpus", "runaway_attempts", "source_warnings")
"""Views with long definitions and few rows that other views and checks read, each after those that it reads itself.

DuckDB plans a view anew wherever it is named: with them inside, a query of `attempts` takes ten times as long to plan.
"""

_ATTEMPT: Final = "cluster VARCHAR, scheduler VARCHAR, job_id VARCHAR, submitted_at TIMESTAMP WITH TIME ZONE"

EMPTY: Final = {
    "attempt_estimated_gpus": (
        "FROM stored.attempts WHERE n_gpus IS NULL",
        f"{_ATTEMPT}, n_gpus DECIMAL(12, 3), gpus_from VARCHAR",
    ),
    "runaway_attempts": ("FROM runaway_jobs", f"{_ATTEMPT}, ended_at TIMESTAMP WITH TIME ZONE, because VARCHAR"),
    "source_warnings": (
        "FROM loads GROUP BY cluster, source HAVING COUNT(*) > 1",  # a warning compares loads of a source
        "cluster VARCHAR, source VARCHAR, kind VARCHAR, message VARCHAR",
    ),
}
"""Of those, the ones that have no row where another query has none: that query, and their columns. Planning them takes
longest."""

SAME: Final = {
    "run_interruptions": (
        "FROM interruptions GROUP BY hash(cluster, run_id, attempt_no) HAVING COUNT(*) > 1",
        "interruptions",
    ),
}
"""Views that have the rows of a table where a query has none: that query, and the table. Then no row is copied."""

_NAME: Final = re.compile(r"--[^\n]*|(?<![\w.])[a-z_]+\b")
_KEPT: Final = 1024


@functools.lru_cache(_KEPT)
def expanded_in(sql: str) -> tuple[str, ...]:
    """The views of `EXPANDED` that a query reads, by way of other views, too; each after those that it reads itself."""
    views = {view.name: view.sql for view in sql_files.views()}
    read, named = set[str](), {sql}
    while named:
        found = {name for text in named for name in _NAME.findall(text) if name in views} - read
        read |= found
        named = {views[name] for name in found}
    return tuple(view for view in EXPANDED if view in read)


@dataclass(frozen=True)
class CheckResult(CheckOutcome):
    """A data check that failed: how many rows it returned, and the first of them."""

    sample: pl.DataFrame
    was_run: bool = True
    """Whether its samples could be read; else its one row is the error."""


_MOST_NAMED: Final = 5
"""Names that a finding has at most."""


def _first(names: pl.Series) -> str:
    """The first names of a finding, and how many more there are."""
    shown = names.unique(maintain_order=True).to_list()
    more = f" and {len(shown) - _MOST_NAMED:,} more" if len(shown) > _MOST_NAMED else ""
    return ", ".join(map(str, shown[:_MOST_NAMED])) + more


class Connection:
    """A DuckDB connection in UTC that runs the named queries and returns polars frames."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.root = root
        self._connection = connection
        self._path = path
        self._may_compute_views = True
        with duckdb_errors(root, path):
            connection.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def frame(self, sql: str, params: Params | None = None) -> pl.DataFrame:
        """Rows of a query of ours (never of a person's: see `user_sql`).

        Raises:
            CorruptWarehouseError: something that the query reads is damaged or missing.
        """
        with duckdb_errors(self.root, self._path):
            try:
                self._have_samples(sql, params or {})
                frame: pl.DataFrame = self._connection.execute(sql, params or {}).pl()
            except duckdb.OutOfMemoryException as error:
                raise WriteError(f"{self.root}: DuckDB ran out of memory: {first_line(error)}") from error
        return frame

    def _have_samples(self, sql: str, params: Params) -> None:
        """Have the views of the samples that a query reads be of its cluster and time, and check the files."""
        for table in integrity.sample_tables_in(sql):
            files = self._live_files(table, *integrity.scope(sql, params))
            self.require(files)
            self._view_samples(table, files)

    def _live_files(self, table: str, cluster: str | None, first: date, last: date) -> list[integrity.ManifestFile]:
        return integrity.live_files(self._connection, table, cluster=cluster, first=first, last=last)

    def _view_samples(self, table: str, files: Sequence[integrity.ManifestFile]) -> None:
        self._connection.execute(sample_view(self.root, table, files, temporary=True))

    def sample_blocks(self, table: str, *, cluster: str, since: datetime, until: datetime) -> Iterator[pl.LazyFrame]:
        """Samples of the days between two moments, as `queries.samples.blocks` has them: of whole days.

        Raises:
            CorruptWarehouseError: some are damaged or missing.
        """
        from queries.samples.blocks import blocks  # noqa: PLC0415 - the process that runs a person's SQL imports no polars

        declared = self._database_samples(table, cluster)
        files = self._live_files(table, *integrity.scope("", {"cluster": cluster, "since": since, "until": until}))
        self.require(files)
        if declared.height:
            yield declared.lazy()
        yield from blocks([self.root / file.path for file in files], declared.schema)

    def _database_samples(self, table: str, cluster: str) -> pl.DataFrame:
        """Samples that lie in the database itself."""
        return self.frame(f"SELECT * FROM raw.{table} WHERE cluster = $cluster", {"cluster": cluster})  # noqa: S608 - our name

    def files(self) -> list[integrity.ManifestFile]:
        """The Parquet files of samples that count."""
        with duckdb_errors(self.root, self._path):
            return integrity.live_files(self._connection)

    def check_samples(self, sql: str) -> None:
        """Have the samples that a person's SQL may read be as they were written.

        Raises:
            CorruptWarehouseError: some are damaged or missing.
        """
        tables = integrity.sample_tables_named(sql)
        self.require([file for file in self.files() if file.table in tables])

    def require(self, files: Sequence[integrity.ManifestFile]) -> None:
        """Have files of samples be as they were written.

        Raises:
            CorruptWarehouseError: some are damaged or missing.
        """
        integrity.require(self.root, files)

    def files_here(self) -> list[integrity.ManifestFile]:
        """Those of `files` that are to be on this machine: of a directory all of them."""
        return self.files()

    def query(self, name: str, **params: object) -> pl.DataFrame:
        """Rows of a named query; parameters it does not use are left out.

        Raises:
            KeyError: no query has that name, or one of its parameters is missing.
        """
        named = sql_files.named_queries()[name]
        return self.frame(named.sql, {key: params[key] for key in named.parameters})

    def rows(self, name: str, **params: object) -> list[tuple[Any, ...]]:
        """Rows of a named query of tables (not of samples) as tuples: for verbs that do without polars.

        Raises:
            KeyError: as `query`.
        """
        named = sql_files.named_queries()[name]
        with duckdb_errors(self.root, self._path):
            return self._connection.execute(named.sql, {key: params[key] for key in named.parameters}).fetchall()

    def query_of_runs(self, name: str, run_ids: Sequence[str], **params: object) -> pl.DataFrame:
        """Rows of a named query about some runs: as `queries.run_filter` narrows it; parameters as in `query`.

        Raises:
            KeyError: there is no such query, its rows are about no run, or one of its parameters is missing.
        """
        some = len(run_ids) != 1
        runs = {"of_runs": list(run_ids)} if some else {"of_run": run_ids[0]}
        named = sql_files.named_queries()[name].parameters | {"cluster"}
        return self.frame(run_filter.filtered(name, some=some), {key: params[key] for key in named} | runs)

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:  # noqa: ARG002 - see `Reader`
        """The result of `make`: nothing is cached, since rows may change."""
        return make()

    def table(self, name: str) -> pl.DataFrame:
        """All rows of a declared table or view, in no particular order."""
        if name not in self.relations():
            raise QueryError(f"there is no table {name!r}; the tables are: {', '.join(sorted(self.relations()))}")
        return self.frame(f'SELECT * FROM "{name}"')  # noqa: S608 - a name from our own list

    def row_counts(self, tables: Iterable[str]) -> pl.DataFrame:
        """Rows of each table (`fed`) by `cluster`, and by `source` and `scheduler` where it has them (else null): `n`.

        Rows in Parquet files are counted by the manifest, in which they were counted when they were written.
        """
        return self.frame(" UNION ALL ".join(_row_count(sql_files.table(name)) for name in tables))

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
        """Names of the tables that the file itself holds, for `check_table`.

        Raises:
            CorruptWarehouseError: it lacks some that its schema steps made.
        """
        with duckdb_errors(self.root, self._path):
            recovery.refuse_incomplete(self._connection, self._path, self.root)
            return recovery.tables(self._connection)

    def check_table(self, name: str) -> None:
        """Read all of a table of `tables`.

        Raises:
            CorruptWarehouseError: it is damaged.
        """
        with duckdb_errors(self.root, self._path):
            recovery.read_table(self._connection, name)

    @contextlib.contextmanager
    def views_computed_once(self) -> Iterator[None]:
        """Have the views of `EXPANDED` be tables: the rows that they read must not change within it."""
        if not self._may_compute_views:
            yield
            return
        self._may_compute_views = False
        try:
            with self.computed_once(*EXPANDED):
                yield
        finally:
            self._may_compute_views = True

    @contextlib.contextmanager
    def computed_once(self, *views: str) -> Iterator[None]:
        """Have views be tables: the rows that they read must not change within it."""
        made: list[str] = []
        try:
            made.extend(f"{self._compute_view(view)} IF EXISTS temp.{view};" for view in views)
            yield
        finally:
            with contextlib.suppress(duckdb.Error):  # a failed transaction takes them back itself
                self._connection.execute("".join(f"DROP {each}" for each in made))

    def _compute_view(self, view: str) -> str:
        """Have a table hide a view: a temporary relation hides one of the database, in views that name it, too.

        Returns:
            What it is: `TABLE`, or `VIEW` of a table that has the same rows.
        """
        unless, columns = EMPTY.get(view, ("", ""))
        unless_same, table = SAME.get(view, ("", ""))
        if unless and self._has_none(unless):
            self._connection.execute(f"CREATE TEMP TABLE {view} ({columns})")
        elif unless_same and self._has_none(unless_same):
            self._connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * FROM {table}")  # noqa: S608 - our names
            return "VIEW"
        else:
            self._connection.execute(f"CREATE TEMP TABLE {view} AS SELECT * FROM {view}")  # noqa: S608 - our names
        return "TABLE"

    def _has_none(self, rows: str) -> bool:
        return self._connection.execute(f"SELECT 1 {rows} LIMIT 1").fetchone() is None

    def checks(self, *, passed: Collection[str] = (), since: datetime = ALL_TIME) -> list[CheckResult]:
        """Run every data check and return those that failed.

        A warning that needs damaged samples reports that it could not be checked; the other checks still run.

        Args:
            passed: names of checks that found nothing in the time before `since`, and would find nothing there now.
                Those that can, check only the time after it; one that finds something there is run whole.
            since: midnight of the first day of the ledger that has changed since then.
        """
        with self.views_computed_once():
            return self._failed_checks(passed, since)

    def _failed_checks(self, passed: Collection[str], since: datetime) -> list[CheckResult]:
        import polars as pl  # noqa: PLC0415 - the process that runs a person's SQL imports this module and no polars

        failed = []
        for check in sql_files.checks():
            if check.of and self._has_none(check.of):
                continue
            was_run = True
            try:
                rows = self._offending(check, since if check.name in passed else ALL_TIME)
            except CorruptWarehouseError as error:
                if check.severity == "stop":
                    raise
                unchecked = f"not checked, for samples are damaged (trackside doctor lists them): {check.description}"
                rows, was_run = pl.DataFrame({"error": [str(error)]}), False
                check = replace(check, description=unchecked)  # noqa: PLW2901 - the same check
            if check.names and was_run and rows.height:
                check = replace(check, description=f"{check.description}: {_first(rows[check.names])}")  # noqa: PLW2901 - the same check
            if rows.height:
                failed.append(CheckResult(check, rows.height, rows.head(5), was_run))
        return failed

    def _offending(self, check: Check, since: datetime) -> pl.DataFrame:
        """The rows that a check finds in all of the time, if it finds any since a moment."""
        if not check.of_part:
            return self.frame(check.sql)
        rows = self.frame(check.sql, {"since": since})
        return rows if rows.is_empty() or since == ALL_TIME else self.frame(check.sql, {"since": ALL_TIME})

    def failed_checks(self) -> Sequence[CheckOutcome]:
        """The data checks that failed: those stored with this data version if no sample file is gone, else run now.

        Sample files are compared by their sizes, not by their contents: `trackside doctor` reads them.
        """
        text = self.fact_of_version(check_outcomes.FACT)
        stored = None if text is None else check_outcomes.from_text(text)
        if stored is None or integrity.damaged(self.root, self.files_here(), digest=False):
            return self.checks()
        return stored

    @property
    def place(self) -> str:
        """The warehouse as people name it: its directory, or the address of a lake."""
        return str(self.root)

    @property
    def path(self) -> Path:
        """The open file."""
        return self._path

    def held_open(self) -> Callable[[], None]:
        """Hold the file open until the result is called, and after `close`, too.

        To open it again meanwhile takes 2 ms, not 20: connections of one process to one file share DuckDB's instance.
        """
        return connect(self._path, self.root, read_only=True).close

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def _row_count(table: sql_files.Table) -> str:
    """SQL that counts the rows of a table."""
    of_table = f"SELECT {sql_files.literal(table.shown)} AS fed, cluster"
    if table.shown in sql_files.sample_tables():
        unknown = "NULL::VARCHAR AS source, NULL::VARCHAR AS scheduler"
        rows = f"{of_table}, {unknown}, CAST(SUM(rows) AS BIGINT) AS n FROM partitions"
        return f"{rows} WHERE removed_version IS NULL AND table_name = {sql_files.literal(table.shown)} GROUP BY ALL"
    names = {column.name for column in table.columns}
    by = ", ".join(name if name in names else f"NULL::VARCHAR AS {name}" for name in ("source", "scheduler"))
    return f"{of_table}, {by}, COUNT(*) AS n FROM {table.name} GROUP BY ALL"


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
        self._memo = Memo(MADE, most_bytes=MADE_BYTES) if memo is None else memo
        self._computed: set[str] = set()
        self._files: dict[tuple[object, ...], list[integrity.ManifestFile]] = {}
        self._viewed: dict[str, Sequence[integrity.ManifestFile]] = {}
        self._without_rows: dict[tuple[str, str], pl.DataFrame] = {}
        self._stopped = ""

    def frame(self, sql: str, params: Params | None = None) -> pl.DataFrame:
        """As `Connection.frame`. Views of `EXPANDED` are computed once, when first read: no row changes.

        Raises:
            StoppedError: another thread stopped this reader.
        """
        self._go_on()
        try:
            self._compute_views(expanded_in(sql))
            return super().frame(sql, params)
        except duckdb.InterruptException as error:
            self._go_on()
            raise StoppedError("the question was stopped") from error

    def _go_on(self) -> None:
        if self._stopped:
            raise StoppedError(self._stopped)

    def stop(self, why: str) -> None:
        """Let the query that runs, and all later ones, fail with a `StoppedError`: for another thread to call."""
        self._stopped = why
        self._connection.interrupt()

    def _live_files(self, table: str, cluster: str | None, first: date, last: date) -> list[integrity.ManifestFile]:
        """Files by the manifest of the copy, which is read once: it never changes."""
        key = (table, cluster, first, last)
        if key not in self._files:
            self._files[key] = super()._live_files(table, cluster, first, last)
        return self._files[key]

    def _database_samples(self, table: str, cluster: str) -> pl.DataFrame:
        """Files by the database, which is read once where there are none: days are read one by one."""
        key = (table, cluster)
        if key in self._without_rows:
            return self._without_rows[key]
        rows = super()._database_samples(table, cluster)
        if rows.is_empty():
            self._without_rows[key] = rows
        return rows

    def _view_samples(self, table: str, files: Sequence[integrity.ManifestFile]) -> None:
        if self._viewed.get(table) != files:
            super()._view_samples(table, files)
            self._viewed[table] = files

    @contextlib.contextmanager
    def views_computed_once(self) -> Iterator[None]:
        """Have the views of `EXPANDED` be tables: here they stay."""
        self._compute_views(EXPANDED)
        yield

    def _compute_views(self, views: Iterable[str]) -> None:
        if not self._may_compute_views:
            return
        with duckdb_errors(self.root, self._path):
            for view in views:
                if view not in self._computed:
                    self._compute_view(view)
                    self._computed.add(view)

    def hide_stored_views(self) -> None:
        """Hide the views that another Trackside stored by temporary ones, as this Trackside defines them."""
        self._may_compute_views = False  # a temporary table cannot have the name of a temporary view
        for view in sql_files.views():
            self._connection.execute(view.sql.replace("OR REPLACE VIEW", "OR REPLACE TEMP VIEW", 1))

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """The first result of `make` for the key: a published copy never changes."""
        return self._memo.get((self._path, *key), make)
