"""Changing a warehouse that is open: transactions, tables, samples, the schema, and what readers see of it."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Final, Self

import duckdb

from queries import check_outcomes, directory, integrity, sql_files, upgrade
from queries.changes import (
    DAYLESS,
    FACT,
    WHOLE,
    Changes,
    months_inserted,
    months_of,
    months_of_deleted,
    months_of_keys,
    time_of,
    written,
)
from queries.errors import CheckError, QueryError
from queries.lent_rows import ROW_GROUP, LentRows, portions
from queries.opening import disk_errors, duckdb_errors, engine
from queries.reader import CheckResult, Connection
from queries.sample_views import view_whole
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import date, datetime
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

    from queries import parquet_days

_INCOMPLETE: Final = "incomplete_views"
"""Fact of the warehouse: sample tables whose views leave out damaged files."""


class Writer(Connection):
    """The one process that may change the warehouse."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, lock: directory.Lock) -> None:
        super().__init__(root, connection, root / directory.DATABASE)
        self._lock = lock
        self._highest = directory.highest_number(root)
        self._written: list[Path] = []
        self._changed_samples: set[str] = set()
        self.changes = Changes()

    @contextlib.contextmanager
    def transaction(self, *, version: int | None = None) -> Iterator[Self]:
        """All or nothing: commits at the end with a new data version, rolls back on any error.

        `version`: the data version it shall have; by default the next. A copy has that of what it is copied from.
        """
        with duckdb_errors(self.root):
            self._connection.execute("BEGIN TRANSACTION")
            try:
                self.changes = self._changes_so_far()
                yield self
                version = self._next_version if version is None else version
                self._put_facts({FACT: self.changes.text(version), "data_version": str(version)})
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

    def _changes_so_far(self) -> Changes:
        """What is noted of the transactions before the open one."""
        found = self._connection.execute("SELECT key, value FROM meta WHERE key IN (?, 'data_version')", [FACT])
        facts = dict(found.fetchall())
        return Changes.of(facts.get(FACT), int(facts.get("data_version", 0)))

    @property
    def _next_version(self) -> int:
        """The number of the next change: higher than that of any file in the directory, so that none is used twice."""
        return max(self.data_version, self._highest) + 1

    def _note(self, **versions: int) -> None:
        """Write into the lock which state of which database a write-ahead log belongs to."""
        state = self._noted = {**getattr(self, "_noted", {}), "warehouse": self.meta("warehouse"), **versions}
        self._lock.note(database=state)

    def height(self, table: str) -> int:
        """How many rows a table has."""
        row = self._connection.execute(f"SELECT COUNT(*) FROM {_named(table)}").fetchone()  # noqa: S608 - our names
        return int(row[0]) if row else 0

    def append(self, table: str, rows: pl.DataFrame) -> None:
        """Add rows to a table; columns go by name, and those the frame lacks become null."""
        if rows.is_empty():
            return
        many = rows.height > ROW_GROUP
        with self._handed_over(portions(rows) if many else rows) as name, self._in_bulk(many=many):
            self._connection.execute(f"INSERT INTO {_named(table)} BY NAME SELECT * FROM {name}")  # noqa: S608 - our names
        self.changes.touch(table, months_of(rows, time_of(table)))

    @contextlib.contextmanager
    def _in_bulk(self, *, many: bool) -> Iterator[None]:
        """Many rows are written twice as fast if their order need not be preserved, on half the cores.

        The other half reads what is written next, and a core of ours that waits for another would only turn in circles.
        """
        if not many:
            yield
            return
        half = engine().half_the_threads
        self._connection.execute(f"SET preserve_insertion_order = false; SET threads = {half}")
        try:
            yield
        finally:
            with contextlib.suppress(duckdb.Error):  # a failed insert may have ended the transaction
                chosen = engine().threads
                again = "RESET threads" if chosen is None else f"SET threads = {chosen}"
                self._connection.execute(f"RESET preserve_insertion_order; {again}")

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
            self._delete(table, f"DELETE FROM {_named(table)} WHERE {match}", keys.row(0), months)  # noqa: S608 - our names
            return
        match = " AND ".join(f't."{column}" = k."{column}"' for column in keys.columns)
        with self._handed_over(keys, "deleted", once=months is not None) as name:
            self._delete(table, f"DELETE FROM {_named(table)} AS t USING {name} AS k WHERE {match}", months=months)  # noqa: S608 - our names

    def delete_where(self, table: str, condition: str, params: Mapping[str, object]) -> None:
        """Delete the table's rows of which a condition in SQL with `$parameters` is true."""
        self._delete(table, f"DELETE FROM {_named(table)} WHERE {condition}", params)  # noqa: S608 - our own conditions

    def _delete(self, table: str, sql: str, params: object = (), months: Collection[str] | None = None) -> None:
        """Run a statement that deletes rows, and note of which months they are; None: the table is asked."""
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
                self._delete(table, f"DELETE FROM {_named(table)} AS t USING {name} AS k WHERE t.rowid = k.place")  # noqa: S608 - our names
        new = rows[fresh.join(stored, on="digest", how="anti")["place"].sort()]
        self.append(table, new)
        return new.height

    def _digests(self, table: str, key: pl.DataFrame, among: pl.DataFrame | None) -> pl.DataFrame:
        """Digests of the stored rows of a key: `place` (DuckDB's number of a row), `digest`."""
        match = " AND ".join(f'"{column}" = ?' for column in key.columns)
        digest = _digest(table, [column.name for column in sql_files.table(table).columns])
        sql = f"SELECT rowid AS place, {digest} AS digest FROM {_named(table)}"  # noqa: S608 - our names
        if among is None:
            return self._connection.execute(f"{sql} WHERE {match}", key.row(0)).pl()
        columns = ", ".join(f'"{column}"' for column in among.columns)
        with self._handed_over(among, "some_values") as name:
            return self._connection.execute(f"{sql} SEMI JOIN {name} USING ({columns}) WHERE {match}", key.row(0)).pl()

    def _digests_of(self, table: str, rows: pl.DataFrame) -> pl.DataFrame:
        """Digests of rows as the table would store them: `place` (in `rows`), `digest`."""
        placed = rows.with_row_index("place")
        with self._handed_over(portions(placed) if placed.height > ROW_GROUP else placed) as name:
            digest = _digest(table, rows.columns)
            return self._connection.execute(f"SELECT place, {digest} AS digest FROM {name}").pl()  # noqa: S608 - our names

    def append_new(self, table: str, rows: pl.DataFrame, *, keys: Sequence[str]) -> None:
        """Append those rows whose key the table does not have yet (and each key once)."""
        if rows.is_empty():
            return
        rows = rows.unique(subset=list(keys), keep="first", maintain_order=True)
        match = " AND ".join(f't."{column}" IS NOT DISTINCT FROM f."{column}"' for column in keys)
        with self._handed_over(rows) as name:
            self._change(
                table,
                f"INSERT INTO {_named(table)} BY NAME SELECT * FROM {name} AS f "  # noqa: S608 - our names
                f"WHERE NOT EXISTS (SELECT 1 FROM {_named(table)} AS t WHERE {match})",
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
        from queries.few_attempts import only_some  # noqa: PLC0415 - few verbs ask for some

        with (
            self.views_computed_once(),
            self._handed_over(some, "some_attempts", once=False) as keys,
            only_some(self._connection, keys),
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

    def stop_on_failed_checks(self, *, since: datetime | None = None) -> list[CheckResult]:
        """Run all checks: raise on those that stop, return those that warn.

        The outcome is stored with the data version of the open transaction: nothing may be changed in it afterwards.

        Args:
            since: midnight of the first day of the ledger that has changed since the checks were run last, if that is
                known. Checks that passed then look at the time after it only, where they can.

        Raises:
            CheckError: a `stop` check failed. Within a transaction nothing is committed then.
        """
        failed = self.checks() if since is None else self.checks(passed=self._passed_checks(), since=since)
        stops = [result for result in failed if result.check.severity == "stop"]
        if stops:
            details = "\n".join(f"{r.check.name}: {r.check.description} ({r.count} rows)\n{r.sample}" for r in stops)
            raise CheckError(
                f"{self.root}: a data check failed, so nothing was changed.\n{details}\n"
                "This is a fault of Trackside or of a hand-edited warehouse, not of your data: please report it."
            )
        known = all(result.was_run for result in failed)
        self.put_fact_of_version(check_outcomes.FACT, check_outcomes.as_text(failed) if known else "")
        return failed

    def _passed_checks(self) -> frozenset[str]:
        """Names of the checks that passed when they were run last, at any data version; none if that is not known."""
        _, _, text = (self.meta(check_outcomes.FACT) or "").partition(" ")
        failed = check_outcomes.from_text(text)
        if failed is None:
            return frozenset()
        return frozenset(check.name for check in sql_files.checks()) - {each.check.name for each in failed}

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

        `rows` are those to delete (in full, each once) and those to insert; `order` is what rows are sorted by.
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
        from queries import parquet_days  # noqa: PLC0415 - it imports polars

        if table not in sql_files.sample_tables():
            raise QueryError(
                f"{table!r} is not a sample table; the sample tables are: {', '.join(sql_files.sample_tables())}"
            )
        self._changed_samples.add(table)
        self.changes.touch("partitions")
        with disk_errors(self.root):
            yield parquet_days.Files(self.root, self._connection, table, self._next_version, self._written)

    def forget_file(self, file: integrity.File) -> int:
        """Have a damaged file count no longer, within the open transaction; returns how many rows its day had."""
        with self._partitions(file.table) as files:
            return files.forget(file.cluster, file.day, file.path)

    def renew_sample_views(self) -> None:
        """Have all views of samples be made anew when the open transaction commits."""
        self._changed_samples.update(sql_files.sample_tables())

    def _refresh_sample_views(self) -> None:
        """Point the views of changed sample tables at the files of the manifest: people open them with their DuckDB.

        A view that had to leave out damaged files is renewed at each commit, until they are back.
        """
        incomplete = set((self.meta(_INCOMPLETE) or "").split())
        for table in sorted(self._changed_samples | incomplete):
            files = integrity.live_files(self._connection, table)
            whole = view_whole(self._connection, self.root, table, files, temporary=False)
            (incomplete.discard if whole else incomplete.add)(table)
        if incomplete or self.meta(_INCOMPLETE) is not None:
            self.put_fact(_INCOMPLETE, " ".join(sorted(incomplete)))

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
        """Make the views anew if another Trackside made them; if the directory was moved, those that name files."""
        made_of = upgrade.views_digest(sql_files.views())
        ours = self.meta("views") == made_of
        if ours and self.meta("root") == str(self.root) and self.meta("warehouse"):
            return
        with self.transaction():
            self.renew_sample_views()
            if not self.meta("warehouse"):
                self.put_fact("warehouse", uuid.uuid4().hex)
            if ours:  # the directory was moved, and its data are what they were
                self.keep_facts_of_version()
            else:
                self._make_views()
            self.put_fact("views", made_of)
            self.put_fact("root", str(self.root))

    def _make_views(self) -> None:
        for view in sql_files.views():
            self._connection.execute(view.sql)
            self._connection.execute(f'COMMENT ON VIEW "{view.name}" IS {literal(view.description)}')

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
            live = {path for (path,) in self._connection.execute("SELECT path FROM partitions").fetchall()}
            # Closed before copying: on POSIX, closing our own second descriptor of the file would drop DuckDB's lock.
            self.close()
            self._lock.note(database={})  # a write-ahead log that appears from now on is not ours
            target = self.root / "published" / f"{version:08d}.duckdb"
            if directory.pointed(self.root) != target:
                directory.copy_and_point(self.root / directory.DATABASE, target)
            directory.sweep(self.root, [path for (path,) in gone if path not in live])
            self._lock.note(published=directory.published_state(self.root))  # for the next writer

    def put_fact_of_version(self, key: str, value: str) -> None:
        """Store a fact about the data version that the open transaction makes, for `fact_of_version`."""
        self.put_fact(key, f"{self._next_version} {value}")

    def keep_facts_of_version(self) -> None:
        """Have the facts about the present data version be about that of the open transaction, too."""
        before = f"{self.data_version} "
        for key, value in self._connection.execute("SELECT key, value FROM meta").fetchall():
            if value.startswith(before):
                self.put_fact_of_version(key, value.removeprefix(before))

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact about the warehouse itself, for `meta`."""
        self._put_facts({key: value})

    def _put_facts(self, facts: Mapping[str, str]) -> None:
        self._connection.execute("DELETE FROM meta WHERE key IN (SELECT unnest(?))", [list(facts)])
        rows = ", ".join("(?, ?)" for _ in facts)
        self._connection.execute(f"INSERT INTO meta VALUES {rows}", [text for fact in facts.items() for text in fact])  # noqa: S608 - placeholders

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
            self._connection.execute(f'CREATE TEMP TABLE "{name}" AS SELECT * FROM handed_over')  # noqa: S608 - our names
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
    return f"SELECT t.* FROM {_named(name)} AS t SEMI JOIN {rows} USING ({columns})"  # noqa: S608 - declared names


def _named(table: str) -> str:
    """A table's name as SQL, with its schema if it has one."""
    return ".".join(f'"{part}"' for part in table.split("."))
