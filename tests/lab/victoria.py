"""A real VictoriaMetrics on loopback, fed with text. Up in tenths of a second.

with VictoriaLab(history=text) as victoria:
    print(victoria.url)
"""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import ClassVar

from tests.lab.metrics_server import MetricsServer
from tests.lab.needed import need
from tests.lab.processes import LabError

PROGRAMS = ("victoria-metrics",)
"""What has to be installed; tests/lab/install.sh does it on Debian."""

_TIME = re.compile(r" (\d+)(?:\.(\d{1,3}))?$", re.MULTILINE)


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def need_victoria() -> None:
    """Skip the test where there is no VictoriaMetrics; fail it where nothing may be skipped."""
    need("VictoriaMetrics", missing())


@dataclass(kw_only=True)
class VictoriaLab(MetricsServer):
    """One VictoriaMetrics. What came in the last seconds before a kill may be lost."""

    program: ClassVar[str] = "victoria-metrics"
    ready_path: ClassVar[str] = "/health"

    def after_start(self) -> None:
        """Feed it the history."""
        if self.history:
            self.feed(self.history)

    def command(self) -> tuple[str, ...]:
        """The command line without `flags`."""
        return (
            "victoria-metrics",
            f"-storageDataPath={self.base / 'data'}",
            f"-httpListenAddr={self.address}",
            "-retentionPeriod=20y",
            "-search.latencyOffset=0s",  # else the newest half minute is hidden
            "-loggerLevel=WARN",
        )

    def feed(self, text: str) -> None:
        """Hand it lines of the text format, times in seconds, and wait until they can be asked for."""
        lines = _TIME.sub(lambda result: f" {result[1]}{(result[2] or ''):0<3}", text).encode()
        for path, data in (("/api/v1/import/prometheus", lines), ("/internal/force_flush", None)):
            with urllib.request.urlopen(urllib.request.Request(self.url + path, data=data), timeout=60) as answer:
                if answer.status >= 300:
                    message = f"VictoriaMetrics answered {path} with {answer.status}"
                    raise LabError(message)
