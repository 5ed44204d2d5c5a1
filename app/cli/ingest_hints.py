"""Lines to type after an ingest of files: for times without a zone, and for columns that a dump of sacct lacks."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Final

from ingest.errors import TimeZoneError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ingest.store.report import Report

GIVES: Final = {
    "User": "show ... --by user",
    "Account": "show ... --by account",
    "Partition": "show ... --by partition",
    "JobName": "runs by their names",
    "ExitCode": "the cause of failures",
    "TotalCPU": "CPU efficiency",
    "MaxRSS": "memory efficiency",
}
"""Columns of sacct that a dump may lack, and what that leaves unanswered."""


def zone_hint(reports: Sequence[Report], options: argparse.Namespace, source: str = "slurm") -> str | None:
    """The command that loads files whose times have no zone; None if there are no such files.

    All files are named again: loading twice changes nothing, and snapshots take their time from the others.
    """
    if options.timezone or not any(isinstance(report.error, TimeZoneError) for report in reports):
        return None
    words = ["trackside", "ingest", source, *options.files, "--timezone", local_zone() or "Europe/Berlin"]
    for name in ("cluster", "since", "until", "model", "begin", "warehouse", "config"):
        value = getattr(options, name, None)
        words += [] if value is None else [f"--{name}", str(value)]
    words += [word for each in getattr(options, "set", ()) for word in ("--set", each)]
    own = "Slurm's" if source == "slurm" else "the log's"
    whose = f"this machine's zone; replace it if {own} is another" if local_zone() else f"replace the zone by {own}"
    return f"To type: {shlex.join(words)}   ({whose})"


def column_hint(report: Report) -> str | None:
    """Which columns a dump of sacct lacks, what they would give, and the option that adds them; None if it has all."""
    parsed = report.parsed
    if parsed is None or parsed.source != "slurm.accounting" or not parsed.columns:
        return None
    present = {name.lower() for name in parsed.columns}
    if "job_id" in present:  # JSON has its own names, and all of them
        return None
    absent = {name: gives for name, gives in GIVES.items() if name.lower() not in present}
    if not absent:
        return None
    lacks = ", ".join(f"{name} ({gives})" for name, gives in absent.items())
    return f"{report.origin} lacks {lacks}. Add to the -o of sacct: {','.join(absent)}   (or all: -o ALL)"


def local_zone() -> str | None:
    """The name of this machine's time zone; None where it is not known by a name."""
    path = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime")
    name = path.rpartition("/zoneinfo/")[2]
    return name if name and not name.startswith("/") else None
