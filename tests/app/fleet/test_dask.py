"""Two worker processes of Dask: one is killed at its work, one cluster's Slurm is away, and a second coordinator comes.

What they leave is what one process leaves that does one cluster after another.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from typing import TYPE_CHECKING

import polars as pl
import psutil
import pytest

from app import clock
from app.config import settings as config
from app.fleet.clusters import tasks_of
from app.fleet.coordinator import run_tasks
from app.fleet.dask_workers import started
from app.fleet.here import Here
from queries import opening
from queries.warehouse import open_reader
from tests.app.fleet.support import SmallFleet
from tests.support.command import assert_same

if TYPE_CHECKING:
    from pathlib import Path

    from app.fleet.coordinator import Workers
    from app.fleet.task import Outcome

pytestmark = pytest.mark.slow

STANDS_STILL_AT = "2027-01-01T00:00:00Z"
"""Later than now: so it is the time in every process."""


@pytest.fixture
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clock.NOT_BEFORE, STANDS_STILL_AT)
    monkeypatch.setattr(opening, "_engine", opening.engine())  # tasks in this process choose another


def outcomes(fleet: SmallFleet, workers: Workers, *names: str) -> dict[str, Outcome]:
    tasks, broken = tasks_of(config.load(fleet.config), names)
    assert broken == []
    done = run_tasks(tasks, workers, report=lambda *_: None, ended=lambda _: None)
    return {outcome.cluster: outcome for outcome in done}


def failures(found: dict[str, Outcome]) -> dict[str, list[tuple[str, int]]]:
    return {name: [(each.step, each.status) for each in found[name].failures] for name in sorted(found)}


def listened_on() -> set[str]:
    """Addresses that this process and those that it started listen on."""
    here, found = psutil.Process(), set()
    for process in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found |= {each.laddr.ip for each in process.net_connections() if each.status == psutil.CONN_LISTEN}
    return found


def who_asks(fleet: SmallFleet, name: str) -> int:
    """The process that has asked a cluster's Slurm first, once there is one."""
    until = time.monotonic() + 240
    while not (found := re.search(rf"^(\d+) .*\b{name}\b", fleet.asked(), re.MULTILINE)):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(found[1])


class Visit(threading.Thread):
    """While a worker waits for the Slurm of `alpha`: a second coordinator of it; then the worker is killed."""

    def __init__(self, fleet: SmallFleet) -> None:
        super().__init__()
        self.fleet = fleet
        self.killed = 0
        self.second: dict[str, Outcome] = {}
        self.listened_on: set[str] = set()

    def run(self) -> None:
        try:
            self.killed = who_asks(self.fleet, "alpha")
            self.listened_on = listened_on()
            self.second = outcomes(self.fleet, Here(), "alpha")
            os.kill(self.killed, signal.SIGKILL)
        finally:
            (self.fleet.slurm("alpha") / "wait").unlink()


@pytest.mark.usefixtures("_one_clock")
def test_workers_leave_what_one_process_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = SmallFleet(tmp_path / "many", ["alpha", "beta", "gamma"], jobs=6)
    fleet.install(monkeypatch)
    (fleet.slurm("alpha") / "wait").touch()
    (fleet.slurm("gamma") / "broken").touch()
    visit = Visit(fleet)
    with started(2) as workers:
        visit.start()
        first = outcomes(fleet, workers)
        visit.join()
        (fleet.slurm("gamma") / "broken").unlink()
        again = outcomes(fleet, workers, "gamma")

    assert visit.listened_on == {"127.0.0.1"}
    assert failures(visit.second) == {"alpha": [("warehouse", 43)]}
    assert "(trackside fleet, since" in visit.second["alpha"].failures[0].message
    assert failures(first) == {"alpha": [], "beta": [], "gamma": [("slurm", 21)]}
    assert str(visit.killed) not in first["alpha"].worker
    assert failures(again) == {"gamma": []}
    assert again["gamma"].rows_loaded > 6

    alone = SmallFleet(tmp_path / "one", ["alpha"], jobs=6)
    alone.install(monkeypatch)
    assert failures(outcomes(alone, Here())) == {"alpha": []}
    assert_same(fleet.root("alpha"), alone.root("alpha"))
    assert rows(fleet.lake, "gpu_time").equals(
        pl.concat(rows(fleet.root(name), "gpu_time") for name in fleet.names).sort(pl.all())
    )


def rows(place: Path, table: str) -> pl.DataFrame:
    """A table of a directory or a lake, sorted."""
    with open_reader(place) as reader:
        return reader.table(table).sort(pl.all())
