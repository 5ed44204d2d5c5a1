"""The size plan of the manual: `python -m tests.bench.sizes [jobs] [telemetry] [alone]`, each at three sizes.

It writes `tests/bench/sizes/sizes.json`, and from it the numbers of `app/docs/how-to/size-plan.md`; what is not named
keeps its earlier results. Together they take some seven minutes of CPU time and 2 GB of disk.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench.sizes import jobs, telemetry
from tests.bench.sizes.page import PAGE, RESULTS, current, with_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.bench.sizes.measure import Size

WHAT: Final[Mapping[str, tuple[Callable[[Path, int], Size], tuple[int, ...]]]] = {
    "jobs": (jobs.measured, (512, 1024, 2048)),
    "telemetry": (telemetry.measured, (64, 128, 256)),
    "alone": (telemetry.alone, (512, 1024, 2048)),
}
"""What is measured, and at which sizes: one of telemetry that is as large as those of jobs would take hours."""


def about() -> dict[str, Any]:
    """The machine and the engines."""
    packages = ("polars", "duckdb", "numpy")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    return {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "versions": versions}


def at(measured: Callable[[Path, int], Size], gpus: int) -> dict[str, Any]:
    """One size; prints what its steps cost."""
    with tempfile.TemporaryDirectory(prefix="trackside-sizes-") as folder:
        size = measured(Path(folder), gpus)
    for step in size.steps:
        memory = "" if step.peak_mib is None else f", {step.peak_mib:,.0f} MiB"
        print(f"{gpus:,} GPUs, {step.name}: {step.cpu_s:.2f} CPU s{memory}, {step.bytes / 1e6:+.2f} MB", flush=True)
    return size.document()


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the results and the page."""
    results = current() if RESULTS.exists() else {}
    for what in arguments or WHAT:
        measured, sizes = WHAT[what]
        results[what] = {**about(), "sizes": [at(measured, gpus) for gpus in sizes]}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(with_numbers(PAGE.read_text(), results))


if __name__ == "__main__":
    main(sys.argv[1:])
