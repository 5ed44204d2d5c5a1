"""A person's SQL: one SELECT on the published copy, with nothing else within reach."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl

from queries.errors import QueryError
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """What a person's SQL may use."""

    rows: int = 10_000
    seconds: float = 60.0
    memory: str = "2GB"


def user_sql(root: Path, sql: str, limits: Limits | None = None) -> tuple[pl.DataFrame, bool]:
    """Run one SELECT of a person on the published copy, with nothing else within reach.

    The copy is opened read-only; files outside the warehouse's samples, network, extensions and settings are
    locked away before the text is looked at.

    Returns:
        The rows, and whether there were more than `limits.rows`.

    Raises:
        QueryError: not one SELECT, or it failed, or it took longer than the limit.
    """
    limits = limits or Limits()
    with open_reader(root) as reader:
        connection = reader._connection  # noqa: SLF001 - to be locked down
        samples = str(root.absolute() / "raw").replace("'", "''")
        connection.execute(f"SET memory_limit = '{limits.memory}'")
        connection.execute("SET temp_directory = ''")
        connection.execute(f"SET allowed_directories = ['{samples}']")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        _refuse_all_but_one_select(connection, sql)
        timer = threading.Timer(limits.seconds, connection.interrupt)
        timer.start()
        try:
            table = connection.execute(sql).to_arrow_reader(limits.rows + 1)
            rows = pl.DataFrame(pl.from_arrow(_first_rows(table, limits.rows + 1)))
        except duckdb.InterruptException as error:
            raise QueryError(f"the query took longer than {limits.seconds:g} s and was stopped") from error
        except duckdb.Error as error:
            raise QueryError(str(error)) from error
        finally:
            timer.cancel()
    return rows.head(limits.rows), rows.height > limits.rows


def _first_rows(batches: Any, count: int) -> Any:  # noqa: ANN401 - pyarrow carries no types
    import pyarrow as pa  # noqa: PLC0415 - only for this

    taken, left = [], count
    for batch in batches:
        taken.append(batch.slice(0, left))
        left -= taken[-1].num_rows
        if left == 0:
            break
    return pa.Table.from_batches(taken, schema=batches.schema)


def _refuse_all_but_one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    allowed = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN}
    if len(statements) != 1 or statements[0].type not in allowed:
        raise QueryError("only one SELECT (or EXPLAIN) at a time: the published copy is for reading")
