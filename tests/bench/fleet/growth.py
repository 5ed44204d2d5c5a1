"""The steps that `python -m tests.bench.fleet` measures: of the first cluster, and of the lake of all."""

from __future__ import annotations

import os
import statistics
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.demo import simulate
from tests.bench.engine import Cost, run, trackside
from tests.bench.fleet import grown
from tests.bench.sizes.measure import in_a_process

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW: Final = datetime(2027, 6, 1, tzinfo=UTC)
"""After all that is simulated."""

QUESTIONS: Final = 5
"""How often a question is asked alone, and while commits go on, in turn."""


ONE: Final = ("show", "goodput", "--cluster", grown.FIRST)
ALL: Final = "SELECT cluster, category, SUM(gpu_seconds) AS gpu_seconds FROM gpu_time GROUP BY ALL"


@dataclass(frozen=True)
class Asked:
    """What a question took."""

    seconds: float
    cpu_s: float


def _median(asked: Sequence[Asked]) -> Asked:
    return Asked(*(statistics.median(getattr(one, name) for one in asked) for name in ("seconds", "cpu_s")))


class Fleet:
    """The first cluster's directory, and the lake of all."""

    def __init__(self, folder: Path, *, gpus: int, days: int) -> None:
        self._made, self._root, self._files = folder / "made", folder / "w", folder / "files"
        self.lake = f"ducklake:sqlite:{folder}/lake.sqlite"
        self._settings = simulate.Settings(gpus=gpus, days=days)
        self._changes = 0
        self.clusters = 1
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")

    def first_cluster(self) -> dict[str, Cost]:
        """Simulate it, and read, compute and commit it from nothing."""
        in_a_process(_simulate, self._settings, self._made)
        sources = self._made / "sources"
        slurm = [str(sources / name) for name in simulate.SLURM_FILES]
        hours = [str(sources / name) for name in simulate.TELEMETRY_FILES]
        logs = sorted(map(str, (sources / "runs").glob("*.jsonl")))
        return {
            "read accounting": trackside(self._root, "ingest", "slurm", *slurm),
            "read telemetry, by the hour": trackside(self._root, "ingest", "prometheus", "--cluster", "demo", *hours),
            "read run logs": trackside(self._root, "ingest", "runlog", *logs),
            "compute": trackside(self._root, "compute"),
            "first commit": run("warehouse", "copy", str(self._root), self.lake, "--data-path", str(self._files)),
        }

    def grow_to(self, clusters: int) -> None:
        """Have the lake have so many clusters."""
        in_a_process(_grow, self.lake, self._files, range(self.clusters, clusters))
        self.clusters = clusters

    def of_the_fleet(self) -> dict[str, Cost]:
        """What may grow with the number of clusters."""
        return {
            "first question of all (makes the local copy)": trackside(self.lake, *ONE),
            "commit of one cluster": self.commit(),
            "first question after it (brings the local copy up to date)": trackside(self.lake, *ONE),
            "show goodput of one cluster": trackside(self.lake, *ONE),
            "sql over all clusters": trackside(self.lake, "sql", ALL),
        }

    def commit(self) -> Cost:
        """Change the first cluster's directory, and commit that."""
        self._changes += 1
        in_a_process(_change, self._root, self._changes)
        return run("warehouse", "copy", str(self._root), self.lake)

    def reader_beside_commits(self) -> tuple[Asked, Asked]:
        """A question alone, and one while this process commits again and again: the medians of several, in turn.

        CPU seconds of the question's process alone do not depend on what else the machine does; seconds do.
        """
        alone, beside = [], []
        for _ in range(QUESTIONS):
            alone.append(self._asked())
            stop = threading.Event()
            committing = threading.Thread(target=self._commit_until, args=(stop,))
            committing.start()
            beside.append(self._asked())
            stop.set()
            committing.join()
            self._asked()  # the first one after a commit brings the copy up to date
        return _median(alone), _median(beside)

    def _asked(self) -> Asked:
        began = time.monotonic()
        cost = trackside(self.lake, *ONE)
        return Asked(time.monotonic() - began, cost.cpu_s)

    def _commit_until(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.commit()


def _simulate(settings: simulate.Settings, folder: Path) -> None:
    simulate.simulate(settings, folder)


def _grow(lake: str, files: Path, clusters: range) -> None:
    from queries.lake.address import address_of

    address = address_of(Path(lake))
    assert address is not None
    grown.grow(address, files, clusters)


def _change(root: Path, number: int) -> None:
    """Change a table, as a load does."""
    import polars as pl

    from queries.warehouse import open_writer

    row = {"cluster": ["demo"], "source": ["s"], "origin": ["o"], "reason": ["r"], "raw": [f"row {number}"]}
    with open_writer(root, verb="bench", now=NOW) as writer, writer.transaction():
        writer.append("rejects", pl.DataFrame(row))
