"""Views of attempts on nodes for some attempts only: the others are left out before they are put on their nodes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ = ("attempt_gpus", "placements")
"""Parts of the view `attempt_node_times`: a view and a table."""


@contextlib.contextmanager
def restricted_to(connection: duckdb.DuckDBPyConnection, some: str) -> Iterator[None]:
    """Have `attempt_node_times` be about some attempts: temporary views hide what it reads, in views that name it, too.

    Args:
        connection: the open warehouse; `runaway_attempts`, which reads all attempts, must be a table meanwhile.
        some: a relation with the keys of attempts.
    """
    row = connection.execute("SELECT current_database()").fetchone()
    try:
        for table in _READ:
            connection.execute(
                f'CREATE TEMP VIEW {table} AS SELECT t.* FROM "{row[0] if row else ""}".main.{table} AS t '  # noqa: S608 - our names
                f"SEMI JOIN {some} USING (cluster, scheduler, job_id, submitted_at)"
            )
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # a failed transaction takes them back itself
            connection.execute("".join(f"DROP VIEW IF EXISTS temp.{table};" for table in _READ))
