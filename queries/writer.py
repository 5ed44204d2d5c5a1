"""Changing a warehouse that is open: transactions, samples, facts, the schema, and what readers see of it."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Final, Self

import duckdb

from queries import check_outcomes, directory, integrity, sql_files, upgrade
from queries.changes import FACT, Changes
from queries.errors import CheckError, QueryError
from queries.opening import disk_errors, duckdb_errors
from queries.samples.views import view_whole
from queries.sql_files import literal
from queries.table_writer import TableWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date, datetime
    from pathlib import Path

    import polars as pl

    from queries.reader import CheckResult
    from queries.samples import parquet_days

_INCOMPLETE: Final = "incomplete_views"
"""Fact of the warehouse: sample tables whose views leave out damaged files."""


class Writer(TableWriter):
    """The one process that may change the warehouse."""

    def __init__(self, root: Path, connection: duckdb.DuckDBPyConnection, lock: directory.Lock) -> None:
        super().__init__(root, connection, root / directory.DATABASE)
        self._lock = lock
        self._highest = directory.highest_number(root)
        self._written: list[Path] = []
        self._changed_samples: set[str] = set()

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
        """The recorded changes of the transactions before the open one."""
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

    def stop_on_failed_checks(self, *, since: datetime | None = None) -> list[CheckResult]:
        """Run all checks: raise on those that stop, return those that warn.

        The outcome is stored with the data version of the open transaction: nothing may be changed in it afterwards.

        Args:
            since: midnight of the first day of the ledger that has changed since the checks were run last, if that is
                known. Checks that passed then check only the time after it, where they can.

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
        from queries.samples import parquet_days  # noqa: PLC0415 - it imports polars

        if table not in sql_files.sample_tables():
            raise QueryError(
                f"{table!r} is not a sample table; the sample tables are: {', '.join(sql_files.sample_tables())}"
            )
        self._changed_samples.add(table)
        self.changes.touch("partitions")
        with disk_errors(self.root):
            yield parquet_days.Files(self.root, self._connection, table, self._next_version, self._written)

    def forget_file(self, file: integrity.ManifestFile) -> int:
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
