"""`trackside explore` and `trackside serve`: explorer, `/metrics` and `/healthz`, and keeping them up to date.

There is no authentication here, so the default is this machine only; a proxy in front is the place for it. The one
server process reads published copies. `serve` adds a thread that writes for the length of a cycle and no longer, so
that the command line can work in between; stop the process at any moment, and the next cycle goes on from there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import stat
import threading
import traceback
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flask import Response, request
from polars.exceptions import PanicException
from waitress.server import create_server

from app import (
    clock,
    computing,
    config,
    exporter,
    ingesting,
    live_roads,
    live_slurm,
    loading,
    output,
    runlogs,
    telemetry,
)
from app.answers import Answers, Claims
from app.errors import EXIT_STATUS, UsageError
from app.explorer import create_app
from app.times import iso
from ingest.live import subprocess_runner
from queries.errors import LockedWarehouseError, WarehouseError
from queries.warehouse import open_writer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from wsgiref.types import StartResponse, WSGIEnvironment

    from flask import Flask

    from app.config import Config
    from app.loading import Report
    from ingest.live import Runner
    from queries.warehouse import Reader, Writer

THREADS = 8
"""Requests that are worked on at once."""

PATIENCE_S = 20.0
"""How long a stop waits for a cycle that is at work."""

OVERDUE = 3
"""A last success this many intervals ago means that something hangs."""


def explore(options: argparse.Namespace) -> int:
    """`trackside explore`: serve what the warehouse holds."""
    settings = config.load(options.config)
    host, port = address(options, settings)
    return serve_explorer(options.warehouse or settings.warehouse, settings, host=host, port=port)


def serve(options: argparse.Namespace) -> int:
    """`trackside serve`: the same, and ingest and compute on a schedule."""
    settings = config.load(options.config)
    root = options.warehouse or settings.warehouse
    every = settings.serve.every_minutes if options.every is None else options.every
    if not 0 <= every < 1e6:
        raise UsageError(f"--every {every:g}: minutes between two cycles, 0 or more (0 only serves)")
    host, port = address(options, settings)
    worker = Worker(root, settings, every=timedelta(minutes=every)) if every else None
    return serve_explorer(root, settings, host=host, port=port, worker=worker)


def serve_explorer(root: Path, settings: Config, *, host: str, port: int, worker: Worker | None = None) -> int:
    """Serve until somebody stops it (Ctrl-C or SIGTERM).

    Args:
        root: the warehouse directory; it need not exist yet.
        settings: claims, and what the explorer needs.
        host: address to listen on.
        port: port; 0 takes a free one.
        worker: what keeps the warehouse up to date; None only serves.

    Returns:
        0: stopping it is how it ends.

    Raises:
        UsageError: the address cannot be listened on.
    """
    with contextlib.closing(_bound(host, port)) as listening:
        _serve(listening, root, settings, host, worker)
    return 0


def _serve(listening: socket.socket, root: Path, settings: Config, host: str, worker: Worker | None) -> None:
    application = make_application(root, settings, worker)
    names = settings.serve.names
    guarded = only_own_names(application, host, names) if is_loopback(host) else application.wsgi_app
    server = create_server(guarded, sockets=[listening], threads=THREADS, ident="trackside")
    try:
        url = f"http://{_shown(host)}:{listening.getsockname()[1]}/"
        output.say(f"Trackside: {url}   (metrics: /metrics, health: /healthz; stop: Ctrl-C)", error=True)
        if not is_loopback(host):
            output.say(
                f"warning: listening on {host} lets everybody who reaches this machine read everything here: there is "
                "no authentication. Put a proxy with authentication in front, or use --host 127.0.0.1.",
                error=True,
            )
        if worker is not None:
            worker.start()
        with _stopped_by_signals():
            server.run()
    finally:
        server.close()
        if worker is not None:
            worker.stop()


def make_application(root: Path, settings: Config, worker: Worker | None = None) -> Flask:
    """The explorer's server with `/metrics` and `/healthz` on it.

    Raises:
        ClaimsError: the claims file cannot be used.
    """
    claims = Claims(settings.claims)
    application: Flask = create_app(root, settings, claims).server
    scraped, asked_for_health = Answers(root), Answers(root)  # neither a scrape nor health waits for a page

    @application.get("/metrics")
    def metrics() -> Response:
        content, kind = exporter.negotiated(scraped, request.headers.get("Accept", ""), claims=claims)
        return Response(content, content_type=kind)

    @application.get("/healthz")
    def health() -> Response:
        told, status = health_of(asked_for_health, worker, now=clock.now(), claims=claims)
        return Response(json.dumps(told, indent=2) + "\n", status=status, mimetype="application/json")

    return application


# Health ----------------------------------------------------------------------------------------------------------


@dataclass
class SourceHealth:
    """What came of a source's last cycle; `last_warning` is the last thing that reading it gave to think about."""

    last_success: datetime | None = None
    last_error: str | None = None
    failed_at: datetime | None = None
    last_warning: str | None = None

    def told(self) -> dict[str, str | None]:
        """As `/healthz` says it."""
        return {
            "last_success": None if self.last_success is None else iso(self.last_success),
            "last_error": self.last_error,
            "failed_at": None if self.failed_at is None else iso(self.failed_at),
            "last_warning": self.last_warning,
        }


def health_of(
    answers: Answers, worker: Worker | None, *, now: datetime, claims: Claims | None = None
) -> tuple[dict[str, Any], int]:
    """What `/healthz` says, and its HTTP status: 200 if all is well, 503 with what failed otherwise.

    Args:
        answers: the published warehouse. Nobody else should ask it: whoever asks waits for the question before.
        worker: what keeps the warehouse up to date; None if nothing does.
        now: the time that it is said at.
        claims: what is judged; None if nothing is.
    """
    version, data_end, unreadable = answers.version(), None, None
    if version:
        try:
            data_end = answers.ask(_data_end)
        except WarehouseError as error:
            unreadable = str(error).splitlines()[0]
    failures = [] if unreadable is None else [f"warehouse: {unreadable}"]
    failures += [] if worker is None else worker.failures(now)
    mistakes = None if claims is None else claims.mistakes()
    if mistakes is not None:
        said = " ".join(line.strip() for line in mistakes.splitlines())
        failures.append(f"claims: {said}; until it is mended, those that were there before are judged")
    told = {
        "status": "failing" if failures else "ok",
        "failures": failures,
        "data_version": int(version) if version else None,
        "data_end": None if data_end is None else iso(data_end),
        "last_success": None if worker is None or worker.last_success is None else iso(worker.last_success),
        "next_cycle": None if worker is None or worker.next_cycle is None else iso(worker.next_cycle),
        "sources": {} if worker is None else {name: each.told() for name, each in sorted(worker.sources.items())},
    }
    return told, 503 if failures else 200


def _data_end(source: Reader) -> datetime | None:
    """The last moment that any cluster's numbers speak for."""
    ends = [source.query("computed", cluster=cluster)["until"].max() for cluster in source.query("clusters")["cluster"]]
    return max((end for end in ends if isinstance(end, datetime)), default=None)


# Keeping up to date ----------------------------------------------------------------------------------------------


class StoppedError(Exception):
    """A cycle was told to stop; what it committed stays, the rest is done again."""


_OURS = tuple(EXIT_STATUS)
"""Errors that a person can do something about."""

_FAULTS = (Exception, PanicException)
"""Whatever else may come up: a fault of ours in one source must neither keep the others from running nor end the
service. (A panic of polars is no Exception.)"""


@dataclass
class Worker:
    """Reads the sources and computes, again and again, in a thread of its own.

    Attributes:
        root: the warehouse directory.
        settings: which sources there are.
        every: from the start of a cycle to the start of the next.
        runner: runs Slurm's commands; None runs them for real, if they are there.
        sources: what came of each source.
        last_success: end of the last cycle in which nothing failed.
        next_cycle: when the next one is due.
    """

    root: Path
    settings: Config
    every: timedelta
    runner: Runner | None = None
    sources: dict[str, SourceHealth] = field(default_factory=dict)
    last_success: datetime | None = None
    next_cycle: datetime | None = None
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _warned: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _started: datetime | None = None

    def start(self) -> None:
        """Begin with a cycle at once."""
        self._started = clock.now()
        self._thread = threading.Thread(target=self._run, name="trackside-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two steps; a cycle that does not come to one in time is left to die with the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                log("warning", "stopped in the middle of a cycle; what it had not committed is done again next time")

    def failures(self, now: datetime) -> list[str]:
        """What is wrong, in words; empty if nothing is."""
        found = [f"{name}: {each.last_error}" for name, each in sorted(self.sources.items()) if each.last_error]
        since = self.last_success or self._started
        if not found and since is not None and now - since > OVERDUE * self.every + timedelta(minutes=15):
            found.append(f"no cycle has ended since {iso(since)}")
        if self._thread is not None and not self._thread.is_alive() and not self._stop.is_set():
            found.append("the worker has died; restart the service")
        return found

    def _run(self) -> None:
        while not self._stop.is_set():
            began = clock.now()
            with contextlib.suppress(StoppedError):
                self._guarded_cycle(began)
            self.next_cycle = began + self.every
            self._stop.wait(max(0.0, (self.next_cycle - clock.now()).total_seconds()))

    def _guarded_cycle(self, now: datetime) -> None:
        try:
            self.cycle(now=now)
        except StoppedError:
            raise
        except _FAULTS as error:
            self._faulted("trackside", error, now)

    def cycle(self, *, now: datetime) -> None:
        """Read every source that is configured, and compute if there is anything new.

        A source that fails is noted and the others go on. If another process is writing, the cycle is left out: it
        will find the same data next time.
        """
        try:
            with open_writer(self.root, verb="trackside serve", now=now) as writer:
                for name, read in self._configured():
                    self._step(name, now, functools.partial(read, writer, now))
                self._step("compute", now, functools.partial(self._compute, writer, now))
        except LockedWarehouseError as error:
            log("info", f"cycle left out: {str(error).splitlines()[0]}")
            return
        except WarehouseError as error:
            self._failed("warehouse", error, now)
            return
        self._worked("warehouse", now)
        self.sources.pop("trackside", None)  # a fault outside all sources; this time there was none
        if not any(each.last_error for each in self.sources.values()):
            self.last_success = clock.now()

    def _configured(self) -> Iterator[tuple[str, Callable[[Writer, datetime], Sequence[Report]]]]:
        """The sources that there are here."""
        if self.runner is not None or live_roads.by_rest(self.settings) or shutil.which("sacct"):
            yield "slurm", self._slurm
        if self.settings.prometheus.url:
            yield "prometheus", self._prometheus
        if self.settings.serve.runlogs:
            yield "runlog", self._runlogs

    def _step(self, name: str, now: datetime, work: Callable[[], Sequence[Report]]) -> None:
        """One source, or the computation: noted and logged, whatever comes of it."""
        self._tell()
        self._warned.clear()
        try:
            reports = work()
        except StoppedError:
            raise
        except _OURS as error:
            self._failed(name, error, now)
            return
        except _FAULTS as error:
            self._faulted(name, error, now)
            return
        for report in reports:
            if report.parsed is not None:
                log("info", "loaded", source=name, origin=report.origin, rows=report.parsed.rows_loaded,
                    rejected=report.parsed.rows_rejected)  # fmt: skip
                for warning in report.parsed.warnings:
                    self._warn(name, warning)
        failure = loading.first_error(list(reports))
        if failure is not None:
            self._failed(name, failure, now)
        else:
            self._worked(name, now)

    def _slurm(self, writer: Writer, now: datetime) -> Sequence[Report]:
        timeout_s = self.settings.slurm.timeout_s
        runner = self.runner or functools.partial(subprocess_runner, timeout_s=timeout_s)
        asked = ingesting.Options()
        return live_slurm.ingest_live(writer, self.settings, asked, now=now, runner=runner, progress=self._tell)

    def _prometheus(self, writer: Writer, now: datetime) -> Sequence[Report]:
        return telemetry.ingest_live(writer, self.settings, telemetry.Asked(), now=now, progress=self._tell)

    def _runlogs(self, writer: Writer, now: datetime) -> Sequence[Report]:
        """Run logs that are new, or have changed since they were read."""
        found: dict[str, tuple[int, int]] = {}
        for pattern in self.settings.serve.runlogs:
            named = _stamps([pattern])
            found |= named
            if not named:
                self._warn("runlog", f"serve.runlogs: no file is named by {pattern}")
        changed = [name for name, stamp in found.items() if self._seen.get(name) != stamp]
        reports = runlogs.ingest_files(writer, changed, cluster=self.settings.cluster, now=now, progress=self._tell)
        for report in reports:
            if report.error is None and report.origin in found:
                self._seen[report.origin] = found[report.origin]
        return reports

    def _compute(self, writer: Writer, now: datetime) -> Sequence[Report]:
        """Compute if a cluster has loads that the numbers do not know yet."""
        stale = [cluster for cluster in writer.query("clusters")["cluster"] if _is_behind(writer, cluster)]
        if stale:
            done = computing.compute(writer, self.settings, now=now, progress=self._tell)
            for window in done.clusters:
                log("info", "computed", cluster=window.cluster, since=iso(window.since), until=iso(window.until))
        return []

    def _tell(self, *_: object) -> None:
        """Progress: the place where a cycle can be stopped."""
        if self._stop.is_set():
            raise StoppedError

    def _warn(self, name: str, text: str) -> None:
        """Log what a source gives to think about, for the step that is being done."""
        said = without_secrets(text, self.settings)
        log("warning", said, source=name)
        self._warned.append(said.strip().splitlines()[0])

    def _faulted(self, name: str, error: Exception, now: datetime) -> None:
        """Note what nobody foresaw, with where it happened."""
        self._failed(name, error, now)
        for line in traceback.format_exception(error):
            log("error", without_secrets(line.strip(), self.settings), source=name)

    def _failed(self, name: str, error: Exception, now: datetime) -> None:
        said = without_secrets(str(error).strip() or type(error).__name__, self.settings)
        before = self.sources.get(name, SourceHealth())
        first = said.splitlines()[0]
        self.sources[name] = dataclasses.replace(before, last_error=first, failed_at=now)
        log("error", said, source=name)

    def _worked(self, name: str, now: datetime) -> None:
        self.sources[name] = SourceHealth(last_success=now, last_warning=self._warned[-1] if self._warned else None)


def _is_behind(writer: Writer, cluster: str) -> bool:
    """Whether data were loaded that the last computation did not have."""
    if writer.query("computed", cluster=cluster).is_empty():
        return True
    return bool(writer.query("loads_since_computed", cluster=cluster)["loads"].item())


def _stamps(patterns: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Files that patterns name, sorted, and what changes when one does: when it was changed, and its size."""
    names = {name for pattern in patterns for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207 - Path.glob refuses absolute patterns
    found = {}
    for name in sorted(names):
        with contextlib.suppress(FileNotFoundError):  # gone in this very moment
            told = Path(name).stat()
            if stat.S_ISREG(told.st_mode):
                found[name] = (told.st_mtime_ns, told.st_size)
    return found


_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")


def without_secrets(text: str, settings: Config) -> str:
    """A message without what logs must not hold: credentials in addresses, and the token.

    >>> without_secrets("GET http://me:pw@prometheus:9090/api failed", config.Config())
    'GET http://***@prometheus:9090/api failed'
    """
    token = os.environ.get(settings.prometheus.token_env or "", "")
    hidden = text.replace(token, "***") if token else text
    return _CREDENTIALS.sub("***@", hidden)


def log(level: str, message: str, **more: object) -> None:
    """One line on stderr: time, level and what happened, as key=value."""
    fields = {"time": iso(clock.now()), "level": level, "message": message, **more}
    output.say(" ".join(f"{name}={_one_word(str(value))}" for name, value in fields.items()), error=True)


def _one_word(text: str) -> str:
    """Quoted where it would fall apart: a log line is one line."""
    return text if re.fullmatch(r"[\w.:+/-]+", text) else json.dumps(text, ensure_ascii=False)


# Serving ---------------------------------------------------------------------------------------------------------


def address(options: argparse.Namespace, settings: Config) -> tuple[str, int]:
    """Host and port to listen on: as asked for, else as configured.

    Raises:
        UsageError: there is no such port.
    """
    host = options.host or settings.serve.host
    port = settings.serve.port if options.port is None else options.port
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: ports go from 0 (any free one) to 65535")
    return host, port


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def only_own_names(
    application: Flask, host: str, names: Iterable[str] = ()
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Answer only requests that call this machine by its own name.

    A web page elsewhere can have its name point here (DNS rebinding), and would then read everything through the
    browser of whoever looks at it; such a request still carries that page's name.

    Args:
        application: what answers.
        host: the address that is listened on.
        names: names of a proxy on this machine that hands on the name by which it was asked.
    """
    own = {"localhost", "127.0.0.1", "::1", host, *names}

    def guarded(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        asked = str(environment.get("HTTP_HOST", ""))
        if not asked or _name_of(asked) in own:
            return application.wsgi_app(environment, start)
        said = (
            f"This is a Trackside on {host}, for this machine only; it does not answer to the name in your request.\n"
            "Use http://localhost:PORT/. If a proxy on this machine asks under that name, list the name in\n"
            'trackside.toml:\n\n  [serve]\n  names = ["trackside.example.com"]\n'
        ).encode()
        start("421 Misdirected Request", [("Content-Type", "text/plain"), ("Content-Length", str(len(said)))])
        return [said]

    return guarded


def _name_of(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name_of("localhost:8050"), _name_of("[::1]:80"), _name_of("Evil.example")
    ('localhost', '::1', 'evil.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _bound(host: str, port: int) -> socket.socket:
    """A socket on an address that nobody else has."""
    made = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen()
    except OSError as error:
        if made is not None:
            made.close()
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror}.\nAnother program, or another Trackside, may have "
            "it: choose one with --port (0 takes a free one)."
        ) from None
    return made


def _shown(host: str) -> str:
    """A host as it stands in an address; one that means all is shown by this machine's name."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not listened on
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM end the server's loop; only the main thread can be told so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(*_: object) -> None:
        raise SystemExit(0)

    before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
