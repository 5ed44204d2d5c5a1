"""The web server's connections: clients that never finish a request must not block others.

Waitress stops accepting at 100 open connections and closes an idle one after two minutes, so a few hundred connections
that send nothing block it. Here a request must be complete within seconds, the connection that has waited longest
makes room for a new one, and health and metrics have threads of their own.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from typing import TYPE_CHECKING, Any, cast

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeAlias
    from wsgiref.types import StartResponse, WSGIEnvironment

    Application: TypeAlias = Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]

THREADS = 24
"""Requests of pages at once: few work (`app.results.serving.pool.AT_ONCE`), the others wait for their turn; a page's
frame, which needs none, comes meanwhile."""

URGENT_THREADS = 2
"""Threads that answer `URGENT` alone: these never wait for a page."""

URGENT = ("/healthz", "/metrics")
"""Paths of monitoring."""

REQUEST_S = 15.0
"""A request must be complete this long after its connection was opened, or its first byte came."""

IDLE_S = 120.0
"""A connection without a request is closed after this long: longer than Prometheus waits between two scrapes."""

MOST = 2048
"""Open connections at most, where the limit of open files allows it."""

RESERVED_FILES = 256
"""Open files that are left for the warehouse, its Parquet files and the commands of a cycle."""

QUEUED = 320
"""Complete requests for pages that may wait for a thread; further ones are turned away. A browser requests six sections
of a page at once, so this is enough for 50 people who open one in the same moment."""

MAX_BODY = 1 << 20
"""Bytes of a request's body; the explorer's own are a few thousand."""


def connection_limit() -> int:
    """How many connections may be open; each may need two files, the second for an answer that is not fetched."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if files == resource.RLIM_INFINITY else max(64, min(MOST, (files - RESERVED_FILES) // 2))


def make_server(
    application: Application, listening: socket.socket, *, request_s: float = REQUEST_S, most: int | None = None
) -> GuardedServer:
    """A server on a bound socket; `run` serves until the process is to end.

    Args:
        application: the web application.
        listening: where it listens.
        request_s: how long a client may take to send a request.
        most: open connections at most; `connection_limit()` if None.
    """
    most = connection_limit() if most is None else most
    settings = Adjustments(
        sockets=[listening],
        ident="trackside",
        asyncore_use_poll=True,  # select() ends at file 1024
        connection_limit=2 * most,  # a second net: `most` is kept by closing the longest silent ones
        channel_timeout=int(IDLE_S),
        cleanup_interval=1,
        max_request_body_size=MAX_BODY,
        max_request_header_size=1 << 16,
        clear_untrusted_proxy_headers=False,  # app.access.guard believes them where [access] names the proxy
    )
    named = (listening.family, listening.type, listening.proto, listening.getsockname())
    made = GuardedServer(
        application, {}, _sock=listening, dispatcher=_Dispatcher(), adj=settings, sockinfo=named, bind_socket=False
    )
    made.request_s, made.most = request_s, most
    return made


class _Channel(HTTPChannel):
    """A connection with the time since when its request is incomplete."""

    waiting_since: float | None = None

    def add_channel(self, map: Mapping[int, socket.socket] | None = None) -> None:  # noqa: A002 - theirs
        """The connection is open: a request is due."""
        super().add_channel(map)
        self.waiting_since = time.monotonic()

    def received(self, data: bytes) -> bool:
        """Take in a part of a request; the clock runs from its first byte until it is complete."""
        taken = bool(super().received(data))
        if self.request is None:
            self.waiting_since = None
        elif self.waiting_since is None:
            self.waiting_since = time.monotonic()
        return taken

    def give_up(self) -> None:
        """End the connection; the loop closes it when its turn comes.

        Closing it here would free its file number while the loop still holds events for that number: the next client
        gets the number, and with it the events, which closes the wrong connection.
        """
        self.will_close = True
        if self.socket is not None:
            with contextlib.suppress(OSError):  # the client is gone already
                self.socket.shutdown(socket.SHUT_RDWR)  # an event at once, even where an answer is not fetched


class GuardedServer(TcpWSGIServer):
    """Waitress's server, which closes what does not become a request and always has room for another client."""

    channel_class = _Channel
    request_s = REQUEST_S
    most = MOST

    def readable(self) -> bool:
        """Whether to accept now; at the limit, room is made first."""
        if len(self._silent()) >= self.most:
            self._make_room()
        return bool(super().readable())

    def maintenance(self, now: float) -> None:
        """Close what is idle, answers that are not fetched, and requests that do not become complete."""
        late = time.monotonic() - self.request_s
        for channel in self._silent():
            incomplete = channel.waiting_since is not None and channel.waiting_since < late
            if incomplete or channel.last_activity < now - IDLE_S:
                channel.give_up()

    def _silent(self) -> list[_Channel]:
        """Connections whose client is to do something: send a request, or fetch an answer."""
        every = cast("dict[int, _Channel]", self.active_channels)
        return [channel for channel in every.values() if not channel.requests and not channel.will_close]

    def _make_room(self) -> None:
        """Close a sixteenth of the silent connections, the longest silent first: honest clients take milliseconds."""
        first = sorted(self._silent(), key=lambda channel: channel.last_activity)
        for channel in first[: max(1, self.most // 16)]:
            channel.give_up()


class _Dispatcher(ThreadedTaskDispatcher):
    """Threads for pages, and some that answer monitoring alone."""

    def __init__(self) -> None:
        super().__init__()
        self._urgent = ThreadedTaskDispatcher()
        self._urgent.set_thread_count(URGENT_THREADS)
        self.set_thread_count(THREADS)

    def add_task(self, task: Any) -> None:  # noqa: ANN401 - a channel: their stubs name another class
        """Queue a connection with a complete request; one too many is closed."""
        if str(getattr(task.requests[0], "path", "")).rstrip("/") in URGENT:
            self._urgent.add_task(task)
        elif len(self.queue) < QUEUED:
            super().add_task(task)
        else:
            task.cancel()

    def shutdown(self, cancel_pending: bool = True, timeout: int = 5) -> bool:  # noqa: FBT001, FBT002 - theirs
        """End all threads."""
        self._urgent.shutdown(cancel_pending, timeout)
        return bool(super().shutdown(cancel_pending, timeout))
