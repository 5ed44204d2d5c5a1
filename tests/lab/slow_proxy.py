"""A proxy on loopback between a reader and its server, with which a test makes trouble at a known moment.

with SlowProxy(prometheus.url) as proxy:
    proxy.delay_s = 2.0             # before each answer
    proxy.part, proxy.pause_s = 512, 0.1  # so many bytes at a time, and so long between them
    proxy.before = lambda path: ...  # called before a question is passed on
    print(proxy.url, proxy.asked)
"""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType


def _nothing(_path: str) -> None:
    """Make no trouble."""


@dataclass
class SlowProxy:
    """Passes questions on to `upstream`, and what it says back. `asked` are the paths so far."""

    upstream: str
    delay_s: float = 0.0
    part: int = 1 << 16
    pause_s: float = 0.0
    before: Callable[[str], None] = _nothing
    asked: list[str] = field(default_factory=list)
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

    def pass_on(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answered:
        """What the server behind says; nothing but the cut connection if it says nothing."""
        self.asked.append(path)
        self.before(path)
        upstream = http.client.HTTPConnection(urlsplit(self.upstream).netloc, timeout=60)
        try:
            upstream.request(method, path, body, headers)
            answer = upstream.getresponse()
            return Answered(answer.status, answer.getheader("Content-Type", ""), answer.read())
        finally:
            upstream.close()


@dataclass(frozen=True)
class Answered:
    """What the server behind said."""

    status: int
    kind: str
    body: bytes


def _handler(proxy: SlowProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

        def _pass_on(self, body: bytes | None) -> None:
            reported = {name: text for name, text in self.headers.items() if name not in {"Host", "Accept-Encoding"}}
            with contextlib.suppress(http.client.HTTPException, OSError):  # a server that died, a reader who left
                answer = proxy.pass_on(self.command, self.path, body, reported)
                time.sleep(proxy.delay_s)
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.kind)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                for begin in range(0, len(answer.body), proxy.part):
                    self.wfile.write(answer.body[begin : begin + proxy.part])
                    time.sleep(proxy.pause_s)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
