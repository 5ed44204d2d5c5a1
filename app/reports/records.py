"""Which reports were written: a line of JSON for each, in a file of the warehouse directory.

The record is of files, not of data: a report itself does not depend on it, and losing it loses no number. It is beside
the database, because whoever writes a report only reads the warehouse, and may not be the one who writes to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from app.json_text import as_json
from app.times import iso
from queries.directory import REPORTS
from queries.lake.address import address_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from app.reports.sla.document import Document

LARGEST_RECORD = 64 << 20
"""Bytes of the file that are read, its last ones."""


@dataclass(frozen=True)
class ReportRecord:
    """A report that was written.

    Attributes:
        report: which: sla, bundle.
        cluster: of its numbers.
        period: as requested.
        form: html, json, pdf, ...
        path: where to, absolute.
        written_at: when (the clock of the machine that wrote it).
        sha256: digest of the report, the same in each of its forms.
        file_sha256: digest of the file's bytes.
        final: whether it was final.
        supported: objectives with this verdict.
        refuted: as above.
        undetermined: as above.
        claims: name of the claims file; None for the vendor's headlines.
    """

    report: str
    cluster: str
    period: str
    form: str
    path: str
    written_at: str
    sha256: str
    file_sha256: str | None
    final: bool
    supported: int
    refuted: int
    undetermined: int
    claims: str | None


_NAMES = frozenset(each.name for each in fields(ReportRecord))


def of_document(document: Document, target: Path, form: str, now: datetime, report: str = "sla") -> ReportRecord:
    """The record of a report that was just written to a file; a pipe or a device has no digest."""
    file = target.absolute()
    return ReportRecord(
        report=report,
        cluster=document["cluster"],
        period=document["period"]["asked"],
        form=form,
        path=str(file),
        written_at=iso(now),
        sha256=document["sha256"],
        file_sha256=hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None,
        final=document["status"]["final"],
        claims=document["claims"]["file"],
        **document["summary"],
    )


def keep(root: Path, record: ReportRecord) -> str | None:
    """Add a record, one write under a lock; why it could not be added, or None.

    Whoever may only read the warehouse writes reports all the same, so this is no error.
    """
    if address_of(root) is not None:
        return "a lake has no directory for it"
    line = as_json(asdict(record), compact=True).encode() + b"\n"
    try:
        descriptor = os.open(root / REPORTS, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, _after_cut_line(descriptor) + line)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{root / REPORTS}: {error.strerror}"
    return None


def _after_cut_line(descriptor: int) -> bytes:
    """A line end where the last line lacks one: its writer was killed."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def read(root: Path) -> list[ReportRecord]:
    """The reports written, in the order in which they were. A line that is none, such as a cut one, is left out."""
    try:
        with (root / REPORTS).open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LARGEST_RECORD))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    return [record for line in lines if (record := _record(line)) is not None]


def _record(line: bytes) -> ReportRecord | None:
    try:
        values: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(values, dict) or not values.keys() >= _NAMES:
        return None
    return ReportRecord(**{name: values[name] for name in _NAMES})
