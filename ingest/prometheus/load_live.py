"""`trackside ingest prometheus` from a server. One transaction per source and chunk of time."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import OptionError, ServerDownError, SourceError
from ingest.files.prefetch import prefetch_one
from ingest.iso_time import iso
from ingest.load_warnings import from_records
from ingest.prometheus.connect import connect
from ingest.prometheus.demand import count_series
from ingest.prometheus.gpu import server as prometheus
from ingest.prometheus.health import server as prometheus_health
from ingest.prometheus.node import kubernetes_names, kubernetes_pods, slurm_exporters
from ingest.prometheus.node import server as prometheus_nodes
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.prometheus.sources import TITLES
from ingest.prometheus.store.samples import has_new_events, load
from ingest.prometheus.target import TelemetryRequest, cluster_of, mapping_of
from ingest.store import summary as live_summary
from ingest.store.report import LoadSummary
from ingest.store.request import LoadRequest
from ingest.store.summary import FailedQuestion, Loaded, without_rows
from ingest.store.windows import LoadWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ingest.load_warnings import LoadWarning
    from ingest.prometheus.client.server import PrometheusServer
    from ingest.prometheus.settings import TelemetrySettings
    from ingest.store.report import LoadReport
    from ingest.store.request import Transport
    from ingest.tables import Parsed, SourceName
    from queries.warehouse import Writer

READERS: Final = (
    kubernetes_names.READER,
    prometheus.READER,
    prometheus_nodes.READER,
    prometheus_health.READER,
    slurm_exporters.READER,
    kubernetes_pods.READER,
)
"""Sources read from a server, one after the other; each resumes at its own time. Names of nodes come first: the others
are written with them."""

ADDRESS_LENGTH: Final = 4000
"""Characters of metrics' names in one query: it is part of an address, and proxies limit those to 8 KiB."""

LATE: Final = timedelta(minutes=1)
"""Delay until a server shows a reading: remote write lags by some seconds, and computed queries of VictoriaMetrics
return older values for the last half minute (-search.latencyOffset)."""

LARGE: Final = (prometheus.READER.source, prometheus_nodes.READER.source)
"""Sources with series of each GPU or device."""

LEAST_CHUNK_S: Final = 900.0
"""Shortest chunk, unless an interval is longer, for any number of series: counters are read from five minutes before it
to five after."""

SELECTOR: Final = 'Check prometheus.selector, which is like cluster="a",env="prod"'
"""The hint where the server cannot parse the query."""


def ingest_live(
    writer: Writer,
    settings: TelemetrySettings,
    target: TelemetryRequest,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[LoadReport]:
    """Read a server chunk by chunk, oldest first, each source's chunk in a transaction of its own.

    A source resumes at the end of its samples in the last load from the same server with the same selector (an interval
    earlier, and at least `LATE`: the newest samples may have been incomplete); loads from files or elsewhere do not
    count. Time with events and no samples is not covered, and requested again: an event is stored once, however often
    it is reported, and a chunk with stored events only is no load. When a chunk fails, those before it stay and later
    ones of its source are left, so that the next ingest resumes there; other sources are still read, unless the server
    does not respond at all. While one chunk is written the next one is fetched.

    Args:
        writer: The warehouse.
        settings: All settings.
        target: Server, cluster and requested time.
        now: The time.
        progress: Receives the current source, the number of finished chunks, and their total. It may raise to stop.

    Returns:
        A line for each source, then a report for each cause of failure with the missing time. A source without metrics
        on the server is no error; a server without metrics of GPUs is a warning.

    Raises:
        OptionError: the address or the cluster is missing, or the requested time is empty.
    """
    spec = scrape_spec(settings, cluster_of(writer, settings, target))
    server = connect(settings, target.url)
    try:
        return _TelemetryIngest(writer, settings, target, server, spec, now, progress).ingest()
    finally:
        server.close()


def scrape_spec(settings: TelemetrySettings, cluster: str) -> ScrapeSpec:
    """The configured request to the server."""
    section = settings.prometheus
    return ScrapeSpec(cluster, section.selector, section.interval_s, mapping_of(settings))


def names_of(
    server: PrometheusServer, spec: ScrapeSpec, *, since: datetime, until: datetime
) -> dict[SourceName, list[str]]:
    """By source, the metrics that the server has in that time (roughly); sources without any are left out.

    Raises:
        ServerDownError: The server gives no response.
    """
    names_by_source = {reader.source: reader.names(spec) for reader in READERS}
    existing: set[str] = set()
    for some in _in_addresses(sorted({name for names in names_by_source.values() for name in names})):
        existing.update(server.names(spec.matcher(some), since=since, until=until))
    present = {source: [name for name in names if name in existing] for source, names in names_by_source.items()}
    return {source: names for source, names in present.items() if names}


def _in_addresses(names: Sequence[str]) -> Iterator[list[str]]:
    """The names in groups, as few as fit into addresses."""
    some: list[str] = []
    for name in names:
        if some and sum(map(len, some)) + len(some) + len(name) > ADDRESS_LENGTH:
            yield some
            some = []
        some.append(name)
    if some:
        yield some


@dataclass(frozen=True)
class _Chunk:
    """One request for a source: `names` are those of its metrics that the server has."""

    reader: SourceReader
    names: Sequence[str]
    window: LoadWindow


@dataclass(frozen=True)
class _FetchedChunk:
    """The rows of a chunk, with the digest of the server's answers and their transport, or the reason for none."""

    parsed: Parsed | None = None
    digest: str = ""
    transport: Transport = "json"
    error: SourceError | None = None


@dataclass
class _TelemetryIngest:
    """One ingest: its settings and state."""

    writer: Writer
    settings: TelemetrySettings
    target: TelemetryRequest
    server: PrometheusServer
    spec: ScrapeSpec
    now: datetime
    progress: Callable[[str, int, int], None]
    warned: dict[str, Collection[LoadWarning]] = field(default_factory=dict)
    counts: bool = True
    """Whether the server has counted its series in every request so far."""

    def ingest(self) -> list[LoadReport]:
        """Read every source as far as possible, and report it."""
        last = self.writer.query("last_loads").filter(pl.col("cluster") == self.spec.cluster)
        self.warned = {
            source: from_records(records) for source, records in last.select("source", "warnings").iter_rows()
        }
        windows = {reader.source: self._window(reader.source) for reader in READERS}
        span = LoadWindow(min(each.since for each in windows.values()), max(each.until for each in windows.values()))
        self.progress(f"querying {self.server.url}", 0, 1)
        gpus = prometheus.READER.source
        try:
            names = names_of(self.server, self.spec, since=span.since, until=span.until)
            others = names.get(gpus) or self.server.names(since=span.since, until=span.until)
        except SourceError as error:
            if self.spec.selector and "pars" in str(error):  # parse error; cannot parse; error when parsing
                error.args = (f"{error}\n{SELECTOR}: it is {self.spec.selector}",)
            existing = windows.keys() & set(last["source"]) or windows.keys()  # others were never there, most likely
            unread = [(source, window) for source, window in windows.items() if source in existing]
            return list(
                self._failures([FailedQuestion("telemetry", error, window=each, source=name) for name, each in unread])
            )
        chunks = [
            _Chunk(reader, names[reader.source], window)
            for reader in READERS
            if reader.source in names
            for window in self._chunks(reader, names[reader.source], windows[reader.source])
        ]
        loaded, failed = self._read(chunks)
        reports = [*self._summaries(loaded), *self._failures(failed)]
        with_outcome = {each.parsed.source for each in loaded} | {each.source for each in failed}
        if gpus not in with_outcome:
            warning = prometheus.no_metrics(self.server.url, self.spec, others)
            reports.insert(0, LoadSummary(self.server.url, live_summary.nothing(gpus, warning)))
        return reports

    def _read(self, chunks: Sequence[_Chunk]) -> tuple[list[Loaded], list[FailedQuestion]]:
        """Fetch the chunks and write them, one after the other."""
        loaded: list[Loaded] = []
        failed: list[FailedQuestion] = []
        answers = prefetch_one(_answers(self.server, self.spec, chunks))
        for number, chunk in enumerate(chunks):
            source, window = chunk.reader.source, chunk.window
            title = TITLES[source]
            self.progress(f"{title} {live_summary.shown(window)}", number, len(chunks))
            answer = next(answers)
            if answer.error is not None:
                failed.append(FailedQuestion(title, answer.error, window=window, source=source))
            elif answer.parsed is not None:
                self._write(answer, answer.parsed, window)
                loaded.append(Loaded(self.server.url, without_rows(answer.parsed), window))
        return loaded, failed

    def _write(self, answer: _FetchedChunk, parsed: Parsed, window: LoadWindow) -> None:
        """Load a chunk, unless it has neither samples nor new rows."""
        if parsed.covers_until is None and parsed.rejects.is_empty() and not _is_news(self.writer, parsed):
            return
        origin = self.spec.origin(self.server.url)
        request = LoadRequest(origin, answer.transport, since=window.since, until=window.until)
        load(
            self.writer,
            self.settings,
            [parsed],
            self.spec.cluster,
            request=request,
            digest=answer.digest,
            now=self.now,
        )

    # --- when

    def _window(self, source: SourceName) -> LoadWindow:
        """The time to request, on the grid: an interval that is not over yet is left for the next ingest."""
        target, width_s = self.target, self.spec.interval_s
        if target.since is not None and target.until is not None and target.since >= target.until:
            raise OptionError(f"--since {iso(target.since)} is not before --until {iso(target.until)}")
        if target.since is not None and target.since >= self.now:
            raise OptionError(
                f"--since {iso(target.since)} is not in the past (it is {iso(self.now)} here): nothing can have been "
                "measured yet"
            )
        until = _on_grid(min(target.until or self.now, self.now), width_s)
        since = target.since or self._resume_at(source, until)
        window = LoadWindow(min(_on_grid(since, width_s), until), until)
        if window.since == window.until:
            raise OptionError(
                f"no interval of {width_s} s (prometheus.interval_s) that is over lies between {iso(since)} and "
                f"{iso(target.until or self.now)}: choose an earlier --since or a later --until"
            )
        return window

    def _resume_at(self, source: SourceName, until: datetime) -> datetime:
        """Start of the request: somewhat before the end of the last load from that server; without one, as configured.

        A load that ends in the future comes from a wrong clock, and would hide everything before its end.
        """
        interval = timedelta(seconds=self.spec.interval_s)
        reached = self.writer.query(
            "watermark_of_origin",
            cluster=self.spec.cluster,
            source=source,
            origin=self.spec.origin(self.server.url),
            latest=self.now + interval,
        )["covers_until"].item()
        if isinstance(reached, datetime):
            return min(reached, until) - max(interval, LATE)
        return until - timedelta(hours=self.settings.prometheus.lookback_hours)

    def _chunks(self, reader: SourceReader, names: Sequence[str], window: LoadWindow) -> Iterator[LoadWindow]:
        """The time in chunks that begin and end on the grid."""
        length = self._chunk_length(reader, names, window)
        since, until = window
        while since < until:
            yield LoadWindow(since, min(since + length, until))
            since += length

    def _chunk_length(self, reader: SourceReader, names: Sequence[str], window: LoadWindow) -> timedelta:
        """Length of a chunk: as configured, or shorter where the source would have more than `chunk_samples` averages.

        A chunk is held in memory, so chunks of a large cluster are shorter. A server that does not count its series is
        read in the shortest chunks: it may have too many to count.
        """
        settings, width_s = self.settings.prometheus, self.spec.interval_s
        longest = max(1, round(settings.chunk_hours * 3600 / width_s))
        least = min(longest, math.ceil(LEAST_CHUNK_S / width_s))
        if reader.source in LARGE and least * width_s < (window.until - window.since).total_seconds():
            longest = max(least, min(longest, settings.chunk_samples // self._series(reader, names, window)))
        return timedelta(seconds=longest * width_s)

    def _series(self, reader: SourceReader, names: Sequence[str], window: LoadWindow) -> int:
        """Number of series of a source: the largest of three moments, since exporters may be down at one.

        Where the server does not count them, a number larger than any chunk may have.
        """
        moments = (window.until, window.since + (window.until - window.since) / 2, window.since)
        most = 1
        try:
            for moment in moments if self.counts else ():
                series = count_series(self.server, self.spec, reader.source, names, at=moment)
                most = max(most, sum(series.values()))
        except SourceError:
            self.counts = False
        return most if self.counts else sys.maxsize

    # --- reports

    def _summaries(self, loaded: Sequence[Loaded]) -> Iterator[LoadReport]:
        """A line for each source; its new rows are not counted."""
        for each in live_summary.summaries(loaded, cluster="", before=self.warned):
            yield replace(each, parsed=each.parsed and replace(each.parsed, rows_new=None))

    def _failures(self, failed: Sequence[FailedQuestion]) -> Iterator[LoadReport]:
        """A report for each cause of failure, with the missing time and the command that reads it later."""
        if not failed:
            return
        until = _on_grid(self.now, self.spec.interval_s)
        resumes = {reader.source: self._resume_at(reader.source, until) for reader in READERS}
        windows = [(resumes[each.source], each.window) for each in failed if each.window is not None]
        later = "The next ingest requests that again."
        if any(resume > window.since for resume, window in windows):
            since, until = min(each.since for _, each in windows), max(each.until for _, each in windows)
            later = f"Read that later with: trackside ingest prometheus --since {iso(since)} --until {iso(until)}"
        for report in live_summary.failures(failed, cluster=""):
            if report.error is not None:
                report.error.args = (f"{report.error}\n{later}",)
            yield report


def _on_grid(moment: datetime, interval_s: int) -> datetime:
    return datetime.fromtimestamp(moment.timestamp() // interval_s * interval_s, UTC)


def _is_news(writer: Writer, parsed: Parsed) -> bool:
    """Whether rows without samples are new: rows other than events, or events that are not in the warehouse."""
    repeated = {"health_events", "driver_versions", "gpu_uuids"}
    others = any(frame.height for name, frame in parsed.frames.items() if name not in repeated)
    return others or ("health_events" in parsed.frames and has_new_events(writer, parsed))


def _answers(server: PrometheusServer, spec: ScrapeSpec, chunks: Sequence[_Chunk]) -> Iterator[_FetchedChunk]:
    """An answer for each chunk. After a failure no more of its source is requested, or of any if the server is down."""
    failed: dict[SourceName, SourceError] = {}
    for chunk in chunks:
        source = chunk.reader.source
        if source not in failed:
            try:
                answer = _fetch(server, spec, chunk)
            except SourceError as error:
                gone = isinstance(error, ServerDownError) and error.unreachable
                failed |= dict.fromkeys([reader.source for reader in READERS] if gone else [source], error)
        yield _FetchedChunk(error=failed[source]) if source in failed else answer


def _fetch(server: PrometheusServer, spec: ScrapeSpec, chunk: _Chunk) -> _FetchedChunk:
    """The server's answer; where nothing was recorded no load covers that time."""
    server.digest()
    server.warnings()
    server.transport()
    parsed = chunk.reader.read(server, spec, chunk.names, since=chunk.window.since, until=chunk.window.until)
    warnings = [*parsed.warnings, *server.warnings()]
    frames = [parsed.rejects, *parsed.frames.values()]
    if parsed.covers_until is None and not warnings and all(frame.is_empty() for frame in frames):
        return _FetchedChunk()
    return _FetchedChunk(replace(parsed, warnings=warnings), server.digest(), server.transport())
