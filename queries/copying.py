"""Copying a warehouse into another: by table and day, so that a copy that was stopped goes on where it was.

What is there already is left as it is: a second copy takes what has changed. Each file of samples is compared with its
digest as it is copied, and at the end each table with its source, by cluster and day (see `queries.units`). Readers
see nothing of it before that, and no other writer begins on half of it.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from queries import directory, integrity, sql_files, units
from queries.errors import CorruptWarehouseError, WarehouseError
from queries.opening import disk_errors
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import duckdb

    from queries.units import Shape, Unit
    from queries.writer import Writer

COPYING: Final = "copying"
"""Fact of a warehouse that is half copied: what it is a copy of."""

COPIED: Final = "copied"
"""Fact of a copy: the data version that it was copied with."""

_ROWS: Final = 1_000_000
"""Rows of a transaction, about; a day of a table is never divided."""

_NUMBERS: Final = itertools.count()

_OURS: Final = frozenset({"main.meta", "main.partitions"})


@dataclass
class Copied:
    """Rows and files that a copy took, or would take; those that were the same already are not counted."""

    tables: set[str] = field(default_factory=set)
    rows: int = 0
    files: int = 0
    bytes: int = 0


class AttachedCopy:
    """A published copy, attached to the connection of whoever copies or compares."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, root: Path, path: Path) -> None:
        self.root = root
        self._connection = connection
        self.database = f"copied_from_{next(_NUMBERS)}"
        connection.execute(f"ATTACH {literal(str(path))} AS {self.database} (READ_ONLY)")
        self.shapes = units.shapes(connection, self.database)
        self.facts: dict[str, str] = dict(connection.execute(f"FROM {self.database}.main.meta").fetchall())
        self.version = int(self.facts["data_version"])

    def units(self, table: str) -> list[Unit]:
        """The units of a table."""
        return units.of_table(self._connection, self.database, self.shapes[table])

    def files(self) -> list[tuple[integrity.ManifestFile, int]]:
        """The files of samples, and how many rows each has."""
        found = self._connection.execute(
            f"SELECT table_name, cluster, day, path, bytes, sha256, rows FROM {self.database}.main.partitions "  # noqa: S608 - our name
            "WHERE removed_version IS NULL ORDER BY cluster, day, path"
        )
        return [(integrity.ManifestFile(*row), rows) for *row, rows in found.fetchall()]

    @contextlib.contextmanager
    def attached(self) -> Iterator[Self]:
        """Let go of it at the end."""
        try:
            yield self
        finally:
            self.detach()

    def detach(self) -> None:
        """Let go of it."""
        self._connection.execute(f"DETACH {self.database}")


def compare(
    connection: duckdb.DuckDBPyConnection, root: Path, path: Path, *, report: Callable[[str, int, int], None]
) -> Copied:
    """Rows that a copy of a published copy into the database of a connection would take. Nothing is changed.

    Args:
        connection: of the target; an empty database is a target that there is not yet.
        root: the source's directory.
        path: its published copy.
        report: takes what is being done, how much of it is done, of how much.
    """
    source = AttachedCopy(connection, root, path)
    try:
        changed = _changed(connection, source, report)
        taken = Copied()
        for table, of_table in changed.items():
            _count(taken, table, of_table)
        days = {(unit.cluster, unit.day) for unit in changed.get("main.partitions", ())}
        for file, rows in source.files():
            if (file.cluster, file.day) in days:
                taken.rows, taken.files, taken.bytes = taken.rows + rows, taken.files + 1, taken.bytes + file.bytes
        return taken
    finally:
        source.detach()


def _changed(
    connection: duckdb.DuckDBPyConnection, source: AttachedCopy, report: Callable[[str, int, int], None]
) -> dict[str, list[Unit]]:
    """The units of each table that the source has otherwise, or that it has no more."""
    here, target = units.current(connection), units.shapes(connection, units.current(connection))
    found = {}
    for number, (table, shape) in enumerate(source.shapes.items()):
        report("compare", number, len(source.shapes))
        stored = units.of_table(connection, here, target[table]) if table in target else []
        if changed := units.differing(units.of_table(connection, source.database, shape), stored):
            found[table] = changed
    return found


def _count(taken: Copied, table: str, changed: Sequence[Unit]) -> None:
    if table not in _OURS:
        taken.tables.add(table)
        taken.rows += sum(unit.rows for unit in changed)


def copy(
    writer: Writer,
    root: Path,
    path: Path,
    *,
    report: Callable[[str, int, int], None],
    have: Callable[[Sequence[integrity.ManifestFile]], None] | None = None,
    named: str = "",
) -> Copied:
    """Have an open warehouse be what another one's published copy is.

    Args:
        writer: of the target.
        root: the source's directory.
        path: its published copy.
        report: takes what is being done, how much of it is done, of how much.
        have: brings files of samples to the source's directory before they are copied.
        named: how the source is named to finish a copy that is stopped, if not by its directory.

    Raises:
        WarehouseError: the target holds another warehouse, or this one in a state of its own.
        CorruptWarehouseError: samples of the source are damaged, or what was copied is not what was read.
    """
    connection = writer._connection  # noqa: SLF001 - the writer's own business, done here
    source = AttachedCopy(connection, root, path)
    try:
        _refuse_other(writer, source)
        return _Copy(writer, connection, source, report, have).run(named or str(root))
    finally:
        source.detach()


def _refuse_other(writer: Writer, source: AttachedCopy) -> None:
    """A copy never replaces what is no earlier state, or half a copy, of its source."""
    if writer.meta("warehouse") == source.facts.get("warehouse"):
        unchanged = writer.meta(COPYING) or writer.meta(COPIED) == str(writer.data_version)
        if unchanged and writer.data_version <= source.version:
            return
        raise WarehouseError(
            f"{writer.root} is a copy of {source.root} that has changed since (data version {writer.data_version}; the "
            f"source has {source.version}).\nCopy into another directory. Nothing was changed."
        )
    full = [table.shown for table in sql_files.all_tables() if table.name not in _BOOKS and writer.height(table.name)]
    if full:
        raise WarehouseError(
            f"{writer.root} holds another warehouse ({', '.join(full[:3])} ...): a copy replaces nothing.\n"
            "Copy into an empty or new directory. Nothing was changed."
        )


_BOOKS: Final = frozenset({"meta", "schema_steps"})


class _Copy:
    """A copy under way."""

    def __init__(
        self,
        writer: Writer,
        connection: duckdb.DuckDBPyConnection,
        source: AttachedCopy,
        report: Callable[[str, int, int], None],
        have: Callable[[Sequence[integrity.ManifestFile]], None] | None,
    ) -> None:
        self.taken = Copied()
        self._have = have
        self._writer = writer
        self._connection = connection
        self._source = source
        self._report = report
        self._done, self._total = 0, 1

    def run(self, named: str) -> Copied:
        """Copy what differs, compare it, and let others begin on it; until then it is half a copy of what is named."""
        changed = _changed(self._connection, self._source, self._report)
        files = self._files_of(changed.get("main.partitions", ()))
        self._total = sum(unit.rows for name, each in changed.items() if name not in _OURS for unit in each)
        self._total += sum(rows for each in files.values() for _, rows in each)
        with self._transaction():
            self._bring("main.meta", changed.pop("main.meta", []))
            self._writer.put_fact(COPYING, named)
        for days in _portions(
            changed.pop("main.partitions", []), lambda day: sum(n for _, n in files.get(day.key, ()))
        ):
            self._copy_files([file for day in days for file in files.get(day.key, ())])
            with self._transaction():
                self._bring("main.partitions", days)
        for table, of_table in changed.items():
            for some in _portions(of_table, lambda unit: unit.rows):
                with self._transaction():
                    self._bring(table, some)
                self._advance(table.removeprefix("main."), sum(unit.rows for unit in some))
            _count(self.taken, table, of_table)
        self._compare([*changed, "main.partitions"])
        with self._transaction():
            self._connection.execute("DELETE FROM main.meta WHERE key = ?", [COPYING])
            self._writer.put_fact(COPIED, str(self._source.version))
            self._writer.renew_sample_views()
        return self.taken

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Writer]:
        with self._writer.transaction(version=self._source.version) as writer:
            writer.changes.touch_anything()
            yield writer

    def _bring(self, table: str, some: Sequence[Unit]) -> None:
        if some:
            here = units.current(self._connection)
            shape: Shape = self._source.shapes[table]
            units.mark(self._connection, some)
            units.bring(self._connection, shape, self._source.database, here, columns=shape.columns)

    def _files_of(self, days: Sequence[Unit]) -> dict[tuple[object, ...], list[tuple[integrity.ManifestFile, int]]]:
        """The files of samples of these units of the manifest, by their keys."""
        files: dict[tuple[object, ...], list[tuple[integrity.ManifestFile, int]]] = {unit.key: [] for unit in days}
        for file, rows in self._source.files():
            of_day = files.get(("main.partitions", file.cluster, file.day))
            if of_day is not None:
                of_day.append((file, rows))
        return files

    def _copy_files(self, files: Sequence[tuple[integrity.ManifestFile, int]]) -> None:
        target = self._writer.root
        if self._have is not None:
            self._have([file for file, _ in files])
        for file, rows in files:
            if integrity.check(target, file) is not None:
                with disk_errors(target):
                    _copy_file(self._source.root, target, file)
                self.taken.files += 1
                self.taken.bytes += file.bytes
                self.taken.rows += rows
            self._advance(file.table, rows)

    def _advance(self, what: str, rows: int) -> None:
        self._done += rows
        self._report(what, self._done, max(self._total, 1))

    def _compare(self, tables: Sequence[str]) -> None:
        """Have each table be what its source is.

        Raises:
            CorruptWarehouseError: one is not.
        """
        here = units.current(self._connection)
        for number, table in enumerate(tables):
            self._report("compare", number, len(tables))
            copied = units.of_table(self._connection, here, self._source.shapes[table])
            if wrong := units.differing(self._source.units(table), copied):
                raise CorruptWarehouseError(
                    f"{self._writer.root}: {table.removeprefix('main.')} of cluster {wrong[0].cluster} on "
                    f"{wrong[0].day} is not what was read from {self._source.root}: the copy is not used.\n"
                    "Please report it. The source was not changed; copy again into a new directory."
                )


def _portions(some: Sequence[Unit], rows: Callable[[Unit], int]) -> Iterator[list[Unit]]:
    """Units in portions of some `_ROWS` rows."""
    portion: list[Unit] = []
    height = 0
    for unit in some:
        portion.append(unit)
        height += rows(unit)
        if height >= _ROWS:
            yield portion
            portion, height = [], 0
    if portion:
        yield portion


def _copy_file(source: Path, target: Path, file: integrity.ManifestFile) -> None:
    """Copy a file of samples, whole and on disk before the manifest names it.

    Raises:
        CorruptWarehouseError: it differs from the source's manifest.
    """
    place = target / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    integrity.require(source, [file])
    unfinished = place.with_suffix(".unfinished")
    shutil.copyfile(source / file.path, unfinished)
    directory.sync(unfinished)
    unfinished.replace(place)
    integrity.require(target, [file])
