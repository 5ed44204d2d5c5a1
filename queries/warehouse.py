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
import shlex
from typing import TYPE_CHECKING

import duckdb

from queries import copying, directory, integrity, permissions, recovery, sql_files, upgrade
from queries.copying import COPYING, Copied
from queries.errors import CorruptWarehouseError, NoWarehouseError
from queries.lake.address import address_of
from queries.opening import connect, corrupt, disk_errors, duckdb_errors, first_line
from queries.reader import MADE, MADE_BYTES, CheckResult, Reader
from queries.samples.views import view_whole
from queries.table_writer import ROW_GROUP
from queries.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from queries.lake.reader import LakeReader
    from queries.lake.vacuum import Removed
    from queries.memo import Memo

__all__ = [
    "MADE",
    "MADE_BYTES",
    "ROW_GROUP",
    "CheckResult",
    "Copied",
    "Reader",
    "Writer",
    "copy",
    "copy_to_lake",
    "current_copy",
    "open_reader",
    "open_writer",
    "vacuum",
    "would_copy",
]


@contextlib.contextmanager
def open_writer(
    root: Path, *, verb: str, now: datetime, group: str | None = None, repair: bool = False, half_copied: bool = False
) -> Iterator[Writer]:
    """Open a warehouse for writing, making, restoring or upgrading it as needed; publish when the caller is done.

    Args:
        root: the warehouse directory.
        verb: what the caller is doing, for whoever meets the lock.
        now: the time, for the same purpose.
        group: whose members may read the warehouse; without one only its owner may.
        repair: repair a damaged or mixed-up directory, which only a person may request (see `queries.recovery`).
        half_copied: go on with half a copy of a warehouse (see `queries.copying`), which no other process may write to.

    Raises:
        LockedWarehouseError: another process is writing; the message names it.
        NoWarehouseError: the place holds something else.
        NewerWarehouseError, CorruptWarehouseError, WriteError: see `queries.errors`.
    """
    if address_of(root) is not None:
        raise NoWarehouseError(
            f"{root} is a lake, and lakes are not written to directly: write into the directory of a cluster, "
            "and copy it.\n"
            f"  trackside ... --warehouse DIR && trackside warehouse copy DIR '{root}'"
        )
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
            if not half_copied:
                _refuse_half_copied(writer)
            yield writer
            writer.publish()
        finally:
            writer.close()


def _refuse_half_copied(writer: Writer) -> None:
    copied = writer.meta(COPYING)
    if copied is not None:
        source, _, cluster = copied.partition("\t")
        only = ["--cluster", cluster] if cluster else []
        raise NoWarehouseError(
            f"{writer.root}: a copy of {source} that was stopped half-way.\n"
            f"Finish it:  {shlex.join(['trackside', 'warehouse', 'copy', source, str(writer.root), *only])}"
        )


def copy(
    source: Path, target: Writer, *, report: Callable[[str, int, int], None], cluster: str | None = None
) -> Copied:
    """Have an open warehouse, opened with `half_copied`, be what is published of another: see `queries.copying`.

    Args:
        source: a warehouse directory, or the address of a lake.
        target: the open warehouse.
        report: takes what is being done, how much of it is done, of how much.
        cluster: of a lake, only the warehouse that has this cluster.
    """
    address = address_of(source)
    with open_reader(source, cluster=cluster) as reader:  # what is wrong with it is reported here
        root, path = reader.root, reader.path
    if address is None:
        return copying.copy(target, root, path, report=report)
    from queries.lake import fence  # noqa: PLC0415 - only for a lake

    with _lake_reader(root) as reader:
        named = str(address) if cluster is None else f"{address}\t{cluster}"
        taken = copying.copy(target, root, path, report=report, have=reader.have, named=named)
        if (token := reader.token()) is not None:
            fence.note_committed(target.root, address, token)
    return taken


@contextlib.contextmanager
def _lake_reader(root: Path) -> Iterator[LakeReader]:
    """A published copy of a lake, opened as it is."""
    from queries.lake.reader import LakeReader  # noqa: PLC0415 - only for a lake

    path = published(root)
    reader = LakeReader(root, connect(path, root, read_only=True), path)
    try:
        yield reader
    finally:
        reader.close()


def copy_to_lake(
    source: Path,
    lake: Path,
    *,
    now: datetime,
    report: Callable[[str, int, int], None],
    data_path: str | None = None,
    dry_run: bool = False,
    full: bool = False,
) -> Copied:
    """Have a lake have what is published of a warehouse directory: see `queries.lake.push`."""
    from queries.lake import push  # noqa: PLC0415 - only for a lake

    address = address_of(lake)
    if address is None or address_of(source) is not None:
        raise NoWarehouseError(f"{source}: a lake is copied from a warehouse directory, and into one")
    with open_reader(source) as reader:
        root, path = reader.root, reader.path
    return push.push(address, root, path, now=now, report=report, create_at=data_path, dry_run=dry_run, full=full)


def vacuum(lake: Path, *, before: datetime, dry_run: bool = False) -> Removed:
    """Remove from a lake files and snapshots that are no longer needed: see `queries.lake.vacuum`."""
    from queries.lake import vacuum as lakes  # noqa: PLC0415 - only for a lake

    address = address_of(lake)
    if address is None:
        raise NoWarehouseError(f"{lake} is no lake. Old copies and files of a directory go by themselves.")
    return lakes.vacuum(address, before=before, dry_run=dry_run)


def would_copy(
    source: Path, target: Path, *, report: Callable[[str, int, int], None], cluster: str | None = None
) -> Copied:
    """Rows that a copy would take; the target need not exist, and nothing is changed."""
    with open_reader(source, cluster=cluster) as reader:
        root, path = reader.root, reader.path
    here = directory.current_copy(target)
    connection = duckdb.connect() if here is None else connect(here, target, read_only=True)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        return copying.compare(connection, root, path, report=report)
    finally:
        connection.close()


@contextlib.contextmanager
def open_reader(root: Path, memo: Memo | None = None, *, cluster: str | None = None) -> Iterator[Reader]:
    """Open the published copy for reading. It stays readable while a writer runs.

    Args:
        root: the warehouse directory, or the address of a lake (see `queries.lake.address`).
        memo: what was made of this copy by readers before; nothing if None.
        cluster: of a lake, only the warehouse that has this cluster; None for all.

    Raises:
        NoWarehouseError: nothing has been published in it yet.
        NewerWarehouseError, CorruptWarehouseError: see `queries.errors`.
    """
    kind, root = _kind_and_directory(root, cluster)
    directory.refuse_other_bytes(root)
    path = published(root)
    reader = kind(root, connect(path, root, read_only=True), path, memo)
    try:
        with duckdb_errors(root, path):
            _refuse_other_schemas(reader)
            _renew_views(reader)
        yield reader
    finally:
        reader.close()


def _kind_and_directory(root: Path, cluster: str | None) -> tuple[type[Reader], Path]:
    """Reader class of a warehouse, and the directory that it opens: that of a lake is made if need be."""
    address = address_of(root)
    if address is None:
        return Reader, root.absolute()
    from queries.lake import snapshot  # noqa: PLC0415 - only for a lake
    from queries.lake.reader import LakeReader  # noqa: PLC0415 - as above

    return LakeReader, snapshot.prepared(address, cluster)


def _renew_views(reader: Reader) -> None:
    """Have views that were made elsewhere, or by another Trackside, be as they ought to be here."""
    connection = reader._connection  # noqa: SLF001 - our own class
    if reader.meta("root") != str(reader.root):  # the directory was moved: its views name files at the old place
        for table in sql_files.sample_tables():
            files = integrity.live_files(connection, table)
            view_whole(connection, reader.root, table, files, temporary=True)
    if reader.meta("views") != upgrade.views_digest(sql_files.views()):  # the last writer was another Trackside
        reader.hide_stored_views()


def _refuse_other_schemas(reader: Reader) -> None:
    try:
        applied = upgrade.applied_steps(reader._connection)  # noqa: SLF001 - our own class
    except duckdb.Error as error:
        raise CorruptWarehouseError(corrupt(published(reader.root), reader.root, first_line(error))) from error
    if not applied:
        raise CorruptWarehouseError(corrupt(published(reader.root), reader.root, "it has no tables of a warehouse"))
    upgrade.refuse_other_schemas(reader.root, applied)
    upgrade.refuse_missing_steps(reader.root, applied)


def current_copy(root: Path) -> Path | None:
    """The published copy that a reader would open now; None if there is none yet.

    Args:
        root: the warehouse directory, or the address of a lake.

    Raises:
        WarehouseError: a lake cannot be reached.
    """
    try:
        return directory.current_copy(_kind_and_directory(root, None)[1])
    except NoWarehouseError:
        return None


def published(root: Path) -> Path:
    """The published copy that readers open.

    Raises:
        NoWarehouseError: nothing has been published in it yet.
        CorruptWarehouseError: the newest copy is missing.
    """
    permissions.refuse_unreadable(root)
    directory.refuse_files(root)
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
