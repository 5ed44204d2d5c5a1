"""Run logs that were read, into the warehouse: many small ones in one transaction, which costs as much as for one."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import SourceError
from ingest.future import without_future
from ingest.runlog.cut_ends import CutLines, with_reasons
from ingest.runlog.lines import AT_END
from ingest.runlog.merge import SESSION_KEY, merge_events, merge_sessions
from ingest.runlog.sources import SOURCES
from ingest.runlog.steps import merge_steps
from ingest.store.loads import heights_fed, write_accounts
from ingest.store.report import FAULTS, LoadReport, fault_of
from ingest.tables import RUN_EVENTS, RUN_SESSIONS, STEPS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.runlog.parse import RunLog
    from ingest.store.request import LoadRequest
    from queries.warehouse import Writer

MOST_LOGS: Final = 256
MOST_ROWS: Final = 1_000_000
"""Limits of one transaction, by logs and by rows of all its logs: these wait in memory."""

_RUN = ["cluster", "run_id"]


@dataclass(frozen=True)
class ReadLog:
    """A log that was read.

    Attributes:
        log: its rows.
        cuts: whether lines that were cut in an earlier state of it go on.
        request: what was requested.
        digest: SHA-256 of its bytes.
    """

    log: RunLog
    cuts: CutLines
    request: LoadRequest
    digest: str


class _GrownError(RuntimeError):
    """One of several logs that were loaded before has new rows; storing each alone shows which."""


def load_in_batches(
    writer: Writer,
    names: Sequence[str],
    read: Callable[[str], ReadLog],
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Read each log, and store some at a time: the rows are those of one transaction for each.

    A log that cannot be read is reported and leaves nothing behind. Where logs cannot be stored together each is stored
    alone, so that one does not keep the others out. If the process is killed, only later batches are read again.

    Args:
        writer: the warehouse.
        names: of the logs.
        read: reads one of them.
        now: stored as the time of loading.
        progress: called with which log is being read, its number, and how many there are.

    Returns:
        One report for each log, in the order of the names.
    """
    reports: dict[str, LoadReport] = {}
    waiting: dict[str, ReadLog] = {}
    for number, name in enumerate(names):
        progress(name, number, len(names))
        try:
            waiting[name] = read(name)
        except (*FAULTS, SourceError) as error:  # one log must not keep the others out
            reports[name] = LoadReport(name, error=fault_of(name, error))
        if len(waiting) >= MOST_LOGS or sum(one.log.height for one in waiting.values()) >= MOST_ROWS:
            reports |= _stored(writer, waiting, now)
            waiting = {}
    reports |= _stored(writer, waiting, now)
    return [reports[name] for name in names]


def _stored(writer: Writer, logs: dict[str, ReadLog], now: datetime) -> dict[str, LoadReport]:
    """Store logs: those whose bytes are new together, and then the others; a copy of one that failed is new."""
    reports: dict[str, LoadReport] = {}
    while logs:
        again = _loaded_before(writer, logs)
        fresh = {name: log for name, log in logs.items() if name not in again}
        if not fresh:
            return reports | _together(writer, again, now, again=True)
        reports |= _together(writer, fresh, now, again=False)
        logs = again
    return reports


def _together(writer: Writer, logs: dict[str, ReadLog], now: datetime, *, again: bool) -> dict[str, LoadReport]:
    """Store logs in one transaction, or where that fails in one for each."""
    try:
        parsed = store_logs(writer, list(logs.values()), now=now, again=again)
        return {name: LoadReport(name, one) for name, one in zip(logs, parsed, strict=True)}
    except (*FAULTS, SourceError, _GrownError) as error:
        if len(logs) == 1:
            ((name, _),) = logs.items()
            return {name: LoadReport(name, error=fault_of(name, error))}
    alone: dict[str, LoadReport] = {}
    for name, log in logs.items():
        alone |= _together(writer, {name: log}, now, again=again)
    return alone


def _loaded_before(writer: Writer, logs: dict[str, ReadLog]) -> dict[str, ReadLog]:
    """The logs of which the same bytes were loaded before, or are those of a log before it."""
    digests = pl.DataFrame({"digest": [log.digest for log in logs.values()]}, schema={"digest": pl.String})
    digests = digests.with_columns(source=pl.lit(SOURCES[0].name))
    known = set(writer.matching("loads", digests, keys=digests.columns)["digest"])
    again = {}
    for name, log in logs.items():
        if log.digest in known:
            again[name] = log
        known.add(log.digest)
    return again


def store_logs(writer: Writer, logs: Sequence[ReadLog], *, now: datetime, again: bool) -> list[Parsed]:
    """Merge logs with the existing rows, in one transaction. In any order, and again, they give the same warehouse.

    Args:
        writer: the warehouse.
        logs: one or more.
        now: stored as the time of loading.
        again: whether the same bytes as those of each were loaded before; else of none.

    Raises:
        _GrownError: several were loaded before, and rows are new.
    """
    with writer.transaction():
        before = heights_fed(writer, SOURCES[0]) if again else None
        steps = _write_days(writer, logs)
        parsed = [
            without_future(one.log.parsed(n_steps), origin=one.request.origin, now=now)
            for one, n_steps in zip(logs, steps, strict=True)
        ]
        sessions = pl.concat([one.frames["run_sessions"] for one in parsed])
        sessions = sessions.with_columns(read_at=pl.lit(now).cast(RUN_SESSIONS["read_at"]))
        events = pl.concat([one.frames["run_events"] for one in parsed])
        existing = conform(writer.matching("run_sessions", sessions, keys=_RUN), RUN_SESSIONS)
        rejects = _without_finished(writer, logs, parsed, sessions, existing)
        writer.replace("run_sessions", merge_sessions(pl.concat([existing, sessions])), keys=_RUN)
        existing = conform(writer.matching("run_events", events, keys=_RUN), RUN_EVENTS)
        writer.replace("run_events", merge_events(pl.concat([existing, events])), keys=_RUN)
        if before is not None and before == heights_fed(writer, SOURCES[0]):
            parsed = [replace(one, rows_new=0) for one in parsed]
        elif before is not None and len(logs) > 1:
            raise _GrownError
        accounts = [(one, log.request, log.digest) for one, log in zip(parsed, logs, strict=True)]
        write_accounts(writer, accounts, rejects=rejects, now=now)
    return parsed


def _write_days(writer: Writer, logs: Sequence[ReadLog]) -> list[int]:
    """Merge the steps of logs with the stored ones, a day at a time. Returns how many each log has."""
    counts = [0] * len(logs)
    days = heapq.merge(*(_days(number, one.log) for number, one in enumerate(logs)), key=itemgetter(0, 1, 2))
    for (cluster, day), parts in groupby(days, key=itemgetter(0, 1)):
        rows = []
        for _, _, number, some in parts:
            counts[number] += some.height
            rows.append(some)
        _write_day(writer, cluster, day, rows[0] if len(rows) == 1 else merge_steps(pl.concat(rows)))
    return counts


def _days(number: int, log: RunLog) -> Iterator[tuple[str, date, int, pl.DataFrame]]:
    for cluster, day, rows in log.days():
        yield cluster, day, number, rows


def _write_day(writer: Writer, cluster: str, day: date, rows: pl.DataFrame) -> None:
    """Merge the steps of a day with the stored ones; a day without news is left alone."""
    since = datetime.combine(day, time(), tzinfo=UTC)
    stored = writer.query("existing_steps", cluster=cluster, since=since, until=since + timedelta(days=1))
    existing = conform(stored, STEPS)
    if existing.is_empty():
        writer.write_partition("steps", cluster, day, rows)
        return
    existing = merge_steps(existing)
    merged = merge_steps(pl.concat([existing, rows]))
    if not merged.equals(existing):
        writer.write_partition("steps", cluster, day, merged)


def _without_finished(
    writer: Writer, logs: Sequence[ReadLog], parsed: Sequence[Parsed], sessions: pl.DataFrame, existing: pl.DataFrame
) -> pl.DataFrame:
    """The refused rows to keep: a line that was read while it was being written is not cut once it is whole.

    If a log has the rest of a line that was stored as cut from an earlier state of it, that one goes. If the
    warehouse already has a later state of a log, the end of this one is not stored.
    """
    rejects = pl.concat([one.rejects for one in parsed])
    cut_ends = with_reasons(sessions.select("cluster", "origin").unique())
    cut = writer.matching("rejects", cut_ends, keys=cut_ends.columns)
    still_cut = set(rejects.filter(pl.col("reason").is_in(AT_END)).select("origin", "raw").iter_rows())
    cuts = {one.request.origin: one.cuts for one in logs}
    is_whole = [
        cuts[origin].is_continued(raw) and (origin, raw) not in still_cut
        for origin, raw in cut.select("origin", "raw").iter_rows()
    ]
    writer.delete("rejects", cut.filter(pl.Series(is_whole, dtype=pl.Boolean)))
    later = sessions.join(existing, on=[*SESSION_KEY, "origin"], nulls_equal=True).filter(
        pl.col("ended_at_right") > pl.col("ended_at")
    )
    is_earlier = pl.col("origin").is_in(later["origin"].unique().implode())
    return rejects.filter(~(is_earlier & pl.col("reason").is_in(AT_END)))
