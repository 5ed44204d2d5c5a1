"""The process that runs a person's SQL (see `queries.sandbox.run`).

Its limits are set and its view of the files is narrowed before anything is imported that the query could reach.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from queries.pandas_block import block_import, block_pandas
from queries.sandbox import confinement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import BufferedIOBase

    import duckdb
    import pyarrow as pa

FAILED, MEMORY, UNEXPECTED = 9, 10, 11
"""Exit statuses: the query was refused or failed; it needed too much memory; an unexpected error."""

_MEBIBYTE: Final = 2**20
_OWN_MEMORY: Final = 1024 * _MEBIBYTE
"""Memory that Python, Arrow and DuckDB need before the query begins."""

OUTPUT_SPARE: Final = 8
"""Text of a value takes so many times the room of the value, at most."""

_ALARM_S: Final = 10
"""So long after its limit the system ends the process, if the parent did not."""


def main() -> None:
    """A task on stdin; on stdout a mark for "more", then rows as an Arrow stream."""
    block_pandas()
    block_import("numpy")  # half of the time that this process takes to start; rows leave it as Arrow's
    task = json.loads(sys.stdin.read())
    limits, root = task["limits"], Path(task["root"])
    confinement.die_with(task["parent"])
    confinement.end_after(task["start_s"] + limits["seconds"] + _ALARM_S)
    confinement.limit(
        memory=limits["memory_mb"] * _MEBIBYTE + _OWN_MEMORY,
        output=(limits["result_mb"] * OUTPUT_SPARE + 64) * _MEBIBYTE,
        # All cores for all of the time: a limit for the day when the others fail, not one that a query meets.
        cpu_s=int(task["start_s"] + max(limits["seconds"] + _ALARM_S, 1) * len(os.sched_getaffinity(0))),
    )
    confinement.no_new_privileges()
    warehouse = confinement.reads_of(root, ("published", "raw"))
    libraries, listed = confinement.interpreter()
    confinement.restrict_to_reading([*warehouse, *libraries], listed=listed)
    answer = _guarded(task, warehouse)
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        _send(*answer, out)


def _guarded(task: dict[str, Any], warehouse: Sequence[Path]) -> tuple[pa.Table, bool]:
    root, limits = Path(task["root"]), task["limits"]
    # Not before the process is confined; and all here, for afterwards no file of a library can be read.
    import duckdb
    import pyarrow as pa

    from queries import sql_files
    from queries import warehouse as opening
    from queries.errors import QueryError
    from queries.sandbox import gate, results

    for read in (sql_files.schema_steps, sql_files.views):  # our own SQL files
        read()
    confinement.restrict_to_reading([*warehouse, *confinement.ENGINE])
    confinement.end_after(limits["seconds"] + _ALARM_S)
    confinement.refuse_system_calls()
    os.close(task["begins"])  # the parent counts from now on
    try:
        with opening.open_reader(root) as reader:
            connection = reader._connection  # noqa: SLF001 - locked down in the next line
            _lock_down(connection, [root / "raw", *confinement.reads_of(root, ("raw",))], limits)
            gate.admit(connection, task["sql"])
            return results.answer(connection.sql(task["sql"]), limits["rows"], limits["result_mb"] * _MEBIBYTE)
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        _end(MEMORY, "")
    except (QueryError, duckdb.Error) as error:
        _end(FAILED, str(error))
    except Exception as error:  # noqa: BLE001 - the last line of this process: the parent reports it
        _end(UNEXPECTED, f"{type(error).__name__}: {error}")


def _end(status: int, message: str) -> NoReturn:
    sys.stderr.write(message)
    sys.exit(status)


def _lock_down(connection: duckdb.DuckDBPyConnection, places: Sequence[Path], limits: dict[str, Any]) -> None:
    from queries.sql_files import literal

    samples = ", ".join(literal(str(place)) for place in places)
    for setting in (
        f"memory_limit = '{limits['memory_mb']}MB'",
        "temp_directory = ''",
        "python_enable_replacements = false",
        f"allowed_directories = [{samples}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")


def _send(rows: pa.Table, more: bool, out: BufferedIOBase) -> None:  # noqa: FBT001 - a pair, as it was returned
    import pyarrow as pa

    out.write(b"1" if more else b"0")
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_table(rows)
