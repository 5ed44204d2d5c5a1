"""`trackside ingest prometheus` from a server. One transaction per source and piece of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from app.errors import UsageError
from app.loading import Report
from app.telemetry.asked import Asked, cluster_of
from app.telemetry.server import connect
from app.telemetry.writing import load, tells_news
from ingest import prometheus
from ingest.errors import SourceError
from ingest.frames import REJECTS, Parsed, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.config import Config
    from ingest.frames import SourceName
    from ingest.prometheus_server import Server
    from queries.warehouse import Writer

READERS: Final = (prometheus.READER,)
"""What is read from a server, one source after the other; each has a mark of its own of how far it is."""


def ingest_live(
    writer: Writer,
    settings: Config,
    asked: Asked,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Read a server piece by piece, oldest first, each source's piece in a transaction of its own.

    It goes on where the samples of the last load of the source from the same server with the same selector ended (an
    interval earlier: what was the newest then may not have been whole); what was loaded from files or elsewhere says
    nothing of it. Time with events and no samples is not covered, and asked for again: an event is kept once, however
    often it is told, and where nothing but known events is told there is no load. When a piece fails, those before it
    stay and those behind it are left, so that the next ingest resumes there; other sources are read all the same.

    Raises:
        UsageError: no address or cluster is known, or the time makes no sense.
    """
    wanted = prometheus.Wanted(
        cluster_of(writer, settings, asked), settings.prometheus.selector, settings.prometheus.interval_s
    )
    server = connect(settings, asked.url)
    try:
        reports: list[Report] = []
        for reader in READERS:
            reports += _read(writer, settings, asked, server, wanted, reader=reader, now=now, progress=progress)
        return reports
    finally:
        server.close()


def _read(
    writer: Writer,
    settings: Config,
    asked: Asked,
    server: Server,
    wanted: prometheus.Wanted,
    *,
    reader: prometheus.Reader,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """One source, as far as it goes."""
    since, until = _window(writer, settings, asked, wanted, reader.source, server.url, now)
    pieces = list(_pieces(since, until, settings))
    reports: list[Report] = []
    try:
        progress(f"asking {server.url}", 0, max(len(pieces), 1))
        names = server.names(wanted.matcher(reader.names(wanted)), since=since, until=until)
        if not names:
            return [_nothing(server, wanted, reader.source, since, until)]
        for number, (low, high) in enumerate(pieces):
            progress(f"{low:%Y-%m-%d %H:%M} to {high:%Y-%m-%d %H:%M}", number, len(pieces))
            server.digest()
            parsed = reader.read(server, wanted, names, since=low, until=high)
            if parsed.rejects.is_empty() and all(frame.is_empty() for frame in parsed.frames.values()):
                continue  # nothing was recorded then: no coverage, no load
            data = server.digest().encode()
            origin = wanted.origin(server.url)
            if parsed.covers_until is not None or parsed.rejects.height or tells_news(writer, parsed):
                load(writer, settings, parsed, wanted.cluster, origin=origin, data=data, now=now)
            reports.append(Report(f"{server.url} {low:%Y-%m-%dT%H:%M} to {high:%Y-%m-%dT%H:%M}", parsed))
        if not reports and pieces:
            reports.append(_nothing(server, wanted, reader.source, since, until))
    except SourceError as error:
        reports.append(Report(server.url, error=error))
    return reports


def _window(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    settings: Config,
    asked: Asked,
    wanted: prometheus.Wanted,
    source: SourceName,
    url: str,
    now: datetime,
) -> tuple[datetime, datetime]:
    """From when to when to ask, on the grid: an interval that is not over yet is left for the next time."""
    until = _on_grid(asked.until or now, wanted.interval_s)
    since = asked.since or _resume_at(writer, settings, wanted, source, url, until, now)
    if asked.since is not None and asked.since >= (asked.until or now):
        raise UsageError(f"--since {since.isoformat()} is not before --until {(asked.until or now).isoformat()}")
    return min(_on_grid(since, wanted.interval_s), until), until


def _on_grid(moment: datetime, interval_s: int) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() // interval_s * interval_s, UTC)


def _resume_at(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer,
    settings: Config,
    wanted: prometheus.Wanted,
    source: SourceName,
    url: str,
    until: datetime,
    now: datetime,
) -> datetime:
    """An interval before the end of the last load from there; the first time, as far back as configured.

    A load that reaches into the future is a clock that was wrong, and would hide everything before it.
    """
    interval = timedelta(seconds=wanted.interval_s)
    reached = writer.query(
        "watermark_of_origin",
        cluster=wanted.cluster,
        source=source,
        origin=wanted.origin(url),
        latest=now + interval,
    )["covers_until"].item()
    if isinstance(reached, datetime):
        return min(reached, until) - interval
    return until - timedelta(hours=settings.prometheus.lookback_hours)


def _pieces(since: datetime, until: datetime, settings: Config) -> Iterator[tuple[datetime, datetime]]:
    """The time in pieces that begin and end on the grid."""
    interval_s = settings.prometheus.interval_s
    intervals = max(1, round(settings.prometheus.chunk_hours * 3600 / interval_s))
    length = timedelta(seconds=intervals * interval_s)
    while since < until:
        yield since, min(since + length, until)
        since += length


def _nothing(server: Server, wanted: prometheus.Wanted, source: SourceName, since: datetime, until: datetime) -> Report:
    """A server that answers and has nothing for us: loaded as nothing, with a warning."""
    others = server.names(since=since, until=until)
    parsed = Parsed(
        source,
        frozenset({wanted.cluster}),
        {},
        empty(REJECTS),
        rows_read=0,
        rows_loaded=0,
        warnings=[prometheus.nothing_there(server.url, wanted, others)],
    )
    return Report(server.url, parsed)
