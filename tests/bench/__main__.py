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

from tests.bench.attributing import bench_attribution
from tests.bench.counting import bench_counters
from tests.bench.ingesting import bench_ingest
from tests.bench.ledger_bench import bench_year
from tests.bench.remote_reading import bench_remote_read
from tests.bench.runlog_reading import bench_run_log
from tests.bench.storing import bench_storing
from tests.bench.table import row
from tests.lab.prometheus import missing

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


def bench_help() -> dict[str, Any]:
    """`trackside --help` against Python doing nothing."""
    command = Path(sys.executable).parent / "trackside"
    nothing = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), 15)
    helped = seconds(lambda: subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL), 15)
    return row("trackside --help", helped, nothing, "python -c pass", 5.0)


def main() -> None:
    """Run all, print a table, write the file."""
    scale = 0.1 if QUICK else 1.0
    with tempfile.TemporaryDirectory() as name:
        result = [
            bench_help(),
            *bench_ingest(Path(name), (20_000, 100_000) if QUICK else (500_000, 5_000_000)),
            *bench_run_log(Path(name), 300_000 if QUICK else 10_000_000),
            *bench_year(quick=QUICK),
            *([] if missing() else bench_remote_read(int(2_000 * scale))),
            *bench_attribution(Path(name), gpus=200 if QUICK else 2000),
            *bench_counters(2_000 if QUICK else 20_000),
            *([] if missing() else bench_storing(Path(name), gpus=16 if QUICK else 48)),
        ]
    packages = ("polars", "duckdb", "numpy")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    for each in result:
        goal = "" if each["goal"] is None else f"  goal <= {each['goal']:g}: {'holds' if each['holds'] else 'MISSED'}"
        line = f"{each['name']:<52} {each['value']:8.3f} {each['unit']} = {each['ratio']:5.2f} x {each['baseline_is']}"
        print(line + goal)  # noqa: T201 - it is a report
    print(f"{machine}; {versions}")  # noqa: T201 - as above
    Path("bench-results.json").write_text(
        json.dumps([each | {"versions": versions, "machine": machine} for each in result], indent=1)
    )


if __name__ == "__main__":
    main()
