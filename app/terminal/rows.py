"""Rows and columns as a person requests them: `--sort`, `--limit`, `--columns`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

Headings = dict[str, tuple[str, str]]
"""Column -> heading and display unit."""

USUAL_ROWS: Final = 20
"""Rows that a terminal shows without --limit and --all."""


@dataclass(frozen=True)
class RowOptions:
    """Requested part of a table.

    Attributes:
        limit: rows; None means the usual number in a terminal, and all elsewhere.
        every: all rows, in a terminal too.
        columns: names in order; empty means those that fit.
        sort: a column's name, with `:asc` or `:desc` behind it; empty means the order of the answer.
        wide: all columns, however long the lines become.
    """

    limit: int | None = None
    every: bool = False
    columns: tuple[str, ...] = ()
    sort: str = ""
    wide: bool = False

    @property
    def changes(self) -> bool:
        """Whether data for machines are to be another selection, too."""
        return bool(self.limit is not None or self.columns or self.sort)


USUAL: Final = RowOptions()


def selected(rows: pl.DataFrame, options: RowOptions, headings: Mapping[str, tuple[str, str]]) -> pl.DataFrame:
    """Rows for machines: sorted, limited and with the columns that were requested.

    Raises:
        UsageError: there is no such column.
    """
    chosen = sort_rows(rows, options.sort, headings)
    if options.limit is not None and not options.every:
        chosen = chosen.head(options.limit)
    return chosen.select(_named(options.columns, rows, headings)) if options.columns else chosen


def sort_rows(rows: pl.DataFrame, sort: str, headings: Mapping[str, tuple[str, str]]) -> pl.DataFrame:
    """Rows in the requested order: numbers from the largest, all else from the first; unknown ones last.

    Raises:
        UsageError: there is no such column or direction.
    """
    if not sort:
        return rows
    name, _, direction = sort.rpartition(":") if sort.endswith((":asc", ":desc")) else (sort, "", "")
    key = column(name, rows, headings)
    falling = direction == "desc" if direction else rows.schema[key].is_numeric()
    if rows.schema[key].is_nested():
        raise UsageError(f"--sort {name}: its cells are lists, which have no order")
    return rows.sort(key, descending=falling, nulls_last=True, maintain_order=True)


def columns(requested: tuple[str, ...], rows: pl.DataFrame, headings: Mapping[str, tuple[str, str]]) -> Headings:
    """The requested columns with their headings; those that only machines get are headed by their name.

    Raises:
        UsageError: there is no such column.
    """
    names = _named(requested, rows, headings)
    return {name: headings.get(name, (name, _unit(rows.schema[name]))) for name in names}


def _named(requested: tuple[str, ...], rows: pl.DataFrame, headings: Mapping[str, tuple[str, str]]) -> list[str]:
    """The columns of requested names and headings; a heading with a comma in it is several names of the request.

    Raises:
        UsageError: there is no such column.
    """
    headed = {heading.lower() for heading, _ in headings.values()}
    names, left = list[str](), list(requested)
    while left:
        parts = next((n for n in range(len(left), 1, -1) if ", ".join(left[:n]).lower() in headed), 1)
        names.append(column(", ".join(left[:parts]), rows, headings))
        del left[:parts]
    return names


def column(name: str, rows: pl.DataFrame, headings: Mapping[str, tuple[str, str]]) -> str:
    """The column of that name, or with that heading.

    Raises:
        UsageError: there is none; the message lists all.
    """
    stripped = name.strip()
    if name in rows.columns or stripped in rows.columns:
        return name if name in rows.columns else stripped
    headed = [key for key, (heading, _) in headings.items() if heading.lower() == stripped.lower()]
    if len(headed) == 1:
        return headed[0]
    problem = f"several columns are headed {stripped!r}" if headed else f"there is no column {stripped!r}"
    raise UsageError(f"{problem}; the columns are {', '.join(rows.columns)}")


def _unit(kind: pl.DataType) -> str:
    """Display unit of a column without a heading."""
    if kind.is_float() or kind.is_decimal():
        return "number"
    return "count" if kind.is_integer() else "time" if kind.is_temporal() else "text"
