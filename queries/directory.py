"""The warehouse directory as files: its lock, its published copies, its Parquet files. No DuckDB here.

Every step is a rename or an unlink at the end, so a process that dies in between leaves the old state or the new one.
What nothing refers to, and what is damaged, is moved to `set-aside/` and never deleted here.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
from typing import TYPE_CHECKING, Any, Final

from queries.errors import CorruptWarehouseError, LockedWarehouseError, NoWarehouseError, WriteError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import datetime
    from pathlib import Path

PUBLISHED_KEPT = 2
"""Published copies that stay: the current one, and the one before it for readers who have just resolved it."""

DATABASE: Final = "warehouse.duckdb"
WAL: Final = "warehouse.duckdb.wal"
SET_ASIDE: Final = "set-aside"
SCANNED: Final = "scanned.json"
REPORTS: Final = "reports.jsonl"
LAKES: Final = "lakes.json"
OURS: Final = frozenset(
    {
        "lock",
        "published",
        "raw",
        WAL,
        SET_ASIDE,
        SCANNED,
        f"{SCANNED}.unfinished",
        REPORTS,
        LAKES,
        f"{LAKES}.unfinished",
    }
)
"""The folders of a warehouse directory next to its database."""


def refuse_other_folders(root: Path) -> None:
    """Keep a mistyped --warehouse from filling a home directory."""
    refuse_other_bytes(root)
    refuse_files(root)
    if not root.is_dir() or (root / DATABASE).exists():
        return
    strangers = [item.name for item in root.iterdir() if item.name not in OURS]
    if strangers:
        raise NoWarehouseError(
            f"{root} holds other things ({', '.join(sorted(strangers)[:3])} ...) and no warehouse. "
            "Point --warehouse at an empty or new directory."
        )


def refuse_files(root: Path) -> None:
    """Refuse a path that is no directory."""
    if root.is_file():
        raise NoWarehouseError(f"{root} is a file; a warehouse is a directory. Point --warehouse at one.")


def refuse_other_bytes(root: Path) -> None:
    """Refuse a path that DuckDB cannot open, before anything is made there."""
    try:
        str(root).encode()
    except UnicodeEncodeError:
        raise NoWarehouseError(
            f"{root}: DuckDB opens only paths in UTF-8, and this one has other bytes. Point --warehouse elsewhere."
        ) from None


class Lock:
    """The lock of a directory, held for writing; its text remains when its process is killed.

    Attributes:
        before: what the holder before this one left there; None where there was no lock file.
    """

    def __init__(self, descriptor: int, before: dict[str, Any] | None) -> None:
        self.before = before
        self._descriptor = descriptor
        self._holder: dict[str, object] = {"database": (before or {}).get("database")}

    def note(self, **more: object) -> None:
        """Write more about the holder into the lock file."""
        self._holder |= more
        content = json.dumps(self._holder).encode()
        os.pwrite(self._descriptor, content, 0)
        os.ftruncate(self._descriptor, len(content))


@contextlib.contextmanager
def locked(root: Path, *, verb: str, now: datetime) -> Iterator[Lock]:
    """Hold the directory for writing, under a name that whoever meets the lock can read."""
    before = last_holder(root)
    try:
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise WriteError(f"{root} cannot be written: {error.strerror}. Nothing was changed.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedWarehouseError(_locked_message(root)) from error
        lock = Lock(descriptor, before if before is None else last_holder(root))
        lock.note(pid=os.getpid(), host=socket.gethostname(), verb=verb, since=f"{now:%Y-%m-%dT%H:%M:%SZ}")
        yield lock
    finally:
        os.close(descriptor)


def last_holder(root: Path) -> dict[str, Any] | None:
    """The last holder as the lock file names it; None if there is no lock file."""
    try:
        holder = json.loads((root / "lock").read_text() or "{}")
    except OSError:
        return None
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _locked_message(root: Path) -> str:
    try:
        holder = last_holder(root) or {}
        holder_text = f"process {holder['pid']} on {holder['host']} ({holder['verb']}, since {holder['since']})"
    except KeyError:
        holder_text = "another process"
    return (
        f"{root} is being written by {holder_text}.\nWait until it is done, or stop it: whatever it has not finished, "
        "it can do again. Reading (show, status, sql) works meanwhile."
    )


# Published copies ------------------------------------------------------------------------------------------------


def copies(root: Path) -> list[Path]:
    """The published copies, by number."""
    numbered = [copy for copy in (root / "published").glob("*.duckdb") if copy.stem.isdecimal() and copy.is_file()]
    return sorted(numbered, key=number)


def number(file: Path) -> int:
    """The data version in a file's name: of a published copy, or of a Parquet file.

    >>> from pathlib import Path
    >>> number(Path("published/00000012.duckdb")), number(Path("day=2026-10-31/00000012-1.parquet")), number(Path("x"))
    (12, 12, 0)
    """
    digits = file.stem.partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def pointed(root: Path) -> Path | None:
    """The published copy that `current` points at; None where it is no link, or points at nothing."""
    pointer = root / "published" / "current"
    try:
        target = pointer.parent / pointer.readlink()
    except OSError:
        return None
    return target if target.stem.isdecimal() and target.exists() else None


def published_state(root: Path) -> dict[str, list[int]] | None:
    """Identity of the database and its newest copy as files: inode, size and time of change, by name.

    None where there is no copy, or a write-ahead log that may change the database.
    """
    newest = max(copies(root), key=number, default=None)
    with contextlib.suppress(FileNotFoundError):
        if (root / WAL).stat().st_size:
            return None
    if newest is None or not (root / DATABASE).exists():
        return None
    files = {file.name: file.stat() for file in (root / DATABASE, newest)}
    return {name: [status.st_ino, status.st_size, status.st_mtime_ns] for name, status in files.items()}


def current_copy(root: Path) -> Path | None:
    """The published copy that readers see: the one pointed at, else the newest.

    A copy gets its name when it is whole. A tool that copies directories may lose the pointer, or follow it.
    """
    return pointed(root) or max(copies(root), key=number, default=None)


def lost_copy(root: Path) -> str | None:
    """Name of the copy that `current` points at if it is not there and those that are, are older; None otherwise."""
    try:
        target = (root / "published" / "current").readlink()
    except OSError:
        return None
    older = all(number(copy) < number(target) for copy in copies(root))
    return target.name if older else None


def copy_and_point(live: Path, target: Path) -> None:
    """Copy the closed database file, then swing the pointer; readers see the old copy or the new one."""
    folder = target.parent
    folder.mkdir(exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    copy_file(live, unfinished)
    sync(unfinished)
    unfinished.replace(target)
    pointer = folder / "current.unfinished"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(target.name)
    pointer.replace(folder / "current")
    sync(folder)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's content. On XFS, Btrfs and other file systems with reflinks the two share what neither changes."""
    with source.open("rb") as read, target.open("wb") as written:
        try:
            while os.copy_file_range(read.fileno(), written.fileno(), _AT_ONCE):
                pass
        except OSError as error:
            if error.errno not in _NO_COPY_FILE_RANGE:
                raise
        shutil.copyfileobj(read, written)  # what is left: all, none, or the rest after a kernel that stopped early


_AT_ONCE: Final = 1 << 30
"""Bytes that the kernel copies in one call."""

_NO_COPY_FILE_RANGE: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})
"""Answers of a kernel or a file system, such as one over a network, that cannot do it."""


def sweep(root: Path, retired: Collection[str]) -> None:
    """Remove old copies, unfinished files, and Parquet files that were retired and that no remaining copy refers to."""
    current = pointed(root)
    for old in copies(root)[:-PUBLISHED_KEPT]:
        if old != current:
            old.unlink()
    for unfinished in (root / "published").glob("*.unfinished"):
        unfinished.unlink()
    for path in retired:
        (root / path).unlink(missing_ok=True)


# Parquet files, and what is set aside ----------------------------------------------------------------------------


def raw_files(root: Path) -> list[str]:
    """Parquet files of samples, as paths below the warehouse directory."""
    paths = (root / "raw").glob("*/cluster=*/day=*/*.parquet")
    return sorted(str(file.relative_to(root)) for file in paths)


def highest_number(root: Path) -> int:
    """The highest data version that a file in the directory is named after, those set aside among them."""
    aside = (root / SET_ASIDE).rglob("*")
    files = [*copies(root), *(file for file in aside if file.suffix in {".parquet", ".duckdb"})]
    return max((number(file) for file in files), default=0)


def set_aside(root: Path, path: str) -> Path:
    """Move a file out of the way, to where nothing reads it and nothing deletes it."""
    target = root / SET_ASIDE / path
    again = 0
    while target.exists():
        again += 1
        target = root / SET_ASIDE / f"{path}.{again}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (root / path).rename(target)
    return target


def refuse_database_without_copies(root: Path) -> None:
    """Refuse a directory that has samples, but neither a database nor a copy of one."""
    raise CorruptWarehouseError(
        f"{root}: {DATABASE} is missing and nothing is published, but raw/ holds samples: a copy or a restore of this "
        f"directory is incomplete.\nCopy {DATABASE} or published/ here, too (published/ is enough). Where they are "
        "lost, move raw/ away and ingest again from the sources. Nothing was changed."
    )


def sync(path: Path) -> None:
    """Flush a file, or a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
