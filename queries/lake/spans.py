"""Contents of a warehouse for a lake: its rows in spans, each of one table, one cluster and one month.

A table of few rows is one span for each cluster. A span is a file in the lake. It is compared by how many rows it has
and by the sum of their digests, as units are (see `queries.units`), which are in the name of the file: an unchanged
span is recognised without reading it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import duckdb

from queries.changes import DAYLESS, WHOLE, month_sql, time_of
from queries.errors import CorruptWarehouseError
from queries.sql_files import literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from queries.units import Shape

FEW_ROWS: Final = 20_000
"""Rows up to which a table is not divided into months: to write, list and open a file costs more than so many rows."""

NOT_SPANS: Final = frozenset({"main.meta"})
"""Tables that are no spans: the facts of a warehouse are committed with each change."""


@dataclass(frozen=True)
class MonthSpan:
    """Rows of a table, a cluster and a month; or, where `span` is `WHOLE`, all rows of a table and a cluster."""

    table: str
    cluster: str | None
    span: str
    rows: int
    digest: str

    @property
    def key(self) -> tuple[str, str | None, str, int, str]:
        """Key of the span: equal spans have equal keys."""
        return self.table, self.cluster, self.span, self.rows, self.digest

    def name(self, origin: str, version: int) -> str:
        """The name of its file in the lake."""
        cluster = "" if self.cluster is None else f"cluster={quote(self.cluster, safe='')}/"
        return f"{origin}/tables/{self.table}/{cluster}{self.span}/{version:08d}-{self.rows}-{self.digest}.parquet"


def shape_in_lake(shape: Shape, rows: int) -> Shape:
    """The shape with the time that decides the month: none where the table has few rows, or no time."""
    return replace(shape, day=None if rows <= FEW_ROWS else time_of(shape.name.removeprefix("main.")))


def of_table(
    connection: duckdb.DuckDBPyConnection, database: str, shape: Shape, *, months: Collection[str] = (WHOLE,)
) -> list[MonthSpan]:
    """The spans of a table of an attached warehouse.

    Args:
        connection: which it is attached to.
        database: its name.
        shape: of the table.
        months: those to read; `WHOLE`: all.
    """
    which = "true" if WHOLE in months else " OR ".join(_within(f'"{shape.day}"', month) for month in sorted(months))
    found = connection.execute(
        f"SELECT {shape.unit[0]}, {_span(shape)}, COUNT(*), CAST(SUM({_digest(shape)}) AS VARCHAR) "
        f'FROM "{database}".{shape.sql} WHERE {shape.rows} AND ({which}) '
        "GROUP BY ALL HAVING COUNT(*) > 0 ORDER BY ALL"
    )
    return [MonthSpan(shape.name, *row) for row in found.fetchall()]


def heights(connection: duckdb.DuckDBPyConnection, database: str, shapes: Iterable[Shape]) -> dict[str, int]:
    """How many rows each table has, without reading them: in one statement, which is planned and run once."""
    counts = (
        f'SELECT {literal(shape.name)}, COUNT(*) FROM "{database}".{shape.sql} WHERE {shape.rows}' for shape in shapes
    )
    return dict(connection.execute(" UNION ALL ".join(counts)).fetchall())


def write(
    connection: duckdb.DuckDBPyConnection, database: str, shape: Shape, span: MonthSpan, file: Path | str
) -> None:
    """Write the file of a span, and read it back.

    Raises:
        CorruptWarehouseError: what was read is not what was written.
    """
    columns = ", ".join(f'"{column}"' for column in shape.columns)
    connection.execute(
        f'COPY (SELECT {columns} FROM "{database}".{shape.sql} WHERE {shape.rows} AND {_of(shape, span)}) '
        f"TO {literal(str(file))} (FORMAT parquet, COMPRESSION zstd)"
    )
    if not is_in(connection, shape, span, file):
        raise CorruptWarehouseError(
            f"{file}: {span.table.removeprefix('main.')} of cluster {span.cluster} in {span.span} is not what was "
            "written: nothing was committed. Run it again; if it happens again, please report it."
        )


def is_in(connection: duckdb.DuckDBPyConnection, shape: Shape, span: MonthSpan, file: Path | str) -> bool:
    """Whether a file has the rows of a span, each of them, and no others."""
    try:
        row = connection.execute(
            f"SELECT COUNT(*), CAST(SUM({_digest(shape)}) AS VARCHAR) "
            f"FROM read_parquet({literal(str(file))}, hive_partitioning = false)"
        ).fetchone()
    except duckdb.Error:  # it is no Parquet file, or has other columns
        return False
    return row == (span.rows, span.digest)


def _span(shape: Shape) -> str:
    if shape.day is None:
        return literal(WHOLE)
    month = month_sql(f'"{shape.day}"')
    return f"coalesce(strftime({month}, '%Y-%m'), {literal(DAYLESS)})"


def _digest(shape: Shape) -> str:
    columns = ", ".join(f'"{column}"' for column in shape.columns)
    return f"hash({columns})"


def _of(shape: Shape, span: MonthSpan) -> str:
    """The condition on the rows of a span: a range of times, so that those of other months are not read."""
    conditions = [f"{shape.unit[0]} IS NOT DISTINCT FROM {'NULL' if span.cluster is None else literal(span.cluster)}"]
    if shape.day is not None:
        conditions.append(_within(f'"{shape.day}"', span.span))
    return " AND ".join(conditions)


def _within(column: str, span: str) -> str:
    if span == DAYLESS:
        return f"{column} IS NULL"
    year, month = map(int, span.split("-"))
    after = f"{year + month // 12:04d}-{month % 12 + 1:02d}"
    return f"({column} >= '{span}-01' AND {column} < '{after}-01')"
