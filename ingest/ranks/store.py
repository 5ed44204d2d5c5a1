"""`trackside ingest ranks`: rank times into the warehouse, one transaction per file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.files.input import Input
from ingest.future import without_future
from ingest.ranks.parse import KEY, parse_rank_times
from ingest.ranks.sources import SOURCES
from ingest.store.clusters import LOCAL, cluster_of_jobs
from ingest.store.loads import Repetition, write_account
from ingest.store.report import FAULTS, Report, fault_of
from ingest.store.request import from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from queries.warehouse import Writer


def ingest_files(
    writer: Writer,
    files: Sequence[str],
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Load files of rank times, each in a transaction of its own; a file that has grown since may be loaded again.

    Args:
        writer: the warehouse.
        files: names of files; `-` is standard input.
        cluster: of lines that name none; if None, those with a job id are of the only cluster with accounting, and all
            others of `LOCAL`.
        now: stored as the time of loading; lines of later are refused.
        progress: called with which file is being read, its number, and how many there are.

    Returns:
        One report for each file. A file that cannot be used is reported and leaves nothing behind.
    """
    reports = []
    of_jobs = cluster if cluster is not None else cluster_of_jobs(writer)
    for number, name in enumerate(files):
        progress(name, number, len(files))
        try:
            reports.append(_load(writer, name, cluster or LOCAL, of_jobs, now))
        except FAULTS as error:
            reports.append(Report(name, error=fault_of(name, error)))
    return reports


def _load(writer: Writer, name: str, cluster: str, of_jobs: str, now: datetime) -> Report:
    source = Input(name)
    parsed = parse_rank_times(source.with_short_lines(), origin=source.name, cluster=cluster, cluster_of_jobs=of_jobs)
    parsed = without_future(parsed, origin=source.name, now=now)
    request, digest = from_file(source.name), source.digest()
    with writer.transaction():
        repetition = Repetition(writer, SOURCES[0], request=request, digest=digest)
        writer.replace("rank_steps", parsed.frames["rank_steps"], keys=list(KEY))
        parsed = repetition.counted(parsed)
        write_account(writer, parsed, request=request, digest=digest, now=now)
    return Report(name, parsed)
