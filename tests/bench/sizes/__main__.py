"""The size plan of the manual: `python -m tests.bench.sizes [GPUS GPUS GPUS]`, at three sizes, the smallest first.

It writes `tests/bench/sizes/sizes.json`, and from it the numbers of `app/docs/how-to/size-plan.md`. The sizes of the page
take about four minutes of CPU time and 2 GB of disk.
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

from tests.bench.sizes.measure import measured
from tests.bench.sizes.page import PAGE, RESULTS, current, with_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

GPUS: Final = (128, 256, 512)


def about() -> dict[str, Any]:
    """The machine and the engines."""
    packages = ("polars", "duckdb", "numpy")
    versions = {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
    return {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "versions": versions}


def main(arguments: Sequence[str]) -> None:
    """Measure, and write the results and the page."""
    sizes = []
    for gpus in sorted(map(int, arguments)) or GPUS:
        with tempfile.TemporaryDirectory(prefix="trackside-sizes-") as folder:
            size = measured(Path(folder), gpus)
        sizes.append(size.document())
        for step in size.steps:
            memory = "" if step.peak_mib is None else f", {step.peak_mib:,.0f} MiB"
            print(f"{gpus:,} GPUs, {step.name}: {step.cpu_s:.2f} CPU s{memory}, {step.bytes / 1e6:+.2f} MB", flush=True)  # noqa: T201
    RESULTS.write_text(json.dumps({**about(), "sizes": sizes}, indent=1) + "\n")
    PAGE.write_text(with_numbers(PAGE.read_text(), current()))


if __name__ == "__main__":
    main(sys.argv[1:])
