"""Telemetry at 30 s of a cluster of some size, and the computation that follows it.

The cluster is simulated for some days, and its telemetry is that of the last hours of them. The accounting of so small
a cluster says nothing of a large one's: it is there for the telemetry to belong to somebody.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from app.demo import simulate
from app.demo.simulate.plan import BEGIN
from tests.bench.sizes import measure
from tests.bench.sizes.measure import DAYS, HOURS, Bench, Size, in_a_process
from tests.support.command import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.bench.sizes.measure import Step

ALONE_HOURS: Final = 2
"""How much telemetry there is of large clusters."""


def measured(folder: Path, gpus: int) -> Size:
    """Simulate a cluster, and measure what its telemetry costs."""
    settings, load = simulate.Settings(gpus=gpus, days=DAYS), os.getloadavg()[0]
    in_a_process(_simulate, settings, folder / "made")
    with exporters(settings) as (url, samples):
        bench = Bench(folder, "demo", url)
        return Size(gpus, samples, load, tuple(_steps(bench, folder / "made" / "sources")), *bench.parts)


def _steps(bench: Bench, sources: Path) -> Iterator[Step]:
    names = [str(sources / name) for name in simulate.SLURM_FILES]
    logs = sorted(map(str, (sources / "runs").glob("*.jsonl")))
    end = datetime.fromtimestamp(BEGIN, UTC) + timedelta(days=DAYS)
    hours = ("--since", (end - timedelta(hours=HOURS)).isoformat(), "--until", end.isoformat())
    yield bench.step(measure.ACCOUNTING, DAYS, "ingest", "slurm", *names)
    yield bench.step(measure.LOGS, DAYS, "ingest", "runlog", *logs)
    yield bench.step(measure.FIRST, DAYS, "compute")
    yield bench.copy(measure.COMMIT, DAYS)
    yield bench.step(measure.TELEMETRY, HOURS / 24, "ingest", "prometheus", *hours)
    yield bench.step(measure.NEW_DAY, 1, "compute")
    yield bench.step(measure.NOTHING, 1, "compute")
    yield bench.copy(measure.COMMIT_DAY, 1)
    yield bench.of_lake(measure.SHOW, "show", "goodput")


def alone(folder: Path, gpus: int) -> Size:
    """What two hours of telemetry cost without anything else: of clusters that are too large for the rest here."""
    settings, load = simulate.Settings(gpus=gpus, days=DAYS), os.getloadavg()[0]
    with exporters(settings) as (url, samples):
        bench = Bench(folder, "demo", url)
        end = datetime.fromtimestamp(BEGIN, UTC) + timedelta(days=DAYS)
        hours = ("--since", (end - timedelta(hours=ALONE_HOURS)).isoformat(), "--until", end.isoformat())
        step = bench.step(measure.TELEMETRY, ALONE_HOURS / 24, "ingest", "prometheus", *hours)
        return Size(gpus, samples, load, (step,), {}, {})


def _simulate(settings: simulate.Settings, folder: Path) -> None:
    simulate.simulate(settings, folder)


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
