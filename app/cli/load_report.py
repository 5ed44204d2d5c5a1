"""What an ingest prints: each input with what came of its rows, and all of them in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app import console
from ingest.store.report import Summary, counts, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.store.report import Report


def say(reports: Sequence[Report], *, files: bool) -> None:
    """Say on stderr what came of each input, and of all if they are files and more than one."""
    for report in reports:
        if report.parsed is None:
            continue
        said = f"{report.parsed.source}  {report.origin}\n  {counts(report.parsed)}"
        console.say(report.line if isinstance(report, Summary) else said, error=True)
        for warning in report.fresh:
            console.say(f"  warning: {warning}", error=True)
        if report.parsed.rows_rejected:
            console.say("  refused rows are kept with their reasons: trackside status", error=True)
    if files and len({report.origin for report in reports}) > 1:
        console.say(summary(reports), error=True)
