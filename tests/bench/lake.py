"""What a commit to a lake costs, beside the computation that it commits: `python -m tests.bench.lake GPUS DAYS`.

A simulated cluster is loaded but for the jobs that ended last, computed and committed; then those, too. Everything is
told in CPU seconds of this process, with the machine's load beside them.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.claims.stored import StoredClaims
from app.compute import pipeline
from app.config.settings import Config
from app.demo import simulate
from ingest.prometheus.load_files import ingest_files
from ingest.prometheus.target import TelemetryRequest
from ingest.runlog import store as runlogs
from ingest.slurm import load_files as slurm
from ingest.store.report import first_error
from queries.warehouse import copy_to_lake, open_writer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queries.warehouse import Writer

NOW = datetime(2027, 6, 1, tzinfo=UTC)
"""After all that is simulated."""


def silent(_what: str, _done: int, _total: int) -> None:
    """Report no progress."""


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print how long something took."""
    began = time.process_time()
    yield
    print(f"{what}: {time.process_time() - began:.2f} CPU s (load {os.getloadavg()[0]:.0f})", flush=True)


class Bench:
    """A simulated cluster, its directory and its lake."""

    def __init__(self, folder: Path, *, gpus: int, days: int) -> None:
        simulate.simulate(simulate.Settings(gpus=gpus, days=days, seed=2026), folder)
        self._sources, self._days = folder / "sources", days
        self._root, self._files = folder / "w", str(folder / "files")
        self._lake = folder / f"ducklake:sqlite:{folder}/lake.sqlite"
        self._settings = Config()

    def accounting(self, writer: Writer) -> None:
        """Load what Slurm tells."""
        names = [str(self._sources / name) for name in simulate.SLURM_FILES]
        slurm.ingest_files(writer, self._settings, names, slurm.Options(cluster="demo"), now=NOW, progress=silent)

    def others(self, writer: Writer) -> None:
        """Load hourly telemetry and run logs."""
        hours = [str(self._sources / name) for name in simulate.TELEMETRY_FILES]
        by_name = TelemetryRequest(cluster="demo")
        reports = ingest_files(writer, self._settings, hours, by_name, now=NOW, progress=silent)
        logs = sorted(map(str, (self._sources / "runs").glob("*.jsonl")))
        reports += runlogs.ingest_files(writer, logs, cluster="demo", now=NOW, progress=silent)
        assert first_error(reports) is None

    def without_the_last_day(self) -> str:
        """Cut the jobs that ended last from the file of accounting; returns its text before that."""
        file = self._sources / "sacct.txt"
        text = file.read_text()
        head, *rows = text.splitlines(keepends=True)
        file.write_text("".join([head, *rows[: len(rows) - len(rows) // self._days]]))
        return text

    def with_the_last_day(self, text: str) -> None:
        """Put them back."""
        (self._sources / "sacct.txt").write_text(text)

    def write(self, *loads: str, full: bool = False) -> None:
        """Load, or compute where nothing is named."""
        with open_writer(self._root, verb="bench", now=NOW) as writer:
            for load in loads:
                getattr(self, load)(writer)
            if not loads:
                claims = StoredClaims.read(self._settings.claims)
                pipeline.compute(writer, self._settings, now=NOW, full=full, verdicts=claims.verdicts)

    def commit(self, *, dry_run: bool = False, full: bool = False) -> None:
        """Commit to the lake."""
        taken = copy_to_lake(
            self._root, self._lake, now=NOW, report=silent, data_path=self._files, dry_run=dry_run, full=full
        )
        print(f"  {taken.rows:,} rows of {len(taken.tables)} tables, {taken.files} files of samples")


def main(arguments: Sequence[str]) -> None:
    """Print the costs."""
    gpus, days = map(int, arguments)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), gpus=gpus, days=days)
        whole = bench.without_the_last_day()
        with told("ingest"):
            bench.write("accounting", "others")
        with told("compute --full"):
            bench.write(full=True)
        with told("first commit"):
            bench.commit()
        bench.with_the_last_day(whole)
        with told("ingest of the last day's jobs"):
            bench.write("accounting")
        with told("compute of them"):
            bench.write()
        with told("finding what has changed"):
            bench.commit(dry_run=True)
        with told("finding it by comparing everything (--full)"):
            bench.commit(dry_run=True, full=True)
        with told("commit"):
            bench.commit()
        with told("commit of nothing new"):
            bench.commit()


if __name__ == "__main__":
    main(sys.argv[1:])
