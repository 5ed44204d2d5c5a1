"""The warehouse directory as files: its lock, its published copies, its Parquet files. No DuckDB here.

Every step is a rename or an unlink at the end, so a process that dies in between leaves the old state or the new one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
from typing import TYPE_CHECKING

from queries.errors import LockedWarehouseError, NoWarehouseError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

PUBLISHED_KEPT = 2
"""Published copies that stay: the current one, and the one before it for readers who have just resolved it."""


def refuse_other_folders(root: Path) -> None:
    """Keep a mistyped --warehouse from filling somebody's home directory."""
    if root.is_file():
        raise NoWarehouseError(f"{root} is a file; a warehouse is a directory. Point --warehouse at one.")
    if not root.is_dir() or (root / "warehouse.duckdb").exists():
        return
    strangers = [item.name for item in root.iterdir() if item.name not in {"lock", "published", "raw"}]
    if strangers:
        raise NoWarehouseError(
            f"{root} holds other things ({', '.join(sorted(strangers)[:3])} ...) and no warehouse. "
            "Point --warehouse at an empty or new directory."
        )


@contextlib.contextmanager
def locked(root: Path, *, verb: str, now: datetime) -> Iterator[None]:
    """Hold the directory for writing, under a name that whoever meets the lock can read."""
    try:
        descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise WriteError(f"{root} cannot be written: {error.strerror}. Nothing was changed.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LockedWarehouseError(_who_holds(root)) from error
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "verb": verb, "since": now.isoformat()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _who_holds(root: Path) -> str:
    try:
        holder = json.loads((root / "lock").read_text())
        who = f"process {holder['pid']} on {holder['host']} ({holder['verb']}, since {holder['since']})"
    except (OSError, ValueError, KeyError):
        who = "another process"
    return (
        f"{root} is being written by {who}.\nWait until it is done, or stop it: whatever it has not finished, "
        "it can do again. Reading (show, status, sql) works meanwhile."
    )


def current_copy(root: Path) -> Path | None:
    """The published copy that readers see."""
    pointer = root / "published" / "current"
    try:
        target = pointer.parent / pointer.readlink()
    except OSError:
        return None
    return target if target.exists() else None


def copy_and_point(live: Path, target: Path) -> None:
    """Copy the closed database file, then swing the pointer; readers see the old copy or the new one."""
    folder = target.parent
    folder.mkdir(exist_ok=True)
    unfinished = target.with_suffix(".unfinished")
    shutil.copyfile(live, unfinished)
    sync(unfinished)
    unfinished.replace(target)
    pointer = folder / "current.unfinished"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(target.name)
    pointer.replace(folder / "current")


def sweep(root: Path, manifest: Sequence[tuple[str, int | None]]) -> None:
    """Remove old copies, unfinished files, and Parquet files that no copy kept refers to."""
    folder = root / "published"
    copies = sorted(folder.glob("*.duckdb"))
    for old in [*copies[:-PUBLISHED_KEPT], *folder.glob("*.unfinished")]:
        old.unlink()
    oldest_kept = int(copies[-PUBLISHED_KEPT:][0].stem)
    wanted = {path for path, removed in manifest if removed is None or removed > oldest_kept}
    for file in (root / "raw").glob("*/cluster=*/day=*/*.parquet"):
        if str(file.relative_to(root)) not in wanted:
            file.unlink()


def sync(path: Path) -> None:
    """Have the disk hold what the file says."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
