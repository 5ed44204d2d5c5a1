"""A publication's warehouse: its sources loaded and computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.compute import pipeline
from app.errors import UsageError
from app.output_file import write_file
from app.reproduce.publication import ACCOUNTING
from ingest.runlog import store as runlogs
from ingest.runlog.translation import LogRequest
from ingest.slurm import load_files as slurm
from ingest.store.report import first_error
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from app.config.settings import Config
    from app.reproduce.publication import Sources

    Progress = Callable[[str, int, int], None]


def build(sources: Sources, folder: Path, settings: Config, *, now: datetime, progress: Progress) -> Path:
    """Load the sources into a warehouse in the folder, and compute it; loading twice equals loading once.

    Args:
        sources: as a publication reads them.
        folder: gets the accounting and the warehouse.
        settings: rules that the numbers depend on.
        now: the time of loading.
        progress: called with what is being done, its number, and how many there are.

    Returns:
        The warehouse's folder.

    Raises:
        UsageError: the folder has the result of other files, or something could not be loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    accounting = folder / ACCOUNTING
    content = sources.accounting_text().encode()
    if accounting.exists() and accounting.read_bytes() != content:
        raise UsageError(f"{folder} has the result of other files; name another folder: --dir D")
    write_file(accounting, content)
    warehouse = folder / "warehouse"
    with open_writer(warehouse, verb="trackside reproduce", now=now, group=settings.warehouse_group) as writer:
        reports = slurm.ingest_files(writer, settings, [str(accounting)], slurm.Options(), now=now, progress=progress)
        for number, (path, facts) in enumerate(sources.run_logs):
            progress(path.name, number, len(sources.run_logs))
            reports += runlogs.ingest_files(
                writer,
                [str(path)],
                cluster=None,
                now=now,
                progress=lambda *_: None,
                logs=LogRequest(facts, facts_prevail=True),
            )
        if error := first_error(reports):
            raise UsageError(f"it could not be loaded: {error}")
        pipeline.compute(writer, settings, now=now)
    return warehouse
