"""`trackside ingest prometheus`: GPU telemetry from a server or files. One transaction per file or piece of time."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from app.errors import UsageError
from app.ingesting import standard_input
from app.loading import Report, account_row
from ingest import gpu_samples, prometheus, xid
from ingest.clusters import TOO_LONG, fits_a_folder
from ingest.dcgm import SOURCE
from ingest.errors import InputError, SourceError, shorten
from ingest.frames import GPU_SAMPLES, HEALTH_EVENTS, REJECTS, Parsed, conform, empty
from ingest.gpu_hours import MAGIC, names_cluster, once_each, parse_gpu_hours
from ingest.openmetrics import parse_openmetrics
from ingest.prometheus_server import NO_ADDRESS, Server, is_address
from ingest.sniff import read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.config import Config
    from queries.warehouse import Writer

ALIASES: Final = "prometheus"
"""Source in `node_aliases` of names that telemetry has for nodes."""


@dataclass(frozen=True)
class Asked:
    """What the command line asked for, beyond the configuration; None leaves it to that."""

    url: str | None = None
    cluster: str | None = None
    since: datetime | None = None
    until: datetime | None = None


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
            fallback = next(iter(parsed.clusters), None) or _cluster(writer, settings, asked)
            _load(writer, settings, parsed, fallback, origin=name, data=data, now=now)
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
        cluster = None if named else _cluster(writer, settings, asked)
        return parse_gpu_hours(data, origin=name, cluster=cluster, since=asked.since, until=asked.until)
    return parse_openmetrics(
        data,
        origin=name,
        cluster=_cluster(writer, settings, asked),
        interval_s=settings.prometheus.interval_s,
        now=now,
        since=asked.since,
        until=asked.until,
    )


def _cluster(writer: Writer, settings: Config, asked: Asked) -> str:
    """The cluster that telemetry belongs to: as told, as configured, or the only one there is."""
    told = asked.cluster or settings.prometheus.cluster or settings.cluster
    if told is not None:
        if not fits_a_folder(told):
            raise UsageError(f"cluster {shorten(told, 40)}: {TOO_LONG}")
        return told
    known = [str(name) for name in writer.query("clusters")["cluster"]]
    if len(known) == 1:
        return known[0]
    found = f"there are several here ({', '.join(known)})" if known else "nothing has been loaded here that names one"
    raise UsageError(
        f"telemetry does not say which cluster it is of, and {found}.\n"
        "Say it: --cluster NAME (as in accounting), or prometheus.cluster in the configuration"
    )


def ingest_live(
    writer: Writer,
    settings: Config,
    asked: Asked,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Read a server piece by piece, oldest first, each piece in a transaction of its own.

    It goes on where the samples of the last load from the same server with the same selector ended (an interval
    earlier: what was the newest then may not have been whole); what was loaded from files or elsewhere says nothing of
    it. Time with XIDs and no samples is not covered, and asked for again: an event is kept once, however often it is
    told, and where nothing but known events is told there is no load. When a piece fails, those before it stay and
    those behind it are left, so that the next ingest resumes there.

    Raises:
        UsageError: no address or cluster is known, or the time makes no sense.
    """
    wanted = prometheus.Wanted(
        _cluster(writer, settings, asked), settings.prometheus.selector, settings.prometheus.interval_s
    )
    server = connect(settings, asked.url)
    try:
        return _live(writer, settings, asked, server, wanted, now=now, progress=progress)
    finally:
        server.close()


def connect(settings: Config, url: str | None = None) -> Server:
    """The server that is configured, or that of an address.

    Raises:
        UsageError: there is no address, it is none, or the token's variable is not set.
    """
    section = settings.prometheus
    address = url or section.url
    if address is None:
        raise UsageError(
            "no Prometheus server is configured.\nSay where it is: --url http://prometheus:9090, or url in the section "
            "[prometheus] of trackside.toml; or load files: trackside ingest prometheus FILE"
        )
    if not is_address(address):
        raise UsageError(NO_ADDRESS)
    token = None
    if section.token_env is not None:
        token = os.environ.get(section.token_env)
        if not token:
            raise UsageError(f"prometheus.token_env names ${section.token_env}, which is not set or empty here")
    return Server(
        address,
        token=token,
        verify_tls=section.verify_tls,
        timeout_s=section.timeout_s,
        retries=section.retries,
        remote_read=section.remote_read,
    )


def _live(
    writer: Writer,
    settings: Config,
    asked: Asked,
    server: Server,
    wanted: prometheus.Wanted,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    since, until = _window(writer, settings, asked, wanted, server.url, now)
    pieces = list(_pieces(since, until, settings))
    reports: list[Report] = []
    try:
        progress(f"asking {server.url}", 0, max(len(pieces), 1))
        names = server.names(wanted.matcher(), since=since, until=until)
        if not names:
            return [_nothing(server, wanted, since, until)]
        for number, (low, high) in enumerate(pieces):
            progress(f"{low:%Y-%m-%d %H:%M} to {high:%Y-%m-%d %H:%M}", number, len(pieces))
            server.digest()
            parsed = prometheus.read(server, wanted, names, since=low, until=high)
            if parsed.rejects.is_empty() and all(frame.is_empty() for frame in parsed.frames.values()):
                continue  # nothing was recorded then: no coverage, no load
            data = server.digest().encode()
            origin = wanted.origin(server.url)
            if parsed.covers_until is not None or parsed.rejects.height or _tells_news(writer, parsed):
                _load(writer, settings, parsed, wanted.cluster, origin=origin, data=data, now=now)
            reports.append(Report(f"{server.url} {low:%Y-%m-%dT%H:%M} to {high:%Y-%m-%dT%H:%M}", parsed))
        if not reports and pieces:
            reports.append(_nothing(server, wanted, since, until))
    except SourceError as error:
        reports.append(Report(server.url, error=error))
    return reports


def _window(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: Config, asked: Asked, wanted: prometheus.Wanted, url: str, now: datetime
) -> tuple[datetime, datetime]:
    """From when to when to ask, on the grid: an interval that is not over yet is left for the next time."""
    until = _on_grid(asked.until or now, wanted.interval_s)
    since = asked.since or _resume_at(writer, settings, wanted, url, until, now)
    if asked.since is not None and asked.since >= (asked.until or now):
        raise UsageError(f"--since {since.isoformat()} is not before --until {(asked.until or now).isoformat()}")
    return min(_on_grid(since, wanted.interval_s), until), until


def _on_grid(moment: datetime, interval_s: int) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() // interval_s * interval_s, UTC)


def _resume_at(  # noqa: PLR0917 - private, and every one of them is needed
    writer: Writer, settings: Config, wanted: prometheus.Wanted, url: str, until: datetime, now: datetime
) -> datetime:
    """An interval before the end of the last load from there; the first time, as far back as configured.

    A load that reaches into the future is a clock that was wrong, and would hide everything before it.
    """
    interval = timedelta(seconds=wanted.interval_s)
    reached = writer.query(
        "watermark_of_origin",
        cluster=wanted.cluster,
        source=SOURCE,
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


def _nothing(server: Server, wanted: prometheus.Wanted, since: datetime, until: datetime) -> Report:
    """A server that answers and has nothing for us: loaded as nothing, with a warning."""
    others = server.names(since=since, until=until)
    parsed = Parsed(
        SOURCE,
        frozenset({wanted.cluster}),
        {},
        empty(REJECTS),
        rows_read=0,
        rows_loaded=0,
        warnings=[prometheus.nothing_there(server.url, wanted, others)],
    )
    return Report(server.url, parsed)


# --- writing


def _load(
    writer: Writer, settings: Config, parsed: Parsed, cluster: str, *, origin: str, data: bytes, now: datetime
) -> None:
    """Write one input: samples merged with those that are there, their hours rolled up, events, rejects, an account."""
    clusters = parsed.clusters or frozenset({cluster})
    frames = {name: _renamed(writer, frame, clusters) for name, frame in parsed.frames.items()}
    told = replace(parsed, clusters=clusters)
    with writer.transaction():
        if "gpu_samples" in frames:
            _write_samples(writer, settings, frames["gpu_samples"], cluster)
        if "gpu_hours" in frames:
            _write_hours(writer, once_each(frames["gpu_hours"]))  # two names may have been one node
        if "health_events" in frames:
            _write_events(writer, frames["health_events"])
        writer.append_new("rejects", parsed.rejects, keys=["cluster", "source", "reason", "raw"])
        for name in sorted(clusters):
            writer.append("loads", account_row(told, name, origin=origin, data=data, now=now))


def _renamed(writer: Writer, frame: pl.DataFrame, clusters: frozenset[str]) -> pl.DataFrame:
    """The frame with the scheduler's names of nodes, where `node_aliases` has other names for them."""
    for cluster in sorted(clusters):
        aliases = writer.query("node_aliases", cluster=cluster, source=ALIASES)
        if aliases.is_empty():
            continue
        numbered = frame.with_row_index("row")
        known = aliases.select(
            "name", "alias", pl.col("valid_from").cast(GPU_SAMPLES["ts"]), pl.lit(cluster).alias("cluster")
        )
        found = numbered.sort("ts").join_asof(
            known.sort("valid_from"),
            left_on="ts",
            right_on="valid_from",
            by_left=["cluster", "node"],
            by_right=["cluster", "name"],
            check_sortedness=False,
        )
        renamed = found.with_columns(node=pl.coalesce("alias", "node")).sort("row")
        frame = renamed.select(frame.columns)
    return frame


def _write_samples(writer: Writer, settings: Config, samples: pl.DataFrame, cluster: str) -> None:
    """Merge samples into the days that they fall in, and roll up the hours that they touch."""
    rules = settings.rules
    activity = gpu_samples.Activity(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)
    for (day,), new in samples.group_by(pl.col("ts").dt.date(), maintain_order=True):
        if not isinstance(day, date):
            continue
        begin = datetime.combine(day, time(), UTC)
        there = conform(
            writer.query("gpu_samples_between", cluster=cluster, since=begin, until=begin + timedelta(days=1)),
            GPU_SAMPLES,
        )
        merged = gpu_samples.merge(there, new, interval_s=settings.prometheus.interval_s)
        if not merged.equals(there):
            writer.write_partition("gpu_samples", cluster, day, merged)
        hours = new.select(pl.col("ts").dt.truncate("1h")).unique()["ts"]
        touched = merged.filter(pl.col("ts").dt.truncate("1h").is_in(hours.implode()))
        _write_hours(writer, gpu_samples.rolled_up(touched, activity))


def _write_hours(writer: Writer, hours: pl.DataFrame) -> None:
    """Write roll-ups; where one is there that knows more of the hour, that stays."""
    writer.run("delete_gpu_hours", {"incoming": hours})
    writer.run("insert_gpu_hours", {"incoming": hours})


def _write_events(writer: Writer, events: pl.DataFrame) -> None:
    merged = _merged_events(writer, events)
    if merged is not None:
        writer.replace("health_events", merged, keys=["cluster", "node", "gpu", "kind", "source"])


def _merged_events(writer: Writer, events: pl.DataFrame) -> pl.DataFrame | None:
    """All events of the GPUs that these are of; None if that is what is there already."""
    found = writer.query_with(
        "existing_health_events",
        {"incoming": events.select("cluster", "node", "gpu").unique()},
        source=SOURCE,
        kind="xid",
    )
    there = conform(found, HEALTH_EVENTS)
    merged = xid.merge(there, events)
    return None if merged.equals(there) else merged


def _tells_news(writer: Writer, parsed: Parsed) -> bool:
    """Whether there are events that the warehouse does not have."""
    events = _renamed(writer, parsed.frames["health_events"], parsed.clusters)
    return _merged_events(writer, events) is not None
