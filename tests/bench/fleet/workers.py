"""Two workers against one, and a lake against directories: `python -m tests.bench.fleet.workers CLUSTERS NODES DAYS`.

Each cluster's Slurm is a script; it is read, computed and committed to a lake from nothing. All workers have one
thread, else one alone would use the cores that two share. The time of a round says little on a machine that has other
work, so what CPU seconds allow stands beside it: of a round in which nothing waits for a core, commits follow one
another, all waits for the coordinator, and workers share the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from unittest import mock

import pytest

from app import clock
from app.config import settings as config
from app.fleet.clusters import tasks_of
from app.fleet.coordinator import run_tasks
from app.fleet.dask_workers import started
from app.fleet.here import Here
from app.service.worker import Worker
from queries.lake.push import _Push
from tests.app.fleet.support import SmallFleet
from tests.support.slurm.dumps import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.fleet.coordinator import Workers

Answer = TypeVar("Answer")

NODE_HOURS_OF_A_JOB: Final = 7.2
"""Of the simulated jobs, about: so many keep the nodes busy for as many days as there are."""


@dataclass(frozen=True)
class Size:
    """How large the fleet is."""

    clusters: int
    nodes: int
    days: int

    @property
    def ended(self) -> datetime:
        """A time after all that is simulated, but within what is asked for."""
        return datetime.fromtimestamp(START, UTC) + timedelta(days=self.days + 90)

    def fleet(self, folder: Path, *, lake: bool) -> SmallFleet:
        """Make it."""
        jobs = int(self.nodes * self.days * 24 / NODE_HOURS_OF_A_JOB)
        names = [f"c{number:02d}" for number in range(self.clusters)]
        return SmallFleet(folder, names, jobs=jobs, nodes=self.nodes, days=self.days, lake=lake)


@dataclass(frozen=True)
class Round:
    """What a round took: seconds, CPU seconds of its tasks and of the coordinator, the most memory of a process."""

    seconds: float
    tasks_cpu_s: float
    coordinator_cpu_s: float
    peak_mb: float

    def line(self, what: str) -> str:
        """For the terminal."""
        return (
            f"{what}: {self.seconds:.1f} s; CPU seconds: {self.tasks_cpu_s:.1f} of the tasks, "
            f"{self.coordinator_cpu_s:.2f} of the coordinator; at most {self.peak_mb:.0f} MB in one process "
            f"(load {os.getloadavg()[0]:.0f}, {len(os.sched_getaffinity(0))} cores)"
        )


def round_of(fleet: SmallFleet, workers: Workers, *, apart: bool) -> Round:
    """A round from nothing, without the start of the workers; `apart`: they are processes of their own."""
    tasks, _ = tasks_of(config.load(fleet.config))
    began, cpu_began = time.monotonic(), time.process_time()
    done = run_tasks(tasks, workers, report=lambda *_: None, ended=lambda _: None)
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu_began
    assert not any(outcome.failures for outcome in done), done
    of_tasks = sum(outcome.cpu_s for outcome in done)
    return Round(seconds, of_tasks, cpu_s if apart else cpu_s - of_tasks, max(outcome.peak_mb for outcome in done))


def by_workers(size: Size, count: int) -> Round:
    """A round of so many Dask workers of one thread each."""
    with _installed(size, lake=True) as (fleet, patched):
        patched.setenv("POLARS_MAX_THREADS", str(count))
        with started(count) as pool:
            return round_of(fleet, pool, apart=True)


def without_dask(size: Size, *, lake: bool) -> tuple[Round, dict[str, float]]:
    """A round without Dask, and the CPU seconds of its commits, and of what they do while others wait."""
    spent = dict.fromkeys(("commit", "others wait"), 0.0)
    with (
        _installed(size, lake=lake) as (fleet, _),
        _measured(Worker, "_commit", spent, "commit"),
        _measured(_Push, "_commit", spent, "others wait"),
    ):
        return round_of(fleet, Here(), apart=False), spent


def alone(work: Callable[..., Answer], *arguments: object, **named: object) -> Answer:
    """The answer of a new process of one thread."""
    with (
        mock.patch.dict(os.environ, {"POLARS_MAX_THREADS": "1"}),
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        return pool.submit(work, *arguments, **named).result()


@contextmanager
def _installed(size: Size, *, lake: bool) -> Iterator[tuple[SmallFleet, pytest.MonkeyPatch]]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv(clock.NOT_BEFORE, size.ended.isoformat())
        fleet = size.fleet(Path(folder, "fleet"), lake=lake)
        fleet.install(patched)
        yield fleet, patched


@contextmanager
def _measured(owner: type, name: str, spent: dict[str, float], what: str) -> Iterator[None]:
    """Add the CPU seconds of a function's calls."""
    function: Callable[..., object] = getattr(owner, name)

    def measured(*arguments: object) -> object:
        began = time.process_time()
        try:
            return function(*arguments)
        finally:
            spent[what] += time.process_time() - began

    with mock.patch.object(owner, name, measured):
        yield


def main(arguments: Sequence[str]) -> None:
    """Print the rounds, and what two workers and a lake make of one worker and of directories."""
    size = Size(*map(int, arguments))
    one, two = by_workers(size, 1), by_workers(size, 2)
    print(one.line("one worker"), two.line("two workers"), sep="\n", flush=True)
    print(
        f"two against one: {one.seconds / two.seconds:.2f} times as fast, {two.tasks_cpu_s / one.tasks_cpu_s:.2f} CPU s"
    )
    folder, _ = alone(without_dask, size, lake=False)
    lake, spent = alone(without_dask, size, lake=True)
    print(folder.line("directories, without Dask"), lake.line("a lake, without Dask"), sep="\n")
    all_s, commit, others_wait = lake.tasks_cpu_s, spent["commit"], spent["others wait"]
    print(
        f"lake against directories: {all_s / folder.tasks_cpu_s:.2f} times the CPU s; "
        f"commits: {commit / (all_s - commit):.1%} of the rest, {others_wait / all_s:.1%} of all while others wait"
    )
    allowed = all_s / (others_wait + two.coordinator_cpu_s + (all_s - others_wait) / 2)
    print(f"two against one, as CPU seconds allow: {allowed:.2f} times as fast")


if __name__ == "__main__":
    main(sys.argv[1:])
