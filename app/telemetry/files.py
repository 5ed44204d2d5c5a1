"""`trackside ingest prometheus FILE...`: telemetry from files. One transaction per file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.errors import UsageError
from app.ingesting import standard_input
from app.loading import Report
from app.telemetry.asked import Asked, cluster_of
from app.telemetry.writing import load
from ingest.errors import InputError
from ingest.gpu_hours import MAGIC, names_cluster, parse_gpu_hours
from ingest.openmetrics import parse_openmetrics
from ingest.sniff import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from app.config import Config
    from ingest.frames import Parsed
    from queries.warehouse import Writer

ALIASES: Final = "prometheus"
"""Source in `node_aliases` of names that telemetry has for nodes."""


def ingest_files(
    writer: Writer,
    settings: Config,
    files: Sequence[str],
    asked: Asked,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Load OpenMetrics text or Parquet roll-ups, told apart by how they begin, each in a transaction of its own.

    A file that cannot be used is reported and leaves nothing behind; the others are loaded.
    """
    reports = []
    for number, name in enumerate(files):
        progress(name, number, len(files))
        try:
            data = standard_input() if name == "-" else read_bytes(Path(name))
            parsed = _parse(writer, settings, asked, data, name, now)
            fallback = next(iter(parsed.clusters), None) or cluster_of(writer, settings, asked)
            load(writer, settings, parsed, fallback, origin=name, data=data, now=now)
        except (InputError, UsageError) as error:
            reports.append(Report(name, error=error))
        else:
            reports.append(Report(name, parsed))
    return reports


def _parse(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: Config, asked: Asked, data: bytes, name: str, now: datetime
) -> Parsed:
    if data.startswith(MAGIC):
        named = asked.cluster is None and names_cluster(data)
        cluster = None if named else cluster_of(writer, settings, asked)
        return parse_gpu_hours(data, origin=name, cluster=cluster, since=asked.since, until=asked.until)
    return parse_openmetrics(
        data,
        origin=name,
        cluster=cluster_of(writer, settings, asked),
        interval_s=settings.prometheus.interval_s,
        now=now,
        since=asked.since,
        until=asked.until,
    )
