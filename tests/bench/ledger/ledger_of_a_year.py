"""A year's ledger in a process of its own, so that its peak memory can be told. Prints seconds, rows and MiB as JSON.

Arguments: attempts, nodes, days, and what to time: `ours`, or `duckdb`, which sorts the same attempt-node rows by node
and start and writes a table of as many rows as the ledger has, into a database on disk.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import polars as pl

from metrics import frames
from metrics.ledger.inputs import index_inputs
from metrics.ledger.sweep import sweep_ledger, with_names
from queries import sql_files
from tests.bench.year import inputs, year
from tests.metrics.oracles.fingerprints import fingerprints

_TABLE = next(table for table in sql_files.all_tables() if table.name == "gpu_time")


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(str(path))
    columns = ", ".join(f'"{column.name}" {column.type}' for column in _TABLE.columns)
    connection.execute(f"SET TimeZone = 'UTC'; CREATE TABLE gpu_time ({columns})")
    return connection


def ours(made: dict[str, pl.DataFrame], path: Path) -> int:
    """Fingerprints of all days, the ledger, and its rows in the table `gpu_time`; how many they are."""
    insert = sql_files.named_queries()["insert_gpu_time"].sql
    none = frames.empty(frames.STRAGGLING).to_arrow()
    rows = 0
    with _connect(path) as connection:
        connection.register("straggling", none)
        fingerprints(made)
        whole = index_inputs(**made)
        for first, last in whole.spans():
            some = whole.within(first, last)
            result = with_names(sweep_ledger(some), some)
            rows += result.height
            connection.register("ledger", result.to_arrow())
            connection.execute(insert)
    return rows


def sort_and_write(made: dict[str, pl.DataFrame], ledger: pl.DataFrame, path: Path) -> None:
    """What the ledger is held against."""
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", made["attempt_nodes"].to_arrow())
        connection.register("ledger", ledger.to_arrow())
        connection.execute("CREATE TABLE sorted AS SELECT * FROM rows ORDER BY cluster, node, started_at")
        connection.execute("CREATE TABLE written AS SELECT * FROM ledger")


def main() -> None:
    """Make the year, time it, tell."""
    attempts, nodes, days = map(int, sys.argv[1:4])
    made = inputs(year(attempts, nodes=nodes, until=days * 86_400))
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[4] == "ours":
            began = time.perf_counter()
            rows = ours(made, Path(folder) / "w.duckdb")
        else:
            whole = index_inputs(**made)
            ledger = pl.concat(
                [with_names(sweep_ledger(some), some) for some in (whole.within(*span) for span in whole.spans())]
            )
            rows = ledger.height
            began = time.perf_counter()
            sort_and_write(made, ledger, Path(folder) / "w.duckdb")
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "rows": rows, "mib": peak, "held": made["attempt_nodes"].height}))


if __name__ == "__main__":
    main()
