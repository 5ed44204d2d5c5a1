"""Computed warehouses for tests, made in this process: quicker than the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.compute import pipeline as computing
from app.config.settings import Config
from app.demo import simulate
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as ingesting
from ingest.store.report import first_error
from queries.warehouse import open_writer
from tests.support.dumps import tiny

if TYPE_CHECKING:
    from pathlib import Path

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
            computing.compute(writer, settings, now=NOW)
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
        computing.compute(writer, settings, now=NOW)
    return root


def _silent(_what: str, _done: int, _all: int) -> None:
    pass
