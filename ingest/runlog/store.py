"""`trackside ingest runlog` and `trackside recorder`: run logs into the warehouse, some at a time."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import InputError, OptionError, ServerDownError, TruncatedInputError, UnrecognisedInputError
from ingest.files.archive import Member, unpacked
from ingest.files.input import STDIN, Input, as_text
from ingest.load_warnings import LoadWarning
from ingest.runlog.cut_ends import CutLines, CutRecords, cut_lines
from ingest.runlog.folders import SkippedFiles, logs_below, why_no_log, without_logs
from ingest.runlog.formats.registry import chunks_of_run_log, is_binary
from ingest.runlog.parse import read_runlog
from ingest.runlog.sources import SOURCES
from ingest.runlog.storing import ReadLog, load_in_batches
from ingest.runlog.trainer_states import newest_states
from ingest.runlog.translation import Findings, LogRequest
from ingest.runlog.wandb import live
from ingest.runlog.wandb.api import server_of_environment
from ingest.runlog.wandb.live import is_live
from ingest.store.clusters import LOCAL, cluster_of_jobs
from ingest.store.report import Note
from ingest.store.request import from_file
from ingest.tables import REJECTS, Parsed, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ingest.store.report import LoadReport
    from queries.warehouse import Writer

SMALL: Final = 1 << 20
"""Bytes of a file that is read without working ahead."""


def recorder_text() -> str:
    """The recorder: one Python file for training loops."""
    return (resources.files("ingest") / "runlog" / "recorder" / "trackside_log.py").read_text(encoding="utf-8")


def ingest_files(
    writer: Writer,
    files: Sequence[str],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
    logs: LogRequest | None = None,
) -> list[LoadReport]:
    """Load run logs; a log that has grown since may be loaded again.

    Args:
        writer: the warehouse.
        files: names of files, of folders with logs, and of tar archives of logs; `-` is standard input.
        cluster: of sessions that name none; if None, those with a job id are of the only cluster with accounting, and
            all others of `LOCAL`.
        now: stored as the time of loading; lines of later are refused.
        progress: called with which folder is searched for logs, then with which file is being read, its number, and how
            many there are.
        logs: what logs of other frameworks do not record.

    Returns:
        One report for each file, and one for all files below folders and in archives that are no logs. A file that
        cannot be used is reported and leaves nothing behind.
    """
    named, of_jobs = (cluster, cluster) if cluster is not None else (LOCAL, cluster_of_jobs(writer))
    request = _with_job_start(writer, logs or LogRequest())

    def read_file(name: str) -> ReadLog:
        member = named_files[name]
        if Path(member.path).is_dir():
            raise UnrecognisedInputError(without_logs(member.path, name))
        if member.error is not None:
            raise member.error
        if is_live(name):
            return read_live(name)
        with Input(member.path, shown=name, may_be_cut=True) as source:
            return read_input(source, None if member.path != name else _written_at(name))

    def read_input(source: Input, written_at: datetime | None) -> ReadLog:
        binary = is_binary(source.head)
        own_cuts = (CutRecords if binary else CutLines)(cuts.get(source.name, ()))
        content = own_cuts.passed_on(source if binary else source.with_short_lines())
        findings = Findings()
        stated = replace(request, several=len(named_files) > 1, written_at=written_at)
        chunks = chunks_of_run_log(content, source.name, stated, findings)
        try:
            log = read_runlog(
                chunks, origin=source.name, cluster=named, cluster_of_jobs=of_jobs, now=now, findings=findings,
                ahead=not 0 < source.size <= SMALL,
            )  # fmt: skip
        except InputError as error:
            raise _of_log(error, source) from None
        findings.warnings += _cut(source)
        return ReadLog(log, own_cuts, from_file(source.name), source.digest())

    def read_live(name: str) -> ReadLog:
        digest, findings = hashlib.sha256(), Findings()
        chunks = _counted(live.read_run(server_of_environment(), name, request, findings), digest)
        log = read_runlog(chunks, origin=name, cluster=named, cluster_of_jobs=of_jobs, now=now, findings=findings)
        return ReadLog(log, CutLines(()), from_file(name), digest.hexdigest())

    def is_selected(path: str, name: str) -> bool:
        reason = why_no_log(path, name, request.formats)
        if reason is not None:
            passed_over.add(name, reason)
        return reason is None

    passed_over = SkippedFiles()
    below = logs_below(
        [name for name in files if not is_live(name)], request.formats, passed_over,
        enters=lambda folder: progress(f"search for logs in {as_text(folder)}", 0, 1),
    )  # fmt: skip
    with unpacked(below, is_selected) as members:
        on_servers = [one for name in files if is_live(name) for one in _runs(name)]
        found = newest_states(members, files, passed_over)
        named_files = {member.shown: member for member in (*found, *on_servers)}
        cuts = cut_lines(writer, [as_text(name) for name in named_files])
        reports = load_in_batches(writer, list(named_files), read_file, now=now, progress=progress)
    return [*reports, *_note(passed_over)]


def _written_at(name: str) -> datetime | None:
    """When a file was last written to; None if that has no meaning for a log (standard input, a pipe)."""
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return datetime.fromtimestamp(status.st_mtime, UTC) if name != STDIN and stat.S_ISREG(status.st_mode) else None


def _note(passed_over: SkippedFiles) -> list[LoadReport]:
    """The note about files that were passed over, if there are any."""
    none = Parsed(SOURCES[0].name, frozenset(), {}, empty(REJECTS), rows_read=0, rows_loaded=0)
    return [Note(passed_over.text, none)] if passed_over.names else []


def _cut(source: Input) -> list[LoadWarning]:
    """The warning about a packed log that is cut off, if it is."""
    return [] if source.cut is None else [LoadWarning("packed_log_cut", source.n_unpacked, source.cut)]


def _of_log(error: InputError, source: Input) -> InputError:
    """The error with the name of its log; for a log that is cut off, this is the error."""
    if source.name not in str(error):
        error.args = (f"{source.name}: {error}",)
    if source.cut is None:
        return error
    n_read = f"only its first {source.n_unpacked:,} bytes could be unpacked"
    return TruncatedInputError(f"{error}\nThe {source.cut} stream is cut off: {n_read}; copy or write the file again")


def _runs(name: str) -> list[Member]:
    """The runs of W&B's server that a name stands for; if they cannot be listed, the name itself with the reason."""
    try:
        return [Member(each, each) for each in live.runs_of(server_of_environment(), name)]
    except (InputError, OptionError, ServerDownError) as error:
        return [Member(name, name, error)]


def _counted(chunks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    """The same chunks, which are also added to the digest."""
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def _with_job_start(writer: Writer, logs: LogRequest) -> LogRequest:
    """The request with the start of the job that is stated, if the warehouse has it: years of stamps follow from it."""
    if "job_id" not in logs.facts:
        return logs
    job = pl.DataFrame({"job_id": [str(logs.facts["job_id"])]})
    starts = writer.matching("attempts", job, keys=["job_id"])["started_at"].drop_nulls().sort()
    close = starts.len() and starts[-1] - starts[0] < timedelta(days=90)
    return replace(logs, around=starts[0]) if close else logs
