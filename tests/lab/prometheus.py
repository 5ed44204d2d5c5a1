"""A real Prometheus on loopback: it scrapes what it is told, or has history made by promtool. Up in tenths of a second.

with PrometheusLab(targets=[exporter.address], history=text) as prometheus:
    print(prometheus.url)
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.lab.config import Layout
from tests.lab.needed import need
from tests.lab.processes import STOPPED, Daemon, LabError, claim_ports, kill, tail, wait_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from types import TracebackType

PROGRAMS = ("prometheus", "promtool")
"""What has to be installed; tests/lab/install.sh does it on Debian."""


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def need_prometheus() -> None:
    """Skip the test where there is no Prometheus; fail it where nothing may be skipped."""
    need("Prometheus", missing())


@dataclass
class PrometheusLab:
    """One server, below a directory of its own that goes with it.

    Args:
        targets: exporters to scrape, every `scrape_s` seconds.
        history: OpenMetrics text to begin with; whole days fit, with `# EOF` at the end.
        flags: more options of the command line, such as --query.max-samples=1000.
        external_labels: the server's own labels, which remote read shows.
    """

    targets: Sequence[str] = ()
    scrape_s: float = 1.0
    history: str = ""
    flags: Sequence[str] = ()
    external_labels: Mapping[str, str] = field(default_factory=dict)
    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="trackside-prometheus-")))
    _port: int = 0
    _lock: socket.socket | None = None
    _daemon: Daemon | None = None
    _reaper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        (self.base / "log").mkdir()
        self._port, self._lock = claim_ports(1)
        self._reaper = subprocess.Popen(
            [sys.executable, "-m", "tests.lab.reaper", str(self.base)],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._configure()
        self._make_history()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._reaper is not None:
            self._reaper.communicate(STOPPED)
        if self._lock is not None:
            self._lock.close()
        shutil.rmtree(self.base, ignore_errors=True)

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        argv = (
            "prometheus",
            f"--config.file={self.base / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.base / 'tsdb'}",
            "--storage.tsdb.retention.time=20y",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
            *self.flags,
        )
        log = self.base / "log" / "prometheus.log"
        ledger = Layout(self.base).ledger
        ledger.parent.mkdir(parents=True, exist_ok=True)
        self._daemon = Daemon.start("prometheus", argv, log=log, env=dict(os.environ), ledger=ledger)
        wait_until(self._ready, 20, f"Prometheus to be ready\n{tail(log.with_suffix('.out'))}", every=0.02)

    def kill(self) -> None:
        """End it with SIGKILL; what it has stays."""
        if self._daemon is not None:
            self._daemon.kill()

    def pause(self) -> None:
        """Stop it where it is (SIGSTOP): it takes connections, and says nothing."""
        assert self._daemon is not None
        kill([self._daemon.process.pid], signal.SIGSTOP)

    def go_on(self) -> None:
        """Go on after a pause."""
        assert self._daemon is not None
        kill([self._daemon.process.pid], signal.SIGCONT)

    def _ready(self) -> bool:
        assert self._daemon is not None
        if not self._daemon.alive:
            raise LabError(self._daemon.why_dead())
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False

    def _configure(self) -> None:
        targets = ", ".join(f"'{target}'" for target in self.targets)
        jobs = (
            f"\n- job_name: dcgm\n  scrape_interval: {round(self.scrape_s * 1000)}ms\n"
            f"  scrape_timeout: {round(self.scrape_s * 1000)}ms\n  static_configs: [{{targets: [{targets}]}}]\n"
        )
        own = ", ".join(f"{name}: '{value}'" for name, value in self.external_labels.items())
        (self.base / "prometheus.yml").write_text(
            f"global: {{external_labels: {{{own}}}}}\nscrape_configs:{jobs if self.targets else ' []'}"
        )

    def _make_history(self) -> None:
        if not self.history:
            return
        text = self.base / "history.om"
        text.write_text(self.history)
        done = subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(self.base / "tsdb")],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            message = f"promtool ended with {done.returncode}\n{done.stdout}{done.stderr}"
            raise LabError(message)
