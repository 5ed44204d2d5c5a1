"""`make bench`: ratios against a baseline measured in the same run, never absolute times as a gate.

Writes `bench-results.json`: rows of section, name, value, unit, baseline, ratio, goal, holds, machine, load, versions;
and from it the manual's page about performance. `QUICK=1` is smaller, and writes no page. `ONLY=engine` (or several
sections, with commas) measures a part and keeps the other rows. `YEAR=1` adds a year of 16,384 GPUs, `YEAR=4` a year of
a quarter of its nodes.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench.engine import bench_engine, bench_whole_year
from tests.bench.ledger.ledger_bench import bench_year
from tests.bench.page import PAGE, page
from tests.bench.reading.ingesting import bench_ingest
from tests.bench.reading.remote_reading import bench_remote_read
from tests.bench.reading.runlog_reading import bench_run_log
from tests.bench.reading.storing import bench_storing
from tests.bench.reading.text_log_reading import PRINTED, bench_many_logs, bench_text_log
from tests.bench.table import row
from tests.bench.telemetry.anomalies import bench_anomalies
from tests.bench.telemetry.attributing import bench_attribution
from tests.bench.telemetry.counting import bench_counters
from tests.bench.telemetry.stragglers import bench_stragglers
from tests.lab.prometheus import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Sections = Mapping[str, Callable[[Path], list[dict[str, Any]]]]

QUICK = os.environ.get("QUICK") == "1"
REPEATS = 3
RESULTS: Final = Path("bench-results.json")


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


def sections(*, quick: bool, year: int) -> Sections:
    """What can be measured, by its name: each makes its rows in a folder of its own."""
    result: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        "start": lambda _: [bench_help()],
        "ingest": lambda folder: bench_ingest(folder, (20_000, 100_000) if quick else (500_000, 5_000_000)),
        "run log": lambda folder: bench_run_log(folder, 300_000 if quick else 10_000_000),
        "text log": lambda folder: [
            *itertools.chain.from_iterable(
                bench_text_log(folder, each, 100_000 if quick else PRINTED[each].steps, noise=0) for each in PRINTED
            ),
            *bench_text_log(folder, "Megatron-LM", 2_000 if quick else 10_000, noise=1_000),
            *bench_many_logs(folder, 100 if quick else 2_000),
        ],
        "engine": lambda folder: bench_engine(folder, quick=quick),
        "ledger": lambda _: bench_year(quick=quick),
        "attribution": lambda folder: bench_attribution(folder, gpus=200 if quick else 2000),
        "stragglers": lambda _: bench_stragglers(quick=quick),
        "anomalies": lambda folder: bench_anomalies(folder, quick=quick),
        "counters": lambda _: bench_counters(2_000 if quick else 20_000),
    }
    if not missing():
        result["remote read"] = lambda _: bench_remote_read(200 if quick else 2_000)
        result["storing"] = lambda folder: bench_storing(folder, gpus=16 if quick else 48)
    if year:
        result["year" if year == 1 else f"year/{year}"] = functools.partial(bench_whole_year, part=year)
    return result


def measured(chosen: Sections) -> Iterator[dict[str, Any]]:
    """The rows of sections, each printed when it is known."""
    packages = ("polars", "duckdb", "numpy")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    about: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "versions": versions}
    for section, make in chosen.items():
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory() as name:
            for each in make(Path(name)):
                print(_line(each))
                yield {"section": section, **each, **about, "load": load}


def _line(each: dict[str, Any]) -> str:
    goal = f"  goal <= {each['goal']:g}: {'holds' if each['holds'] else 'MISSED'}" if each["goal"] is not None else ""
    measured = f"{each['name']:<52} {each['value']:8.3f} {each['unit']} = {each['ratio']:5.2f}"
    return f"{measured} x {each['baseline_is']}{goal}"


def main() -> None:
    """Measure, print a table, write the results and the page."""
    known = sections(quick=QUICK, year=int(os.environ.get("YEAR") or 0))
    only = [name for name in (os.environ.get("ONLY") or "").split(",") if name]
    if unknown := sorted(set(only) - set(known)):
        raise SystemExit(f"no section {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = only or list(known)
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() and not QUICK else []
    kept = [each for each in earlier if each.get("section") not in {None, *chosen}]
    rows = kept + list(measured({name: known[name] for name in chosen}))
    RESULTS.write_text(json.dumps(rows, indent=1))
    if not QUICK:
        PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
