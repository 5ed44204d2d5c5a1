"""Keeping a warehouse up to date: a thread that reads every source and computes, again and again.

It writes for the length of a cycle and no longer, so that the command line can work in between; stop it at any moment,
and the next cycle goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import re
import shutil
import threading
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from app import clock
from app.claims.stored import StoredClaims
from app.compute import pipeline as computing
from app.compute.unchanged import FACT, code_digest, inputs_digest
from app.config.log_formats import marked_formats
from app.errors import EXIT_STATUS, ConfigError, raise_interrupt
from app.faults import FAULTS
from app.service import integrity
from app.times import iso
from ingest.kubernetes.live import ingest as kubernetes
from ingest.kubernetes.live.follow import Follower
from ingest.prometheus.load_live import ingest_live
from ingest.prometheus.store import retention
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import incremental as runlogs
from ingest.runlog.incremental import files_of
from ingest.runlog.translation import LogRequest
from ingest.slurm import load_files as ingesting
from ingest.slurm.commands.runner import subprocess_runner
from ingest.slurm.live import ingest as live_ingest
from ingest.slurm.live import transport
from ingest.store.report import LoadReport
from queries import directory
from queries.errors import LockedWarehouseError, WarehouseError
from queries.lake.address import address_of
from queries.published import publish
from queries.warehouse import copy_to_lake, open_reader, open_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from app.config.settings import Config
    from ingest.runlog.incremental import Stamp
    from ingest.runlog.text_format import TextFormat
    from ingest.slurm.commands.runner import Runner
    from ingest.tables import Parsed
    from queries.warehouse import Writer

logger = logging.getLogger("trackside.worker")

PATIENCE_S = 20.0
"""How long a stop waits for a cycle that is at work."""

OVERDUE = 3
"""A last success this many intervals ago counts as a failure."""


@dataclass
class SourceHealth:
    """The result of a source's last cycle; `last_warning` is the last warning of reading it."""

    last_success: datetime | None = None
    last_error: str | None = None
    failed_at: datetime | None = None
    last_warning: str | None = None

    def document(self) -> dict[str, str | None]:
        """As part of `/healthz`."""
        return {
            "last_success": None if self.last_success is None else iso(self.last_success),
            "last_error": self.last_error,
            "failed_at": None if self.failed_at is None else iso(self.failed_at),
            "last_warning": self.last_warning,
        }


class CycleStoppedError(Exception):
    """A cycle was stopped: committed work stays, the rest is done again."""


_OURS = tuple(EXIT_STATUS)
"""Errors that a person can resolve; any other is a fault of Trackside and must not stop the service."""


@dataclass
class Worker:
    """Reads the sources and computes, again and again, in a thread of its own.

    Attributes:
        root: the warehouse directory.
        settings: with the sources.
        every: from the start of a cycle to the start of the next.
        verb: what writes, for whoever meets its lock.
        runner: runs Slurm's commands; None: runs the installed ones, if there are any.
        finds_slurm: whether an installed Slurm is read if the configuration has no section [slurm].
        sources: the result of each source.
        last_success: end of the last cycle in which nothing failed.
        next_cycle: when the next one is due.
        errors: the errors of the last cycle, by source; also that another process was writing.
        tally: what the last cycle did: new rows (`loaded`), clusters `computed`, rows `committed` to the lake.
    """

    root: Path
    settings: Config
    every: timedelta
    runner: Runner | None = None
    finds_slurm: bool = True
    verb: str = "trackside serve"
    sources: dict[str, SourceHealth] = field(default_factory=dict)
    last_success: datetime | None = None
    next_cycle: datetime | None = None
    errors: dict[str, BaseException] = field(default_factory=dict)
    tally: Counter[str] = field(default_factory=Counter)
    _warned: list[str] = field(default_factory=list)
    _retained: datetime | None = None
    _published: Path | None = None
    _committed: Path | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _started: datetime | None = None
    _follower: Follower | None = None

    def start(self) -> None:
        """Begin with a cycle at once."""
        self._started = clock.now()
        code_digest()
        self._thread = threading.Thread(target=self._run, name="trackside-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two steps; a cycle that does not come to one in time is left to die with the process."""
        self._stop.set()
        if self._follower is not None:
            self._follower.stop()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                _log(logging.WARNING, "stopped in the middle of a cycle; the next one repeats uncommitted work")

    def failures(self, now: datetime) -> list[str]:
        """The present failures as text; empty if there are none."""
        failures = [f"{name}: {each.last_error}" for name, each in sorted(self.sources.items()) if each.last_error]
        since = self.last_success or self._started
        if not failures and since is not None and now - since > OVERDUE * self.every + timedelta(minutes=15):
            failures.append(f"no cycle has ended since {iso(since)}")
        if self._thread is not None and not self._thread.is_alive() and not self._stop.is_set():
            failures.append("the worker has died; restart the service")
        return failures

    def _run(self) -> None:
        while not self._stop.is_set():
            began = clock.now()
            with contextlib.suppress(CycleStoppedError):
                self._guarded_cycle(began)
            self.next_cycle = began + self.every
            self._stop.wait(max(0.0, (self.next_cycle - clock.now()).total_seconds()))

    def _guarded_cycle(self, now: datetime) -> None:
        try:
            self.cycle(now=now)
        except CycleStoppedError:
            raise
        except FAULTS as error:
            self._faulted("trackside", error, now)

    def cycle(self, *, now: datetime) -> None:
        """Read every configured source, and compute if there are new data.

        A source that fails is noted and the others go on. If another process is writing, the cycle is left out: it
        will find the same data next time.

        Raises:
            KeyboardInterrupt: a Ctrl-C came in this thread, while a step was at work.
        """
        self.errors.clear()
        self.tally.clear()
        try:
            with open_writer(self.root, verb=self.verb, now=now, group=self.settings.warehouse_group) as writer:
                for name, read in self._configured():
                    self._step(name, now, functools.partial(read, writer, now))
                self._step("compute", now, functools.partial(self._compute, writer, now))
                if self.settings.retention.samples_days:
                    self._step("retention", now, functools.partial(self._retain, writer, now))
                self._step("files", now, functools.partial(self._scan, writer))
        except LockedWarehouseError as error:
            _log(logging.INFO, f"cycle left out: {str(error).splitlines()[0]}")
            self.errors["warehouse"] = _without_frames(error)
            return
        except WarehouseError as error:
            raise_interrupt(error)
            self._failed("warehouse", error, now)
            return
        self._worked("warehouse", now)
        if self.settings.grafana.parquet is not None:
            self._step("parquet", now, functools.partial(self._publish, self.settings.grafana.parquet))
        if self.settings.serve.lake is not None:
            self._step("lake", now, functools.partial(self._commit, self.settings.serve.lake, now))
        self.sources.pop("trackside", None)  # a fault outside all sources; this time there was none
        if not any(each.last_error for each in self.sources.values()):
            self.last_success = clock.now()

    def _configured(self) -> Iterator[tuple[str, Callable[[Writer, datetime], Sequence[LoadReport]]]]:
        """The configured sources."""
        if self._reads_slurm():
            yield "slurm", self._slurm
        if self.settings.prometheus.url:
            yield "prometheus", self._prometheus
        if self.settings.kubernetes.is_set:
            yield "kubernetes", self._kubernetes
        if self.settings.serve.runlogs:
            yield "runlog", self._runlogs

    def _reads_slurm(self) -> bool:
        """Whether Slurm is read: it is installed here, or the configuration has a section of it, and it has to be."""
        if self.runner is not None or transport.by_rest(self.settings) or "slurm" in self.settings.model_fields_set:
            return True
        return self.finds_slurm and shutil.which("sacct") is not None

    def _step(self, name: str, now: datetime, work: Callable[[], Sequence[LoadReport]]) -> None:
        """Run one source, or the computation; record and log its result."""
        self._check_stop()
        self._warned.clear()
        try:
            reports = work()
        except CycleStoppedError:
            raise
        except FAULTS as error:
            raise_interrupt(error)
            (self._failed if isinstance(error, _OURS) else self._faulted)(name, error, now)
            return
        for report in reports:
            if report.parsed is not None:
                self.tally["loaded"] += _new_rows(report.parsed)
                _log(logging.INFO, "loaded", source=name, origin=report.origin, rows=report.parsed.rows_loaded,
                    rejected=report.parsed.rows_rejected)  # fmt: skip
                for warning in report.parsed.warnings:
                    self._warn(name, warning.message, fresh=warning in report.fresh)
        failed = [report.error for report in reports if report.error is not None]
        for each in reversed(failed):  # `/healthz` shows the first one
            raise_interrupt(each)
            self._failed(name, each, now)
        if not failed:
            self._worked(name, now)

    def _slurm(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        timeout_s = self.settings.slurm.timeout_s
        runner = self.runner or functools.partial(subprocess_runner, timeout_s=timeout_s)
        options = ingesting.Options()
        return live_ingest.ingest_live(
            writer, self.settings, options, now=now, runner=runner, progress=self._check_stop
        )

    def _prometheus(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        return ingest_live(writer, self.settings, TelemetryRequest(), now=now, progress=self._check_stop)

    def _kubernetes(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        server = self.settings.kubernetes
        if self._follower is None and self._thread is not None:  # watches are held open by the service only
            self._follower = Follower(lambda: kubernetes.connected(server))
        return kubernetes.ingest_live(
            writer, server, cluster=self.settings.cluster, now=now, progress=self._check_stop, follower=self._follower
        )

    def _runlogs(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        """Run logs that are new, or have changed since they were read."""
        files: dict[str, Stamp] = {}
        for pattern in self.settings.serve.runlogs:
            named = files_of([pattern])
            files |= named
            if not named:
                self._warn("runlog", f"serve.runlogs: no file matches {pattern}")
        formats = marked_formats(self.settings.runlog)
        reports = runlogs.ingest_changed(
            writer,
            files,
            cluster=self.settings.cluster,
            now=now,
            progress=self._check_stop,
            logs=LogRequest(timezone=self.settings.timezone, formats=formats),
            version=code_digest(),
        )
        return [*_mistakes(formats), *reports]

    def _compute(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        """Compute if a cluster has loads since the last computation, or if rules, claims or the code have changed."""
        claims = StoredClaims.read(self.settings.claims)
        inputs = None if claims.error else inputs_digest(self.settings, since=None, until=None)
        stale = [cluster for cluster in writer.query("clusters")["cluster"] if _is_behind(writer, cluster)]
        before = writer.fact_of_version(FACT)
        if stale or (before is not None and inputs is not None and before != inputs):
            done = computing.compute(
                writer, self.settings, now=now, inputs=inputs, verdicts=claims.verdicts, progress=self._check_stop
            )
            if claims.error is not None:
                self._warn("compute", f"no verdict is stored: {claims.error}")
            self.tally["computed"] += len(done.clusters)
            for window in done.clusters:
                _log(logging.INFO, "computed", cluster=window.cluster, since=iso(window.since), until=iso(window.until))
        return []

    def _publish(self, target: Path) -> Sequence[LoadReport]:
        """Publish tables for Grafana's SQL boards, if there is a newer copy of the warehouse than the last time."""
        copy = directory.current_copy(self.root)
        if copy != self._published:
            with open_reader(self.root) as reader:
                publish(reader, target)
            self._published = copy
        return []

    def _commit(self, lake: Path, now: datetime) -> Sequence[LoadReport]:
        """Commit the warehouse to a lake, if there is a newer copy of it than the last time."""
        copy = directory.current_copy(self.root)
        if copy != self._committed:
            files = self.settings.serve.lake_files
            taken = copy_to_lake(self.root, lake, now=now, report=self._check_stop, data_path=files)
            _log(logging.INFO, "committed", lake=str(address_of(lake)), rows=taken.rows, files=taken.files)
            self.tally["committed"] += taken.rows
            self._committed = copy
        return []

    def _retain(self, writer: Writer, now: datetime) -> Sequence[LoadReport]:
        """Once a day, remove telemetry that is older than the retention."""
        if self._retained is None or now - self._retained >= retention.EVERY:
            for removal in retention.retain(writer, self.settings, now=now):
                _log(logging.INFO, "removed", **retention.logged(removal))
            self._retained = now
        return []

    def _scan(self, writer: Writer) -> Sequence[LoadReport]:
        """Read some of the warehouse's files, others than in the cycle before, and compare them with their digests."""
        integrity.scan(writer)
        return []

    def _check_stop(self, *_: object) -> None:
        """Progress: the place where a cycle can be stopped."""
        if self._stop.is_set():
            raise CycleStoppedError

    def _warn(self, name: str, text: str, *, fresh: bool = True) -> None:
        """Record a warning of a source for the present step, and log it if it is new."""
        message = without_secrets(text, self.settings)
        if fresh:
            _log(logging.WARNING, message, source=name)
        self._warned.append(message.strip().splitlines()[0])

    def _faulted(self, name: str, error: Exception, now: datetime) -> None:
        """Record a fault of Trackside, with its traceback."""
        lines = traceback.format_exception(error)
        self._failed(name, error, now)
        for line in lines:
            _log(logging.ERROR, without_secrets(line.strip(), self.settings), source=name)

    def _failed(self, name: str, error: Exception, now: datetime) -> None:
        message = without_secrets(str(error).strip() or type(error).__name__, self.settings)
        self.errors[name] = _without_frames(error)
        before = self.sources.get(name, SourceHealth())
        first = message.splitlines()[0]
        self.sources[name] = dataclasses.replace(before, last_error=first, failed_at=now)
        _log(logging.ERROR, message, source=name)

    def _worked(self, name: str, now: datetime) -> None:
        self.sources[name] = SourceHealth(last_success=now, last_warning=self._warned[-1] if self._warned else None)


def _without_frames(error: Exception) -> Exception:
    """An error that can be kept until the next cycle: its frames would keep all data that they were at work with."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _is_behind(writer: Writer, cluster: str) -> bool:
    """Whether data were loaded since the last computation."""
    if writer.query("computed", cluster=cluster).is_empty():
        return True
    return bool(writer.query("loads_since_computed", cluster=cluster)["loads"].item())


def _new_rows(parsed: Parsed) -> int:
    """Rows that were not known before; where that was not counted, those that were loaded."""
    return parsed.rows_loaded if parsed.rows_new is None else parsed.rows_new


def _mistakes(formats: Iterable[TextFormat]) -> Iterator[LoadReport]:
    """The text formats of the configuration whose logs are not read."""
    for form in formats:
        if form.mistake:
            first, *others = form.mistake.splitlines()
            more = f" (and {len(others)} more)" if others else ""
            wrong = f"{first}{more}; logs of this format are not read until that is corrected, all others are"
            yield LoadReport("configuration", error=ConfigError(wrong))


_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")


def without_secrets(text: str, settings: Config) -> str:
    """A message without secrets: credentials in addresses, and the token.

    >>> from app.config.settings import Config
    >>> without_secrets("GET http://me:pw@prometheus:9090/api failed", Config())
    'GET http://***@prometheus:9090/api failed'
    """
    token = os.environ.get(settings.prometheus.token_env or "", "")
    hidden = text.replace(token, "***") if token else text
    return _CREDENTIALS.sub("***@", hidden)


def _log(level: int, message: str, **fields: object) -> None:
    logger.log(level, "%s", message, extra={"fields": fields})
