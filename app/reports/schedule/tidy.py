"""Removing the files of old reports, if the configuration requires it; what was made and delivered stays recorded."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.reports.delivery.outbox import MadeReport, Outbox

UNRECORDED: Final = timedelta(days=1)
"""A folder that was not recorded in this time was left by a process that was killed."""


def tidy(outbox: Outbox, report: str, *, keep_days: int, now: datetime) -> list[str]:
    """Remove files of a report's old makings, under its lock; the names of the folders that were removed.

    A making stays while it is to be delivered, or was given up (a person may send it again), and the newest one stays
    (the next report is compared with it).

    Args:
        outbox: what was made and delivered.
        report: name of its schedule.
        keep_days: days that files are kept; 0: for ever.
        now: the time.
    """
    if not keep_days:
        return []
    old = [*_old(outbox, report, now - timedelta(days=keep_days)), *_unrecorded(outbox, report, now - UNRECORDED)]
    for folder in old:
        shutil.rmtree(folder, ignore_errors=True)
    return [folder.name for folder in old if not folder.exists()]


def _old(outbox: Outbox, report: str, before: datetime) -> Iterator[Path]:
    made = [each for each in outbox.made(report) if each.sha256 is not None]
    undelivered = {each.key for each in outbox.deliveries() if each.outcome != "delivered"}
    for each in made:
        if each.made_at == made[-1].made_at:  # the newest one, or all users' digests that were made with it
            continue
        folder = outbox.folder_of(each.key)
        if _made_at(each) < before and each.key not in undelivered and folder.is_dir():
            yield folder


def _made_at(made: MadeReport) -> datetime:
    at = datetime.fromisoformat(made.made_at)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _unrecorded(outbox: Outbox, report: str, before: datetime) -> Iterator[Path]:
    """Folders of the report that a process made and did not live to record."""
    recorded = {each.key for each in outbox.made()}
    for folder in sorted(outbox.folder_of("").glob(f"{report}-*")):
        if folder.name not in recorded and datetime.fromtimestamp(folder.stat().st_mtime, UTC) < before:
            yield folder
