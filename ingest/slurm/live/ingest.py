"""`trackside ingest slurm` without files: a running Slurm, read part by part and window by window.

The requests besides accounting are a table, `ingest.slurm.live.questions.PARTS`; `ingest.slurm.live.transport`
chooses the transport.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.counted import counted
from ingest.errors import InputError, OptionError, SourceError
from ingest.load_warnings import LoadWarning, from_records
from ingest.slurm.commands.privacy import ACCOUNTING, others_are_hidden
from ingest.slurm.live import recheck, transport
from ingest.slurm.live.preflight import probe
from ingest.slurm.live.questions import LiveRequest, PartRequest, answer, request_of
from ingest.slurm.live.retry import Retrier, at_controller_of, timed_out, too_large
from ingest.slurm.write import write_input
from ingest.store import summary as live_summary
from ingest.store import windows as load_windows
from ingest.store.report import LoadReport, Note
from ingest.store.summary import FailedQuestion, Loaded
from ingest.store.windows import SHORTEST, LoadWindow, Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ingest.slurm.commands.runner import Runner
    from ingest.slurm.live.questions import Service
    from ingest.slurm.load_files import Options
    from ingest.slurm.settings import SlurmSettings
    from ingest.tables import Parsed
    from queries.warehouse import Writer

FAILURES: Final = 2
"""So many failed windows in a row mean that the database is down: the others are left for later."""

SAMPLED_S: Final = 60
"""A step of at least so many seconds was sampled, if Slurm measures at all (every 30 s by default)."""

BEFORE: Final = "end before the cluster's first sign of life and were empty"
"""Reason for windows without a load that need not be requested."""

TOO_LARGE: Final = 2
"""Number of parts into which a window is cut that Slurm refused as too large."""

TOO_SLOW: Final = 8
"""The same for a window without an answer in time. Two slow windows in a row mean that the database hangs, so
the second request is small enough for any other database."""


def ingest_live(
    writer: Writer,
    config: SlurmSettings,
    options: Options,
    *,
    now: datetime,
    runner: Runner,
    progress: Callable[[str, int, int], None],
    notify: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    again: bool = False,
) -> list[LoadReport]:
    """Read a running Slurm: settings, node events, inventory and the rest, and accounting window by window.

    Each part is loaded in a transaction of its own, and so is each window of accounting, oldest first. If one fails,
    the others are still read; what is missing is a gap between loads, which the next ingest requests again. With
    `options.since`, windows that earlier loads cover are left out unless `again`. Clusters are read one after the
    other: one that fails, or turns out to be another cluster than was requested, keeps no other from being read.
    If Slurm cannot be reached at all, nothing is tried.

    Args:
        writer: The warehouse.
        config: All settings.
        options: Cluster and requested time.
        now: The time.
        runner: Runs a command.
        progress: Receives the current activity, the number of finished windows, and their total. It may raise to stop.
        notify: Receives messages for a person, besides the reports.
        sleep: Waits; tests pass a plain function.
        again: Read windows that are already there, too.

    Returns:
        A line for each source, then differences from earlier loads, then a report for each cause of failure.

    Raises:
        OptionError: the requested time is empty.
    """
    names: Sequence[str | None] = config.slurm.clusters or (None,)
    if options.cluster is not None and config.slurm.clusters:
        names = (options.cluster,)
    now = now.replace(microsecond=0)
    until = min(_whole_second(options.until) or now, now)  # there are no records of the future
    try:
        probe(runner, config)
    except SourceError as error:
        return [LoadReport("Slurm", error=error)]
    reports: list[LoadReport] = []
    retrier = Retrier(config.slurm, sleep, lambda what: progress(what, 0, 1), notify)
    for name in names:
        live = _SlurmIngest(
            writer, config, runner, now, retrier, progress, notify, name, options.cluster or config.cluster
        )
        live.ingest(_whole_second(options.since), until, again=again)
        reports += live.reports(several=len(names) > 1)
        retrier.next_cluster()
    return reports


def _whole_second(moment: datetime | None) -> datetime | None:
    """A time cut to the second: Slurm's times are whole seconds."""
    return None if moment is None else moment.replace(microsecond=0)


@dataclass
class _SlurmIngest:
    """The ingest of one cluster: its settings, and the result of each request so far.

    `configured_name` is the cluster in the configuration, if any (then every command has `-M`); `cluster` is
    what its rows are booked under.
    """

    writer: Writer
    config: SlurmSettings
    runner: Runner
    now: datetime
    retrier: Retrier
    progress: Callable[[str, int, int], None]
    notify: Callable[[str], None]
    configured_name: str | None
    cluster: str | None
    loads: list[Loaded] = field(default_factory=list)
    failed: list[FailedQuestion] = field(default_factory=list)
    others: list[LoadReport] = field(default_factory=list)
    before: pl.DataFrame = field(default_factory=pl.DataFrame)
    seen: list[pl.DataFrame] = field(default_factory=list)
    hidden: bool | None = None
    steps: int = 0
    measured: int = 0

    def ingest(self, since: datetime | None, until: datetime, *, again: bool) -> None:
        """Everything, in order."""
        self.before = self.writer.query("last_loads")
        self.cluster = self.configured_name or self.cluster
        part = transport.settings(self.config)
        self.progress(part.title, 0, 1)
        try:
            settings = self._part(part, self._request(part, until, until))
        except OptionError as error:
            self.others.append(LoadReport(self.cluster or "", error=error))
            return
        self.cluster = self.cluster or self._only_cluster()
        overlap = self._overlap(settings)
        spans = self._going_on(until, overlap) if since is None else [LoadWindow(since, until)]
        length = timedelta(days=self.config.slurm.window_days)
        windows = [window for span in spans for window in load_windows.cut(span, length)]
        born = self._around(min((window.since for window in windows), default=until), until)
        if since is not None and not again:
            windows = self._missing(windows, overlap, born)
        whole = self._accounting(windows, born)
        self._report_unmeasured()
        if whole and windows and until == self.now and not self.hidden:
            self._recheck()
        self._compare()

    def reports(self, *, several: bool) -> Iterator[LoadReport]:
        """The reports of all parts; with `several` clusters each names its cluster."""
        named = self.cluster or "" if several else ""
        warned = self.before.filter(pl.col("cluster") == (self.cluster or ""))
        before = {source: from_records(records) for source, records in warned.select("source", "warnings").iter_rows()}
        yield from live_summary.summaries(self.loads, cluster=named, before=before)
        yield from self.others
        yield from live_summary.failures(self.failed, cluster=named)

    def _agree(self, settings: Parsed) -> None:
        """Take the cluster's name from its settings. Another one than requested would mix up two clusters.

        Raises:
            OptionError: it is another.
        """
        reported = min(settings.clusters, default=None)
        if reported is not None and self.cluster is not None and reported != self.cluster:
            raise OptionError(
                f"this Slurm is the cluster {reported!r}, not {self.cluster!r}; nothing was read for it.\n"
                f"Pass --cluster {reported}, leave it out, or list other clusters under [slurm] clusters."
            )
        self.cluster = self.cluster or reported

    def _only_cluster(self) -> str | None:
        """The only cluster with loads of Slurm so far: the default where none is named."""
        rows = self.writer.query("status_sources").filter(pl.col("source").str.starts_with("slurm."))
        names = rows["cluster"].unique().to_list()
        return names[0] if len(names) == 1 else None

    def _overlap(self, settings: Parsed | None) -> timedelta:
        """Overlap with earlier loads: as configured, but at least as long as Slurm may rewrite ends.

        A slurmctld that starts again sends the ends of all jobs that it remembers once more, and it remembers them
        for MinJobAge.
        """
        values = (
            {} if settings is None else dict(settings.frames["cluster_settings"].select("name", "value").iter_rows())
        )
        age = values.get("MinJobAge", "")
        remembered = timedelta(seconds=int(age) + 60) if age.isdigit() and len(age) < 9 else timedelta()
        return max(timedelta(hours=self.config.slurm.overlap_hours), remembered)

    def _going_on(self, until: datetime, overlap: timedelta) -> Sequence[LoadWindow]:
        covered = load_windows.covered(self.writer, self.cluster, "slurm.accounting")
        lookback = timedelta(days=self.config.slurm.lookback_days)
        return load_windows.spans_to_read(covered, until, lookback=lookback, overlap=overlap)

    def _missing(self, windows: Windows, overlap: timedelta, born: datetime | None) -> Windows:
        """The windows without those that need not be requested again; a message has their number and the reason."""
        covered = load_windows.covered(self.writer, self.cluster, "slurm.accounting", overlap=overlap)
        alive = self._alive_since(born)
        empty = load_windows.requested(self.writer, self.cluster, "slurm.accounting", alive=alive, overlap=overlap)
        late = load_windows.outside(windows, empty)
        left = load_windows.outside(late, load_windows.together([*covered, *empty]))
        for number, why in ((len(late) - len(left), "are there already"), (len(windows) - len(late), BEFORE)):
            if number:
                self.notify(f"{number} of {counted(len(windows), 'window')} {why} (--again reads them too)")
        return left

    def _alive_since(self, born: datetime | None) -> datetime | None:
        """The first sign of life of the cluster: in the node events just read, or in earlier loads."""
        signs = [born]
        for source in ("slurm.accounting", "slurm.events"):
            signs += [span.since for span in load_windows.covered(self.writer, self.cluster, source)[:1]]
        return min((sign for sign in signs if sign is not None), default=None)

    def _around(self, since: datetime, until: datetime) -> datetime | None:
        """Load everything but accounting; returns the cluster's first sign of life in node events."""
        born = None
        loaded = self._last_loaded()
        covered = load_windows.covered(self.writer, self.cluster, "slurm.accounting")
        first = min(since, covered[0].since) if covered else since
        for part in transport.around(self.config):
            age_h = (self.now - loaded[part.kind]).total_seconds() / 3600 if part.kind in loaded else None
            if age_h is not None and age_h < part.every_hours:
                continue
            self.progress(part.title, 0, 1)
            low = self._reaching_back(part, since, first)
            if low >= until:
                continue  # read up to this very second
            parsed = self._part(part, self._request(part, low, until))
            if part.kind == "slurm.events" and parsed is not None:
                born = parsed.covers_from
        return born

    def _reaching_back(self, part: LiveRequest, since: datetime, first: datetime) -> datetime:
        """The start of the request: no later than accounting, nor than where this part's own loads end.

        Where it has none yet, from `first` on: where accounting begins.
        """
        reached = self.writer.query("watermark", cluster=self.cluster, source=part.kind)["covers_until"].item()
        overlap = timedelta(hours=self.config.slurm.overlap_hours)
        return min(since, reached - overlap) if isinstance(reached, datetime) else first

    def _last_loaded(self) -> dict[str, datetime]:
        rows = self.writer.query("status_sources").filter(cluster=self.cluster or "")
        return dict(rows.select("source", "last_loaded_at").iter_rows())

    def _request(self, part: LiveRequest, since: datetime, until: datetime) -> PartRequest:
        runner = self.runner
        if self.configured_name is not None and part.service == "slurmctld":
            runner = at_controller_of(runner, self.configured_name)
        clusters = () if self.configured_name is None else (self.configured_name,)
        return PartRequest(runner, self.config, self.now, since, until, self.cluster, clusters)

    def _part(self, part: LiveRequest, request: PartRequest) -> Parsed | None:
        """One part, requested and loaded. None where that failed; the part is then in `failed`."""
        try:
            return self._load(part, request)[0]
        except (SourceError, InputError) as error:
            self.failed.append(FailedQuestion(part.title, error, needed=part.needed, source=part.kind))
            return None

    def _load(
        self, part: LiveRequest, request: PartRequest, *, window: LoadWindow | None = None, born: datetime | None = None
    ) -> tuple[Parsed, int]:
        """Request, parse and write; returns how many bytes the answer had, too.

        Raises:
            SourceError: there is no answer.
            InputError: it cannot be understood.
            OptionError: it is of another cluster than was requested.
        """
        fetched = self.retrier.request(lambda: part.fetch(request), part.service, required=part.needed)
        parsed, data = answer(part, request, fetched), fetched.data
        load_request = request_of(part, request, fetched)
        if part.kind == "slurm.config":
            self._agree(parsed)
        if part.kind == "slurm.accounting":
            self.seen.append(recheck.still_open(parsed.frames["attempts"]))
            self._count_measured(parsed.frames.get("step_usage"))
            parsed = _in_part(parsed) if self._others_are_hidden() else _alive(parsed, born)
            load_request = replace(load_request, partial=bool(self.hidden))
        parsed = write_input(self.writer, parsed, request=load_request, data=data, now=self.now, cluster=self.cluster)
        self.loads.append(Loaded(part.title, live_summary.without_rows(parsed), window))
        return parsed, len(data)

    def _others_are_hidden(self) -> bool:
        """Whether accounting shows our own jobs only; checked once, after its first answer.

        Where that is unknown, accounting is assumed to show all jobs, as almost everywhere.
        """
        if self.hidden is None:
            try:
                self.hidden = not transport.by_rest(self.config) and others_are_hidden(self.runner, ACCOUNTING)
            except SourceError as error:
                self.hidden = False
                self.failed.append(
                    FailedQuestion("privacy settings of jobs", error, needed=False, source="slurm.accounting")
                )
        return self.hidden

    def _accounting(self, windows: Sequence[LoadWindow], born: datetime | None) -> bool:
        """Accounting, oldest window first; whether all of it was read.

        A window that is too large for slurmdbd is requested in parts, and so are the later ones. Windows after a failed
        one are still read, unless the next one fails, too, or no load covers time before the failed one: then no gap
        would show that it is missing. Each window after the first sign of life covers its time.
        """
        part = transport.accounting(self.config)
        waiting, done, in_a_row, error = deque(windows), 0, 0, None
        longest = timedelta(days=self.config.slurm.window_days)
        born = self._alive_since(born)
        while waiting and in_a_row < FAILURES:
            window = waiting.popleft()
            if window.until - window.since > longest:
                waiting.extendleft(reversed(list(load_windows.cut(window, longest))))
                continue
            self.progress(self._window_name(window), done, done + 1 + len(waiting))
            try:
                parsed, size = self._load(part, self._request(part, *window), window=window, born=born)
            except (SourceError, InputError) as caught:
                less = self._less(window, caught, part.service)
                if less is not None:
                    longest = less
                    waiting.appendleft(window)
                    continue
                error, in_a_row = caught, in_a_row + 1
                self.failed.append(FailedQuestion(part.title, error, window=window))
                if self.retrier.circuit_is_open(part.service) or not self._before(window):
                    break
                continue
            done, in_a_row = done + 1, 0
            born = min((moment for moment in (born, parsed.covers_from) if moment), default=None)
            if size > self.config.slurm.answer_mb << 20:
                longest = max(min(longest, (window.until - window.since) / 2), SHORTEST)
            self.retrier.wait(self.config.slurm.pause_s if waiting else 0.0, "the next window")
        if error is not None:
            self.failed += [FailedQuestion(part.title, error, window=window) for window in waiting]
        return error is None

    def _count_measured(self, usage: pl.DataFrame | None) -> None:
        """Count steps that were long enough to be sampled, and those of them with CPU time or memory."""
        if usage is None:
            return
        sampled = usage.filter(
            (pl.col("step") != "") & pl.col("ended_at").is_not_null(), pl.col("elapsed_s") >= SAMPLED_S
        )
        self.steps += sampled.height
        self.measured += sampled.filter((pl.col("cpu_s") > 0) | pl.col("max_rss_bytes").is_not_null()).height

    def _report_unmeasured(self) -> None:
        """Where Slurm measures nothing, report the setting that enables it."""
        if self.steps and not self.measured:
            self.notify(
                f"none of {counted(self.steps, 'step')} has CPU time or memory, so both efficiencies stay unknown: "
                "Slurm measures them with JobAcctGatherType=jobacct_gather/cgroup (or /linux) in slurm.conf"
            )

    def _less(self, window: LoadWindow, error: SourceError | InputError, service: Service) -> timedelta | None:
        """Length of the next requests after a window that was too large; None where a shorter one cannot help."""
        if not isinstance(error, SourceError) or self.retrier.circuit_is_open(service):
            return None
        parts = TOO_LARGE if too_large(error) else TOO_SLOW if timed_out(error) else 1
        less = (window.until - window.since) / parts
        if less < SHORTEST:
            less = (window.until - window.since) / TOO_LARGE
        if parts == 1 or less < SHORTEST:
            return None
        self.notify(f"{self._window_name(window)} is too large for {service}: requesting {less} at a time")
        if parts == TOO_SLOW:
            self.retrier.wait_for_less(service)
        else:
            self.retrier.wait(self.config.slurm.pause_s, "a smaller request")
        return less

    def _before(self, window: LoadWindow) -> bool:
        """Whether a load covers time before a failed window; else a message explains why later windows are left."""
        covered = load_windows.covered(self.writer, self.cluster, "slurm.accounting")
        if covered and covered[0].since < window.since:
            return True
        self.notify(
            f"no load covers time before {self._window_name(window)}: later windows are left for the next ingest"
        )
        return False

    def _window_name(self, window: LoadWindow) -> str:
        """Name of a window of accounting in messages."""
        title = transport.accounting(self.config).title
        return f"{title} {live_summary.shown(window)}"

    def _recheck(self) -> None:
        """Request by id the jobs that are open in the warehouse and missing in the newest windows."""
        if self.cluster is None:
            return
        forgotten = 0
        for requested in recheck.batches(self.writer, self.cluster, self.seen, self.config.slurm.recheck_jobs):
            self.progress("jobs without an end", 0, 1)
            part = transport.by_id(self.config, requested["job_id"].unique(maintain_order=True).to_list())
            parsed = self._part(replace(part, needed=False), self._request(part, self.now, self.now))
            if parsed is None:
                return
            forgotten += recheck.note(self.writer, requested, parsed.frames["attempts"], now=self.now)
            self.retrier.wait(self.config.slurm.pause_s, "more jobs without an end")
        if forgotten:
            self.notify(
                f"warning: {counted(forgotten, 'job')} without an end no longer in accounting: still open "
                "(trackside status: source_attempt_forgotten)"
            )

    def _compare(self) -> None:
        """Report differences from earlier loads: a source without rows, or other columns."""
        warnings = self.writer.query("source_warnings").filter(cluster=self.cluster or "")
        for source, kind, text in warnings.select("source", "kind", "message").iter_rows():
            if kind != "stale" and any(each.parsed.source == source for each in self.loads):
                changed = LoadWarning("changed_since_earlier_loads", None, text)
                self.others.append(Note(f"{source} compared with earlier loads", live_summary.nothing(source, changed)))


def _in_part(accounting: Parsed) -> Parsed:
    """Accounting of some users' jobs only covers no time: a user who may see all jobs has to load it again."""
    return replace(recheck.without_time(accounting), warnings=[*accounting.warnings, LoadWarning("others_jobs_hidden")])


def _alive(accounting: Parsed, born: datetime | None) -> Parsed:
    """Live accounting covers its window from the cluster's first sign of life on."""
    attempts = accounting.frames["attempts"]
    first = attempts["submitted_at"].min()
    signs = [sign for sign in (born, first) if isinstance(sign, datetime)]
    if accounting.covers_from is None or accounting.covers_until is None or not signs:
        return replace(accounting, covers_from=None, covers_until=None) if not signs else accounting
    start = max(accounting.covers_from, min(signs))
    if start >= accounting.covers_until:
        return replace(accounting, covers_from=None, covers_until=None)
    return replace(accounting, covers_from=start)
