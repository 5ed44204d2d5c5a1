"""`trackside ingest runlog` and `trackside recorder`: run logs into the warehouse, one transaction per file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import InputError, OptionError, ServerDownError, TruncatedInputError, UnrecognisedInputError
from ingest.files.archive import Member, unpacked
from ingest.files.input import Input
from ingest.future import without_future
from ingest.load_warnings import LoadWarning
from ingest.runlog.escapes import without_escapes
from ingest.runlog.folders import is_log, logs_below, without_logs
from ingest.runlog.formats.registry import chunks_of_run_log, is_binary
from ingest.runlog.lines import CUT
from ingest.runlog.merge import SESSION_KEY, merge_events, merge_sessions
from ingest.runlog.parse import read_runlog
from ingest.runlog.sources import SOURCES
from ingest.runlog.steps import merge_steps
from ingest.runlog.translation import Account, LogRequest
from ingest.runlog.wandb import live
from ingest.runlog.wandb.api import server_of_environment
from ingest.runlog.wandb.live import is_live
from ingest.store.clusters import LOCAL, cluster_of_jobs
from ingest.store.each_file import load_each
from ingest.store.loads import Repetition, write_account
from ingest.store.request import from_file
from ingest.tables import RUN_EVENTS, RUN_SESSIONS, STEPS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ingest.runlog.parse import RunLog
    from ingest.store.report import Report
    from ingest.store.request import LoadRequest
    from queries.warehouse import Writer

_RUN = ["cluster", "run_id"]


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
) -> list[Report]:
    """Load run logs, each in a transaction of its own; a log that has grown since may be loaded again.

    Args:
        writer: the warehouse.
        files: names of files, of folders with logs, and of tar archives of logs; `-` is standard input.
        cluster: of sessions that name none; if None, those with a job id are of the only cluster with accounting, and
            all others of `LOCAL`.
        now: stored as the time of loading; lines of later are refused.
        progress: called with which file is being read, its number, and how many there are.
        logs: what logs of other frameworks do not record.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """
    named, of_jobs = (cluster, cluster) if cluster is not None else (LOCAL, cluster_of_jobs(writer))
    request = _beside_its_job(writer, logs or LogRequest())

    def load_file(name: str, of_others: str) -> Parsed:
        member = named_files[name]
        if Path(member.path).is_dir():
            raise UnrecognisedInputError(without_logs(member.path, name))
        if member.error is not None:
            raise member.error
        if is_live(name):
            return load_live(name, of_others)
        with Input(member.path, shown=name, may_be_cut=True) as source:
            return load_input(source, of_others)

    def load_input(source: Input, of_others: str) -> Parsed:
        binary = is_binary(source.head)
        text = (CutRecords if binary else CutLines)(_cut_lines(writer, source.name))
        content = text.passed_on(source if binary else source.with_short_lines())
        account = Account()
        stated = replace(request, several=len(named_files) > 1)
        chunks = chunks_of_run_log(content, source.name, stated, account)
        try:
            log = read_runlog(
                chunks, origin=source.name, cluster=of_others, cluster_of_jobs=of_jobs, now=now, account=account
            )
        except InputError as error:
            raise _with_cut(error, source) from None
        account.warnings += _cut(source)
        return load(writer, log, text, request=from_file(source.name), digest=source.digest(), now=now)

    def load_live(name: str, of_others: str) -> Parsed:
        digest = hashlib.sha256()
        chunks = _counted(live.read_run(server_of_environment(), name, request), digest)
        log = read_runlog(chunks, origin=name, cluster=of_others, cluster_of_jobs=of_jobs, now=now, account=Account())
        return load(writer, log, CutLines(()), request=from_file(name), digest=digest.hexdigest(), now=now)

    is_wanted = partial(is_log, formats=request.formats)
    below = logs_below([name for name in files if not is_live(name)], request.formats)
    with unpacked(below, is_wanted) as members:
        on_servers = [one for name in files if is_live(name) for one in _runs(name)]
        named_files = {member.shown: member for member in (*members, *on_servers)}
        return load_each(list(named_files), load_file, cluster=lambda: named, progress=progress)


def _cut(source: Input) -> list[LoadWarning]:
    """The warning about a packed log that is cut off, if it is."""
    return [] if source.cut is None else [LoadWarning("packed_log_cut", source.n_unpacked, source.cut)]


def _with_cut(error: InputError, source: Input) -> InputError:
    """What is wrong with a log; of one that is cut off, that it is."""
    if source.cut is None:
        return error
    n_read = f"only its first {source.n_unpacked:,} bytes could be unpacked"
    return TruncatedInputError(f"{error}\nThe {source.cut} stream is cut off: {n_read}; copy or write the file again")


def _runs(name: str) -> list[Member]:
    """The runs of W&B's server that a name stands for; where they cannot be listed, itself with the reason."""
    try:
        return [Member(each, each) for each in live.runs_of(server_of_environment(), name)]
    except (InputError, OptionError, ServerDownError) as error:
        return [Member(name, name, error)]


def _counted(chunks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    """The same chunks, which the digest gets too."""
    for chunk in chunks:
        digest.update(chunk)
        yield chunk


def _beside_its_job(writer: Writer, logs: LogRequest) -> LogRequest:
    """The request with the start of the job that is stated, if the warehouse has it: years of stamps follow from it."""
    if "job_id" not in logs.facts:
        return logs
    job = pl.DataFrame({"job_id": [str(logs.facts["job_id"])]})
    starts = writer.matching("attempts", job, keys=["job_id"])["started_at"].drop_nulls().sort()
    close = starts.len() and starts[-1] - starts[0] < timedelta(days=90)
    return replace(logs, around=starts[0]) if close else logs


def load(writer: Writer, log: RunLog, text: CutLines, *, request: LoadRequest, digest: str, now: datetime) -> Parsed:
    """Merge one log with the existing rows. In any order, and again, it gives the same warehouse."""
    with writer.transaction():
        repetition = Repetition(writer, SOURCES[0], request=request, digest=digest)
        n_steps = sum(_write_day(writer, *each) for each in log.days())
        parsed = without_future(log.parsed(n_steps), origin=request.origin, now=now)
        sessions, events = (parsed.frames[name] for name in ("run_sessions", "run_events"))
        sessions = sessions.with_columns(read_at=pl.lit(now).cast(RUN_SESSIONS["read_at"]))
        rejects = _without_finished(writer, parsed.rejects, sessions, origin=request.origin, text=text)
        existing = writer.matching("run_sessions", sessions, keys=_RUN)
        merged = merge_sessions(pl.concat([conform(existing, RUN_SESSIONS), sessions]))
        writer.replace("run_sessions", merged, keys=_RUN)
        existing = writer.matching("run_events", events, keys=_RUN)
        writer.replace("run_events", merge_events(pl.concat([conform(existing, RUN_EVENTS), events])), keys=_RUN)
        parsed = repetition.counted(parsed)
        write_account(writer, parsed, request=request, digest=digest, now=now, rejects=rejects)
    return parsed


def _write_day(writer: Writer, cluster: str, day: date, rows: pl.DataFrame) -> int:
    """Merge the steps of a day with the stored ones; a day without news is left alone. Returns their number."""
    since = datetime.combine(day, time(), tzinfo=UTC)
    stored = writer.query("existing_steps", cluster=cluster, since=since, until=since + timedelta(days=1))
    existing = conform(stored, STEPS)
    if existing.is_empty():
        writer.write_partition("steps", cluster, day, rows)
        return rows.height
    existing = merge_steps(existing)
    merged = merge_steps(pl.concat([existing, rows]))
    if not merged.equals(existing):
        writer.write_partition("steps", cluster, day, merged)
    return rows.height


_ROOM: Final = 4_096
"""Bytes of colours that a line which is searched for may have."""


@dataclass
class CutLines:
    """Whether lines of a log that were stored as cut, from an earlier state of it, go on in its present text.

    Attributes:
        cuts: these lines.
    """

    cuts: Sequence[str]
    _found: set[str] = field(default_factory=set)

    def passed_on(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks; each is searched before it is passed on."""
        if not self.cuts:
            yield from chunks
            return
        kept = _ROOM + max(len(self._beginning(cut)) for cut in self.cuts)
        before = b"\n"
        for chunk in chunks:
            before = self._search(before + chunk)[-kept:]
            yield chunk
        self._search(before + b"\n")

    def _search(self, text: bytes) -> bytes:
        """Search for the cut lines, which have no colours and may have been written over; returns the text."""
        plain = without_escapes(text).replace(b"\r", b"\n")
        for cut in self.cuts:
            if self._beginning(cut) in plain:
                self._found.add(cut)
        return text

    @staticmethod
    def _beginning(cut: str) -> bytes:
        return b"\n" + cut.encode()

    def goes_on(self, cut: str) -> bool:
        """Whether the text has a line that begins as a cut one: if it still ends there, it is refused once more."""
        return cut in self._found


@dataclass
class CutRecords(CutLines):
    """The same of a binary log, whose cut end was stored as `bytes 17-23`: it goes on where the log has more bytes."""

    _size: int = 0

    def passed_on(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks; their bytes are counted."""
        for chunk in chunks:
            self._size += len(chunk)
            yield chunk

    def goes_on(self, cut: str) -> bool:
        """Whether the log is longer than it was when its end was stored as cut."""
        end = cut.rpartition("-")[2]
        return end.isdigit() and int(end) < self._size


def _cut_lines(writer: Writer, origin: str) -> list[str]:
    """The lines of a log that were stored as cut."""
    cut = pl.DataFrame({"source": ["runlog"], "reason": [CUT], "origin": [origin]})
    return writer.matching("rejects", cut, keys=cut.columns)["raw"].unique().sort().to_list()


def _without_finished(
    writer: Writer, rejects: pl.DataFrame, sessions: pl.DataFrame, *, origin: str, text: CutLines
) -> pl.DataFrame:
    """The refused rows to keep: a line that was read while it was being written is not cut once it is whole.

    If this log has the rest of a line that was stored as cut from an earlier state of it, that one goes. If the
    warehouse already has a later state of this log, the end of this one is not stored.
    """
    cut_ends = sessions.select("cluster", source=pl.lit("runlog"), reason=pl.lit(CUT), origin=pl.lit(origin))
    cut = writer.matching("rejects", cut_ends, keys=cut_ends.columns)
    still_cut = set(rejects.filter(pl.col("reason") == CUT)["raw"])
    whole = [raw for raw in cut["raw"] if text.goes_on(raw) and raw not in still_cut]
    writer.delete("rejects", cut.filter(pl.col("raw").is_in(whole)))
    existing = writer.matching("run_sessions", sessions, keys=_RUN)
    later = sessions.join(conform(existing, RUN_SESSIONS), on=[*SESSION_KEY, "origin"], nulls_equal=True).filter(
        pl.col("ended_at_right") > pl.col("ended_at")
    )
    return rejects if later.is_empty() else rejects.filter(pl.col("reason") != CUT)
