"""What two workers take against one, on clusters of a fleet: `python -m tests.bench.fleet.workers CLUSTERS JOBS`.

Each cluster is small, and its Slurm is a script; it is read, computed and committed to a lake from nothing. CPU seconds
are those that the workers' processes had while they were at the clusters; the time of a round says little on a machine
that has other work, so its load stands beside.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import clock
from app.config import settings as config
from app.fleet.clusters import tasks_of
from app.fleet.coordinator import run_tasks
from app.fleet.dask_workers import started
from tests.app.fleet.support import SmallFleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.fleet.task import Outcome


def round_of(folder: Path, workers: int, clusters: int, jobs: int) -> tuple[float, list[Outcome]]:
    """Seconds of a round from nothing, without the start of the workers, and its outcomes."""
    fleet = SmallFleet(folder, [f"c{number:02d}" for number in range(clusters)], jobs=jobs)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(clock.NOT_BEFORE, "2027-01-01T00:00:00Z")
        fleet.install(patched)
        tasks, _ = tasks_of(config.load(fleet.config))
        with started(workers) as pool:
            began = time.monotonic()
            done = run_tasks(tasks, pool, report=lambda *_: None, ended=lambda _: None)
            return time.monotonic() - began, done


def main(arguments: Sequence[str]) -> None:
    """Print both rounds, and the second as a share of the first."""
    clusters, jobs = map(int, arguments)
    seen = {}
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            seconds, done = round_of(Path(folder, "fleet"), workers, clusters, jobs)
        assert not any(outcome.failures for outcome in done), done
        cpu_s, peak_mb = sum(outcome.cpu_s for outcome in done), max(outcome.peak_mb for outcome in done)
        seen[workers] = (seconds, cpu_s)
        print(
            f"{workers} worker(s): {clusters} clusters in {seconds:.1f} s, {cpu_s:.1f} CPU s, at most {peak_mb:.0f} MB "
            f"in one process (load {os.getloadavg()[0]:.0f}, {len(os.sched_getaffinity(0))} cores)",
            flush=True,
        )
    (alone, cpu_alone), (both, cpu_both) = seen[1], seen[2]
    print(f"two against one: {alone / both:.2f} times as fast, {cpu_both / cpu_alone:.2f} of the CPU s")


if __name__ == "__main__":
    main(sys.argv[1:])
