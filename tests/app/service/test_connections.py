"""Clients that say nothing, little or everything at once keep nobody else from being answered."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.request import urlopen

import pytest
from waitress import wasyncore

from app.service import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

    Application = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

HALF = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
PATIENT_S = 60.0
"""Far longer than any answer takes here, far shorter than the 120 s that a plain server would be deaf."""


def echo_path(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(environment["PATH_INFO"]).encode()]


@contextlib.contextmanager
def served(
    application: Application = echo_path, *, request_s: float = connections.REQUEST_S, most: int | None = None
) -> Iterator[tuple[connections.GuardedServer, int]]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        server = connections.make_server(application, listening, request_s=request_s, most=most)
        stop = threading.Event()
        thread = threading.Thread(target=lambda: _run(server, stop))
        thread.start()
        try:
            yield server, listening.getsockname()[1]
        finally:
            stop.set()
            server.pull_trigger()
            thread.join(PATIENT_S)
            server.task_dispatcher.shutdown()
            for each in list(_map(server).values()):
                each.close()


def _run(server: connections.GuardedServer, stop: threading.Event) -> None:
    while not stop.is_set():
        wasyncore.loop(timeout=0.1, use_poll=True, map=_map(server), count=1)


def _map(server: connections.GuardedServer) -> dict[int, Any]:
    """Everything that the server's loop watches."""
    return cast("dict[int, Any]", vars(server)["_map"])


def channels(server: connections.GuardedServer) -> int:
    """How many connections are open."""
    return len(cast("dict[int, Any]", server.active_channels))


def ask(port: int, path: str = "/healthz") -> str:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENT_S) as answer:
        return str(answer.read().decode())


@contextlib.contextmanager
def half_open(port: int, count: int, first: bytes = HALF) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as open_:
        made = []
        for _ in range(count):
            made.append(open_.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENT_S)))
            with contextlib.suppress(OSError):  # closed already, to make room
                made[-1].sendall(first)
        yield made


def closed(connection: socket.socket) -> bool:
    """Whether the server closes it before long."""
    connection.settimeout(PATIENT_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("first", [HALF, b"", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc"])
def test_three_hundred_half_open_connections_leave_it_answering(first: bytes) -> None:
    with served() as (_, port), half_open(port, 300, first):
        began = time.monotonic()
        assert ask(port) == "/healthz"
        assert time.monotonic() - began < connections.REQUEST_S  # before any of them is closed for being late


def test_at_the_limit_the_longest_silent_make_room() -> None:
    with served(most=32) as (server, port), half_open(port, 100) as others:
        for _ in range(400):  # a new connection has the file number of one that was closed
            assert ask(port, "/page") == "/page"
        assert channels(server) <= 36
        assert closed(others[0])


@pytest.mark.parametrize("first", [HALF, b""])
def test_a_request_that_trickles_in_is_closed_in_time(first: bytes) -> None:
    with served(request_s=0.5) as (_, port), half_open(port, 1, first) as (slow,):
        with contextlib.suppress(OSError):
            for _ in range(200):  # never silent for long
                time.sleep(0.05)
                slow.sendall(b"a" if first else b"")
        assert closed(slow)


def test_a_connection_is_kept_between_two_requests() -> None:
    with served(request_s=2) as (_, port), half_open(port, 1, b"") as (kept,):
        for _ in range(2):
            kept.sendall(b"GET /again HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"/again"):  # the head may come by itself
                answer += (part := kept.recv(4096))
                assert part, answer
            time.sleep(4)  # a scraper's next request comes later than a request may take


def test_answer_that_is_not_fetched_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def large(_: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        start("200 OK", [("Content-Type", "text/plain")])
        return [b"x" * (1 << 23)]

    monkeypatch.setattr(connections, "IDLE_S", 0.5)
    with served(large) as (server, port), half_open(port, 1, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        end = time.monotonic() + PATIENT_S
        seen = False
        while not (seen and not channels(server)):
            seen = seen or bool(channels(server))
            assert time.monotonic() < end, "it stays open"
            time.sleep(0.1)


@pytest.mark.parametrize("urgent", connections.URGENT)
def test_monitoring_is_answered_while_all_pages_wait(urgent: str) -> None:
    free, busy = threading.Event(), threading.Semaphore(0)

    def stuck(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environment["PATH_INFO"] == "/page":
            busy.release()
            assert free.wait(PATIENT_S)
        return echo_path(environment, start)

    request = b"GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served(stuck) as (_, port), half_open(port, connections.THREADS + connections.QUEUED + 20, request) as pages:
        try:
            for _ in range(connections.THREADS):
                assert busy.acquire(timeout=PATIENT_S)
            assert ask(port, urgent) == urgent
        finally:
            free.set()
        assert any(closed(page) for page in pages[-20:])  # one too many is turned away, not kept


def test_fifty_browsers_at_once_are_all_answered() -> None:
    """Each opens six connections for the sections of a page, and none of their requests is answered for a while."""
    free = threading.Event()

    def slow(environment: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        assert free.wait(PATIENT_S)
        return echo_path(environment, start)

    request = b"GET /section HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with served(slow) as (server, port), half_open(port, 50 * 6, request) as sections:
        end = time.monotonic() + PATIENT_S
        while len(server.task_dispatcher.queue) < 50 * 6 - connections.THREADS:
            assert time.monotonic() < end, "some requests were turned away"
            time.sleep(0.05)
        free.set()
        answers = [each.makefile("rb").read() for each in sections]
    assert {each[:15] for each in answers} == {b"HTTP/1.1 200 OK"}


def test_the_limit_leaves_files_for_the_warehouse(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, most in (
        (1024, 384),
        (256, 64),
        (1 << 20, connections.MOST),
        (resource.RLIM_INFINITY, connections.MOST),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connections.connection_limit() == most
