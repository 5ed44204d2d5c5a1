"""Writing rows: tables for people, JSON, CSV and Parquet for machines. The one place that prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import polars as pl

from app import terminal_text
from app.errors import UsageError
from app.json_text import as_json
from app.output_file import write_file
from app.terminal.cells import wrap
from app.terminal.colour import paint
from app.terminal.pager import page
from app.terminal.rows import RowOptions
from app.terminal.table import TextTable, table_lines
from app.terminal.terminal import Terminal
from app.visible import FORMULAS, escapes, no_formula, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from rich.console import Console

echo = terminal_text.echo

FORMATS = ("table", "json", "csv", "parquet")


def console(*, error: bool = False) -> Console:
    """A console on stdout or stderr that never breaks tables outside a terminal."""
    from rich.console import Console  # noqa: PLC0415 - only progress bars and `docs` need it

    made = Console(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made = Console(stderr=error, highlight=False, width=_UNFOLDED, no_color=True)
    return made


_UNFOLDED = 10_000
"""Columns where lines are not folded: in pipes and files."""

_CONTROLS_IN_LINES = escapes("\n\t")


def table(
    title: str, rows: pl.DataFrame, columns: Mapping[str, tuple[str, str]], options: RowOptions | None = None
) -> None:
    """Print rows as a table; `columns` maps a column to its heading and display unit.

    Without options, which only some verbs have, all rows are printed.
    """
    terminal = Terminal.of()
    if options is None:
        laid_out = table_lines(TextTable(rows, columns, hint=_ELSEWHERE), terminal, RowOptions(every=True))
    else:
        laid_out = table_lines(TextTable(rows, columns), terminal, options)
    titles = wrap(title.translate(_CONTROLS_IN_LINES), terminal.width) if title else []
    made = [*(paint(line, "strong", colours=terminal.colours) for line in titles), *laid_out]
    if options is None:
        lines_as_made(made)
    else:
        page("".join(f"{line}\n" for line in made), terminal, wide=options.wide)


def paragraph(text: str, *, first: str = "", indent: str = "  ") -> None:
    """Print a text in lines that fit the terminal; names in it may hold escape sequences.

    Args:
        text: of any length.
        first: before its first line.
        indent: before the others.
    """
    lines_as_made(wrap(text.translate(_CONTROLS_IN_LINES), Terminal.of().width, indent=indent, first=first))


def lines_as_made(lines: Iterable[str]) -> None:
    """Print lines that are laid out for the terminal, colours included; names in them must be made safe before."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


_ELSEWHERE = "in a pipe or a wider terminal"


def write(
    rows: pl.DataFrame,
    form: str,
    target: Path | None,
    *,
    extra: dict[str, Any] | None = None,
    spreadsheet_safe: bool = False,
) -> None:
    """Write rows as JSON, CSV or Parquet to a file or stdout.

    Args:
        rows: what to write, all columns.
        form: json, csv or parquet.
        target: file, or None for stdout.
        extra: for JSON: more keys next to `rows`.
        spreadsheet_safe: for CSV: no cell that a spreadsheet would run as a formula.

    Raises:
        UsageError: Parquet to a terminal, or the file cannot be written.
    """
    if form == "parquet" and target is None and sys.stdout.isatty():
        raise UsageError("Parquet is binary: give a file with -o FILE, or pipe it")
    content = _encoded(_without_formulas(rows) if spreadsheet_safe else rows, form, extra)
    if target is None:
        if sys.stdout.isatty():  # a terminal would execute what names hold; a file or a reader gets them as they are
            content = visible(content.decode()).encode()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    write_file(target, content)


def csv_bytes(rows: pl.DataFrame) -> bytes:
    """Rows as CSV for spreadsheets: no cell is one that they would run as a formula."""
    return _encoded(_without_formulas(rows), "csv", None)


def _encoded(rows: pl.DataFrame, form: str, extra: dict[str, Any] | None) -> bytes:
    if form == "parquet":
        import io  # noqa: PLC0415 - only here

        buffer = io.BytesIO()
        rows.write_parquet(buffer)
        return buffer.getvalue()
    if form == "csv":
        return _flat(rows).write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%.fZ").encode()
    plain = rows.to_dicts()
    return _json(plain if extra is None else {"rows": plain, **extra})


def document(value: Mapping[str, Any]) -> None:
    """Print what is no table as JSON."""
    sys.stdout.buffer.write(_json(value))
    sys.stdout.flush()


def _json(value: object) -> bytes:
    return (as_json(value, indent=2) + "\n").encode()


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    """Lists as text, which is all that CSV can hold; numbers that are not finite are empty, as null in JSON.

    Structures, and lists of lists, are text in JSON.
    """
    lists = [name for name, kind in rows.schema.items() if isinstance(kind, pl.List) and not kind.inner.is_nested()]
    nested = [name for name, kind in rows.schema.items() if kind.is_nested() and name not in lists]
    reals = [name for name, kind in rows.schema.items() if kind.is_float()]
    return rows.with_columns(
        *(
            pl.Series(name, [None if cell is None else as_json(cell) for cell in rows[name].to_list()], pl.String)
            for name in nested
        ),
        *(pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in lists),
        *(pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in reals),
    )


def _without_formulas(rows: pl.DataFrame) -> pl.DataFrame:
    """Texts and headings that begin like a formula get an apostrophe before them; numbers stay numbers."""
    flat = _flat(rows)
    texts = {name: pl.col(name).cast(pl.String) for name, kind in flat.schema.items() if kind in _TEXTS}
    made = flat.with_columns(
        pl.when(_begins(text)).then(pl.lit("'") + text).otherwise(text).alias(name) for name, text in texts.items()
    )
    made.columns = [no_formula(name) for name in made.columns]
    return made


_TEXTS = (pl.String, pl.Categorical, pl.Enum)


def _begins(text: pl.Expr) -> pl.Expr:
    """Whether a text begins like a formula."""
    return pl.any_horizontal(text.str.starts_with(each) for each in FORMULAS)


def markdown(text: str) -> None:
    """Print Markdown formatted for a terminal."""
    from rich.markdown import Markdown  # noqa: PLC0415 - only `docs` needs it

    out = console()
    out.width = min(out.width, _READABLE)
    out.print(Markdown(text.translate(_CONTROLS_IN_LINES), hyperlinks=False))


_READABLE = 110
"""Columns of text that are easily read."""
