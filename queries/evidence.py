"""Rows of tables as they are stored, of one cluster and of a time: what a report's numbers are computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queries import sql_files
from queries.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from queries.reader import Connection


def stored_rows(
    source: Connection, table: str, columns: Sequence[str], where: str = "TRUE", **params: object
) -> pl.DataFrame:
    """Rows of a declared table.

    Args:
        source: an open warehouse.
        table: as its schema file declares it (`stored.attempts`); a table of samples by its bare name.
        columns: the ones to read, declared ones.
        where: SQL of ours, in which `$names` are parameters.
        params: the parameters.

    Raises:
        QueryError: no such table or column is declared.
    """
    declared = {each.shown if each.name.startswith("raw.") else each.name: each for each in sql_files.all_tables()}
    if table not in declared or not {each.name for each in declared[table].columns} >= set(columns):
        raise QueryError(f"there is no table {table!r} with the columns {', '.join(columns)}")
    named = ", ".join(f'"{each}"' for each in columns)
    query: dict[str, Any] = dict(params)
    return source.frame(f"SELECT {named} FROM {table} WHERE {where}", query)  # noqa: S608 - declared names, SQL of ours
