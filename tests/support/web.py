"""A web server that answers as told: for what a client does about refusals, cut answers and silence."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Answer:
    """What to send: `promised` is the Content-Length if it is to be wrong, `after_s` how long to keep them waiting.

    With `drip_s` so long passes between any two parts of the body, each of `drip` bytes.
    """

    body: bytes
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    after_s: float = 0.0
    drip_s: float = 0.0
    drip: int = 1


@dataclass
class Web:
    """A running server: its address, the questions it got (path, parameters, headers), and what was posted to it.

    Those for an export (parameters, headers) stand apart.
    """

    url: str
    questions: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    posted: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    exported: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)


def told(result: object) -> Answer:
    """A successful answer of Prometheus."""
    return Answer(json.dumps({"status": "success", "data": result}).encode())


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> Answer:
    """A successful answer with series."""
    actual = [{"metric": labels, "values": [list(value) for value in values]} for labels, values in series]
    return told({"resultType": "matrix", "result": actual})


def unsupported(_: bytes) -> Answer:
    """What VictoriaMetrics says to a remote read."""
    return Answer(b"unsupported path requested", 400, "text/plain")


def not_found(_: dict[str, str]) -> Answer:
    """What Prometheus says to a question for an export."""
    return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")


@contextlib.contextmanager
def web(
    answer: Callable[[str, dict[str, str]], Answer],
    read: Callable[[bytes], Answer] = unsupported,
    *,
    export: Callable[[dict[str, str]], Answer] = not_found,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Web]:
    """Serve on loopback what `answer` says for a path and its parameters, and `read` for a body that is posted.

    `export` answers VictoriaMetrics' own path; those questions are kept apart from the others.
    """
    server = _Server(("127.0.0.1", 0), _handler(answer, read, export, actual := Web("")))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    actual.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield actual
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: Any) -> None:
        """Say nothing of those who hang up, or fail to greet."""


def _handler(
    answer: Callable[[str, dict[str, str]], Answer],
    read: Callable[[bytes], Answer],
    export: Callable[[dict[str, str]], Answer],
    actual: Web,
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            params = dict(parse_qsl(parts.query))
            if parts.path.endswith("/api/v1/export"):
                actual.exported.append((params, dict(self.headers)))
                self._send(export(params))
                return
            actual.questions.append((parts.path, params, dict(self.headers)))
            self._send(answer(parts.path, params))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            actual.posted.append((body, dict(self.headers)))
            self._send(read(body))

        def _send(self, output: Answer) -> None:
            time.sleep(output.after_s)
            with contextlib.suppress(OSError):  # they did not wait
                self.send_response(output.status)
                self.send_header("Content-Type", output.kind)
                self.send_header(
                    "Content-Length", str(len(output.body) if output.promised is None else output.promised)
                )
                for name, value in output.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if not output.drip_s:
                    self.wfile.write(output.body)
                    return
                for begin in range(0, len(output.body), output.drip):
                    self.wfile.write(output.body[begin : begin + output.drip])
                    time.sleep(output.drip_s)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
