"""Computed warehouses for tests, made in this process: quicker than the command line."""

from __future__ import annotations

import contextlib
import shutil
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
from queries import sql_files, upgrade, warehouse
from queries.opening import connect
from queries.warehouse import open_writer
from tests.support.dumps import tiny

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

NOW = datetime(2026, 11, 2, 3, 4, 5, tzinfo=UTC)


def from_accounting(folder: Path, *, jobs: int = 120, compute: bool = True) -> Path:
    """Half a month of a cluster of which Slurm alone tells: goodput and ETTR are bounds without a point."""
    root, settings = folder / "accounting", Config()
    with open_writer(root, verb="test", now=NOW) as writer:
        reports = ingesting.ingest_files(
            writer, settings, tiny(jobs).write(folder), ingesting.Options(), now=NOW, progress=_silent
        )
        assert first_error(reports) is None
        if compute:
            computing.compute(writer, settings, now=NOW, verdicts=StoredClaims.read(settings.claims).verdicts)
    return root


def from_everything(folder: Path, *, gpus: int = 64, days: int = 32) -> Path:
    """A simulated cluster read from accounting, telemetry and run logs: goodput and ETTR have points."""
    simulate.simulate(simulate.Settings(gpus=gpus, days=days, seed=2026), folder)
    root, settings, sources = folder / "everything", Config(), folder / "sources"
    with open_writer(root, verb="test", now=NOW) as writer:
        files = [str(sources / name) for name in simulate.SLURM_FILES]
        asked = ingesting.Options(cluster="demo")
        reports = ingesting.ingest_files(writer, settings, files, asked, now=NOW, progress=_silent)
        hours = [str(sources / name) for name in simulate.TELEMETRY_FILES]
        by_name = TelemetryRequest(cluster="demo")
        reports += ingest_files(writer, settings, hours, by_name, now=NOW, progress=_silent)
        logs = sorted(str(file) for file in (sources / "runs").glob("*.jsonl"))
        reports += runlogs.ingest_files(writer, logs, cluster="demo", now=NOW, progress=_silent)
        assert first_error(reports) is None
        computing.compute(writer, settings, now=NOW, verdicts=StoredClaims.read(settings.claims).verdicts)
    return root


def _silent(_what: str, _done: int, _all: int) -> None:
    pass


class _Prepared:
    """An empty warehouse file with its schema: DuckDB needs a fifth of a second to make one, and a copy needs none."""

    def __init__(self, folder: Path) -> None:
        self.wanted = True
        self._file = folder / "empty.duckdb"
        self._steps = sql_files.schema_steps()

    def connect(self, path: Path, root: Path, *, read_only: bool) -> DuckDBPyConnection:
        """Open a DuckDB file as the product does; a new one has the schema already."""
        new = not read_only and not path.exists()
        if new and self.wanted and self._steps == sql_files.schema_steps():
            if not self._file.exists():
                with contextlib.closing(connect(self._file, root, read_only=False)) as made:
                    upgrade.apply_missing_steps(made, {})
            with contextlib.suppress(OSError):  # then it is the product that has to say why not
                shutil.copyfile(self._file, path)
        return connect(path, root, read_only=read_only)


_prepared: _Prepared | None = None


@contextlib.contextmanager
def prepared_schema(folder: Path) -> Iterator[None]:
    """New warehouses in this process are copies of an empty one that is made once; `from_scratch` excepted."""
    global _prepared  # noqa: PLW0603 - one a process
    _prepared = _Prepared(folder)
    with mock.patch.object(warehouse, "connect", _prepared.connect):
        yield
    _prepared = None


@contextlib.contextmanager
def from_scratch() -> Iterator[None]:
    """New warehouses are made as the product makes them, step by step."""
    assert _prepared is not None
    _prepared.wanted = False
    try:
        yield
    finally:
        _prepared.wanted = True
