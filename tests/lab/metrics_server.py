"""A server of time series on loopback, of whichever make: started, killed and removed with all that it wrote."""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from tests.lab import reaper
from tests.lab.config import Layout
from tests.lab.processes import STOPPED, Daemon, LabError, claim_ports, tail, wait_until

if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Sequence
    from types import TracebackType


@dataclass(kw_only=True)
class MetricsServer:
    """One server, below a directory of its own that goes with it.

    Args:
        history: OpenMetrics text to begin with, times in seconds.
        flags: more options of the command line.
    """

    program: ClassVar[str]
    ready_path: ClassVar[str]

    history: str = ""
    flags: Sequence[str] = ()
    base: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="trackside-series-")))
    _port: int = 0
    _lock: socket.socket | None = None
    _daemon: Daemon | None = None
    _reaper: subprocess.Popen[bytes] | None = None

    def command(self) -> tuple[str, ...]:
        """The command line without `flags`."""
        raise NotImplementedError

    def before_start(self) -> None:
        """What has to be done once before the server starts."""

    def after_start(self) -> None:
        """What has to be done once when the server answers."""

    def __enter__(self) -> Self:
        (self.base / "log").mkdir()
        self._port, self._lock = claim_ports(1)
        self._reaper = reaper.start(self.base)
        self.before_start()
        self.start()
        self.after_start()
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
        return f"http://{self.address}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it (again), and wait until it answers."""
        log = self.base / "log" / f"{self.program}.log"
        ledger = Layout(self.base).ledger
        ledger.parent.mkdir(parents=True, exist_ok=True)
        argv = (*self.command(), *self.flags)
        self._daemon = Daemon.start(self.program, argv, log=log, env=dict(os.environ), ledger=ledger)
        wait_until(self._ready, 20, f"{self.program} to be ready\n{tail(log.with_suffix('.out'))}", every=0.02)

    def kill(self) -> None:
        """End it with SIGKILL; what it has not written yet is lost."""
        if self._daemon is not None:
            self._daemon.kill()

    def _ready(self) -> bool:
        assert self._daemon is not None
        if not self._daemon.alive:
            raise LabError(self._daemon.why_dead())
        try:
            with urllib.request.urlopen(self.url + self.ready_path, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            return False
