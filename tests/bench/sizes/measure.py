"""A cluster of some size, source by source: what each step costs in CPU time and memory, and what it leaves on disk.

Every step is a process of its own, as a person or a timer starts it. Accounting and run logs are of some days;
telemetry, at 30 s, is of the last one, so the last `compute` is that of a new day: it finds telemetry for a day whose
ledger it has to make again.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from app.demo import simulate
from app.demo.simulate.plan import BEGIN
from queries import directory
from tests.bench.engine import Cost, run, trackside
from tests.support.command import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DAYS: Final = 7

ACCOUNTING, LOGS, TELEMETRY = "accounting", "run logs", "telemetry at 30 s"
FIRST, NEW_DAY, NOTHING = "compute, the first", "compute, a new day", "compute, nothing new"
COMMIT, SHOW, REPORT = "copy into a lake, the first", "show goodput, of the lake", "report sla, of the lake"


@dataclass(frozen=True)
class Step:
    """What a step cost, and how many bytes the warehouse has grown by (of a lake: those of its files).

    Attributes:
        name: of the step.
        days: of which data.
        cpu_s: CPU seconds of the process, all threads.
        peak_mib: its most memory; None where the process that started it had more.
        bytes: on disk.
    """

    name: str
    days: int
    cpu_s: float
    peak_mib: float | None
    bytes: int


@dataclass(frozen=True)
class Size:
    """The steps of a cluster of so many GPUs; `samples` is how many of them a day has."""

    gpus: int
    samples: int
    load: float
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step:
        """A step by its name."""
        return next(step for step in self.steps if step.name == name)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def measured(folder: Path, gpus: int, days: int = DAYS) -> Size:
    """Simulate a cluster, and measure what its day costs."""
    _in_a_process(folder, gpus, days)
    with exporters(simulate.Settings(gpus=gpus, days=days)) as (url, samples):
        bench = _Bench(folder, gpus, days, url)
        return Size(gpus, samples, os.getloadavg()[0], tuple(bench.steps()))


class _Bench:
    def __init__(self, folder: Path, gpus: int, days: int, url: str) -> None:
        self._folder, self._sources, self._days = folder, folder / "made" / "sources", days
        self._root, self._files = folder / "w", folder / "files"
        self._lake = f"ducklake:sqlite:{folder}/lake.sqlite"
        self._config = folder / "trackside.toml"
        self._config.write_text(
            f'cluster = "demo"\n[prometheus]\nurl = "{url}"\ninterval_s = 30\n[slurm]\ntransport = "commands"\n'
        )
        self._end = datetime.fromtimestamp(BEGIN, UTC) + timedelta(days=days)

    def steps(self) -> Iterator[Step]:
        """Each step, in the order in which they build on one another."""
        names = [str(self._sources / name) for name in simulate.SLURM_FILES]
        logs = sorted(map(str, (self._sources / "runs").glob("*.jsonl")))
        day = ("--since", (self._end - timedelta(days=1)).isoformat(), "--until", self._end.isoformat())
        yield self._step(ACCOUNTING, self._days, "ingest", "slurm", *names)
        yield self._step(LOGS, self._days, "ingest", "runlog", *logs)
        yield self._step(FIRST, self._days, "compute")
        yield self._step(TELEMETRY, 1, "ingest", "prometheus", *day)
        yield self._step(NEW_DAY, 1, "compute")
        yield self._step(NOTHING, 1, "compute")
        yield self._copy()
        yield self._of_lake(SHOW, "show", "goodput")
        yield self._of_lake(REPORT, "report", "sla", "--period", "2026-09", "-o", str(self._folder / "sla.html"))

    def _step(self, name: str, days: int, *verb: str) -> Step:
        before = self._bytes()
        cost = trackside(self._root, *verb, "--config", str(self._config))
        return _step(name, days, cost, self._bytes() - before)

    def _copy(self) -> Step:
        cost = run("warehouse", "copy", str(self._root), self._lake, "--data-path", str(self._files))
        return _step(COMMIT, self._days, cost, _bytes_below(self._files))

    def _of_lake(self, name: str, *verb: str) -> Step:
        return _step(name, self._days, trackside(self._lake, *verb), 0)

    def _bytes(self) -> int:
        """Of the published copy and the files of samples: the database has as much again, or twice, beside it."""
        copy = directory.current_copy(self._root)
        return 0 if copy is None else copy.stat().st_size + _bytes_below(self._root / "raw")


def _step(name: str, days: int, cost: Cost, size: int) -> Step:
    return Step(name, days, cost.cpu_s, cost.peak_mib, size)


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _in_a_process(folder: Path, gpus: int, days: int) -> None:
    """Simulate the cluster: this process must stay small, or the memory of those that it starts is not known."""
    making = multiprocessing.get_context("spawn").Process(target=_simulate, args=(folder / "made", gpus, days))
    making.start()
    making.join()
    if making.exitcode:
        raise RuntimeError("the cluster could not be simulated")


def _simulate(folder: Path, gpus: int, days: int) -> None:
    simulate.simulate(simulate.Settings(gpus=gpus, days=days), folder)


@contextlib.contextmanager
def exporters(settings: simulate.Settings) -> Iterator[tuple[str, int]]:
    """A Prometheus with the cluster's telemetry: its address, and how many samples a day has."""
    nodes = [settings.name(number) for number in range(settings.n_nodes)]
    command: Sequence[str] = [sys.executable, "-m", "tests.bench.sizes.exporters", json.dumps(nodes)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        started = json.loads(server.stdout.readline())
        yield started["url"], started["samples"]
        server.stdin.close()
