"""`make bench`: ratios against a baseline measured in the same run, never absolute times as a gate.

Writes `bench-results.json`: rows of name, value, unit, baseline, ratio, goal, holds, versions. `QUICK=1` is smaller.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from metrics.ledger import gpu_time
from tests.app.runs import trackside
from tests.bench.fleet import Fleet, fleet, sacct_text

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = os.environ.get("QUICK") == "1"
REPEATS = 3


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median wall time."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def row(name: str, value: float, baseline: float, baseline_is: str, goal: float | None) -> dict[str, Any]:
    """A result: a time against a baseline's."""
    ratio = value / baseline
    holds = None if goal is None else ratio <= goal
    return {"name": name, "value": value, "unit": "s", "baseline": baseline, "baseline_is": baseline_is,
            "ratio": ratio, "goal": goal, "holds": holds}  # fmt: skip


def bench_help() -> dict[str, Any]:
    """`trackside --help` against Python doing nothing."""
    command = Path(sys.executable).parent / "trackside"
    nothing = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 15)
    helped = seconds(lambda: subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL), 15)
    return row("trackside --help", helped, nothing, "python -c pass", 5.0)


def bench_ingest(folder: Path, jobs: int) -> dict[str, Any]:
    """Ingest of accounting text against a bare polars scan and a DuckDB insert of the same bytes."""
    file = folder / "sacct.txt"
    file.write_text(sacct_text(jobs))
    number = iter(range(1000))

    def bare() -> None:
        frame = pl.read_csv(file, separator="|", quote_char=None, infer_schema_length=1000)
        with duckdb.connect(str(folder / f"bare{next(number)}.duckdb")) as connection:
            connection.register("frame", frame.to_arrow())
            connection.execute("CREATE TABLE t AS SELECT * FROM frame")

    def ours() -> None:
        done = trackside("ingest", "slurm", "-q", "--warehouse", str(folder / f"w{next(number)}"), str(file))
        assert done.returncode == 0, done.stderr

    return row(
        f"ingest of {jobs:,} accounting rows", seconds(ours, 1), seconds(bare), "polars scan + DuckDB insert", None
    )


def bench_ledger(made: Fleet) -> dict[str, Any]:
    """The ledger against DuckDB sorting the same attempt-node rows and writing a table of the ledger's size."""
    ledger = gpu_time(**made.inputs)

    def sort_and_write() -> None:
        with duckdb.connect() as connection:
            connection.register("rows", made.inputs["attempt_nodes"].to_arrow())
            connection.register("ledger", ledger.to_arrow())
            connection.execute("CREATE TABLE sorted AS SELECT * FROM rows ORDER BY cluster, node, started_at")
            connection.execute("CREATE TABLE written AS SELECT * FROM ledger")

    value = seconds(lambda: gpu_time(**made.inputs))
    name = f"ledger of {made.inputs['attempt_nodes'].height:,} attempt-node rows"
    return row(name, value, seconds(sort_and_write), f"DuckDB sort + write of {ledger.height:,} rows", 3.0)


def main() -> None:
    """Run all, print a table, write the file."""
    scale = 0.1 if QUICK else 1.0
    with tempfile.TemporaryDirectory() as name:
        found = [
            bench_help(),
            bench_ingest(Path(name), int(100_000 * scale)),
            bench_ledger(fleet(int(20_000 * scale))),
            bench_ledger(fleet(int(320_000 * scale))),
        ]
    packages = ("polars", "duckdb", "numpy")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    for each in found:
        goal = "" if each["goal"] is None else f"  goal <= {each['goal']:g}: {'holds' if each['holds'] else 'MISSED'}"
        print(f"{each['name']:<45} {each['value']:8.3f} s = {each['ratio']:5.2f} x {each['baseline_is']}{goal}")  # noqa: T201 - it is a report
    print(f"{machine}; {versions}")  # noqa: T201 - as above
    Path("bench-results.json").write_text(
        json.dumps([each | {"versions": versions, "machine": machine} for each in found], indent=1)
    )


if __name__ == "__main__":
    main()
