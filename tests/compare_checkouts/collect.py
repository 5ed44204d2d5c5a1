"""Run the jobs in one checkout and keep every output below one folder."""

from __future__ import annotations

import csv
import json
import os
import shutil
import socket
import subprocess
import time
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.compare_checkouts.jobs import BEGIN, SIMULATED, WAREHOUSES, Job, answers, loading, simulation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

HERE: Final = Path(__file__).parent
CAPTURES: Final = HERE.parent / "data"
PAGES: Final = {"metrics.prom": "/metrics", "healthz.json": "/healthz"}
"""What is fetched from `trackside serve`."""

DAYS_OF_CAPTURES: Final = 85
"""Days after `BEGIN` when all captures had been made: what is later than the clock is refused."""

SERVER_STARTS_S: Final = 60.0


@dataclass(frozen=True)
class Checkout:
    """A checkout and the interpreter that has its dependencies."""

    root: Path
    python: Path

    def entry_point(self) -> str:
        """The function behind the command `trackside`, as `module:function`; a wheel has its own way to it."""
        if (self.root / "app" / "cli" / "main.py").exists():
            return "app.cli.main:main"
        with (self.root / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["scripts"]["trackside"])


@dataclass
class Collector:
    """Runs jobs of one checkout in `folder/work`; what they write is in `folder/outputs`."""

    checkout: Checkout
    folder: Path

    @property
    def outputs(self) -> Path:
        """The folder of everything that is compared."""
        return self.folder / "outputs"

    def run(self, jobs: Sequence[Job], began: datetime, *, apart: timedelta = timedelta(0)) -> None:
        """Run jobs in one process; each of them sees a time that does not pass, so much later than the one before."""
        times = [began + number * apart for number in range(len(jobs))]
        subprocess.run(self._command(jobs, times), cwd=self.folder / "work", env=self._environment(), check=True)

    def serve(self, warehouse: str, now: datetime) -> None:
        """Serve a warehouse, and keep what the pages of `PAGES` answer."""
        port = _free_port()
        job = Job("serve/printed.txt", ("serve", "--every", "0", "--port", str(port), "--warehouse", warehouse))
        process = subprocess.Popen(self._command([job], [now]), cwd=self.folder / "work", env=self._environment())
        try:
            for name, path in PAGES.items():
                (self.outputs / "serve" / name).write_bytes(_fetch(f"http://127.0.0.1:{port}{path}"))
        finally:
            process.terminate()
            process.wait()
        for printed in self.outputs.rglob("serve/printed.txt*"):  # it names the port
            printed.unlink()

    def _command(self, jobs: Sequence[Job], times: Sequence[datetime]) -> list[str]:
        described = self.folder / "jobs.json"
        described.write_text(
            json.dumps([self._described(*each) for each in zip(jobs, times, strict=True)], indent=1), "utf-8"
        )
        program = str(HERE / "run_verbs.py")
        return [str(self.checkout.python), "-P", program, self.checkout.entry_point(), str(described)]

    def _described(self, job: Job, now: datetime) -> dict[str, object]:
        paths = {
            kind: self.outputs / folder / f"{job.output}{suffix}"
            for kind, folder, suffix in (("output", "", ""), ("messages", "messages", ""), ("status", "status", ".txt"))
        }
        for path in paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        named = {kind: str(path) for kind, path in paths.items()}
        return {"argv": list(job.argv), "now": now.isoformat(), **named}

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRACKSIDE_", "PYTHON"))}
        fixed = {"COLUMNS": "160", "TZ": "UTC", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        return {**kept, **fixed, "PYTHONPATH": str(self.checkout.root)}


def collect(checkout: Checkout, folder: Path, *, gpus: int, days: int, seed: int) -> Path:
    """Make the simulated cluster, load it, compute, and print everything into `folder`, which is made anew.

    Outputs name absolute paths, so both checkouts have to use the same folder, one after the other.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work").mkdir(parents=True)
    shutil.copytree(CAPTURES, folder / "work" / "captures")
    collector = Collector(checkout, folder)
    loaded = BEGIN + timedelta(days=max(days, DAYS_OF_CAPTURES))
    requested = loaded + timedelta(days=1)
    collector.run([simulation(gpus, days, seed)], BEGIN)
    sources = collector.outputs / "simulate" / "sources"
    collector.run(loading(sources, folder / "work" / "captures", days), loaded, apart=timedelta(minutes=1))
    collector.run([_table_list(warehouse) for warehouse in WAREHOUSES], requested)
    collector.run(answers({warehouse: _tables(collector.outputs, warehouse) for warehouse in WAREHOUSES}), requested)
    collector.serve(SIMULATED, requested)
    return collector.outputs


def _table_list(warehouse: str) -> Job:
    return Job(f"tables/{warehouse}.csv", ("export", "tables", "--format", "csv", "--warehouse", warehouse))


def _tables(outputs: Path, warehouse: str) -> list[str]:
    with (outputs / "tables" / f"{warehouse}.csv").open(encoding="utf-8") as file:
        return [row[0] for row in csv.reader(file)]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _fetch(address: str) -> bytes:
    """The page, as soon as the server answers; a page with an error status is an answer, too."""
    until = time.monotonic() + SERVER_STARTS_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=SERVER_STARTS_S) as page:
                return bytes(page.read())
        except urllib.error.HTTPError as answered:
            return answered.read()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
