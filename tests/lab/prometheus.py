"""A real Prometheus on loopback: it scrapes what it is told, or has history made by promtool. Up in tenths of a second.

with PrometheusLab(targets=[exporter.address], history=text) as prometheus:
    print(prometheus.url)
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from tests.lab.metrics_server import MetricsServer
from tests.lab.needed import need
from tests.lab.processes import LabError, kill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PROGRAMS = ("prometheus", "promtool")
"""What has to be installed; tests/lab/install.sh does it on Debian."""


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def need_prometheus() -> None:
    """Skip the test where there is no Prometheus; fail it where nothing may be skipped."""
    need("Prometheus", missing())


@dataclass(kw_only=True)
class PrometheusLab(MetricsServer):
    """One Prometheus; the history is of whole days at most, with `# EOF` at the end.

    Args:
        targets: exporters to scrape, every `scrape_s` seconds.
        external_labels: the server's own labels, which remote read shows.
        rule_files: rules that it evaluates.
        alertmanager: where it sends alerts; empty: nowhere.
    """

    program: ClassVar[str] = "prometheus"
    ready_path: ClassVar[str] = "/-/ready"

    targets: Sequence[str] = ()
    scrape_s: float = 1.0
    external_labels: Mapping[str, str] = field(default_factory=dict)
    rule_files: Sequence[Path] = ()
    alertmanager: str = ""

    def before_start(self) -> None:
        """Write the configuration, and have promtool make the history."""
        self._configure()
        self._make_history()

    def command(self) -> tuple[str, ...]:
        """The command line without `flags`."""
        return (
            "prometheus",
            f"--config.file={self.base / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.base / 'tsdb'}",
            "--storage.tsdb.retention.time=20y",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        )

    def pause(self) -> None:
        """Stop it where it is (SIGSTOP): it takes connections, and says nothing."""
        assert self._daemon is not None
        kill([self._daemon.process.pid], signal.SIGSTOP)

    def go_on(self) -> None:
        """Go on after a pause."""
        assert self._daemon is not None
        kill([self._daemon.process.pid], signal.SIGCONT)

    def _configure(self) -> None:
        targets = ", ".join(f"'{target}'" for target in self.targets)
        jobs = (
            f"\n- job_name: dcgm\n  scrape_interval: {round(self.scrape_s * 1000)}ms\n"
            f"  scrape_timeout: {round(self.scrape_s * 1000)}ms\n  static_configs: [{{targets: [{targets}]}}]\n"
        )
        own = ", ".join(f"{name}: '{value}'" for name, value in self.external_labels.items())
        rules = ", ".join(f"'{path}'" for path in self.rule_files)
        alerting = f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{self.alertmanager}']}}]}}]}}\n"
        (self.base / "prometheus.yml").write_text(
            f"global: {{external_labels: {{{own}}}}}\nrule_files: [{rules}]\n{alerting if self.alertmanager else ''}"
            f"scrape_configs:{jobs if self.targets else ' []'}"
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
