"""Worker processes of Dask: one is killed at its work, one cluster has no directory, and a second coordinator comes.

What they leave is what one process leaves that does one cluster after another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import psutil
import pytest
from distributed import Client
from distributed.security import Security

from app import clock
from app.config import settings as config
from app.fleet.clusters import tasks_of
from app.fleet.coordinator import run_tasks
from app.fleet.dask_workers import joined, started
from app.fleet.here import Here
from queries import opening
from queries.warehouse import open_reader
from tests.app.fleet.support import SmallFleet
from tests.support.command import ROOT, assert_same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from app.fleet.coordinator import Workers
    from app.fleet.task import TaskOutcome

pytestmark = pytest.mark.slow

T = TypeVar("T")

STANDS_STILL_AT = "2027-01-01T00:00:00Z"
"""Later than now: so it is the time in every process."""

PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(clock.NOT_BEFORE, STANDS_STILL_AT)
    monkeypatch.setattr(opening, "_engine", opening.engine())  # tasks in this process choose another


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended as a person ends it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, *arguments], env=env, stderr=subprocess.DEVNULL) as running:
        try:
            yield running
        finally:
            running.send_signal(signal.SIGINT)


@contextlib.contextmanager
def workers_of_a_scheduler(folder: Path, config_file: Path) -> Iterator[Workers]:
    """A scheduler with certificates, and a machine of two workers that has joined it."""
    files = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key")}
    made = Security.temporary().get_tls_config_for_role("scheduler")
    for name, text in (("ca", made["ca_file"]), ("cert", made["cert"]), ("key", made["key"])):
        files[name].write_text(text)
    about = folder / "scheduler.json"
    options = ("--protocol", "tls", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(about))
    pages = ("--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    tls = ("--tls-ca-file", str(files["ca"]), "--tls-cert", str(files["cert"]), "--tls-key", str(files["key"]))
    with process("-m", "dask", "scheduler", *options, *pages, *tls):
        address = json.loads(in_time(lambda: about.read_text() if about.exists() else None))["address"]
        named = "".join(f'tls_{name} = "{file}"\n' for name, file in files.items())
        config_file.write_text(f'{config_file.read_text()}scheduler = "{address}"\n{named}')
        worker = ("-m", "app.cli.main", "worker", "--processes", "2", "--config", str(config_file))
        with process(*worker), joined(address, config.load(config_file).fleet) as workers:
            in_time(lambda: workers.slots() == 2)
            yield workers


def in_time(found: Callable[[], T | None]) -> T:
    """What is there, once it is."""
    until = time.monotonic() + PATIENCE_S
    while not (result := found()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return result


def outcomes(fleet: SmallFleet, workers: Workers, *names: str) -> dict[str, TaskOutcome]:
    tasks, broken = tasks_of(config.load(fleet.config), names)
    assert broken == []
    done = run_tasks(tasks, workers, report=lambda *_: None, ended=lambda _: None)
    return {outcome.cluster: outcome for outcome in done}


def failures(found: dict[str, TaskOutcome]) -> dict[str, list[tuple[str, int]]]:
    return {name: [(each.step, each.status) for each in found[name].failures] for name in sorted(found)}


def listened_on() -> set[str]:
    """Addresses that this process and those that it started listen on."""
    here, found = psutil.Process(), set()
    for each in (here, *here.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            found |= {one.laddr.ip for one in each.net_connections() if one.status == psutil.CONN_LISTEN}
    return found


class Visit(threading.Thread):
    """While a worker waits for the Slurm of `alpha`: a second coordinator of it; then the worker is killed."""

    def __init__(self, fleet: SmallFleet) -> None:
        super().__init__()
        self.fleet = fleet
        self.killed = 0
        self.second: dict[str, TaskOutcome] = {}
        self.listened_on: set[str] = set()

    def run(self) -> None:
        try:
            self.killed = int(in_time(self._who_asks)[1])
            self.listened_on = listened_on()
            self.second = outcomes(self.fleet, Here(), "alpha")
            os.kill(self.killed, signal.SIGKILL)
        finally:
            (self.fleet.slurm("alpha") / "wait").unlink()

    def _who_asks(self) -> re.Match[str] | None:
        return re.search(r"^(\d+) .*\balpha\b", self.fleet.asked(), re.MULTILINE)


def test_workers_leave_what_one_process_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = SmallFleet(tmp_path / "many", ["alpha", "beta", "gamma"], jobs=6)
    fleet.install(monkeypatch)
    (fleet.slurm("alpha") / "wait").touch()
    fleet.root("gamma").write_text("no directory")
    visit = Visit(fleet)
    with workers_of_a_scheduler(tmp_path, fleet.config) as workers:
        visit.start()
        done = outcomes(fleet, workers)
        visit.join()

    assert visit.listened_on == {"127.0.0.1"}
    assert failures(visit.second) == {"alpha": [("warehouse", 43)]}
    assert "(trackside fleet, since" in visit.second["alpha"].failures[0].message
    assert failures(done) == {"alpha": [], "beta": [], "gamma": [("warehouse", 40)]}
    assert f"process {visit.killed} " not in done["alpha"].worker
    assert [each.split()[1] for each in done["alpha"].died] == [str(visit.killed)]

    alone = SmallFleet(tmp_path / "one", ["alpha"], jobs=6, lake=False)
    alone.install(monkeypatch)
    assert failures(outcomes(alone, Here())) == {"alpha": []}
    assert_same(fleet.root("alpha"), alone.root("alpha"))
    parts = (rows(fleet.root(name), "gpu_time") for name in ("alpha", "beta"))
    assert rows(fleet.lake, "gpu_time").equals(pl.concat(parts).sort(pl.all()))


def rows(place: Path, table: str) -> pl.DataFrame:
    """A table of a directory or a lake, sorted."""
    with open_reader(place) as reader:
        return reader.table(table).sort(pl.all())


def is_imported(package: str) -> object:
    """The module of a package in this process; None where its import is blocked, False where it was not imported."""
    return sys.modules.get(package, False)


def test_started_workers_take_only_who_has_their_key() -> None:
    with started(1) as workers:
        client = workers._client  # noqa: SLF001 - the address that nobody is told
        address = str(client.scheduler_info()["address"])
        assert workers.slots() == 1
        assert client.submit(os.getpid).result() != os.getpid()
        assert client.submit(is_imported, "pandas").result() is None
        assert listened_on() == {"127.0.0.1"}
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises(OSError, match=r"Timed out|certificate"):
            Client(address, security=Security.temporary(), timeout=2, set_as_default=False)
