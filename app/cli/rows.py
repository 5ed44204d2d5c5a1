"""Rows in the format that --format and --output request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app import console
from app.errors import UsageError
from app.terminal.rows import RowOptions, selected

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    import polars as pl


@dataclass(frozen=True)
class RowFormat:
    """Format in which rows are written.

    Attributes:
        form: table, json, csv or parquet.
        output: file; None is standard output.
        spreadsheet_safe: for CSV: no text starts a formula.
    """

    form: str
    output: Path | None
    spreadsheet_safe: bool

    @classmethod
    def of(cls, options: argparse.Namespace) -> RowFormat:
        """From the options of `app.cli.options.add_format`; the ending of the file's name is a format, too.

        Raises:
            UsageError: the file's name ends in none.
        """
        return cls(_form(options.format, options.output), options.output, options.spreadsheet_safe)

    def put(self, rows: pl.DataFrame, options: RowOptions | None = None, *, title: str = "") -> None:
        """Print or write rows of any columns, as they were requested; all of them without options.

        Raises:
            UsageError: there is no such column.
        """
        if self.form != "table":
            self.write(selected(rows, options, {}) if options is not None and options.changes else rows)
            return
        shown = options or RowOptions(every=True)
        if not shown.columns:
            shown = replace(shown, columns=tuple(rows.columns))
        console.table(title, rows, {name: (name, "text") for name in rows.columns}, shown)

    def write(self, rows: pl.DataFrame, *, extra: dict[str, Any] | None = None) -> None:
        """Write rows for machines.

        Raises:
            UsageError: they cannot be written so.
        """
        if self.spreadsheet_safe and self.form != "csv":
            raise UsageError("--spreadsheet-safe is for CSV: use --format csv, or -o FILE.csv")
        console.write(rows, self.form, self.output, extra=extra, spreadsheet_safe=self.spreadsheet_safe)


def row_options(options: argparse.Namespace) -> RowOptions:
    """From the options of `app.cli.options.add_table`.

    Raises:
        UsageError: --limit and --all are both given.
    """
    if options.limit is not None and options.all:
        raise UsageError("--limit and --all exclude each other")
    names = tuple(name.strip() for name in (options.columns or "").split(",") if name.strip())
    return RowOptions(options.limit, options.all, names, options.sort or "", options.wide)


def _form(requested: str | None, output: Path | None) -> str:
    form = requested or ("csv" if output is None else "table")
    if form != "table" or output is None:
        return form
    ending = output.suffix.removeprefix(".")
    if ending not in console.FORMATS[1:]:
        raise UsageError(f"{output}: use --format json, csv or parquet, or a file name with that ending")
    return ending
