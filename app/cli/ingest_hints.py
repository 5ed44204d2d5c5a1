"""Lines to type after an ingest of files: for an unknown cluster or zone, and for columns that a dump lacks."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING, Final

from ingest.errors import InputError, OptionError, TimeZoneError
from ingest.files.input import STDIN, Input

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ingest.store.report import LoadReport

USES: Final = {
    "User": "show ... --by user",
    "Account": "show ... --by account",
    "Partition": "show ... --by partition",
    "JobName": "runs by their names",
    "ExitCode": "the cause of failures",
    "TotalCPU": "CPU efficiency",
    "MaxRSS": "memory efficiency",
}
"""Columns of sacct that a dump may lack, and what that leaves unanswered."""


def zone_hint(reports: Sequence[LoadReport], options: argparse.Namespace, source: str = "slurm") -> str | None:
    """The command that loads files whose times have no zone; None if there are no such files.

    All files are named again: loading twice changes nothing, and snapshots take their time from the others.
    """
    if options.timezone or not any(isinstance(report.error, TimeZoneError) for report in reports):
        return None
    words = [*_typed_words(options, source), "--timezone", local_zone() or "Europe/Berlin"]
    own = "Slurm's" if source == "slurm" else "the log's"
    remark = f"this machine's zone; replace it if {own} is another" if local_zone() else f"replace the zone by {own}"
    return f"To type: {shlex.join(words)}   ({remark})"


def cluster_hint(reports: Sequence[LoadReport], options: argparse.Namespace) -> str | None:
    """The command that names the cluster of files that do not; None if none is missing.

    Where the files have local times it also names a zone, so that this is not the next error.
    """
    if options.cluster or not any(_lacks_cluster(report.error) for report in reports):
        return None
    local = not options.timezone and any(map(_local_times, options.files))
    zone = ["--timezone", local_zone() or "Europe/Berlin"] if local else []
    source = "this machine's" if local_zone() else "an example"
    named = f"NAME: Slurm's ClusterName, or any; the zone is {source}" if local else "NAME: Slurm's ClusterName, or any"
    return f"To type: {shlex.join([*_typed_words(options, 'slurm'), '--cluster', 'NAME', *zone])}   ({named})"


def _typed_words(options: argparse.Namespace, source: str) -> list[str]:
    """The words of the command with all its files and options."""
    words = ["trackside", "ingest", source, *options.files]
    for name in ("cluster", "timezone", "since", "until", "model", "begin", "year", "warehouse", "config"):
        value = getattr(options, name, None)
        words += [] if value is None else [f"--{name}", str(value)]
    return words + [word for each in getattr(options, "set", ()) for word in ("--set", each)]


def _lacks_cluster(error: Exception | None) -> bool:
    return (
        isinstance(error, (InputError, OptionError)) and "--cluster NAME" in str(error) and "several" not in str(error)
    )


_LOCAL: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?![\d.Z+-])")
"""A time without an offset."""


def _local_times(file: str) -> bool:
    """Whether the beginning of a file has times without an offset; of standard input, read already, it is unknown."""
    try:
        if file == STDIN:
            return False
        with Input(file) as source:
            return _LOCAL.search(source.head) is not None
    except (InputError, OSError):
        return False


def column_hint(report: LoadReport) -> str | None:
    """Columns that a dump of sacct lacks, their use, and the option that adds them; None if it has all."""
    parsed = report.parsed
    if parsed is None or parsed.source != "slurm.accounting" or not parsed.columns:
        return None
    present = {name.lower() for name in parsed.columns}
    if "job_id" in present:  # JSON has its own names, and all of them
        return None
    absent = {name: use for name, use in USES.items() if name.lower() not in present}
    if not absent:
        return None
    lacks = ", ".join(f"{name} ({use})" for name, use in absent.items())
    return f"{report.origin} lacks {lacks}. Add to the -o of sacct: {','.join(absent)}   (or all: -o ALL)"


def local_zone() -> str | None:
    """The name of this machine's time zone; None where it is not known by a name."""
    path = os.environ.get("TZ", "").removeprefix(":") or os.path.realpath("/etc/localtime")
    name = path.rpartition("/zoneinfo/")[2]
    return name if name and not name.startswith("/") else None
