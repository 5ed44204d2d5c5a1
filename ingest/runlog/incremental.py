"""Run logs that `serve` and fleets read each cycle, if they have changed. An unchanged file costs one `stat`.

A file is read again if its size or one of its times has changed since it was read, or if it would be read differently:
by another version of Trackside, with other formats, in another zone, for another cluster. What was read is remembered
in the warehouse (`read_files`), after the rows: a process killed between the two reads it again. A log that could
not be used is remembered with the reason, which is reported each time; a fault that may pass (no permission, a time
that lies ahead) is not, so it is tried again.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import polars as pl

from ingest.errors import (
    DamagedStreamError,
    FormatMistakeError,
    InputError,
    TimeZoneError,
    TruncatedInputError,
    UnrecognisedInputError,
    UntimedError,
    YearError,
)
from ingest.files.input import as_text
from ingest.future import AHEAD
from ingest.runlog.sources import SOURCES
from ingest.runlog.store import ingest_files
from ingest.store.clusters import cluster_of_jobs
from ingest.store.report import LoadReport, Note
from ingest.tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from ingest.runlog.translation import LogRequest
    from queries.warehouse import Writer

_FINAL: Final = {
    kind.__name__: kind
    for kind in (
        DamagedStreamError,
        FormatMistakeError,
        TimeZoneError,
        TruncatedInputError,
        UnrecognisedInputError,
        UntimedError,
        YearError,
    )
}
"""Errors that follow from what a file holds and how it is read: the same file gives the same error."""

_FILES: Final = 64
_BYTES: Final = 1 << 28
"""Files, or bytes of them, that are read before they are recorded as read."""


class Stamp(NamedTuple):
    """Values that change with a file: its size, when it was written to, and when its status changed, in nanoseconds.

    The last one also detects a file that was replaced by one with the times of the old one (`rsync -t`, `mv`).
    """

    bytes: int
    modified_ns: int
    changed_ns: int


class _RefusedLog(msgspec.Struct):
    """A log that could not be used."""

    origin: str
    kind: str
    message: str


def files_of(patterns: Iterable[str]) -> dict[str, Stamp]:
    """Files that patterns match, sorted, each with its stamp."""
    names = {name for pattern in patterns for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207 - Path.glob refuses absolute patterns
    stamps = {}
    for name in sorted(names):
        with contextlib.suppress(FileNotFoundError):  # gone in this very moment
            status = Path(name).stat()
            if stat.S_ISREG(status.st_mode):
                stamps[name] = Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return stamps


def ingest_changed(
    writer: Writer,
    files: Mapping[str, Stamp],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
    logs: LogRequest,
    version: bytes,
) -> list[LoadReport]:
    """Load the logs that are new, or have changed since they were read.

    Args:
        writer: the warehouse.
        files: names of logs, and of archives of logs, with their stamps from before they are read.
        cluster: as of `ingest_files`.
        now: as of `ingest_files`.
        progress: as of `ingest_files`.
        logs: as of `ingest_files`.
        version: of Trackside.

    Returns:
        A report for each log that was read, and for each unchanged one that could not be used. What is passed over in
        an archive is not reported: the same note would come in each cycle in which the archive grows.
    """
    reading = _reading(version, cluster or cluster_of_jobs(writer), logs)
    before = _read_before(writer, files, reading)
    reports = [report for name in files for report in before.get(name, ())]
    changed = {name: stamp for name, stamp in files.items() if name not in before}
    for some in _portions(changed):
        read = ingest_files(writer, list(some), cluster=cluster, now=now, progress=progress, logs=logs)
        _remember(writer, some, read, reading)
        reports += [report for report in read if not isinstance(report, Note)]
    if changed:
        _forget_removed_files(writer, files)
    return reports


def _reading(version: bytes, cluster: str, logs: LogRequest) -> str:
    """Digest of what the reading of a log depends on besides its content."""
    return hashlib.blake2b(repr((version, cluster, logs)).encode(), digest_size=16).hexdigest()


def _read_before(writer: Writer, files: Mapping[str, Stamp], reading: str) -> dict[str, list[LoadReport]]:
    """The files that need not be read again, each with the reports of its logs that could not be used."""
    names = {as_text(name): name for name in files}
    requested = pl.DataFrame({"source": SOURCES[0].name, "origin": list(names)}, schema_overrides={"origin": pl.String})
    rows = writer.matching("read_files", requested, keys=requested.columns).iter_rows(named=True)
    return {
        names[row["origin"]]: _reports(row["refused"])
        for row in rows
        if row["reading"] == reading
        and Stamp(row["bytes"], row["modified_ns"], row["changed_ns"]) == files[names[row["origin"]]]
    }


def _reports(refused: str | None) -> list[LoadReport]:
    """The reports of logs that could not be used, as they were when these were read."""
    logs = [] if refused is None else msgspec.json.decode(refused, type=list[_RefusedLog])
    return [LoadReport(log.origin, error=_FINAL[log.kind].__new__(_FINAL[log.kind], log.message)) for log in logs]


def _portions(files: Mapping[str, Stamp]) -> Iterator[dict[str, Stamp]]:
    portion: dict[str, Stamp] = {}
    for name, stamp in files.items():
        portion[name] = stamp
        if len(portion) >= _FILES or sum(each.bytes for each in portion.values()) >= _BYTES:
            yield portion
            portion = {}
    if portion:
        yield portion


def _remember(writer: Writer, files: Mapping[str, Stamp], reports: Sequence[LoadReport], reading: str) -> None:
    """Note the files whose logs were read, or cannot be as they are."""
    rows = []
    for name, stamp in files.items():
        own = [report for report in reports if _is_of(report.origin, name)]
        if own and all(map(_is_final, own)):
            rows.append([SOURCES[0].name, as_text(name), *stamp, reading, _refused(own)])
    if rows:
        with writer.transaction():
            writer.keep_facts_of_version()
            read = pl.DataFrame(rows, columns_of("read_files"), orient="row")
            writer.replace("read_files", read, keys=["source", "origin"])


def _forget_removed_files(writer: Writer, files: Iterable[str]) -> None:
    """Forget the files that are no more: where each job writes one, they would become more for ever."""
    known = writer.matching("read_files", pl.DataFrame({"source": [SOURCES[0].name]}), keys=["source"])
    named = {as_text(name) for name in files}
    gone = [origin for origin in known["origin"] if origin not in named and not Path(origin).exists()]
    if gone:
        with writer.transaction():
            writer.keep_facts_of_version()
            writer.delete("read_files", pl.DataFrame({"source": SOURCES[0].name, "origin": gone}))


def _is_of(origin: str, name: str) -> bool:
    """Whether a log is this file, or in this archive."""
    return origin == name or origin.startswith(f"{as_text(name)}/")


def _is_final(report: LoadReport) -> bool:
    """Whether reading the same file again has the same result."""
    if report.parsed is not None:
        return not report.parsed.rejects["reason"].str.contains(AHEAD, literal=True).any()
    return type(report.error).__name__ in _FINAL and AHEAD not in str(report.error)


def _refused(reports: Iterable[LoadReport]) -> str | None:
    """The logs that cannot be used, as JSON; None if there are none."""
    logs = [
        _RefusedLog(as_text(report.origin), type(report.error).__name__, str(report.error))
        for report in reports
        if isinstance(report.error, InputError)
    ]
    return msgspec.json.encode(logs).decode() if logs else None
