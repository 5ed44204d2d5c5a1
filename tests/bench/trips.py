"""Count the files, the functions and the changes of file that one row passes through on its way in or out.

    python -m tests.bench.trips CHECKOUT [PYTHON]

A trip is one call of the command, profiled in its process: a sacct row, a telemetry sample, a step of a run log,
`compute`, and `show goodput`. Only functions of the product count, and no time is measured. Each verb runs once before
it is profiled, so that imports are not part of the trip.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.compare_checkouts.collect import Checkout

PROGRAM: Final = Path(__file__).with_name("trace_calls.py")
PRODUCT: Final = ("app", "dashboards", "ingest", "metrics", "queries", "trackside")
SIZE: Final = ("--gpus", "64", "--days", "8", "--seed", "7")
SOURCES: Final = Path("simulated/sources")


def main() -> None:
    """Trace the trips of a checkout and print them as a table."""
    root = Path(sys.argv[1]).resolve()
    checkout = Checkout(root, Path(sys.argv[2]) if len(sys.argv) > 2 else root / ".venv" / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        for line in table(trace(checkout, Path(folder))):
            print(line)


def trace(checkout: Checkout, folder: Path) -> dict[str, dict[str, int]]:
    """The counts of each trip, by its name."""
    _run(checkout, folder, [{"argv": ["simulate", "--dir", "simulated", *SIZE]}])
    _write_single_rows(folder)
    return _run(checkout, folder, _trips(sorted(str(log) for log in _logs(folder))))


def table(counts: dict[str, dict[str, int]]) -> list[str]:
    """Lines of a Markdown table."""
    rows = [f"| {name} | {one['files']} | {one['functions']} | {one['switches']} |" for name, one in counts.items()]
    return ["| trip | files | functions | changes of file |", "|---|---:|---:|---:|", *rows]


def _logs(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in (folder / SOURCES / "runs").iterdir()]


def _write_single_rows(folder: Path) -> None:
    """Beside each source, the same kind of file with one row that is new."""
    sources = folder / SOURCES
    header, new, *others = (sources / "sacct.txt").read_text("utf-8").splitlines(keepends=True)
    (folder / "row.txt").write_text(header + new, "utf-8")
    (folder / "rows.txt").write_text("".join([header, *others]), "utf-8")
    samples = (sources / "dcgm.om").read_text("utf-8").splitlines(keepends=True)
    (folder / "sample.om").write_text("".join([*samples[:3], "# EOF\n"]), "utf-8")
    (folder / "samples.om").write_text("".join([*samples[:2], *samples[3:]]), "utf-8")
    for name, log in (("step.jsonl", "pretrain-70b"), ("steps.jsonl", "pretrain-13b")):
        lines = (sources / "runs" / f"{log}.jsonl").read_text("utf-8").splitlines(keepends=True)
        first = next(number for number, line in enumerate(lines) if '"type":"step"' in line)
        (folder / name).write_text(lines[0] + lines[first], "utf-8")


def _trips(logs: list[str]) -> list[dict[str, object]]:
    where = ["--warehouse", "warehouse", "--quiet"]
    inventory = [str(SOURCES / name) for name in ("nodes-start.txt", "nodes.txt", "config.txt", "events.txt")]
    hours = [str(SOURCES / name) for name in ("gpu_hours.parquet", "node_hours.parquet")]

    def slurm(*files: str) -> list[str]:
        return ["ingest", "slurm", *files, *where]

    def prometheus(*files: str) -> list[str]:
        return ["ingest", "prometheus", "--cluster", "demo", *files, *where]

    return [
        {"argv": slurm("rows.txt", *inventory)},
        {"argv": slurm("row.txt"), "trip": "one sacct row"},
        {"argv": prometheus("samples.om", *hours)},
        {"argv": prometheus("sample.om"), "trip": "one telemetry sample"},
        {"argv": ["ingest", "runlog", "steps.jsonl", *where]},
        {"argv": ["ingest", "runlog", "step.jsonl", *where], "trip": "one step"},
        {"argv": ["ingest", "runlog", *logs, *where]},
        {"argv": ["compute", "--warehouse", "warehouse", "--quiet"]},
        {"argv": ["compute", "--full", "--warehouse", "warehouse", "--quiet"], "trip": "compute"},
        {"argv": ["show", "goodput", "--warehouse", "warehouse"]},
        {"argv": ["show", "goodput", "--warehouse", "warehouse"], "trip": "show goodput"},
    ]


def _run(checkout: Checkout, folder: Path, jobs: list[dict[str, object]]) -> dict[str, dict[str, int]]:
    """Run the jobs in one process, and return the counts of those that are trips."""
    described, result = folder / "jobs.json", folder / "counts.json"
    described.write_text(json.dumps(jobs), "utf-8")
    product = os.pathsep.join(str(checkout.root / name) for name in PRODUCT)
    program = [str(checkout.python), "-P", str(PROGRAM), checkout.entry_point(), str(described), str(result), product]
    environment = {**os.environ, "PYTHONPATH": str(checkout.root), "TRACKSIDE_NOT_BEFORE": "2026-11-22T00:00:00Z"}
    subprocess.run(program, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    counts: dict[str, dict[str, int]] = json.loads(result.read_text("utf-8"))
    return counts


if __name__ == "__main__":
    main()
