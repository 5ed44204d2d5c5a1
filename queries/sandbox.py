"""A person's SQL: one SELECT on the published copy, with nothing else within reach.

It runs in a process of its own, so that limits on time and memory hold whatever the engine does: the parent kills a
child that is late, and the child may not map more memory than it is given.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from queries.errors import QueryError
from queries.warehouse import open_reader

MEBIBYTE = 2**20
OWN_MEMORY = 1024 * MEBIBYTE
"""What Python, polars and DuckDB need before the query begins."""


@dataclass(frozen=True)
class Limits:
    """What a person's SQL may use; the result may hold at most `result_mb` megabytes."""

    rows: int = 10_000
    seconds: float = 60.0
    memory_mb: int = 2_000
    result_mb: int = 64


def user_sql(root: Path, sql: str, limits: Limits | None = None) -> tuple[pl.DataFrame, bool]:
    """Run one SELECT of a person on the published copy.

    The copy is opened read-only; files outside the warehouse's samples, network, extensions and settings are locked
    away before the text is looked at.

    Returns:
        The rows, and whether there were more than the limits allow.

    Raises:
        QueryError: not one SELECT, or it failed, or it took more time or memory than the limits allow.
        WarehouseError: there is no warehouse, or it cannot be read.
    """
    limits = limits or Limits()
    with open_reader(root):  # what is wrong with the warehouse is said here, in our own words
        pass
    task = json.dumps({"root": str(root.absolute()), "sql": sql, "limits": asdict(limits)})
    # -P: nothing that lies in the current directory is imported in our packages' stead.
    command = [sys.executable, "-P", "-c", "from queries.sandbox import child; child()"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        answer, said = process.communicate(task.encode(), timeout=limits.seconds + 5)
    except subprocess.TimeoutExpired:
        raise QueryError(f"the query took longer than {limits.seconds:g} s and was stopped") from None
    finally:
        process.kill()
        process.communicate()
    if process.returncode == _FAILED:
        raise QueryError(said.decode(errors="replace").strip())
    if process.returncode != 0:
        raise QueryError(f"the query needed more memory than {limits.memory_mb} MB and was stopped")
    return pl.read_ipc_stream(answer[1:]), answer[:1] == b"1"


_FAILED = 9


def child() -> None:
    """The process that runs the query: a task on stdin; on stdout a mark for "more", then rows as an Arrow stream."""
    task = json.loads(sys.stdin.read())
    limits = Limits(**task["limits"])
    memory = limits.memory_mb * MEBIBYTE + OWN_MEMORY
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds * 8) + 10,) * 2)  # in case the parent was killed
    try:
        with open_reader(Path(task["root"])) as reader:
            rows, more = _run(reader._connection, Path(task["root"]), task["sql"], limits)  # noqa: SLF001 - locked down
    except (QueryError, duckdb.Error) as error:
        sys.stderr.write(str(error))
        sys.exit(_FAILED)
    sys.stdout.buffer.write(b"1" if more else b"0")
    rows.write_ipc_stream(sys.stdout.buffer)


def _run(connection: duckdb.DuckDBPyConnection, root: Path, sql: str, limits: Limits) -> tuple[pl.DataFrame, bool]:
    samples = str(root / "raw").replace("'", "''")
    connection.execute(f"SET memory_limit = '{limits.memory_mb}MB'")
    connection.execute("SET temp_directory = ''")
    connection.execute(f"SET allowed_directories = ['{samples}']")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    statements = connection.extract_statements(sql)
    # EXPLAIN stays out: EXPLAIN ANALYZE runs what it explains, and that may be a COPY.
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise QueryError("only one SELECT at a time: the published copy is for reading")
    batches = connection.execute(sql).to_arrow_reader(1_000)
    taken, more = [], False
    left, room = limits.rows, limits.result_mb * MEBIBYTE
    for batch in batches:
        more = batch.num_rows > left or batch.nbytes > room
        if batch.nbytes > room:
            break
        taken.append(batch.slice(0, left))
        left, room = left - taken[-1].num_rows, room - batch.nbytes
        if more:
            break
    return _frame(taken, batches.schema), more


def _frame(batches: list[Any], schema: Any) -> pl.DataFrame:  # noqa: ANN401 - pyarrow carries no types
    import pyarrow as pa  # noqa: PLC0415 - only here

    table = pa.Table.from_batches(batches, schema=schema)
    for number, field in enumerate(schema):
        if pa.types.is_interval(field.type):  # polars has no such type
            told = [None if each is None else _interval(*each) for each in table.column(number).to_pylist()]
            table = table.set_column(number, field.name, pa.array(told, pa.string()))
    return pl.DataFrame(pl.from_arrow(table))


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """An interval in words.

    >>> _interval(14, 1, 3_723_000_000_000), _interval(0, 0, -1_500_000_000), _interval(0, 0, 0)
    ('14 months 1 days 01:02:03', '-00:00:01.500000', '00:00:00')
    """
    parts = [f"{months} months"] if months else []
    parts += [f"{days} days"] if days else []
    if nanoseconds or not parts:
        seconds, micro = divmod(abs(nanoseconds) // 1000, 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        parts.append(("-" if nanoseconds < 0 else "") + clock + (f".{micro:06d}" if micro else ""))
    return " ".join(parts)
