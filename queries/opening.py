"""Opening DuckDB files, and what its errors mean for a person."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb

from queries import directory
from queries.errors import CorruptWarehouseError, LockedWarehouseError, WriteError
from queries.sql_files import literal, schema_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONFIG: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # How a new file is laid out: dictionaries over compressed text are half the work to write.
    "storage_compatibility_version": "v1.3.0",
    "write_buffer_row_group_count": "2",
}

_LOOKED: Final = itertools.count()
"""Numbers of the files that this process has looked into."""

_RUN_AGAIN: Final = (
    "Make room (or get permission) and run it again: what was committed is kept, the rest is done again."
)
_DISK: Final = ("no space left", "disk full", "read-only file system", "permission denied", "quota exceeded")
_FROM_BACKUP: Final = "Copy it back from a backup, or move the directory away and ingest again from the sources."
_LACKS: Final = re.compile(r"Table with name (\w+) does not exist")
_LOCKED: Final = ("set lock", "conflicting lock")
_OTHER_SETTINGS: Final = "different configuration"
_DAMAGED: Final = (
    "could not read enough bytes",
    "checksum",
    "corrupt",
    "not a valid duckdb",
    "replaying wal",
    "no files found",
    "no magic bytes",
)
"""Messages of DuckDB about a file that is cut off, changed or missing."""

KINDS: Final = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.FatalException,
    duckdb.SerializationException,
    duckdb.InternalException,
)
"""Errors that come of files and memory; others are faults of whoever wrote the query."""


@dataclass(frozen=True)
class Engine:
    """How much of the machine DuckDB may take for a file that this process opens.

    Attributes:
        memory_mb: most memory of one open file, in MB; what a query needs beyond it goes to files. None: 80 % of the
            memory that the machine (or the process's control group) has.
        threads: at most; None: a thread for each core that the process may use.
        temp_directory: where these files go; None: beside the database.
    """

    memory_mb: int | None = None
    threads: int | None = None
    temp_directory: Path | None = None

    @property
    def half_the_threads(self) -> int:
        """Threads for work beside which this process works itself."""
        return max((self.threads or len(os.sched_getaffinity(0))) // 2, 1)

    def as_duckdb(self) -> dict[str, str]:
        """As DuckDB's own settings.

        >>> Engine(memory_mb=500, threads=1).as_duckdb()
        {'memory_limit': '500MB', 'threads': '1'}
        """
        chosen = {
            "memory_limit": None if self.memory_mb is None else f"{self.memory_mb}MB",
            "threads": self.threads,
            "temp_directory": self.temp_directory,
        }
        return {name: str(value) for name, value in chosen.items() if value is not None}


_engine = Engine()


def engine() -> Engine:
    """Settings of the last call of `use_engine`."""
    return _engine


def use_engine(chosen: Engine) -> None:
    """Have all files that this process opens from now on be opened so: the one place where it is decided."""
    global _engine  # noqa: PLW0603 - as many readers and writers as a process opens, they share one machine
    _engine = chosen


def config() -> dict[str, Any]:
    """DuckDB's settings of each file that this process opens from now on."""
    return {**_CONFIG, **_engine.as_duckdb()}


def connect(path: Path, root: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file of a warehouse.

    Raises:
        LockedWarehouseError, WriteError, CorruptWarehouseError: see their classes.
    """
    try:
        return silent(duckdb.connect(str(path), read_only=read_only, config=config()))
    except duckdb.Error as error:
        raise _unopened(error, path, root) from error


def silent(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection without DuckDB's progress bar, which goes to stdout, among the answers."""
    connection.execute("SET enable_progress_bar = false")
    return connection


@contextlib.contextmanager
def threads(connection: duckdb.DuckDBPyConnection, number: int) -> Iterator[None]:
    """Have DuckDB work with so many threads, and then with as many again as files are opened with."""
    connection.execute(f"SET threads = {number}")
    try:
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # what failed may have ended the transaction
            chosen = config().get("threads")
            connection.execute("RESET threads" if chosen is None else f"SET threads = {chosen}")


def _unopened(error: duckdb.Error, path: Path, root: Path) -> Exception:
    """Why a file could not be opened, as an error of this package."""
    if any(words in str(error).lower() for words in _LOCKED):
        return LockedWarehouseError(f"{path} is open in another program: {first_line(error)}")
    if _OTHER_SETTINGS in str(error):
        return LockedWarehouseError(
            f"{path} is open in this program already, with other settings of DuckDB (its own connection, or another "
            "[engine] of the configuration).\nClose that connection first, or open both with the same settings."
        )
    if any(words in str(error).lower() for words in _DISK):
        return _no_room(root, error)
    return CorruptWarehouseError(corrupt(path, root, first_line(error)))


@contextlib.contextmanager
def looked_into(path: Path, root: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB file of a warehouse as the database to read, attached to what this process looks into files with.

    To attach a file takes half a millisecond, and to make what it is attached to (`connect`) fifty times as long. It
    has one thread: for more than a few rows open the file.

    Raises:
        LockedWarehouseError, WriteError, CorruptWarehouseError: see their classes.
    """
    name = f"file{next(_LOOKED)}"
    with _looking(os.getpid()).cursor() as connection:
        try:
            connection.execute(f"ATTACH {literal(str(path))} AS {name} (READ_ONLY)")
        except duckdb.Error as error:
            _looking.cache_clear()  # a file that is damaged may leave it unusable
            raise _unopened(error, path, root) from error
        try:
            connection.execute(f"USE {name}")
            yield connection
            connection.execute(f"USE memory; DETACH {name}")
        except BaseException:
            _looking.cache_clear()
            raise


@functools.cache
def _looking(_process: int) -> duckdb.DuckDBPyConnection:
    return silent(duckdb.connect(config={**config(), "threads": "1"}))


def explained(error: duckdb.Error, path: Path, root: Path) -> Exception:
    """DuckDB's error about a file or memory as one of this package."""
    text = str(error).lower()
    if any(words in text for words in _DISK) or isinstance(error, duckdb.OutOfMemoryException):
        return _no_room(root, error)
    if isinstance(error, duckdb.IOException) and not any(words in text for words in _DAMAGED):
        return _no_room(root, error)
    return CorruptWarehouseError(corrupt(path, root, first_line(error)))


def _missing_table(error: duckdb.CatalogException) -> str | None:
    """The table that a statement did not find; None unless a schema step made one of that name."""
    found = _LACKS.search(str(error))
    if found is None:
        return None
    made = re.compile(rf"CREATE TABLE (?:\w+\.)?{found[1]}\b", re.IGNORECASE)
    return found[1] if any(made.search(step.sql) for step in schema_steps()) else None


@contextlib.contextmanager
def duckdb_errors(root: Path, path: Path | None = None) -> Iterator[None]:
    """Turn DuckDB's errors about files, tables and memory into ours; programming errors stay what they are."""
    path = path or root / directory.DATABASE
    try:
        yield
    except KINDS as error:
        raise explained(error, path, root) from error
    except duckdb.CatalogException as error:
        table = _missing_table(error)
        if table is None:
            raise
        raise CorruptWarehouseError(corrupt(path, root, f"it has no table {table}.")) from error
    except duckdb.TransactionException as error:  # a commit whose log could not be written, or a mistake of ours
        if any(words in str(error).lower() for words in (*_DISK, "could not write")):
            raise _no_room(root, error) from error
        raise


@contextlib.contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """Turn what a full or forbidden disk raises in our own file work into our error."""
    try:
        with duckdb_errors(root):
            yield
    except OSError as error:
        raise WriteError(f"{root} cannot be written: {error.strerror or error}.\n{_RUN_AGAIN}") from error


def corrupt(path: Path, root: Path, why: str) -> str:
    """That a file cannot be used, and the way back."""
    copies = [copy for copy in directory.copies(root) if copy != path]
    if path != root / directory.DATABASE:
        way_back = "Write it anew from the database, or go back to the copy before it: trackside doctor --repair"
    elif copies:
        way_back = (
            f"Go back to the newest published copy that is whole: trackside doctor --repair    (or copy {copies[-1]} "
            f"over {path} by hand),\nthen ingest again what came later; loading twice equals loading once."
        )
    else:
        way_back = _FROM_BACKUP
    return f"{path} cannot be read as a warehouse: {why}\n{way_back}"


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _no_room(root: Path, error: Exception) -> WriteError:
    return WriteError(f"{root} cannot be written: {first_line(error)}.\n{_RUN_AGAIN}")
