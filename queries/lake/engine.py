"""DuckDB with the extensions that a lake needs, from packages of PyPI: nothing is downloaded when it runs."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb

from queries.errors import WarehouseError
from queries.opening import config, first_line
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES: Final = {
    "ducklake": "duckdb-extension-ducklake",
    "postgres_scanner": "duckdb-extension-postgres-scanner",
    "sqlite_scanner": "duckdb-extension-sqlite-scanner",
    "httpfs": "duckdb-extension-httpfs",
}
"""The package of each extension; the extra `trackside[lake]` has all of them."""


CHANGES_KEPT: Final = 32
"""Attachments for a change after which the database is made anew, when it is not in use: DuckLake keeps a megabyte
or two of each until its database is closed, and a service commits for months."""


class Database:
    """This process's database in memory: made when it is needed, and closed after many changes when it is not in use.

    Attributes:
        keys: what its secret for buckets was made of; empty where it has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: duckdb.DuckDBPyConnection | None = None
        self._connections = 0
        self._changes = 0
        self.keys = ""

    @contextlib.contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection to it, in any thread."""
        cursor = self._opened()
        try:
            with cursor:
                yield cursor
        finally:
            self._release()

    def count_change(self) -> None:
        """Count an attachment of a catalogue that is going to be changed."""
        with self._lock:
            self._changes += 1

    def _opened(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._made is None:
                self._made = duckdb.connect(config=config() | {"allow_unsigned_extensions": _all_are_packaged()})
            cursor = self._made.cursor()
            self._connections += 1
            return cursor

    def _release(self) -> None:
        with self._lock:
            self._connections -= 1
            if self._made is not None and self._connections == 0 and self._changes >= CHANGES_KEPT:
                self._made.close()
                self._made, self._changes, self.keys = None, 0, ""


_database: Final = Database()


@contextlib.contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to this process's database in memory, to which catalogues and warehouses are attached.

    There is one database: to load an extension takes longer than most that is done here.
    """
    with _database.connection() as cursor:
        cursor.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
        yield cursor


def count_change() -> None:
    """Count an attachment of a catalogue that is going to be changed."""
    _database.count_change()


@contextlib.contextmanager
def attached(connection: duckdb.DuckDBPyConnection, what: str, options: str) -> Iterator[str]:
    """Attach a database under a name that no other connection of this process has; returns the name."""
    name = f"attached_{next(_NUMBERS)}"
    connection.execute(f"ATTACH {literal(what)} AS {name} ({options})")
    try:
        yield name
    finally:
        with contextlib.suppress(duckdb.Error):  # a transaction that failed may hold it still: then it ends with it
            connection.execute(f"DETACH {name}")


_NUMBERS: Final = itertools.count()


def load(connection: duckdb.DuckDBPyConnection, *extensions: str) -> None:
    """Load extensions from their packages, else from where DuckDB itself installs them.

    Raises:
        WarehouseError: one is not installed, or is of another DuckDB; the message names its package.
    """
    for extension in extensions:
        file = _packaged(extension)
        try:
            connection.execute(f"LOAD {extension if file is None else literal(str(file))}")
        except duckdb.Error as error:
            raise WarehouseError(_missing(extension, first_line(error))) from None


def _all_are_packaged() -> bool:
    """Whether no extension is loaded from elsewhere than its package.

    Then DuckDB need not verify their signatures, which takes 0.13 CPU s each, half of a small commit: a package is
    trusted as that of DuckDB itself is, which nobody verifies when it is imported.
    """
    return all(map(_packaged, _PACKAGES))


def _packaged(extension: str) -> Path | None:
    """The file of an extension in its package, for this version of DuckDB."""
    found = importlib.util.find_spec(f"duckdb_extension_{extension}")
    folders = () if found is None else found.submodule_search_locations or ()
    files = (
        Path(folder, "extensions", f"v{duckdb.__version__}", f"{extension}.duckdb_extension") for folder in folders
    )
    return next((file for file in files if file.exists()), None)


def _missing(extension: str, why: str) -> str:
    package = f"{_PACKAGES[extension]}=={duckdb.__version__}"
    return (
        f"DuckDB's extension {extension} cannot be loaded, and a lake needs it: {why}\n"
        f"Install it from PyPI:  pip install {package}    (all of them: pip install 'trackside[lake]')"
    )


def permit_s3(connection: duckdb.DuckDBPyConnection) -> None:
    """Have DuckDB read and write objects with the keys of the environment (AWS_ACCESS_KEY_ID and its like)."""
    load(connection, "httpfs")
    _permit(connection, _keys())


def renew_s3(connection: duckdb.DuckDBPyConnection) -> None:
    """Have the keys be those of the environment now, if DuckDB was given others before: its database lasts longer."""
    if _database.keys not in {"", keys := _keys()}:
        _permit(connection, keys)


def _permit(connection: duckdb.DuckDBPyConnection, keys: str) -> None:
    connection.execute(f"CREATE OR REPLACE SECRET trackside_lake (TYPE s3, {keys})")
    _database.keys = keys


def _keys() -> str:
    """Keys and server of the environment, as DuckDB's secret names them."""
    options = {name: os.environ.get(variable, "") for name, variable in _OF_SECRET.items()}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        options |= {"ENDPOINT": host.rstrip("/"), "URL_STYLE": "path", "USE_SSL": str(scheme != "http").lower()}
    return (
        ", ".join(f"{name} {literal(value)}" for name, value in options.items() if value) or f"REGION {literal(REGION)}"
    )


REGION: Final = "us-east-1"
"""Region if none is named: that of a server that has none."""

_OF_SECRET: Final = {
    "KEY_ID": "AWS_ACCESS_KEY_ID",
    "SECRET": "AWS_SECRET_ACCESS_KEY",
    "SESSION_TOKEN": "AWS_SESSION_TOKEN",
    "REGION": "AWS_REGION",
}
