"""Running the command line as a person does, and comparing warehouses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from queries import sql_files
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from tests.lab import SlurmLab

ROOT = Path(__file__).parents[2]
CLOCKS = {
    "loads": None,
    "run_sessions": ["read_at"],
    "computes": ["computed_at", "data_version"],
    "ledger_days": ["computed_at"],
    "meta": None,
    "schema_steps": None,
    "partitions": None,
    "node_lists": None,
}
"""What differs between two warehouses that say the same: logs of loading, columns that tell when it was done, and node
lists of sightings that were corrected later."""


def trackside(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "app.cli.main", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        cwd=cwd or ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def trackside_on(lab: SlurmLab, warehouse: Path, *arguments: str, check: bool = True) -> str:
    """Output of the command line with a lab's Slurm at hand; it must succeed unless `check` says otherwise."""
    done = subprocess.run(
        [sys.executable, "-m", "app.cli.main", *arguments, "--warehouse", str(warehouse)],
        env=dict(lab.env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done.stdout


def contents(warehouse: Path) -> dict[str, pl.DataFrame]:
    """Every table of a published warehouse, sorted, without what only tells when things were done."""
    found = {}
    with open_reader(warehouse) as reader:
        for name in (*(table.shown for table in sql_files.all_tables()), "attempt_nodes"):
            left_out = CLOCKS.get(name, [])
            if left_out is None:
                continue
            rows = reader.table(name).drop(left_out)
            if name == "rejects":  # where a refused row was first seen depends on which file came first
                rows = rows.drop("origin", "line")
            flat = rows.with_columns(pl.col(pl.List(pl.String)).list.join("\0"))
            found[name] = flat.sort(flat.columns)
    return found


def assert_same(one: Path, other: Path) -> None:
    """Both warehouses say the same."""
    left, right = contents(one), contents(other)
    for name, rows in left.items():
        assert rows.equals(right[name]), f"{name} differs:\n{rows}\n{right[name]}"
