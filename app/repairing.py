"""`trackside doctor [--repair]`, and the scan of `serve`: are the warehouse's files as they were written?

A damaged or missing file of samples is moved to `set-aside/` and its day is to be loaded again; a database that is
damaged, missing or older gives way to the newest published copy (`queries.recovery`). Nothing is deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from app import output
from queries import folder, integrity, recovery
from queries.errors import LockedWarehouseError, NoWarehouseError, WarehouseError
from queries.warehouse import open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from queries.integrity import Damage, File
    from queries.warehouse import Reader, Writer

State = Literal["ok", "warn", "fail", "-"]


@dataclass(frozen=True)
class Finding:
    """A line of `doctor`."""

    state: State
    text: str


def examine(root: Path) -> Iterator[Finding]:
    """Compare every file of a warehouse with what it was when it was written."""
    yield from _database(root)
    try:
        with open_reader(root) as reader:
            yield from _published(reader)
            yield from _samples(root, reader.files())
            yield from _lost_days(reader)
    except NoWarehouseError:
        return
    except WarehouseError as error:
        yield Finding("fail", str(error))
    yield from _set_aside(root)


def _database(root: Path) -> Iterator[Finding]:
    """The database, as far as nobody is writing it."""
    live = root / folder.DATABASE
    if not live.exists():
        if folder.copies(root):
            yield Finding("warn", f"{live} is missing: the next writer restores it from the newest published copy")
        return
    try:
        recovery.contents(live, whole=True)
    except LockedWarehouseError:
        yield Finding("-", "the database itself is not checked: a writer has it open")
    except WarehouseError as error:
        yield Finding("fail", str(error))
    else:
        yield Finding("ok", "every row of the database can be read")


def _published(reader: Reader) -> Iterator[Finding]:
    for table in reader.tables():
        reader.check_table(table)
    yield Finding("ok", "every row of the published copy can be read")


def _samples(root: Path, files: Sequence[File]) -> Iterator[Finding]:
    found = integrity.damaged(root, files, again=True)
    for damage in found:
        yield Finding("fail", str(damage))
    if found:
        again = "; ".join(integrity.commands(damage.file for damage in found))
        yield Finding("fail", f"copy them back from a backup, or: trackside doctor --repair, then {again}")
    elif files:
        yield Finding("ok", f"all {len(files):,} files of samples are as they were written")


def _lost_days(reader: Reader) -> Iterator[Finding]:
    for row in reader.query("lost_days").iter_rows(named=True):
        file = integrity.File(row["table_name"], row["cluster"], row["day"], "", 0, "")
        yield Finding(
            "warn",
            f"{file.table} of cluster {file.cluster} on {file.day}: {row['rows_before'] - row['rows_now']:,} rows were "
            f"taken out as damaged; load them again: {'; '.join(integrity.commands([file]))}",
        )


def _set_aside(root: Path) -> Iterator[Finding]:
    files = [file for file in (root / folder.SET_ASIDE).rglob("*") if file.is_file()]
    if files:
        size = output.display(float(sum(file.stat().st_size for file in files)), "bytes")
        yield Finding(
            "-",
            f"{root / folder.SET_ASIDE}: {len(files):,} files ({size}) that nothing reads; delete what is not needed",
        )


def repair(root: Path, *, now: datetime) -> list[Damage]:
    """Put a damaged directory right, as far as that can be done without the sources; returns the samples taken out."""
    if not root.is_dir():
        raise NoWarehouseError(f"there is no warehouse in {root}: nothing to repair")
    with open_writer(root, verb="trackside doctor --repair", now=now, repair=True) as writer:
        found = integrity.damaged(root, writer.files(), again=True)
        if found:
            for damage in found:
                folder.set_aside(root, damage.file.path)
            with writer.transaction():
                forget(writer, found, now=now)
    return found


def forget(writer: Writer, found: Sequence[Damage], *, now: datetime) -> None:
    """Have damaged files count no longer, within the open transaction, and note which days are to be loaded again.

    Where steps are lost, the sessions that they were part of go, too: a gap in a log would read as a hang.
    """
    for damage in found:
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


def say(found: Sequence[Damage]) -> None:
    """Print what was taken out, and what brings it back."""
    for damage in found:
        output.say(f"taken out: {damage}")
    if found:
        output.say("Load those days again, and compute:")
        for command in [*integrity.commands(damage.file for damage in found), "trackside compute"]:
            output.say(f"  {command}")
        output.say()
