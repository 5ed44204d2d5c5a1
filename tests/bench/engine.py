"""A warehouse's life, verb by verb: all but the last day is loaded and computed, then a day comes, then nothing.

Each verb is a process of its own, so that its CPU time and its peak memory can be measured. Warehouses of the same
cluster and of more and more days show what grows with the past: the new day is always of the same size.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from tests.bench.table import row
from tests.bench.year import ATTEMPTS, BEGIN, NODES, write_dumps, year
from tests.support.command import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.year import Year

DAY_S: Final = 86_400
DAYS: Final = (23, 91, 365)
"""Sizes of warehouses: 1, 4 and 16 times the days."""
MONTH: Final = 31
"""Days of the warehouse that a year's new day is compared with."""
_PART: Final = 16
"""The cluster has a sixteenth of the year's nodes and attempts."""
_QUICK: Final = 4
"""Of those, with `QUICK=1`, a quarter."""

FULL: Final = "compute --full"
NEW_DAY: Final = "compute after a new day"
NOTHING_NEW: Final = "compute, nothing new"
FIRST: Final = "ingest, all but a day"
FIRST_COMPUTE: Final = "compute, all but a day"
ONE_DAY: Final = "ingest of a new day"

READS: Final = {
    "verify": ("verify",),
    "show goodput": ("show", "goodput"),
    "show mttf": ("show", "mttf"),
    "show ettr": ("show", "ettr"),
    "status": ("status",),
}
"""Verbs that read what `compute` stored."""

GROWING: Final = (FIRST, FIRST_COMPUTE, FULL)
"""Verbs that read everything: they may cost so many times more as there are days. The others may cost twice as much."""

GOALS_OF_A_YEAR: Final = (
    dict.fromkeys((FIRST_COMPUTE, FULL), (60.0, 3072.0))
    | {NEW_DAY: (5.0, 1536.0), NOTHING_NEW: (1.0, None)}
    | {
        "verify": (2.0, None),
        "show goodput": (1.0, None),
        "show mttf": (1.0, None),
        "show ettr": (1.0, None),
        "status": (1.0, None),
    }
)
"""CPU seconds and MiB for a year of 16,384 GPUs."""

WHOLE_YEAR: Final = f"goal of {NODES:,} nodes"

_DONE: Final = (0, 3, 4)
"""Statuses of a verb that did its work; with 3 and 4 `verify` tells that a claim is refuted or undetermined."""


class Cost(NamedTuple):
    """Of a process: CPU seconds (user and system, all threads), and peak memory in MiB.

    No memory is known of a process that took less than this one: Linux counts what a process had before it ran its own
    program, too.
    """

    cpu_s: float
    peak_mib: float | None


def bench_engine(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Rows for the table: each verb at 4 and 16 times the days, against itself at the fewest."""
    smaller = _PART * (_QUICK if quick else 1)
    a_day = ATTEMPTS / DAYS[-1] / smaller
    nodes = NODES // smaller
    by_days = {days: _in_folder(folder / f"{days}-days", round(a_day * days), nodes, days) for days in DAYS}
    small = by_days[DAYS[0]]
    result = []
    for verb, days in ((verb, days) for verb in small for days in DAYS[1:]):
        large, times = by_days[days], days / DAYS[0]
        name, against = f"{verb}: {days} days of {nodes} nodes", f"{DAYS[0]} days"
        goal = times if verb in GROWING else 2.0
        result.append(row(f"{name}, CPU", large[verb].cpu_s, small[verb].cpu_s, against, goal))
        memory, least = large[verb].peak_mib, small[verb].peak_mib
        if memory is not None and least is not None:
            result.append(row(f"{name}, memory", memory, least, against, goal, unit="MiB"))
    return result


def bench_whole_year(folder: Path, *, part: int = 1) -> list[dict[str, Any]]:
    """Rows for the table: a new day against the same in a month-old warehouse, and each verb against its goal.

    Args:
        folder: for dumps and warehouses.
        part: of how many parts of the year's nodes one is measured; the goals are for the whole year.
    """
    nodes = NODES // part
    measured = _in_folder(folder / "year", ATTEMPTS // part, nodes, DAYS[-1])
    month = _in_folder(folder / "month", round(ATTEMPTS / part * MONTH / DAYS[-1]), nodes, MONTH)
    result = _against_month(measured[NEW_DAY], month[NEW_DAY], nodes)
    for verb, (cpu_s, mib) in GOALS_OF_A_YEAR.items():
        name, (own_cpu_s, memory) = f"{verb}: a year of {nodes:,} nodes", measured[verb]
        result.append(against_goal(f"{name}, CPU", own_cpu_s, cpu_s, "s", whole=part == 1))
        if mib is not None and memory is not None:
            result.append(against_goal(f"{name}, memory", memory, mib, "MiB", whole=part == 1))
    return result


def _against_month(year_old: Cost, month_old: Cost, nodes: int) -> list[dict[str, Any]]:
    name, against = f"{NEW_DAY}: {DAYS[-1]} days of {nodes:,} nodes", f"{MONTH} days"
    result = [row(f"{name}, CPU", year_old.cpu_s, month_old.cpu_s, against, 2.0)]
    if year_old.peak_mib is not None and month_old.peak_mib is not None:
        result.append(row(f"{name}, memory", year_old.peak_mib, month_old.peak_mib, against, 2.0, unit="MiB"))
    return result


def against_goal(name: str, value: float, goal: float, unit: str, *, whole: bool) -> dict[str, Any]:
    """A row against a goal of the whole year: a part of its nodes can miss it, and cannot hold it."""
    return row(name, value, goal, WHOLE_YEAR, 1.0 if whole or value > goal else None, unit=unit)


def _in_folder(folder: Path, attempts: int, nodes: int, days: int) -> dict[str, Cost]:
    folder.mkdir()
    try:
        return costs(folder, attempts, nodes=nodes, days=days)
    finally:
        shutil.rmtree(folder)


def costs(folder: Path, attempts: int, *, nodes: int, days: int) -> dict[str, Cost]:
    """What each verb costs, on so many attempts on so many nodes over so many days.

    Args:
        folder: for dumps and the warehouse.
        attempts: how many, about.
        nodes: how many.
        days: how many; the last one is the new day.
    """
    last = (days - 1) * DAY_S
    past, new = folder / "past", folder / "new"
    # In a process of its own: this one must stay small.
    writing = multiprocessing.get_context("spawn").Process(target=_write, args=(folder, attempts, nodes, days))
    writing.start()
    writing.join()
    if writing.exitcode:
        message = f"no dumps in {folder}"
        raise RuntimeError(message)
    warehouse = folder / "warehouse"
    result = {FIRST: _ingest(warehouse, past, 0, last)}
    result[FIRST_COMPUTE] = trackside(warehouse, "compute")
    result[ONE_DAY] = _ingest(warehouse, new, last, days * DAY_S)
    result[NEW_DAY] = trackside(warehouse, "compute")
    result[NOTHING_NEW] = trackside(warehouse, "compute")
    result |= {name: trackside(warehouse, *verb) for name, verb in READS.items()}
    return result | {FULL: trackside(warehouse, "compute", "--full")}


def _write(folder: Path, attempts: int, nodes: int, days: int) -> None:
    """Dumps of all but the last day, and of that one."""
    made = year(attempts, nodes=nodes, until=days * DAY_S)
    last = (days - 1) * DAY_S
    for part, name in ((before(made, last), "past"), (after(made, last), "new")):
        (folder / name).mkdir()
        write_dumps(part, folder / name)


def before(made: Year, until: int) -> Year:
    """What a cluster has recorded by then: jobs that began; those that still run have no end."""
    ended = pl.col("end") < until
    jobs = made.jobs.filter(pl.col("start") < until).with_columns(
        end=pl.when(ended).then("end"), state=pl.when(ended).then("state").otherwise(pl.lit("RUNNING"))
    )
    return replace(made, jobs=jobs, downs=made.downs.filter(pl.col("end") < until), until=until)


def after(made: Year, since: int) -> Year:
    """What it has recorded of the time since: jobs that ran in it."""
    jobs = made.jobs.filter(pl.col("end").is_null() | (pl.col("end") >= since))
    return replace(made, jobs=jobs, downs=made.downs.filter(pl.col("end") >= since))


def _ingest(warehouse: Path, folder: Path, since: int, until: int) -> Cost:
    period = [(BEGIN + timedelta(seconds=each)).isoformat() for each in (since, until)]
    files = sorted(map(str, folder.iterdir()))
    return trackside(warehouse, "ingest", "slurm", "--since", period[0], "--until", period[1], *files)


def trackside(warehouse: Path | str, *verb: str) -> Cost:
    """What `trackside VERB` costs on a warehouse.

    Raises:
        RuntimeError: it failed.
    """
    return run(*verb, "--warehouse", str(warehouse))


def run(*verb: str) -> Cost:
    """What `trackside VERB` costs.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "app.cli.main", *verb, "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in _DONE:
        message = f"{verb} failed with {process.returncode}"
        raise RuntimeError(message)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = used.ru_maxrss / 1024 if used.ru_maxrss > own else None
    return Cost(used.ru_utime + used.ru_stime, memory)
