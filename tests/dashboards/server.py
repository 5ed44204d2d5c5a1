"""A real Prometheus on a free port of this machine, with a history in it; asked as Grafana would ask it."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.dashboards.seed import END_S
from tests.lab.needed import need
from tests.lab.processes import claim_ports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAMS = ("prometheus", "promtool")


def need_prometheus() -> None:
    """Skip the test where there is no Prometheus; fail it where nothing may be skipped (`make test REAL=1`)."""
    need("Prometheus", [name for name in PROGRAMS if shutil.which(name) is None])


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    url: str
    end_s: float = END_S

    def instant(self, expr: str, *, at: float | None = None) -> list[dict[str, Any]]:
        """Rows at a moment; by default at the end of the history, since a minute later they would be stale."""
        return self._get("query", query=expr, time=self.end_s if at is None else at)

    def ranged(self, expr: str, *, hours: float, step_s: int) -> list[dict[str, Any]]:
        """Rows over the hours before the end of the history."""
        return self._get("query_range", query=expr, start=self.end_s - hours * 3600, end=self.end_s, step=step_s)

    def label_values(self, metric: str, label: str) -> list[str]:
        """What a variable of the type query offers."""
        return self._get(f"label/{label}/values", **{"match[]": metric, "start": self.end_s - 3600, "end": self.end_s})

    def _get(self, path: str, **parameters: object) -> list[Any]:
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
            data = json.load(answer)["data"]
        actual: list[Any] = data if isinstance(data, list) else data["result"]
        return actual


@contextlib.contextmanager
def serving(history: str, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that has that history (OpenMetrics text), until the block is left."""
    stored(history, folder / "tsdb")
    with running(folder / "tsdb", folder) as server:
        yield server


def stored(history: str, blocks: Path) -> None:
    """Add a history (OpenMetrics text) to the blocks of a folder."""
    text = blocks.parent / "history.om"
    text.write_text(history, encoding="utf-8")
    make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
    subprocess.run(make, check=True, capture_output=True, timeout=300)


@contextlib.contextmanager
def running(blocks: Path, folder: Path, *, remembers: str = "5m", end_s: float = END_S) -> Iterator[Prometheus]:
    """A Prometheus over blocks, until the block is left; its settings and log are in the folder.

    Args:
        blocks: its storage.
        folder: for what it writes besides.
        remembers: how long a sample stands for its series.
        end_s: the end of the history, in seconds since 1970.
    """
    settings = folder / "prometheus.yml"
    settings.write_text("global: {}\n", encoding="utf-8")
    port, claim = claim_ports(1)
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={blocks}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--query.lookback-delta={remembers}",
        "--log.level=warn",
    ]
    log = folder / "prometheus.log"
    with claim, log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as server:
        try:
            _wait(f"http://127.0.0.1:{port}", server, log)
            yield Prometheus(f"http://127.0.0.1:{port}", end_s)
        finally:
            server.terminate()


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        with contextlib.suppress(URLError, ConnectionError), urlopen(f"{url}/-/ready", timeout=5):
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"Prometheus did not get ready: {log.read_text()[-500:]}")
