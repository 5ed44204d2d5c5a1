"""Ingest of Slurm accounting against three yardsticks: a bare load of the same bytes, a line loop, and itself.

Each run is a process of its own, so that its peak memory can be told; the rivals take turns, and the best of each
counts: other work on the machine only ever makes a run slower.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.ledger.fleet import write_sacct
from tests.bench.table import row
from tests.support.command import ROOT

HERE = Path(__file__).parent
NUMBERS = itertools.count()


class Run(NamedTuple):
    """Wall and CPU time in seconds, and peak memory in bytes."""

    seconds: float
    peak_bytes: int
    cpu_s: float


def run(*command: str) -> Run:
    """A command's cost.

    Raises:
        RuntimeError: It failed.
    """
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        message = f"{command} failed with {process.returncode}"
        raise RuntimeError(message)
    return Run(seconds, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime)


def ours_of(text: Path, source: str, *options: str) -> Run:
    """`trackside ingest SOURCE` into a new warehouse, published copy included."""
    warehouse = text.with_name(f"w{next(NUMBERS)}")
    result = run("-m", "app.cli.main", "ingest", source, "-q", "--warehouse", str(warehouse), *options, str(text))
    shutil.rmtree(warehouse)
    return result


def other(program: str, text: Path) -> Run:
    """One of the programs beside this file, into a new database."""
    database = text.with_name(f"{next(NUMBERS)}.duckdb")
    result = run(str(HERE / program), str(text), str(database))
    database.unlink()
    return result


def best(runs: list[Run]) -> Run:
    """The least of each."""
    return Run(*map(min, zip(*runs, strict=True)))


def bench_ingest(folder: Path, sizes: tuple[int, int], *, repeats: int = 3) -> list[dict[str, Any]]:
    """Rows for the table: both sizes against the bare load; the line loop at the smaller; growth of time and memory."""
    result = []
    measured: list[Run] = []
    for size in sizes:
        text = folder / "sacct.txt"
        write_sacct(text, size)
        mine, bare = [], []
        for _ in range(repeats if size == sizes[0] else max(1, repeats - 1)):
            bare.append(other("bare_load.py", text))
            mine.append(ours_of(text, "slurm"))
        measured.append(best(mine))
        name, baseline = f"ingest of {size:,} accounting rows", best(bare)
        result.append(row(name, measured[-1].seconds, baseline.seconds, "polars scan + DuckDB insert", 1.3))
        if size == sizes[0]:
            loop = other("line_loop.py", text)
            result.append(
                row(f"{name}, part of a loop", measured[-1].seconds, loop.seconds, "line loop in Python", 0.1)
            )
        text.unlink()
    small, large = measured
    scale = sizes[1] / sizes[0]
    result.append(
        row(f"{scale:g} times the rows", large.seconds, small.seconds * scale, f"{scale:g} times the time", 1.2)
    )
    peaks = (large.peak_bytes / 2**20, small.peak_bytes / 2**20)
    result.append(row(f"peak memory at {sizes[1]:,} rows", *peaks, f"that at {sizes[0]:,}", None, unit="MiB"))
    return result
