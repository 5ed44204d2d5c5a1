"""`trackside explore` and `trackside serve`: explorer, `/metrics` and `/healthz`, and keeping them up to date.

The default is this machine only, without a login; `[access]` of the configuration sets how people log in. The one
server process reads published copies. `serve` adds a thread that writes (`app.service.worker`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import signal
import socket
import threading
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from flask import Response, request

from app import clock, console, garbage, panics
from app.access import people
from app.access.exposure import REMEDY, exposed, is_loopback
from app.access.people import Role
from app.claims.watched import WatchedClaims
from app.config.watched import WatchedConfig
from app.errors import UsageError
from app.explorer import create_app
from app.json_text import as_json
from app.results.serving.cache import AnswerCache
from app.service import connections, exporter, log
from app.service.ahead import Ahead
from app.service.reporter import Reporter
from app.service.worker import Worker
from app.times import iso
from queries.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIEnvironment

    from flask import Flask

    from app.config.settings import Config
    from app.config.watched_file import WatchedFile
    from queries.warehouse import Reader


def serve(
    root: Path,
    settings: Config,
    *,
    host: str | None = None,
    port: int | None = None,
    every_minutes: float | None = None,
    without_login: bool = False,
) -> int:
    """Serve, and ingest and compute on a schedule.

    Args:
        root: the warehouse directory; it need not exist yet.
        settings: used where an argument is None, and by the worker.
        host: address to listen on.
        port: port; 0 takes a free one.
        every_minutes: time between two cycles; 0 only serves.
        without_login: whether other machines may be served without a login.

    Raises:
        UsageError: an argument is out of range, or the address cannot be listened on.
    """
    every = settings.serve.every_minutes if every_minutes is None else every_minutes
    if not 0 <= every < 1e6:
        raise UsageError(f"--every {every:g}: minutes between two cycles, 0 or more (0 only serves)")
    host, port = address(settings, host=host, port=port, without_login=without_login)
    worker = Worker(root, settings, every=timedelta(minutes=every)) if every else None
    reporter = Reporter(root, settings) if every and settings.reports else None
    return serve_explorer(root, settings, host=host, port=port, worker=worker, reporter=reporter)


def serve_explorer(
    root: Path,
    settings: Config,
    *,
    host: str,
    port: int,
    worker: Worker | None = None,
    reporter: Reporter | None = None,
) -> int:
    """Serve until a signal stops it (Ctrl-C or SIGTERM).

    Args:
        root: the warehouse directory; it need not exist yet.
        settings: claims, and what the explorer needs.
        host: address to listen on.
        port: port; 0 takes a free one.
        worker: keeps the warehouse up to date; None: only serve.
        reporter: makes and delivers reports on their schedule; None: no report is made.

    Returns:
        0: stopping it is how it ends.

    Raises:
        UsageError: the address cannot be listened on.
    """
    with contextlib.closing(_bound(host, port)) as listening, log.to_stderr():
        _serve(listening, root, settings, host, worker, reporter)
    return 0


def _serve(  # noqa: PLR0917 - all are needed, in their natural order
    listening: socket.socket,
    root: Path,
    settings: Config,
    host: str,
    worker: Worker | None,
    reporter: Reporter | None,
) -> None:
    names = {*settings.serve.names, *filter(None, [settings.access.host])}
    # A proxy passes on requests of other machines: without a login, anyone could run SELECTs and make corrections.
    trusted = settings.access.needs_login or (is_loopback(host) and not names)
    answers, claims, configured = AnswerCache(root), WatchedClaims(settings.claims), WatchedConfig(settings)
    application = make_application(
        root, settings, worker, reporter, trusted=trusted, answers=answers, claims=claims, configured=configured
    )
    guarded = only_own_names(application, host, names) if names or is_loopback(host) else application.wsgi_app
    server = connections.make_server(guarded, listening)
    threads = [each for each in (worker, reporter, Ahead(answers, claims, configured)) if each is not None]
    try:
        url = f"http://{_shown(host)}:{listening.getsockname()[1]}/"
        console.echo(f"Trackside: {url}   (metrics: /metrics, health: /healthz; stop: Ctrl-C)", error=True)
        if reason := exposed(settings, host):
            console.echo(f"warning: {reason}", error=True)
        garbage.collect_garbage_as_usual()
        for each in threads:
            each.start()
        with _stopped_by_signals():
            server.run()
    finally:
        server.close()
        for each in threads:
            each.stop()


def make_application(
    root: Path,
    settings: Config,
    worker: Worker | None = None,
    reporter: Reporter | None = None,
    *,
    trusted: bool = False,
    answers: AnswerCache | None = None,
    claims: WatchedClaims | None = None,
    configured: WatchedConfig | None = None,
) -> Flask:
    """The explorer's server with `/metrics` and `/healthz` on it; what follows `reporter`: see `create_app`.

    Raises:
        ClaimsError: the claims file cannot be used.
    """
    claims, configured = claims or WatchedClaims(settings.claims), configured or WatchedConfig(settings)
    answers = AnswerCache(root) if answers is None else answers
    application: Flask = create_app(root, settings, claims, answers, configured=configured, trusted=trusted).server
    last = exporter.LastScrape()

    @application.get("/metrics")
    def metrics() -> Response:
        content, kind = exporter.negotiated(answers, request.headers.get("Accept", ""), claims=claims, last=last)
        return Response(content, content_type=kind)

    @application.get("/healthz")
    def health() -> Response:
        watched: Mapping[str, WatchedFile[Any]] = {"claims": claims, "configuration": configured}
        body, status = health_of(answers, worker, now=clock.now(), watched=watched, scrape=last, reporter=reporter)
        if people.current().role < Role.OPERATOR:  # the reasons name sources, paths and claims
            body = {"status": body["status"]}
        return Response(as_json(body, indent=2) + "\n", status=status, mimetype="application/json")

    application.wsgi_app = panics.answered(application.wsgi_app)  # type: ignore[method-assign,assignment]  # as Flask's manual does
    return application


# Health ----------------------------------------------------------------------------------------------------------


def health_of(
    answers: AnswerCache,
    worker: Worker | None,
    *,
    now: datetime,
    watched: Mapping[str, WatchedFile[Any]] = MappingProxyType({}),
    scrape: exporter.LastScrape | None = None,
    reporter: Reporter | None = None,
) -> tuple[dict[str, Any], int]:
    """The document of `/healthz` and its HTTP status: 200 if nothing failed, else 503 with the failures.

    Args:
        answers: the published warehouse.
        worker: keeps the warehouse up to date; None if nothing does.
        now: the time of the request.
        watched: files that are read again when they change, by what they are called.
        scrape: what the last scrape of `/metrics` lacked; None if there is no `/metrics`.
        reporter: makes and delivers reports; None if nothing does.
    """
    version, data_end, unreadable = "", None, None
    try:
        version = answers.version()
        data_end = answers.ask(_data_end) if version else None
    except WarehouseError as error:
        unreadable = str(error).splitlines()[0]
    failures = [] if unreadable is None else [f"warehouse: {unreadable}"]
    failures += [] if worker is None else worker.failures(now)
    failures += [] if reporter is None else reporter.failures()
    failures += _mistakes(watched)
    missing = () if scrape is None else scrape.missing
    failures += _export_failures(each for each in missing if each.failed)
    body = {
        "status": "failing" if failures else "ok",
        "failures": failures,
        "data_version": int(version) if version else None,
        "data_end": None if data_end is None else iso(data_end),
        **_cycles(worker),
        "reports": {} if reporter is None else dict(sorted(reporter.outcomes.items())),
        "metrics": {
            "scraped_at": None if scrape is None or scrape.at is None else iso(scrape.at),
            "missing": [dataclasses.asdict(each) for each in missing],
        },
    }
    return body, 503 if failures else 200


def _cycles(worker: Worker | None) -> dict[str, Any]:
    """When the worker last succeeded, when it goes on, and what came of each source."""
    if worker is None:
        return {"last_success": None, "next_cycle": None, "sources": {}}
    return {
        "last_success": worker.last_success and iso(worker.last_success),
        "next_cycle": worker.next_cycle and iso(worker.next_cycle),
        "sources": {name: each.document() for name, each in sorted(worker.sources.items())},
    }


def _mistakes(watched: Mapping[str, WatchedFile[Any]]) -> list[str]:
    """The mistakes in the watched files, one line for each file."""
    by_name = [(name, each.mistakes()) for name, each in watched.items()]
    return [
        f"{name}: {' '.join(line.strip() for line in text.splitlines())}; until that is corrected, the file's "
        "last valid contents are used"
        for name, text in by_name
        if text is not None
    ]


def _export_failures(missing: Iterable[exporter.Missing]) -> list[str]:
    """Parts of `/metrics` whose computation failed, each reason of a cluster once."""
    parts: dict[tuple[str, str], list[str]] = {}
    for each in missing:
        named = f"{each.part} ({each.window})" if each.window else each.part
        parts.setdefault((each.cluster, each.reason), []).append(named)
    return [
        f"metrics{f' of {cluster}' if cluster else ''}: not exported: {', '.join(named)}: {reason}"
        for (cluster, reason), named in parts.items()
    ]


def _data_end(source: Reader) -> datetime | None:
    """The last moment that any cluster's numbers cover."""
    ends = [source.query("computed", cluster=cluster)["until"].max() for cluster in source.query("clusters")["cluster"]]
    return max((end for end in ends if isinstance(end, datetime)), default=None)


# Serving ---------------------------------------------------------------------------------------------------------


def address(
    settings: Config, *, host: str | None = None, port: int | None = None, without_login: bool = False
) -> tuple[str, int]:
    """Host and port to listen on: the given ones, else the configured ones.

    Raises:
        UsageError: the port is out of range, or other machines would be served without a login.
    """
    host = host or settings.serve.host
    port = settings.serve.port if port is None else port
    if not 0 <= port <= 65535:
        raise UsageError(f"--port {port}: ports go from 0 (any free one) to 65535")
    reason = exposed(settings, host)
    if reason and not without_login:
        raise UsageError(f"{reason}\n{REMEDY}")
    return host, port


def only_own_names(
    application: Flask, host: str, names: Iterable[str] = ()
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    """Answer only requests that call this machine by its own name.

    A web page elsewhere can have its name point here (DNS rebinding), and would then read everything through the
    browser of its visitor; such a request still carries that page's name.

    Args:
        application: the application behind the guard.
        host: the address to listen on.
        names: host names that a proxy on this machine passes on.
    """
    own = {"localhost", "127.0.0.1", "::1", host, *names}
    numbers = not is_loopback(host)  # an address is no name that could be made to point here: Prometheus may use it

    def guarded(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        host_name = str(environment.get("HTTP_HOST", ""))
        name = _name_of(host_name)
        if not host_name or name in own or (numbers and _is_address(name)):
            return application.wsgi_app(environment, start)
        message = (
            f"This is a Trackside on {host}, for this machine only; it does not serve the host name of your request.\n"
            "Use http://localhost:PORT/. If a proxy on this machine passes that name on, list the name in\n"
            'trackside.toml:\n\n  [serve]\n  names = ["trackside.example.com"]\n'
        ).encode()
        start("421 Misdirected Request", [("Content-Type", "text/plain"), ("Content-Length", str(len(message)))])
        return [message]

    return guarded


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name_of(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name_of("localhost:8050"), _name_of("[::1]:80"), _name_of("Evil.example")
    ('localhost', '::1', 'evil.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _bound(host: str, port: int) -> socket.socket:
    """A socket on a free address."""
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
            "it: choose another port with --port (0: any free one)."
        ) from None
    return made


def _shown(host: str) -> str:
    """A host as part of a URL; an address that means all interfaces is shown as this machine's name."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not listened on
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM end the server's loop; only the main thread receives them."""
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
