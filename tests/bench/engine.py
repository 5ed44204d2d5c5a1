"""A warehouse's life, verb by verb: all but the last day is loaded and computed, then a day comes, then nothing.

Each verb is a process of its own, so that its CPU time and its peak memory can be told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from tests.bench.year import BEGIN, write_dumps, year
from tests.support.command import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.year import Year

DAY_S: Final = 86_400

READS: Final = {
    "verify": ("verify",),
    "show goodput": ("show", "goodput"),
    "show mttf": ("show", "mttf"),
    "show ettr": ("show", "ettr"),
    "status": ("status",),
}
"""Verbs that read what `compute` stored."""


class Cost(NamedTuple):
    """Of a process: CPU seconds (user and system, all threads), and peak memory in MiB."""

    cpu_s: float
    peak_mib: float


def before(made: Year, until: int) -> Year:
    """What a cluster reports that lives until then: jobs that began, those that still run without an end."""
    ended = pl.col("end") < until
    jobs = made.jobs.filter(pl.col("start") < until).with_columns(
        end=pl.when(ended).then("end"), state=pl.when(ended).then("state").otherwise(pl.lit("RUNNING"))
    )
    return replace(made, jobs=jobs, downs=made.downs.filter(pl.col("end") < until), until=until)


def after(made: Year, since: int) -> Year:
    """What it reports of the time since: jobs that had time in it."""
    jobs = made.jobs.filter(pl.col("end").is_null() | (pl.col("end") >= since))
    return replace(made, jobs=jobs, downs=made.downs.filter(pl.col("end") >= since))


def costs(folder: Path, attempts: int, *, nodes: int, days: int) -> dict[str, Cost]:
    """What each verb costs, on so many attempts on so many nodes over so many days.

    Args:
        folder: for dumps and the warehouse.
        attempts: how many, about.
        nodes: how many.
        days: how many; the last one is the new day.
    """
    made = year(attempts, nodes=nodes, until=days * DAY_S)
    last = (days - 1) * DAY_S
    past, new = folder / "past", folder / "new"
    for part, where in ((before(made, last), past), (after(made, last), new)):
        where.mkdir()
        write_dumps(part, where)
    del made
    warehouse = folder / "warehouse"
    result = {
        "ingest, all but a day": _ingest(warehouse, past, 0, last),
        "compute, all but a day": trackside(warehouse, "compute"),
        "ingest of a new day": _ingest(warehouse, new, last, days * DAY_S),
        "compute after a new day": trackside(warehouse, "compute"),
        "compute, nothing new": trackside(warehouse, "compute"),
    }
    result |= {name: trackside(warehouse, *verb) for name, verb in READS.items()}
    return result | {"compute --full": trackside(warehouse, "compute", "--full")}


def _ingest(warehouse: Path, folder: Path, since: int, until: int) -> Cost:
    period = [(BEGIN + timedelta(seconds=each)).isoformat() for each in (since, until)]
    files = sorted(map(str, folder.iterdir()))
    return trackside(warehouse, "ingest", "slurm", "--since", period[0], "--until", period[1], *files)


def trackside(warehouse: Path, *verb: str) -> Cost:
    """What `trackside VERB` costs.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "app.cli.main", *verb, "--quiet", "--warehouse", str(warehouse)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _DONE:
        message = f"{verb} failed with {process.returncode}"
        raise RuntimeError(message)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


_DONE: Final = (0, 3, 4)
"""`verify` exits with 1 where a claim is refuted."""
