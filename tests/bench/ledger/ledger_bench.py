"""The ledger of a year: against DuckDB's sort and write, against pandas, against itself at other sizes; its memory."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import polars as pl

from metrics.ledger.inputs import index_inputs
from metrics.ledger.sweep import sweep_ledger, with_names
from tests.bench.ledger.pandas_ledger import pandas_ledger
from tests.bench.table import row
from tests.bench.year import ATTEMPTS, NODES, inputs, year
from tests.support.command import ROOT

GIB_8 = 8 * 1024.0
PANDAS = (26_000, 128, 60)
"""Attempts, nodes and days that pandas is asked for: it takes a minute as it is."""


def bench_year(*, quick: bool) -> list[dict[str, Any]]:
    """Rows for the table: 1, 4 and 16 sixteenths of the year's attempts and nodes (a hundredth of that if `quick`)."""
    scale = 100 if quick else 1
    sizes = [(ATTEMPTS // part // scale, max(64, NODES // part // scale // 16 * 16), 365) for part in (16, 4, 1)]
    mine = [_measured(*size, "ours") for size in sizes]
    whole, base = mine[-1], _measured(*sizes[-1], "duckdb")
    name = f"ledger of {whole['held']:,} attempt-node rows"
    result = [
        row(name, whole["seconds"], base["seconds"], f"DuckDB sort + write of {whole['rows']:,} rows", 3.0),
        row(f"peak memory of {name}", whole["mib"], GIB_8, "8 GiB", 1.0, unit="MiB"),
    ]
    for small, large in itertools.pairwise(mine):
        times = large["held"] / small["held"]
        expected = small["seconds"] * times
        result.append(row(f"{times:.1f} times the rows", large["seconds"], expected, "so many times the time", 1.5))
    return [*result, _against_pandas()]


def _measured(attempts: int, nodes: int, days: int, what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.ledger.ledger_of_a_year", *map(str, (attempts, nodes, days)), what]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True
    )
    reported: dict[str, float] = json.loads(done.stdout)
    return reported


def _ledger(made: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Rows as they are handed to the warehouse."""
    whole = index_inputs(**made)
    return pl.concat([with_names(sweep_ledger(some), some) for some in (whole.within(*span) for span in whole.spans())])


def _against_pandas() -> dict[str, Any]:
    attempts, nodes, days = PANDAS
    made = inputs(year(attempts, nodes=nodes, until=days * 86_400))
    taken = []
    for _ in range(3):  # the best of three: a fraction of a second is easily disturbed
        began = time.perf_counter()
        mine = _ledger(made)
        taken.append(time.perf_counter() - began)
    began = time.perf_counter()
    _, theirs = pandas_ledger(made)
    slow = time.perf_counter() - began
    length = (pl.col("ended_at") - pl.col("started_at")).dt.total_seconds()
    sums = mine.group_by("category").agg((pl.col("milli_gpus") * length).sum())
    if Counter(dict(sums.rows())) != Counter(theirs):
        message = f"pandas comes to other totals: {theirs} instead of {dict(sums.rows())}"
        raise RuntimeError(message)
    name = f"ledger of {made['attempt_nodes'].height:,} attempt-node rows"
    return row(name, min(taken), slow, "pandas, node by node", 1 / 50)
