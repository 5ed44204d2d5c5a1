"""`trackside ingest runlog` and `trackside recorder`: run logs into the warehouse, one transaction per file."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ingest.files.input import Input
from ingest.future import without_future
from ingest.runlog.formats.registry import as_run_log
from ingest.runlog.parse import CUT, SESSION_KEY, merge_events, merge_sessions, merge_steps, parse_runlog
from ingest.store.loads import account_row
from ingest.store.report import FAULTS, Report, fault_of
from ingest.store.request import from_file
from ingest.tables import RUN_EVENTS, RUN_SESSIONS, STEPS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ingest.store.request import LoadRequest
    from queries.warehouse import Writer

LOCAL: Final = "local"
"""Cluster of logs of a machine that is part of none."""

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
    facts: Mapping[str, Any] | None = None,
) -> list[Report]:
    """Load run logs, each in a transaction of its own; a log that has grown since may be loaded again.

    Args:
        writer: the warehouse.
        files: names of files; `-` is standard input.
        cluster: of sessions that name none; if None, those with a job id are of the only cluster with accounting, and
            all others of `LOCAL`.
        now: stored as the time of loading; lines of later are refused.
        progress: called with which file is being read, its number, and how many there are.
        facts: of the `run` line, for logs of other frameworks that do not record them.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """
    named, of_jobs = (cluster, cluster) if cluster is not None else (LOCAL, _cluster_of_jobs(writer))
    reports = []
    for number, name in enumerate(files):
        progress(name, number, len(files))
        try:
            source = Input(name)
            data = b"".join(source.with_short_lines())
            text = as_run_log(data, source.name, facts or {})
            parsed = parse_runlog(text, origin=source.name, cluster=named, cluster_of_jobs=of_jobs, now=now)
            reports.append(Report(name, load(writer, parsed, request=from_file(source.name), data=data, now=now)))
        except FAULTS as error:  # one user's log must not keep the others' out
            reports.append(Report(name, error=fault_of(name, error)))
    return reports


def _cluster_of_jobs(writer: Writer) -> str:
    """The cluster of a job id where the log names none: the only one with accounting; empty: there are several."""
    names = writer.query("accounted_clusters")["cluster"].to_list()
    return LOCAL if not names else str(names[0]) if len(names) == 1 else ""


def load(writer: Writer, parsed: Parsed, *, request: LoadRequest, data: bytes, now: datetime) -> Parsed:
    """Merge one parsed log with the existing rows. In any order, and again, it gives the same warehouse."""
    parsed = without_future(parsed, origin=request.origin, now=now)
    sessions, steps, events = (parsed.frames[name] for name in ("run_sessions", "steps", "run_events"))
    sessions = sessions.with_columns(read_at=pl.lit(now).cast(RUN_SESSIONS["read_at"]))
    with writer.transaction():
        rejects = _without_finished(writer, parsed.rejects, sessions, origin=request.origin, data=data)
        existing = writer.matching("run_sessions", sessions, keys=_RUN)
        merged = merge_sessions(pl.concat([conform(existing, RUN_SESSIONS), sessions]))
        writer.replace("run_sessions", merged, keys=_RUN)
        existing = writer.matching("run_events", events, keys=_RUN)
        writer.replace("run_events", merge_events(pl.concat([conform(existing, RUN_EVENTS), events])), keys=_RUN)
        _write_steps(writer, steps)
        writer.append_new("rejects", rejects, keys=["cluster", "source", "reason", "raw"])
        for name in sorted(parsed.clusters):
            writer.append("loads", account_row(parsed, name, request=request, data=data, now=now))
    return parsed


def _write_steps(writer: Writer, steps: pl.DataFrame) -> None:
    """Merge steps into the days that they belong to; a day that learns nothing new is left alone."""
    days = steps.with_columns(_day=pl.col("ts").dt.date()).partition_by(
        "cluster", "_day", as_dict=True, include_key=True
    )
    for key, rows in sorted(days.items()):
        cluster, day = str(key[0]), key[1]
        if not isinstance(day, date):
            raise TypeError(day)  # ts is never null
        since = datetime.combine(day, time(), tzinfo=UTC)
        stored = writer.query("existing_steps", cluster=cluster, since=since, until=since + timedelta(days=1))
        existing = merge_steps(conform(stored, STEPS))
        merged = merge_steps(pl.concat([existing, rows.drop("_day")]))
        if not merged.equals(existing):
            writer.write_partition("steps", cluster, day, merged)


def _without_finished(
    writer: Writer, rejects: pl.DataFrame, sessions: pl.DataFrame, *, origin: str, data: bytes
) -> pl.DataFrame:
    """The refused rows to keep: a line that was read while it was being written is not cut once it is whole.

    If this log has the rest of a line that was stored as cut from an earlier state of it, that one goes. If the
    warehouse already has a later state of this log, the end of this one is not stored.
    """
    cut_ends = sessions.select("cluster", source=pl.lit("runlog"), reason=pl.lit(CUT), origin=pl.lit(origin))
    cut = writer.matching("rejects", cut_ends, keys=cut_ends.columns)
    whole = [raw for raw in cut["raw"] if _goes_on(raw, data)]
    writer.delete("rejects", cut.filter(pl.col("raw").is_in(whole)))
    existing = writer.matching("run_sessions", sessions, keys=_RUN)
    later = sessions.join(conform(existing, RUN_SESSIONS), on=[*SESSION_KEY, "origin"], nulls_equal=True).filter(
        pl.col("ended_at_right") > pl.col("ended_at")
    )
    return rejects if later.is_empty() else rejects.filter(pl.col("reason") != CUT)


def _goes_on(cut: str, data: bytes) -> bool:
    """Whether the data have a line that goes on where a cut one ends, and none that ends there too."""
    text, beginning = b"\n" + data + b"\n", b"\n" + cut.encode()
    return beginning in text and beginning + b"\n" not in text
