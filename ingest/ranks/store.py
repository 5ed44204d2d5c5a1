"""`trackside ingest ranks`: rank times into the warehouse, one transaction per file."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.files.input import Input
from ingest.future import without_future
from ingest.ranks.flight_recorder import is_dump, parse_dump
from ingest.ranks.kineto import is_kineto, rank_lines
from ingest.ranks.operations import is_parquet, parse_operations
from ingest.ranks.parse import KEY, ROWS, parse_rank_times
from ingest.ranks.parse_reports import KEY as OF_REPORT
from ingest.ranks.parse_reports import parse_reports
from ingest.ranks.sources import SOURCES
from ingest.ranks.stated import Stated
from ingest.store.clusters import LOCAL, cluster_of_jobs
from ingest.store.each_file import load_each
from ingest.store.loads import Repetition, write_account
from ingest.store.request import from_file
from ingest.tables import conform, rows_absent_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingest.store.report import LoadReport
    from ingest.tables import Parsed
    from queries.warehouse import Writer


_ORDER: Final = ("run_id", "session", "node", "rank", "started_at")
"""Rows of a file: those of a node are together."""


def ingest_files(
    writer: Writer,
    files: Sequence[str],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
    stated: Stated | None = None,
) -> list[LoadReport]:
    """Load files of rank times, each in a transaction of its own; a file that has grown since may be loaded again.

    Args:
        writer: the warehouse.
        files: names of files; `-` is standard input.
        cluster: of lines that name none; if None, those with a job id are of the only cluster with accounting, and all
            others of `LOCAL`.
        now: stored as the time of loading; lines of later are refused.
        progress: called with which file is being read, its number, and how many there are.
        stated: what logs of frameworks and traces do not record.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """
    of_jobs = cluster if cluster is not None else cluster_of_jobs(writer)
    load = partial(_load, writer, of_jobs=of_jobs, stated=stated or Stated(), now=now)
    return load_each(files, load, cluster=lambda: cluster or LOCAL, progress=progress)


def _load(writer: Writer, name: str, cluster: str, *, of_jobs: str, stated: Stated, now: datetime) -> Parsed:
    with Input(name) as source:
        parsed = without_future(_parsed(source, cluster, of_jobs, stated), origin=source.name, now=now)
    request, digest = from_file(source.name), source.digest()
    with writer.transaction():
        repetition = Repetition(writer, _SOURCES[parsed.source], request=request, digest=digest)
        if "rank_steps" in parsed.frames:
            _write(writer, parsed.frames["rank_steps"])
        if "rank_reports" in parsed.frames:
            writer.append_new("rank_reports", parsed.frames["rank_reports"], keys=OF_REPORT)
        parsed = repetition.counted(parsed)
        write_account(writer, parsed, request=request, digest=digest, now=now)
    return parsed


_SOURCES: Final = {source.name: source for source in SOURCES}


def _parsed(source: Input, cluster: str, of_jobs: str, stated: Stated) -> Parsed:
    """A file of any of the formats."""
    of_log = cluster if stated.job_id is None else of_jobs
    if is_parquet(source.head):
        return parse_operations(source.whole(), origin=source.name, cluster=of_log, stated=stated)
    if is_dump(source.head):
        return parse_dump(source.whole(), origin=source.name, cluster=of_log, stated=stated)
    if _is_log(source.head):
        return parse_reports(source.with_short_lines(), origin=source.name, cluster=of_log, stated=stated)
    lines = rank_lines(source, source.name) if is_kineto(source.head) else source.with_short_lines()
    return parse_rank_times(lines, origin=source.name, cluster=cluster, cluster_of_jobs=of_jobs)


def _is_log(head: bytes) -> bool:
    r"""Whether bytes begin a log of a framework: neither JSON, nor rank times of which the beginning is damaged.

    >>> _is_log(b"iteration 3/9 |"), _is_log(b'\x00"rank_steps","v":1'), _is_log(b'{"a":'), _is_log(b"\n")
    (True, False, False, False)
    """
    begin = head.lstrip(b"\x00 \t\r\n\xef\xbb\xbf")
    return bool(begin) and not begin.startswith(b"{") and b'"rank_steps"' not in head


def _write(writer: Writer, rows: pl.DataFrame) -> None:
    """Merge rows into the days in which they begin; the files of a day that is over are merged into one."""
    days = rows.group_by("cluster", pl.col("started_at").dt.date().alias("day"), maintain_order=True)
    for (cluster, day), new in days:
        if isinstance(cluster, str) and isinstance(day, date):
            _write_day(writer, cluster, day, new)
    for cluster, last in rows.group_by("cluster").agg(pl.col("started_at").max().dt.date()).sort("cluster").iter_rows():
        writer.compact_partitions("rank_steps", cluster, before=last, order=_ORDER)


def _write_day(writer: Writer, cluster: str, day: date, new: pl.DataFrame) -> None:
    """Replace rows of a day that a file has again, and add new ones; if nothing changes, nothing is written."""
    begin = datetime.combine(day, time(), UTC)
    keys = [name for name in KEY if name != "started_at"]
    stored = writer.matching_samples(
        "rank_steps", new, keys=keys, cluster=cluster, since=begin, until=begin + timedelta(days=1)
    )
    existing = conform(stored, ROWS).join(new, on=list(KEY), how="semi")
    out, into = rows_absent_from(existing, new), rows_absent_from(new, existing)
    if out.height or into.height:
        writer.change_partition("rank_steps", cluster, day, (out, into), order=_ORDER)
