"""Repairs before a writer opens a warehouse directory that was copied in part, restored, rolled back or damaged.

Either the directory is as it should be; or the one thing that is surely right is done and reported (a missing database
comes back from its published copy, what nothing refers to is set aside); or the writer refuses and names the way back.
With `repair`, which a person requests (`trackside doctor --repair`), the newest published copy that is whole takes the
place of a database that is not. Nothing is deleted: what has to go is moved to `set-aside/`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb

from queries import directory, integrity, upgrade
from queries.errors import CorruptWarehouseError
from queries.opening import connect, corrupt, first_line, looked_into

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from queries.integrity import ManifestFile

log = logging.getLogger("trackside.warehouse")
"""Repairs are logged as warnings: Python prints those on stderr where nothing else is configured."""

REPAIR: Final = "trackside doctor --repair"


@dataclass(frozen=True)
class FileMetadata:
    """The metadata of a database file.

    Attributes:
        warehouse: which warehouse it is of; None if it was written before warehouses had names.
        version: its data version.
        paths: every Parquet file that its manifest names.
        files: those of them that count.
    """

    warehouse: str | None = None
    version: int = 0
    paths: frozenset[str] = frozenset()
    files: tuple[ManifestFile, ...] = ()


def contents(path: Path, *, whole: bool = False) -> FileMetadata:
    """Read the metadata of a database file; `whole` reads every row of it, so that damage anywhere shows.

    Raises:
        CorruptWarehouseError: it is damaged, or no warehouse.
        LockedWarehouseError: another program has it open.
    """
    root = path.parent if path.name == directory.DATABASE else path.parent.parent
    opened = contextlib.closing(connect(path, root, read_only=True)) if whole else looked_into(path, root)
    with opened as connection:
        try:
            if whole:
                refuse_incomplete(connection, path, root)
                read_whole(connection)
            return _contents(connection)
        except duckdb.Error as error:
            raise CorruptWarehouseError(corrupt(path, root, first_line(error))) from error


def _contents(connection: duckdb.DuckDBPyConnection) -> FileMetadata:
    here = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    named = {name for (name,) in connection.execute(here).fetchall()}
    if not {"meta", "partitions"} <= named:
        return FileMetadata()
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    paths = connection.execute("SELECT path FROM partitions").fetchall()
    files = tuple(integrity.live_files(connection))
    version = int(meta.get("data_version", 0))
    return FileMetadata(meta.get("warehouse"), version, frozenset(path for (path,) in paths), files)


def refuse_incomplete(connection: duckdb.DuckDBPyConnection, path: Path, root: Path) -> None:
    """Refuse a file that lacks tables or columns which its own schema steps made.

    Raises:
        CorruptWarehouseError: it does; the message names them.
    """
    lost = upgrade.lost_parts(connection)
    if lost:
        raise CorruptWarehouseError(corrupt(path, root, f"it lacks {', '.join(lost)}"))


def read_whole(connection: duckdb.DuckDBPyConnection) -> None:
    """Read every row of every table: DuckDB compares the checksum of each block that it reads.

    Raises:
        duckdb.Error: something is damaged.
    """
    for table in tables(connection):
        read_table(connection, table)


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of all tables of a database, quoted."""
    tables = connection.execute("SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL")
    return [f'"{schema}"."{name}"' for schema, name in tables.fetchall()]


def read_table(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Read every row of a table."""
    connection.execute(f"SELECT bit_xor(hash(t)) FROM {table} AS t").fetchall()  # noqa: S608 - a name of our own


def before_opening(root: Path, holder: Mapping[str, Any] | None, *, repair: bool) -> None:
    """Have the directory be one that may be written to. To be called with the lock held.

    Where the last writer published, and database and copy are the files that it left, they are not compared again: to
    open both takes longer than many a verb.

    Args:
        root: the warehouse directory.
        holder: what the last holder of the lock left in it; None where there was no lock file.
        repair: put things right that only a person may decide on.

    Raises:
        CorruptWarehouseError: It is not; the message has what to do.
    """
    live = root / directory.DATABASE
    unchanged = not repair and _as_published(root, holder)
    if unchanged and not directory.raw_files(root):
        return
    if not live.exists() or live.stat().st_size == 0:
        _bring_back(root, anything=repair)
        if not live.exists():
            return
    _drop_foreign_wal(root, holder)
    if repair:
        _go_back_if_damaged(root)
    live_contents = contents(live)
    if not unchanged:
        _compare_with_copies(root, live_contents, repair=repair)
    _set_aside_unnamed(root, contents(live) if repair else live_contents, repair=repair)


def _as_published(root: Path, holder: Mapping[str, Any] | None) -> bool:
    state = directory.published_state(root)
    return state is not None and holder is not None and holder.get("published") == state


# The database is missing -----------------------------------------------------------------------------------------


def _bring_back(root: Path, *, anything: bool) -> None:
    """Restore the database from its newest published copy; with `anything` from the newest that can be used at all."""
    copies = directory.copies(root)
    if not copies:
        if directory.raw_files(root):
            directory.refuse_database_without_copies(root)
        for name in (directory.DATABASE, directory.WAL):
            _set_aside(root, name, "it is empty, or belongs to no database")
        return
    wrong = {copy: _unusable(root, copy, missing_files=not anything) for copy in reversed(copies)}
    usable = [copy for copy, why in wrong.items() if why is None]
    if not usable or (usable[0] != copies[-1] and not anything):
        raise CorruptWarehouseError(
            f"{root}: {directory.DATABASE} is missing, and the newest published copy cannot take its place: "
            f"{wrong[copies[-1]]}.\nA copy or a restore of this directory may be incomplete: "
            f"copy {directory.DATABASE}, published/ and raw/ here, too.\n"
            f"Or go on with what there is: {REPAIR}. Nothing was changed."
        )
    _restore(root, usable[0], "it was missing")


def _unusable(root: Path, copy: Path, *, missing_files: bool) -> str | None:
    """Why a published copy cannot take the place of the database; None if it can."""
    try:
        database = contents(copy, whole=True)
    except CorruptWarehouseError as error:
        return f"{copy} is damaged ({first_line(error)})"
    lacking = integrity.damaged(root, database.files, digest=False) if missing_files else []
    if lacking:
        return f"of the {len(database.files):,} files of samples that it names {len(lacking):,} are missing or cut off"
    return None


def _restore(root: Path, copy: Path, why: str) -> None:
    """Put a published copy in the place of the database."""
    for name in (directory.DATABASE, directory.WAL):
        _set_aside(root, name, "it is replaced")
    unfinished = root / "published" / "restored.unfinished"
    directory.copy_file(copy, unfinished)
    directory.sync(unfinished)
    unfinished.replace(root / directory.DATABASE)
    directory.sync(root)
    log.warning(
        "trackside: %s: %s was restored from the published copy %s (%s). What was loaded after that, if anything, "
        "is to be loaded again.",
        root, directory.DATABASE, copy.name, why,
    )  # fmt: skip


# The database is there -------------------------------------------------------------------------------------------


def _drop_foreign_wal(root: Path, holder: Mapping[str, Any] | None) -> None:
    """Set a write-ahead log aside that was not written for this state of the database: DuckDB would apply any.

    Whoever writes notes in the lock which warehouse it is, the version at the last checkpoint, and the last one since.
    """
    wal = root / directory.WAL
    if not wal.exists() or wal.stat().st_size == 0:
        return
    if holder is None:
        _set_aside(root, directory.WAL, "there is no lock file that names its database")
        return
    noted = holder.get("database")
    if not isinstance(noted, dict):  # an earlier Trackside wrote it
        return
    database = _without_wal(root)
    ours = database.warehouse == noted.get("warehouse") or (database.warehouse is None and noted.get("opened") == 0)
    if not ours or not noted.get("opened", 0) <= database.version <= noted.get("committed", 0):
        _set_aside(root, directory.WAL, "it belongs to another database, or to another state of this one")


def _without_wal(root: Path) -> FileMetadata:
    """The metadata of the database, its write-ahead log left out."""
    other = root / "published" / "without-wal.unfinished"
    other.parent.mkdir(exist_ok=True)
    other.unlink(missing_ok=True)
    try:
        os.link(root / directory.DATABASE, other)
    except OSError:  # no hard links on this filesystem
        directory.copy_file(root / directory.DATABASE, other)
    try:
        return contents(other)
    finally:
        other.unlink()


def _go_back_if_damaged(root: Path) -> None:
    """Put the newest copy that is whole in the place of a damaged database, without its write-ahead log first."""
    live = root / directory.DATABASE
    why = _damage(live)
    if why is not None and (root / directory.WAL).exists():
        _set_aside(root, directory.WAL, first_line(why))
        why = _damage(live)
    if why is None:
        return
    for copy in reversed(directory.copies(root)):
        if _unusable(root, copy, missing_files=False) is None:
            _restore(root, copy, "it was damaged")
            return
    raise CorruptWarehouseError(corrupt(live, root, f"{first_line(why)}; no published copy is whole either"))


def _damage(path: Path) -> Exception | None:
    try:
        contents(path, whole=True)
    except CorruptWarehouseError as error:
        return error
    return None


def _compare_with_copies(root: Path, live: FileMetadata, *, repair: bool) -> None:
    """The published copies are of this warehouse, and none is newer than the database.

    A copy that cannot be read is set aside: the writer publishes a new one when it is done.
    """
    for copy in reversed(directory.copies(root)):
        try:
            database = contents(copy, whole=repair)
        except CorruptWarehouseError as error:
            _set_aside(root, f"published/{copy.name}", f"it cannot be read: {first_line(error)}")
            continue
        if database.warehouse and live.warehouse and database.warehouse != live.warehouse:
            raise CorruptWarehouseError(
                f"{root}: {directory.DATABASE} and published/{copy.name} belong to two different warehouses: "
                "directories were mixed.\nMove published/ and raw/ of the other one away. Nothing was changed."
            )
        if database.version > live.version:
            _refuse_rolled_back(root, copy, live, repair=repair)
            return
        if not repair:
            return


def _refuse_rolled_back(root: Path, copy: Path, live: FileMetadata, *, repair: bool) -> None:
    if repair:
        _restore(root, copy, f"the database was older: data version {live.version}")
        return
    raise CorruptWarehouseError(
        f"{root}: {directory.DATABASE} has data version {live.version}, older than published/{copy.name}: "
        f"it was replaced by an older one, or emptied.\nGo on from the published copy: {REPAIR}\n"
        "Or keep the older database: move published/ away (then the same command sets newer samples aside). "
        "Nothing was changed."
    )


def _set_aside_unnamed(root: Path, live: FileMetadata, *, repair: bool) -> None:
    """Move away Parquet files that the manifest does not name: a killed writer's last transaction leaves some.

    Files of later versions than that one's show that the database is older than the samples.
    """
    unnamed = [path for path in directory.raw_files(root) if path not in live.paths]
    newest = max((directory.number(root / path) for path in unnamed), default=0)
    expected = max(live.version, directory.highest_number(root)) + 1
    if newest > expected and not repair:
        raise CorruptWarehouseError(
            f"{root}: raw/ holds samples of data version {newest}, which {directory.DATABASE} (data version "
            f"{live.version}) has no record of: the database is an older one, its write-ahead log was lost, or raw/ "
            f"is of another warehouse.\nCopy the database that belongs to raw/ here; or set the samples without a "
            f"record aside: {REPAIR}\nNothing was changed."
        )
    for path in unnamed:
        _set_aside(root, path, None)
    if unnamed:
        log.warning(
            "trackside: %s: %d file%s of samples that the database has no record of (of a writer that was killed, or "
            "of another state of the warehouse) moved to %s/",
            root, len(unnamed), "" if len(unnamed) == 1 else "s", directory.SET_ASIDE,
        )  # fmt: skip


def _set_aside(root: Path, path: str, why: str | None) -> None:
    if (root / path).exists():
        target = directory.set_aside(root, path)
        if why is not None:
            log.warning("trackside: %s: %s was moved to %s: %s", root, path, target.relative_to(root), why)
