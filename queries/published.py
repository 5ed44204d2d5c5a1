"""Tables for other programs, as Parquet: what Grafana's SQL boards read.

    DIR/trackside-NNNNNNNN/<table>.parquet   a version: tables that belong together, never changed
    DIR/current                              a link to the newest version
    DIR/views.sql                            views of the tables in `current`, for a DuckDB

A version is written whole before `current` points at it. The one before it stays, for whoever reads it at that moment.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Final

from queries import sql_files
from queries.errors import WriteError

if TYPE_CHECKING:
    from pathlib import Path

    from queries.reader import Reader
    from queries.sql_files import Named

PREFIX: Final = "published_"
"""Begins the names of the named queries whose rows are published."""

CURRENT: Final = "current"
VIEWS: Final = "views.sql"

KEPT: Final = 2
"""Versions that are kept: the newest, and the one that a reader may still have open."""

_VERSION: Final = re.compile(r"trackside-(\d{8})")


def tables() -> dict[str, Named]:
    """The query of each published table, by the table's name."""
    named = sql_files.named_queries()
    return {name.removeprefix(PREFIX): query for name, query in named.items() if name.startswith(PREFIX)}


def views(folder: str) -> str:
    """SQL that makes a view of each table in a folder of published tables.

    Args:
        folder: its path, or a placeholder for it.
    """
    at = folder.replace("'", "''")
    made = [
        f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM read_parquet('{at}/{CURRENT}/{name}.parquet');"  # noqa: S608 - our names, a quoted path
        for name in sorted(tables())
    ]
    return "\n".join(["SET TimeZone = 'UTC';", *made]) + "\n"


def publish(reader: Reader, target: Path) -> Path:
    """Write a new version of all tables, and let `current` point at it.

    Args:
        reader: the published copy of a warehouse; all tables are of this copy.
        target: folder, made if missing.

    Returns:
        The folder of the version.

    Raises:
        WriteError: it cannot be written; `current` stays what it was.
    """
    target = target.absolute()
    try:
        return _published(reader, target)
    except OSError as error:
        raise WriteError(f"tables cannot be published in {target}: {error.strerror or error}") from error


def _published(reader: Reader, target: Path) -> Path:
    target.mkdir(parents=True, exist_ok=True)
    partial = target / f".trackside-partial-{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        for name, query in sorted(tables().items()):
            reader.query(query.name).write_parquet(partial / f"{name}.parquet", compression="zstd")
        version = target / f"trackside-{_newest(target) + 1:08d}"
        partial.rename(version)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    link = target / f".{CURRENT}-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(version.name)
    link.replace(target / CURRENT)
    (target / VIEWS).write_text(views(str(target)), encoding="utf-8")
    for old in _versions(target)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return version


def _versions(target: Path) -> list[Path]:
    """Folders of versions, the newest last."""
    return sorted(each for each in target.iterdir() if each.is_dir() and _VERSION.fullmatch(each.name))


def _newest(target: Path) -> int:
    found = _versions(target)
    return int(found[-1].name[-8:]) if found else 0
