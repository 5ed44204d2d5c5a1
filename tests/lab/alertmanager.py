"""A real Alertmanager on loopback, and a receiver of its webhooks. Up in tenths of a second.

with Webhooks() as webhooks, AlertmanagerLab(config=text) as alertmanager:
    print(alertmanager.url, webhooks.received("/at-once"))
"""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tests.lab.metrics_server import MetricsServer
from tests.lab.needed import need

if TYPE_CHECKING:
    from types import TracebackType

PROGRAMS = ("prometheus-alertmanager", "amtool")
"""What has to be installed; tests/lab/install.sh does it on Debian."""


def need_alertmanager() -> None:
    """Skip the test where there is no Alertmanager; fail it where nothing may be skipped."""
    need("Alertmanager", [name for name in PROGRAMS if shutil.which(name) is None])


@dataclass(kw_only=True)
class AlertmanagerLab(MetricsServer):
    """One Alertmanager with that configuration; without a cluster."""

    program: ClassVar[str] = "alertmanager"
    ready_path: ClassVar[str] = "/-/ready"

    config: str

    def before_start(self) -> None:
        """Write the configuration."""
        (self.base / "alertmanager.yml").write_text(self.config)

    def command(self) -> tuple[str, ...]:
        """The command line without `flags`."""
        return (
            PROGRAMS[0],
            f"--config.file={self.base / 'alertmanager.yml'}",
            f"--storage.path={self.base / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        )


class Webhooks:
    """Takes what is posted to any path, from `with` to the end of the block."""

    def __init__(self) -> None:
        self._received: list[tuple[str, dict[str, Any]]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def received(self, path: str) -> dict[tuple[str, str], dict[str, Any]]:
        """The last that was told at a path, by name of the alert and its status."""
        told = [alert for at, message in self._received if at == path for alert in message["alerts"]]
        return {(alert["labels"]["alertname"], alert["status"]): alert for alert in told}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhooks = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                webhooks._received.append((self.path, json.loads(content)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        return Handler
