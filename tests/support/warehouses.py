"""Computed warehouses for tests, made in this process: quicker than the command line."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import threading
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from unittest import mock

from app.claims.stored import StoredClaims
from app.compute import pipeline as computing
from app.config.settings import Config
from app.demo import simulate
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries import directory, opening, sql_files, warehouse
from queries.opening import connect
from queries.warehouse import open_writer
from tests.support.slurm.dumps import tiny

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)


def from_accounting(folder: Path, *, jobs: int = 120, compute: bool = True) -> Path:
    """Half a month of a cluster of which Slurm alone tells: goodput and ETTR are bounds without a point."""

    def make(place: Path) -> None:
        _load_accounting(place, jobs=jobs, compute=compute)

    return copy_of(f"accounting-{jobs}-{compute}", make, folder, "accounting")


def _load_accounting(folder: Path, *, jobs: int, compute: bool) -> None:
    root, settings = folder / "accounting", Config()
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, settings, tiny(jobs).write(folder), ingesting.Options(), now=NOW, progress=_silent
        )
        assert first_error(reports) is None
        if compute:
            computing.compute(writer, settings, now=NOW, verdicts=StoredClaims.read(settings.claims).verdicts)


def from_everything(folder: Path, *, gpus: int = 64, days: int = 32) -> Path:
    """A simulated cluster read from accounting, telemetry and run logs: goodput and ETTR have points."""

    def make(place: Path) -> None:
        _load_everything(place, gpus=gpus, days=days)

    return copy_of(f"everything-{gpus}-{days}", make, folder, "everything")


def simulated(*, gpus: int = 64, days: int = 32) -> Path:
    """The sources of the cluster of `from_everything`, made once in a session: to be read only."""

    def make(place: Path) -> None:
        simulate.simulate(simulate.Settings(gpus=gpus, days=days, seed=2026), place)

    return made(f"simulated-{gpus}-{days}", make) / "sources"


def _load_everything(folder: Path, *, gpus: int, days: int) -> None:
    root, settings, sources = folder / "everything", Config(), simulated(gpus=gpus, days=days)
    with open_writer(root, verb="test", now=NOW) as writer:
        files = [str(sources / name) for name in simulate.SLURM_FILES]
        requested = ingesting.Options(cluster="demo")
        reports = ingesting.ingest_files(writer, settings, files, requested, now=NOW, progress=_silent)
        hours = [str(sources / name) for name in simulate.TELEMETRY_FILES]
        by_name = TelemetryRequest(cluster="demo")
        reports += ingest_files(writer, settings, hours, by_name, now=NOW, progress=_silent)
        logs = sorted(str(file) for file in (sources / "runs").glob("*.jsonl"))
        reports += runlogs.ingest_files(writer, logs, cluster="demo", now=NOW, progress=_silent)
        assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW, verdicts=StoredClaims.read(settings.claims).verdicts)


def copy_of(key: str, make: Callable[[Path], None], folder: Path, name: str) -> Path:
    """The warehouse `name` in `folder`, copied from the one that the first test of the session made for `key`.

    A folder that contains the warehouse already is loaded into once more.
    """
    root = folder / name
    if root.exists():
        make(folder)
        return root
    shutil.copytree(made(key, make), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("done"))
    with open_writer(root, verb="test", now=NOW):
        pass  # views contain paths of files: a writer replaces them when the folder is another
    return root


def made(key: str, make: Callable[[Path], None]) -> Path:
    """The folder that the first test of the session made for `key`, in whichever worker of pytest-xdist."""
    assert _prepared is not None
    place = _prepared.shared / key
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be making it
        if not (place / "done").exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            make(place)
            (place / "done").touch()
    return place


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


class _Prepared:
    """An empty warehouse: DuckDB needs a third of a second to make its tables and views, and a copy needs none."""

    def __init__(self, folder: Path, shared: Path) -> None:
        self.wanted = True
        self.shared = shared
        self._empty = folder / "empty"
        self._schema = _schema()
        self._lock = threading.RLock()
        self._held: DuckDBPyConnection | None = None
        self._held_state: tuple[object, ...] = ()

    def connect(self, path: Path, root: Path, *, read_only: bool) -> DuckDBPyConnection:
        """Open a DuckDB file as the product does; a new one has tables and views already."""
        if read_only:
            return self._read(path, root)
        new = not path.exists() and root != self._empty and {each.name for each in root.iterdir()} <= {"lock"}
        copied = new and self.wanted and self._schema == _schema() and self._copy(path)
        connection = connect(path, root, read_only=read_only)
        if copied:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'root'", [str(root)])
            connection.execute("UPDATE meta SET value = ? WHERE key = 'warehouse'", [uuid.uuid4().hex])
            connection.execute("CHECKPOINT")  # else its log would be of another warehouse
        return connection

    def _read(self, path: Path, root: Path) -> DuckDBPyConnection:
        """Open a copy that stays open until another is read, or it has changed: again it takes 2 ms then, not 20."""
        state = _state(path)
        with self._lock:
            if state != self._held_state:
                self.let_go()
            connection = connect(path, root, read_only=True)
            if self._held is None:
                self._held, self._held_state = connect(path, root, read_only=True), state
        return connection

    def let_go(self) -> None:
        """Close the copy that was read last."""
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None

    def _copy(self, path: Path) -> bool:
        """Copy the empty warehouse's database; whether it could be done: else it is the product that has to say why."""
        if not self._empty.exists():
            with open_writer(self._empty, verb="test", now=NOW):
                pass
        with contextlib.suppress(OSError):
            shutil.copyfile(self._empty / directory.DATABASE, path)
            return True
        return False


def _state(path: Path) -> tuple[object, ...]:
    """What tells an unchanged file, opened with unchanged settings."""
    with contextlib.suppress(OSError):
        file = path.stat()
        return path, file.st_ino, file.st_size, file.st_mtime_ns, file.st_mode, opening.config()
    return ()


def _schema() -> tuple[object, ...]:
    """What an empty warehouse is made of."""
    return sql_files.schema_steps(), sql_files.views()


_prepared: _Prepared | None = None


@contextlib.contextmanager
def prepared(folder: Path, shared: Path) -> Iterator[None]:
    """Make what tests copy: an empty warehouse in `folder`, and in `shared` the computed ones of all workers.

    New warehouses in this process are copies of the empty one, except within `from_scratch`.
    """
    global _prepared  # noqa: PLW0603 - one a process
    shared.mkdir(exist_ok=True)
    _prepared = _Prepared(folder, shared)
    with mock.patch.object(warehouse, "connect", _prepared.connect):
        yield
    _prepared.let_go()
    _prepared = None


def use_threads(several: bool) -> None:
    """Have DuckDB use all cores in the next connections, or one thread: few rows take a sixth less time with one.

    Whatever opens a file is meant, a lake's catalogue and what looks into a database before it is opened, too.
    """
    settings = opening._CONFIG  # noqa: SLF001 - a person's settings come after these
    if several:
        settings.pop("threads", None)
    else:
        settings["threads"] = "1"


@contextlib.contextmanager
def from_scratch() -> Iterator[None]:
    """New warehouses are made as the product makes them, step by step."""
    assert _prepared is not None
    _prepared.wanted = False
    try:
        yield
    finally:
        _prepared.wanted = True
