"""A real VictoriaMetrics on loopback, fed with text. Up in tenths of a second.

with VictoriaLab(history=text) as victoria:
    print(victoria.url)
"""

from __future__ import annotations

import os
import re
import shutil
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
from tests.lab.processes import STOPPED, Daemon, LabError, claim_ports, tail, wait_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from types import TracebackType

PROGRAMS = ("victoria-metrics",)
"""What has to be installed; tests/lab/install.sh does it on Debian."""

_TIME = re.compile(r" (\d+)(?:\.(\d{1,3}))?$", re.MULTILINE)


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def need_victoria() -> None:
    """Skip the test where there is no VictoriaMetrics; fail it where nothing may be skipped."""
    need("VictoriaMetrics", missing())


@dataclass
class VictoriaLab:
    """One server, below a directory of its own that goes with it.

    Args:
        history: OpenMetrics text to begin with, times in seconds, as promtool reads it.
        flags: more options of the command line, such as -search.maxSamplesPerQuery=1000.
    """

    history: str = ""
    flags: Sequence[str] = ()
    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="trackside-victoria-")))
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
        self.start()
        if self.history:
            self.feed(self.history)
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
            "victoria-metrics",
            f"-storageDataPath={self.base / 'data'}",
            f"-httpListenAddr=127.0.0.1:{self._port}",
            "-retentionPeriod=20y",
            "-search.latencyOffset=0s",  # else the newest half minute is hidden
            "-loggerLevel=WARN",
            *self.flags,
        )
        log = self.base / "log" / "victoria.log"
        ledger = Layout(self.base).ledger
        ledger.parent.mkdir(parents=True, exist_ok=True)
        self._daemon = Daemon.start("victoria-metrics", argv, log=log, env=dict(os.environ), ledger=ledger)
        wait_until(self._ready, 20, f"VictoriaMetrics to be ready\n{tail(log.with_suffix('.out'))}", every=0.02)

    def feed(self, text: str) -> None:
        """Hand it lines of the text format, times in seconds, and wait until they can be asked for."""
        lines = _TIME.sub(lambda result: f" {result[1]}{(result[2] or ''):0<3}", text).encode()
        for path, data in (("/api/v1/import/prometheus", lines), ("/internal/force_flush", None)):
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data), timeout=60) as answer:
                if answer.status >= 300:
                    message = f"VictoriaMetrics answered {path} with {answer.status}"
                    raise LabError(message)

    def kill(self) -> None:
        """End it with SIGKILL; what came in the last seconds may be lost."""
        if self._daemon is not None:
            self._daemon.kill()

    def _ready(self) -> bool:
        assert self._daemon is not None
        if not self._daemon.alive:
            raise LabError(self._daemon.why_dead())
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False
