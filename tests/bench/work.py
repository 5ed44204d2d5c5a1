"""What each verb does on a small warehouse, counted: statements, rows read into Python, modules imported.

    python -m tests.bench.work        renews work.json, which `tests/app/cli/test_work.py` holds every verb to

These counts do not depend on the machine or its load, so they are a gate where times cannot be one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.support.slurm.dumps import tiny

LIMITS: Final = Path(__file__).with_name("work.json")
PROGRAM: Final = Path(__file__).with_name("count_work.py")
JOBS: Final = 60

VERBS: Final = {
    "ingest slurm": ("ingest", "slurm"),
    "ingest slurm, nothing new": ("ingest", "slurm"),
    "compute": ("compute",),
    "compute, nothing new": ("compute",),
    "status": ("status",),
    "show goodput": ("show", "goodput"),
    "show mttf": ("show", "mttf"),
    "verify": ("verify",),
    "run": ("run", "1"),
    "sql": ("sql", "select 1"),
}
"""By name in the order in which they run, each on what those before it left."""

Work = dict[str, int]


def measure(folder: Path, *, jobs: int = JOBS) -> dict[str, Work]:
    """The counts of each verb.

    Args:
        folder: an empty folder to work in.
        jobs: how many jobs the accounting has.
    """
    files = [str(file) for file in tiny(jobs).write(folder)]
    warehouse = str(folder / "warehouse")
    return {
        name: _work_of([*words, *(files if "slurm" in words else ()), "--warehouse", warehouse])
        for name, words in VERBS.items()
    }


def _work_of(argv: list[str]) -> Work:
    command = [sys.executable, str(PROGRAM), *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode not in {0, 3, 4}:
        raise RuntimeError(f"{argv}: exit status {done.returncode}: {done.stderr}")
    return dict(json.loads(done.stderr.splitlines()[-1]))


def main() -> None:
    """Measure, and write the limits down."""
    with tempfile.TemporaryDirectory() as folder:
        LIMITS.write_text(json.dumps(measure(Path(folder)), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
