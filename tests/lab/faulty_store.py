"""A proxy on loopback before a server of S3's protocol, which does one thing wrong, at a request that is chosen.

with ObjectStore(base=folder) as store, FaultyStore(store.url) as faulty:
    faulty.at(12, Fault.HALF_UPLOAD)   # the twelfth request from now on
    print(faulty.url, faulty.requests)
"""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from types import TracebackType

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>"
_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_NOT_PASSED_ON = frozenset({"transfer-encoding", "connection", "content-length", "date", "server"})


class Fault(Enum):
    """What goes wrong."""

    SLOW_DOWN = "the server answers 503"
    NO_ANSWER = "no answer comes in time"
    HALF_UPLOAD = "the connection ends in the middle of the request"
    LOST_ANSWER = "the request is carried out, and the connection ends before the answer"
    HALF_ANSWER = "the connection ends in the middle of the answer"
    FORBIDDEN = "the server answers 403: it does not know the keys"
    EXPIRED = "the server answers 400: the keys are temporary, and their time is over"


_ANSWERED = {
    Fault.SLOW_DOWN: (503, _SLOW_DOWN),
    Fault.FORBIDDEN: (403, _FORBIDDEN),
    Fault.EXPIRED: (400, _EXPIRED),
}
"""Faults that are an answer of the server: its status and content."""


@dataclass
class FaultyStore:
    """Passes requests on to `upstream`.

    Attributes:
        upstream: address of the server.
        lasting: whether the fault goes on from that request to `mend`, rather than happening once.
        silence_s: how long `NO_ANSWER` lasts: longer than a client waits.
        requests: how many there have been.
        done: how many of them went wrong.
    """

    upstream: str
    lasting: bool = False
    silence_s: float = 2.0
    requests: int = 0
    done: int = 0
    _at: int = 0
    _fault: Fault | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    @property
    def url(self) -> str:
        """Its base address."""
        assert self._server is not None, "the proxy has not been started"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def at(self, request: int, fault: Fault, *, lasting: bool = False) -> None:
        """Have a fault happen at the n-th request from now on, once or until `mend`."""
        with self._lock:
            self._at, self._fault, self.lasting, self.done = self.requests + request, fault, lasting, 0

    def mend(self) -> None:
        """Have no fault happen any more."""
        with self._lock:
            self._fault = None

    def next_fault(self) -> Fault | None:
        """Count a request; what goes wrong with it."""
        with self._lock:
            self.requests += 1
            due = self.requests >= self._at if self.lasting else self.requests == self._at
            if self._fault is None or not due:
                return None
            self.done += 1
            return self._fault


def _handler(proxy: FaultyStore) -> type[BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"proxy": proxy})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyStore

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _pass_on(self) -> None:
        fault = self.proxy.next_fault()
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length // 2 if fault is Fault.HALF_UPLOAD else length)
        self.close_connection = fault not in {None, *_ANSWERED}
        if fault in _ANSWERED:
            status, content = _ANSWERED[fault]
            self._answer(status, {"Content-Type": "application/xml"}, content)
        elif fault is Fault.NO_ANSWER:
            time.sleep(self.proxy.silence_s)
        elif fault is not Fault.HALF_UPLOAD:
            status, headers, content = self._carried_out(body)
            if fault is not Fault.LOST_ANSWER:
                self._answer(status, headers, content, half=fault is Fault.HALF_ANSWER)

    def _carried_out(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(urlsplit(self.proxy.upstream).netloc, timeout=60)
        with contextlib.closing(upstream):
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, half: bool = False) -> None:
        length = headers.get("Content-Length", str(len(content))) if self.command == "HEAD" else str(len(content))
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        with contextlib.suppress(OSError):  # the client waits no longer
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if half else content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 - names of the standard library
