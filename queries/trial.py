"""A copy of a warehouse to change and throw away: what would come of a change, without making it.

It is made of the published copy, so it needs neither the lock nor the right to write, and a writer at work does not
mind. Parquet files are linked, never copied; whatever is written goes beside the links.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from queries import directory, permissions
from queries.errors import WriteError
from queries.opening import connect, duckdb_errors
from queries.warehouse import published
from queries.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

PREFIX: Final = "trackside-trial-"
"""How the folder of a copy is called, in the folder for temporary files (`TMPDIR`)."""

_ROOM: Final = 2
"""A change may write as much again as the copy has."""


@contextlib.contextmanager
def open_trial(root: Path, *, now: datetime) -> Iterator[Writer]:
    """A writer on a copy of the published state; the copy is gone when the caller is done.

    Args:
        root: the warehouse directory.
        now: the time, for the copy's lock.

    Raises:
        NoWarehouseError: nothing has been published in it yet.
        WriteError: there is no room for the copy.
        NewerWarehouseError, CorruptWarehouseError: see `queries.errors`.
    """
    root = root.absolute()
    source = published(root)
    with _folder(source) as folder, permissions.private(folder, None):
        _copy(root, source, folder)
        with directory.locked(folder, verb="trial", now=now) as lock:
            writer = Writer(folder, connect(folder / directory.DATABASE, folder, read_only=False), lock)
            try:
                with duckdb_errors(folder):
                    writer.begin(checkpoint=False)
                yield writer
            finally:
                writer.close()


@contextlib.contextmanager
def _folder(source: Path) -> Iterator[Path]:
    place = Path(tempfile.gettempdir())
    needed, free = _ROOM * source.stat().st_size, shutil.disk_usage(place).free
    if free < needed:
        raise WriteError(
            f"{place} has {free / 1e9:.1f} GB free, and the copy to try a change on needs {needed / 1e9:.1f} GB. "
            "Make room, or name another folder: TMPDIR. Nothing was changed."
        )
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        yield Path(name)


def _copy(root: Path, source: Path, folder: Path) -> None:
    """The database as a copy, each Parquet file as a link to it."""
    directory.copy_file(source, folder / directory.DATABASE)
    for path in directory.raw_files(root):
        link = folder / path
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # what a writer has just replaced is named by newer copies only
            link.symlink_to(root / path)
