"""Locks of a lake: who commits a warehouse to it, and who is committing right now.

In PostgreSQL they are advisory locks of a transaction, which end with its connection; beside a file they are flocks,
which end with their process. So neither survives a `kill -9`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

import duckdb

from queries.errors import LockedWarehouseError, WriteError
from queries.lake import engine
from queries.lake.faults import catalogue_errors
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queries.lake.address import Address

_AGAIN_S: Final = 0.05
"""How long to wait before a lock is tried again."""

COMMIT: Final = "commit"
"""The lock of whoever is committing: two at once would conflict where both delete and add files of one table."""

COMMIT_WAIT_S: Final = 600.0
"""How long to wait for those that commit before: each takes about a second."""


class Held(Protocol):
    """A lock that is held."""

    def confirm(self) -> None:
        """Do nothing while it is held.

        Raises:
            WriteError: it is lost.
        """


@contextlib.contextmanager
def held(address: Address, name: str, *, wait_s: float = 0.0) -> Iterator[Held]:
    """Hold a lock of a lake.

    Raises:
        LockedWarehouseError: another holds it still after so many seconds; the message names who.
        WarehouseError: the catalogue cannot be reached.
    """
    taken = _file_lock(address.file, name) if address.file is not None else _advisory(address, name)
    until = time.monotonic() + wait_s
    with taken as lock:
        while not lock.take():
            if time.monotonic() >= until:
                raise LockedWarehouseError(
                    f"{address} is being written by {lock.holder()}.\nWait until it is done, or stop it: whatever it "
                    "has not committed, it can do again. Reading (show, status, sql) works meanwhile."
                )
            time.sleep(_AGAIN_S)
        yield lock


# Beside a file -----------------------------------------------------------------------------------------------------


class _FileLock:
    """A lock file beside the catalogue."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)

    def take(self) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        content = _self().encode()
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))
        return True

    def holder(self) -> str:
        """Holder of the lock."""
        try:
            since = datetime.fromtimestamp(self._path.stat().st_mtime, UTC)
            return f"{self._path.read_text()}, since {since:%Y-%m-%dT%H:%M:%SZ}"
        except OSError:
            return "another process"

    def confirm(self) -> None:
        """A flock is held until its process ends."""

    def close(self) -> None:
        """Let go of it."""
        os.close(self._descriptor)


@contextlib.contextmanager
def _file_lock(file: Path, name: str) -> Iterator[_FileLock]:
    path = file.with_name(f"{file.name}.{name}.lock")
    try:
        lock = _FileLock(path)
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from error
    try:
        yield lock
    finally:
        lock.close()


# In PostgreSQL -----------------------------------------------------------------------------------------------------


class _Advisory:
    """An advisory lock of a transaction of PostgreSQL that stays open."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, guard: str, key: int) -> None:
        self._connection = connection
        self._guard = guard
        self._key = key

    def take(self) -> bool:
        """Take the lock if it is free."""
        return bool(self._query(f"SELECT pg_try_advisory_xact_lock({self._key})")[0][0])

    def holder(self) -> str:
        """Holder of the lock, by PostgreSQL."""
        high, low = (self._key >> 32) & 0xFFFFFFFF, self._key & 0xFFFFFFFF
        found = self._query(
            "SELECT a.application_name, to_char(a.backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') "  # noqa: S608 - a number of ours
            "FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) "
            f"WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {high} AND l.objid = {low}"
        )
        return f"{found[0][0]}, since {found[0][1]}" if found else "another process"

    def confirm(self) -> None:
        """Ask PostgreSQL: a connection that broke has let go of the lock.

        Raises:
            WriteError: it has.
        """
        try:
            self._query("SELECT 1")
        except duckdb.Error:
            raise WriteError(
                "the connection to the lake's catalogue broke: nothing was changed. Run it again."
            ) from None

    def _query(self, sql: str) -> list[tuple[object, ...]]:
        return self._connection.execute(f"SELECT * FROM postgres_query('{self._guard}', {literal(sql)})").fetchall()  # noqa: S608 - our own


@contextlib.contextmanager
def _advisory(address: Address, name: str) -> Iterator[_Advisory]:
    words = f"{address.at} application_name={literal(_self())}"
    with engine.connection() as connection, contextlib.ExitStack() as stack:
        engine.load(connection, "postgres_scanner")
        with catalogue_errors(address):
            guard = stack.enter_context(engine.attached(connection, words, "TYPE postgres"))
            connection.execute("BEGIN TRANSACTION")
        stack.callback(_end, connection)
        yield _Advisory(connection, guard, _key(name))


def _end(connection: duckdb.DuckDBPyConnection) -> None:
    with contextlib.suppress(duckdb.Error):  # the connection to PostgreSQL may have ended
        connection.execute("ROLLBACK")


def _key(name: str) -> int:
    """A number for a lock of Trackside's, of those that fit PostgreSQL's.

    >>> 0 < _key("commit") < 2**63
    True
    """
    return int.from_bytes(hashlib.sha256(f"trackside lake {name}".encode()).digest()[:8]) >> 1


def _self() -> str:
    """Name of this process for others: PostgreSQL cuts names of applications at 63 bytes."""
    return f"process {os.getpid()} on {socket.gethostname()}"[:63]
