"""`trackside ingest prometheus` from a server. One transaction per source and piece of time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.errors import OptionError, ServerDownError, SourceError
from ingest.files.prefetch import prefetch_one
from ingest.iso_time import iso
from ingest.load_warnings import messages
from ingest.prometheus.connect import connect
from ingest.prometheus.gpu import server as prometheus
from ingest.prometheus.health import server as prometheus_health
from ingest.prometheus.node import kubernetes_names, slurm_exporters
from ingest.prometheus.node import server as prometheus_nodes
from ingest.prometheus.reader import Reader, Wanted
from ingest.prometheus.sources import TITLES
from ingest.prometheus.store.samples import load, tells_news
from ingest.prometheus.target import TelemetryRequest, cluster_of, mapping_of
from ingest.store import summary as live_summary
from ingest.store.report import Summary
from ingest.store.request import LoadRequest
from ingest.store.summary import Failed, Loaded, without_rows
from ingest.store.windows import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ingest.prometheus.client.server import Server
    from ingest.prometheus.settings import TelemetrySettings
    from ingest.store.report import Report
    from ingest.store.request import Transport
    from ingest.tables import Parsed, SourceName
    from queries.warehouse import Writer

READERS: Final = (
    kubernetes_names.READER,
    prometheus.READER,
    prometheus_nodes.READER,
    prometheus_health.READER,
    slurm_exporters.READER,
)
"""What is read from a server, one source after the other; each has a mark of its own of how far it is. Names of nodes
come first: the others are written with them."""

ADDRESS_LENGTH: Final = 4000
"""Characters of metrics' names in one question: it is an address, and proxies take no more than 8 KiB of those."""

LATE: Final = timedelta(minutes=1)
"""How long a reading may take until a server shows it: who sends to it from afar is behind by some seconds, and
VictoriaMetrics, where it computes, tells older values for the last half minute (-search.latencyOffset)."""

SELECTOR: Final = 'Check prometheus.selector, which is like cluster="a",env="prod"'
"""What to look at where the server cannot read the question."""


def ingest_live(
    writer: Writer,
    settings: TelemetrySettings,
    asked: TelemetryRequest,
    *,
    now: datetime,
    progress: Callable[[str, int, int], None],
) -> list[Report]:
    """Read a server piece by piece, oldest first, each source's piece in a transaction of its own.

    A source goes on where its samples of the last load from the same server with the same selector ended (an interval
    earlier, and `LATE` at least: what was the newest then may not have been whole); what was loaded from files or
    elsewhere says nothing of it. Time with events and no samples is not covered, and asked for again: an event is kept
    once, however often it is told, and where nothing but known events is told there is no load. When a piece fails,
    those before it stay and those of its source behind it are left, so that the next ingest resumes there; other
    sources are read all the same, unless nobody answers at all. While one piece is written the next one is fetched.

    Args:
        writer: The warehouse.
        settings: All settings.
        asked: Server, cluster and time asked for.
        now: The time.
        progress: Told what is being read, how many pieces are done, and how many there are. It may raise to stop.

    Returns:
        A line for each source, then a report for each cause of failure, which says what is missing. A source that the
        server has nothing of is no error; that it has nothing of GPUs is a warning.

    Raises:
        OptionError: no address or cluster is known, or the time makes no sense.
    """
    wanted = wanted_of(settings, cluster_of(writer, settings, asked))
    server = connect(settings, asked.url)
    try:
        return _Live(writer, settings, asked, server, wanted, now, progress).ingest()
    finally:
        server.close()


def wanted_of(settings: TelemetrySettings, cluster: str) -> Wanted:
    """What is asked of the server, as configured."""
    section = settings.prometheus
    return Wanted(cluster, section.selector, section.interval_s, mapping_of(settings))


def names_of(server: Server, wanted: Wanted, *, since: datetime, until: datetime) -> dict[SourceName, list[str]]:
    """By source, which of its metrics the server has in that time (roughly); sources without any are left out.

    Raises:
        ServerDownError: it cannot be asked.
    """
    told = {reader.source: reader.names(wanted) for reader in READERS}
    there: set[str] = set()
    for some in _in_addresses(sorted({name for names in told.values() for name in names})):
        there.update(server.names(wanted.matcher(some), since=since, until=until))
    found = {source: [name for name in names if name in there] for source, names in told.items()}
    return {source: names for source, names in found.items() if names}


def _in_addresses(names: Sequence[str]) -> Iterator[list[str]]:
    """The names, in as few questions as fit into addresses."""
    some: list[str] = []
    for name in names:
        if some and sum(map(len, some)) + len(some) + len(name) > ADDRESS_LENGTH:
            yield some
            some = []
        some.append(name)
    if some:
        yield some


@dataclass(frozen=True)
class _Piece:
    """One question for a source: `names` are those of its metrics that the server has."""

    reader: Reader
    names: Sequence[str]
    window: Window


@dataclass(frozen=True)
class _Answer:
    """The rows of a piece, with the digest of the server's answers and how they came, or why there are none."""

    parsed: Parsed | None = None
    digest: str = ""
    transport: Transport = "json"
    error: SourceError | None = None


@dataclass
class _Live:
    """One ingest: what it works with."""

    writer: Writer
    settings: TelemetrySettings
    asked: TelemetryRequest
    server: Server
    wanted: Wanted
    now: datetime
    progress: Callable[[str, int, int], None]
    warned: dict[str, Collection[str]] = field(default_factory=dict)

    def ingest(self) -> list[Report]:
        """Read every source as far as it goes, and tell of it."""
        last = self.writer.query("last_loads").filter(pl.col("cluster") == self.wanted.cluster)
        self.warned = {source: messages(records) for source, records in last.select("source", "warnings").iter_rows()}
        windows = {reader.source: self._window(reader.source) for reader in READERS}
        span = Window(min(each.since for each in windows.values()), max(each.until for each in windows.values()))
        self.progress(f"asking {self.server.url}", 0, 1)
        gpus = prometheus.READER.source
        try:
            names = names_of(self.server, self.wanted, since=span.since, until=span.until)
            others = names.get(gpus) or self.server.names(since=span.since, until=span.until)
        except SourceError as error:
            if self.wanted.selector and "pars" in str(error):  # parse error; cannot parse; error when parsing
                error.args = (f"{error}\n{SELECTOR}: it is {self.wanted.selector}",)
            known = windows.keys() & set(last["source"]) or windows.keys()  # others were never there, most likely
            unread = [(source, window) for source, window in windows.items() if source in known]
            return list(self._failures([Failed("telemetry", error, window=each, source=name) for name, each in unread]))
        pieces = [
            _Piece(reader, names[reader.source], window)
            for reader in READERS
            if reader.source in names
            for window in self._pieces(windows[reader.source])
        ]
        loaded, failed = self._read(pieces)
        reports = [*self._summaries(loaded), *self._failures(failed)]
        told = {each.parsed.source for each in loaded} | {each.source for each in failed}
        if gpus not in told:
            warning = prometheus.nothing_there(self.server.url, self.wanted, others)
            reports.insert(0, Summary(self.server.url, live_summary.nothing(gpus, warning)))
        return reports

    def _read(self, pieces: Sequence[_Piece]) -> tuple[list[Loaded], list[Failed]]:
        """Ask for the pieces and write what came, one after the other."""
        loaded: list[Loaded] = []
        failed: list[Failed] = []
        answers = prefetch_one(_answers(self.server, self.wanted, pieces))
        for number, piece in enumerate(pieces):
            source, window = piece.reader.source, piece.window
            title = TITLES[source]
            self.progress(f"{title} {live_summary.shown(window)}", number, len(pieces))
            answer = next(answers)
            if answer.error is not None:
                failed.append(Failed(title, answer.error, window=window, source=source))
            elif answer.parsed is not None:
                self._write(answer, answer.parsed, window)
                loaded.append(Loaded(self.server.url, without_rows(answer.parsed), window))
        return loaded, failed

    def _write(self, answer: _Answer, parsed: Parsed, window: Window) -> None:
        """Load a piece, unless it is without samples and tells nothing that is not known."""
        if parsed.covers_until is None and parsed.rejects.is_empty() and not _is_news(self.writer, parsed):
            return
        origin = self.wanted.origin(self.server.url)
        request = LoadRequest(origin, answer.transport, since=window.since, until=window.until)
        load(
            self.writer,
            self.settings,
            [parsed],
            self.wanted.cluster,
            request=request,
            digest=answer.digest,
            now=self.now,
        )

    # --- when

    def _window(self, source: SourceName) -> Window:
        """From when to when to ask, on the grid: an interval that is not over yet is left for the next time."""
        asked, width_s = self.asked, self.wanted.interval_s
        if asked.since is not None and asked.until is not None and asked.since >= asked.until:
            raise OptionError(f"--since {iso(asked.since)} is not before --until {iso(asked.until)}")
        if asked.since is not None and asked.since >= self.now:
            raise OptionError(
                f"--since {iso(asked.since)} is not in the past (it is {iso(self.now)} here): nothing can have been "
                "measured yet"
            )
        until = _on_grid(min(asked.until or self.now, self.now), width_s)
        since = asked.since or self._resume_at(source, until)
        window = Window(min(_on_grid(since, width_s), until), until)
        if window.since == window.until:
            raise OptionError(
                f"no interval of {width_s} s (prometheus.interval_s) that is over lies between {iso(since)} and "
                f"{iso(asked.until or self.now)}: choose an earlier --since or a later --until"
            )
        return window

    def _resume_at(self, source: SourceName, until: datetime) -> datetime:
        """Somewhat before the end of the last load from there; the first time, as far back as configured.

        A load that reaches into the future is a clock that was wrong, and would hide everything before it.
        """
        interval = timedelta(seconds=self.wanted.interval_s)
        reached = self.writer.query(
            "watermark_of_origin",
            cluster=self.wanted.cluster,
            source=source,
            origin=self.wanted.origin(self.server.url),
            latest=self.now + interval,
        )["covers_until"].item()
        if isinstance(reached, datetime):
            return min(reached, until) - max(interval, LATE)
        return until - timedelta(hours=self.settings.prometheus.lookback_hours)

    def _pieces(self, window: Window) -> Iterator[Window]:
        """The time in pieces that begin and end on the grid."""
        width_s = self.wanted.interval_s
        intervals = max(1, round(self.settings.prometheus.chunk_hours * 3600 / width_s))
        length = timedelta(seconds=intervals * width_s)
        since, until = window
        while since < until:
            yield Window(since, min(since + length, until))
            since += length

    # --- what is said in the end

    def _summaries(self, loaded: Sequence[Loaded]) -> Iterator[Report]:
        """A line for each source; nobody counts which of its rows are new."""
        for each in live_summary.summaries(loaded, cluster="", before=self.warned):
            yield replace(each, parsed=each.parsed and replace(each.parsed, rows_new=None))

    def _failures(self, failed: Sequence[Failed]) -> Iterator[Report]:
        """A report for each cause of failure, with what was not read, and how that is read later."""
        if not failed:
            return
        until = _on_grid(self.now, self.wanted.interval_s)
        resumes = {reader.source: self._resume_at(reader.source, until) for reader in READERS}
        windows = [(resumes[each.source], each.window) for each in failed if each.window is not None]
        later = "The next ingest asks for that again."
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
    """Whether rows without samples say anything: what is no event does, and events that the warehouse does not have."""
    others = any(frame.height for name, frame in parsed.frames.items() if name != "health_events")
    return others or ("health_events" in parsed.frames and tells_news(writer, parsed))


def _answers(server: Server, wanted: Wanted, pieces: Sequence[_Piece]) -> Iterator[_Answer]:
    """An answer for each piece. Of a source that failed no more is asked, and of none where nobody answers at all."""
    failed: dict[SourceName, SourceError] = {}
    for piece in pieces:
        source = piece.reader.source
        if source not in failed:
            try:
                answer = _asked(server, wanted, piece)
            except SourceError as error:
                gone = isinstance(error, ServerDownError) and error.unreachable
                failed |= dict.fromkeys([reader.source for reader in READERS] if gone else [source], error)
        yield _Answer(error=failed[source]) if source in failed else answer


def _asked(server: Server, wanted: Wanted, piece: _Piece) -> _Answer:
    """What the server says; where nothing was recorded then there is no load that speaks for it."""
    server.digest()
    server.warnings()
    server.transport()
    parsed = piece.reader.read(server, wanted, piece.names, since=piece.window.since, until=piece.window.until)
    warnings = [*parsed.warnings, *server.warnings()]
    frames = [parsed.rejects, *parsed.frames.values()]
    if parsed.covers_until is None and not warnings and all(frame.is_empty() for frame in frames):
        return _Answer()
    return _Answer(replace(parsed, warnings=warnings), server.digest(), server.transport())
