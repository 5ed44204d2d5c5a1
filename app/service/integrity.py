"""`trackside doctor [--repair]`, and the scan of `serve`: are the warehouse's files as they were written?

A damaged or missing file of samples is moved to `set-aside/` and its day is to be loaded again; a database that is
damaged, missing or older gives way to the newest published copy (`queries.recovery`). Nothing is deleted.
"""

from __future__ import annotations

import grp
import json
import pwd
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import polars as pl

from app import console
from app.formatting import display
from queries import directory, integrity, recovery
from queries.errors import CorruptWarehouseError, LockedWarehouseError, NoWarehouseError, WarehouseError
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from queries.integrity import DamagedFile, ManifestFile
    from queries.warehouse import Reader, Writer

State = Literal["ok", "warn", "fail", "-"]


@dataclass(frozen=True)
class DoctorFinding:
    """A line of `doctor`."""

    state: State
    text: str


def examine(root: Path) -> Iterator[DoctorFinding]:
    """Compare every file of a warehouse with its recorded size and digest."""
    if root.is_dir():  # else it is the address of a lake
        yield _readers(root)
        yield from _database(root)
    try:
        with open_reader(root) as reader:
            yield from _published(reader)
            yield from _samples(reader.root, reader.files_here())
            yield from _lost_days(reader)
    except NoWarehouseError:
        return
    except WarehouseError as error:
        yield DoctorFinding("fail", str(error))
    yield from _set_aside(root)


def _readers(root: Path) -> DoctorFinding:
    """The users who may read the warehouse."""
    status = root.stat()
    mode, owner, group = (
        stat.S_IMODE(status.st_mode),
        _name(pwd.getpwuid, status.st_uid),
        _name(grp.getgrgid, status.st_gid),
    )
    if mode & 0o007:
        return DoctorFinding(
            "warn",
            f"every user of this machine may read {root}; the next command that writes restricts it (doctor --repair, "
            "too)",
        )
    if mode & 0o070:
        return DoctorFinding("ok", f"{root} is readable by {owner} and the group {group} (config: warehouse_group)")
    return DoctorFinding(
        "ok", f"{root} is readable by {owner} alone (to add a group: warehouse_group in the configuration)"
    )


def _name(name_of: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(name_of(number)[0])
    except KeyError:
        return str(number)


def _database(root: Path) -> Iterator[DoctorFinding]:
    """The database, unless a writer has it open."""
    live = root / directory.DATABASE
    if not live.exists():
        if directory.copies(root):
            yield DoctorFinding(
                "warn", f"{live} is missing: the next writer restores it from the newest published copy"
            )
        return
    try:
        recovery.contents(live, whole=True)
    except LockedWarehouseError:
        yield DoctorFinding("-", "the database itself is not checked: a writer has it open")
    except WarehouseError as error:
        yield DoctorFinding("fail", str(error))
    else:
        yield DoctorFinding("ok", "every row of the database can be read")


def _published(reader: Reader) -> Iterator[DoctorFinding]:
    for table in reader.tables():
        reader.check_table(table)
    yield DoctorFinding("ok", "every row of the published copy can be read")


def _samples(root: Path, files: Sequence[ManifestFile]) -> Iterator[DoctorFinding]:
    damages = integrity.damaged(root, files, again=True)
    for damage in damages:
        yield DoctorFinding("fail", str(damage))
    if damages:
        again = "; ".join(integrity.commands(damage.file for damage in damages))
        yield DoctorFinding("fail", f"copy them back from a backup, or: trackside doctor --repair, then {again}")
    elif files:
        yield DoctorFinding("ok", f"all {len(files):,} files of samples are unchanged")


def _lost_days(reader: Reader) -> Iterator[DoctorFinding]:
    for row in reader.query("lost_days").iter_rows(named=True):
        file = integrity.ManifestFile(row["table_name"], row["cluster"], row["day"], "", 0, "")
        yield DoctorFinding(
            "warn",
            f"{file.table} of cluster {file.cluster} on {file.day}: {row['rows_before'] - row['rows_now']:,} rows were "
            f"removed as damaged; load them again: {'; '.join(integrity.commands([file]))}",
        )


def _set_aside(root: Path) -> Iterator[DoctorFinding]:
    files = [file for file in (root / directory.SET_ASIDE).rglob("*") if file.is_file()]
    if files:
        size = display(float(sum(file.stat().st_size for file in files)), "bytes")
        yield DoctorFinding(
            "-",
            f"{root / directory.SET_ASIDE}: {len(files):,} files ({size}) that Trackside does not read; "
            "delete what you do not need",
        )


# The scan of `serve` ---------------------------------------------------------------------------------------------

SCAN_BYTES: Final = 256 * 2**20
"""Bytes that a cycle reads, in about half a second. A year of a large cluster takes a few hours of cycles."""

_TABLE_BYTES: Final = 2**20
"""A rough size of a table of the database."""


def scan(writer: Writer, *, budget: int = SCAN_BYTES) -> None:
    """Read some of the files, from where the last scan ended, and compare them with their digests.

    Damaged files are compared again in each scan, until they are repaired.

    Raises:
        CorruptWarehouseError: some are damaged.
    """
    files = {file.path: file for file in writer.files()}
    after, damaged_before = _scanned(writer.root)
    parts = [(path, file.bytes) for path, file in files.items()] + [(name, _TABLE_BYTES) for name in writer.tables()]
    chosen = _chosen(parts, after, budget)
    _remember(
        writer.root, chosen[-1] if chosen else after, damaged_before
    )  # if damage ends this, the next scan goes on behind it
    again = [files[path] for path in damaged_before if path in files and path not in chosen]
    damages = integrity.damaged(writer.root, [*again, *(files[name] for name in chosen if name in files)], again=True)
    _remember(writer.root, chosen[-1] if chosen else after, [damage.file.path for damage in damages])
    for name in chosen:
        if name not in files:
            writer.check_table(name)
    if damages:
        raise CorruptWarehouseError(integrity.message(writer.root, damages))


def _chosen(parts: Sequence[tuple[str, int]], after: str, budget: int) -> list[str]:
    """Names after a given one, then from the first on, until the budget is used up.

    >>> _chosen([("a", 5), ("b", 5), ("c", 5)], "b", 6)
    ['c', 'a']
    """
    ordered = sorted(parts)
    ahead = [part for part in ordered if part[0] > after] + [part for part in ordered if part[0] <= after]
    taken = []
    for name, size in ahead:
        if budget <= 0:
            break
        taken.append(name)
        budget -= size
    return taken


def _scanned(root: Path) -> tuple[str, list[str]]:
    """The position at which the last scan ended, and the files that were damaged then."""
    try:
        state = json.loads((root / directory.SCANNED).read_text())
        return str(state["after"]), [str(path) for path in state["damaged"]]
    except (OSError, ValueError, KeyError, TypeError):
        return "", []


def _remember(root: Path, after: str, damaged: Sequence[str]) -> None:
    unfinished = root / f"{directory.SCANNED}.unfinished"
    unfinished.write_text(json.dumps({"after": after, "damaged": list(damaged)}))
    unfinished.replace(root / directory.SCANNED)


# Repairing -------------------------------------------------------------------------------------------------------


def repair(root: Path, *, group: str | None, now: datetime) -> list[DamagedFile]:
    """Repair a damaged directory as far as possible without the sources; returns the removed samples."""
    if not root.is_dir():
        raise NoWarehouseError(f"there is no warehouse in {root}: nothing to repair")
    with open_writer(root, verb="trackside doctor --repair", now=now, group=group, repair=True) as writer:
        damages = integrity.damaged(root, writer.files(), again=True)
        if damages:
            for damage in damages:
                directory.set_aside(root, damage.file.path)
            with writer.transaction():
                forget(writer, damages, now=now)
    return damages


def forget(writer: Writer, damages: Sequence[DamagedFile], *, now: datetime) -> None:
    """Forget damaged files within the open transaction, and record the days to load again.

    Where steps are lost, the sessions that they were part of go, too: a gap in a log would read as a hang. `serve` and
    fleets then read all run logs again.
    """
    for damage in damages:
        file = damage.file
        row = {
            "cluster": file.cluster,
            "table_name": file.table,
            "day": file.day,
            "path": file.path,
            "what": damage.what,
            "rows": writer.forget_file(file),
            "noticed_at": now,
        }
        writer.append("lost_files", pl.DataFrame([row]))
        if file.table == "steps":
            writer.run("forget_run_sessions", cluster=file.cluster, day=file.day)
    if any(damage.file.table == "steps" for damage in damages):
        writer.delete("read_files", pl.DataFrame({"source": ["runlog"]}))


def print_report(damages: Sequence[DamagedFile]) -> None:
    """Print the removed files, and the commands that restore them."""
    for damage in damages:
        console.echo(f"removed: {damage}")
    if damages:
        console.echo("Load those days again, and compute:")
        for command in [*integrity.commands(damage.file for damage in damages), "trackside compute"]:
            console.echo(f"  {command}")
        console.echo()
