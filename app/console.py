"""Writing rows: tables for people, JSON, CSV and Parquet for machines. The one place that prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app import terminal_text
from app.errors import UsageError
from app.formatting import NOTHING, display, measured
from app.json_text import as_json
from app.output_file import write_file
from app.visible import FORMULAS, escapes, no_formula
from queries.sql_files import named_queries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from metrics.claims.verdict import Judged

echo = terminal_text.echo

FORMATS = ("table", "json", "csv", "parquet")


def console(*, error: bool = False) -> Console:
    """A console on stdout or stderr that never breaks tables outside a terminal."""
    made = Console(stderr=error, highlight=False, soft_wrap=False)
    if not made.is_terminal:
        made = Console(stderr=error, highlight=False, width=_UNFOLDED, no_color=True)
    return made


_UNFOLDED = 10_000
"""Columns where lines are not folded: in pipes and files."""

_SHOWN = 200
"""Characters of a cell that a table shows."""

_CONTROLS = escapes()
_CONTROLS_IN_LINES = escapes("\n\t")


def _safe(text: str) -> str:
    """Text that leaves the terminal as it is: users name their jobs, and names may hold escape sequences."""
    shown = text.replace("\n", "\N{SYMBOL FOR NEWLINE}").translate(_CONTROLS)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _in_line(text: str) -> str:
    """Text of any length in one line that leaves the terminal as it is."""
    return text.replace("\n", " ").translate(_CONTROLS)


def table(title: str, rows: pl.DataFrame, columns: Mapping[str, tuple[str, str]]) -> None:
    """Print rows as a table; `columns` maps a column to its heading and display unit."""
    shown = Table(header_style="bold", box=None, pad_edge=False)
    for heading, unit in columns.values():
        shown.add_column(heading, justify="left" if unit in {"text", "time"} else "right", overflow="fold")
    for row in rows.iter_rows(named=True):
        shown.add_row(*(Text(_safe(display(row[name], unit))) for name, (_, unit) in columns.items()))
    out = console()
    if title:
        out.print(Text(_in_line(title), style="bold"))
    # A table that is wider than the terminal is not folded into columns of three letters: lines go on, as in psql.
    out.width = max(out.width, out.measure(shown, options=out.options.update(max_width=_UNFOLDED)).maximum)
    out.print(shown)


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
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    write_file(target, content)


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


_COLOURS = {"supported": "green", "refuted": "red", "undetermined": "yellow"}


def verdicts(judged: Sequence[Judged], where: str) -> None:
    """Print verdicts one below the other: the words quoted, what was tested, the numbers, what is missing."""
    out = console()
    out.print(Text(_in_line(f"Claims against {where}"), style="bold"))
    for each in judged:
        claim = each.claim
        side = "at least" if claim.direction == "at_least" else "at most"
        out.print()
        out.print(
            Text.assemble(
                (each.verdict.upper(), f"bold {_COLOURS[each.verdict]}"),
                f"  {_safe(claim.id)}: “{_safe(claim.quoted)}”",
            )
        )
        out.print(Text(f"  read as    {_in_line(claim.read_as)}"))
        out.print(Text(f"  target     {side} {measured(claim.target, claim.unit, digits=2)}   ({claim.kind})"))
        for heading, text in _about(each):
            out.print(Text(f"  {heading:<10} {_in_line(text)}"))


def _about(each: Judged) -> list[tuple[str, str]]:
    """What is reported of a verdict, by heading: only what there is."""
    claim, result = each.claim, each.measured
    low = measured(result.low, claim.unit, digits=2, null=NOTHING)
    high = "no limit" if result.high == float("inf") else measured(result.high, claim.unit, digits=2, null=NOTHING)
    count = "" if result.n is None else f", n = {result.n}"
    rows = [("scope", claim.narrowed)] if claim.narrowed else []
    if claim.window and each.since and each.until:
        rows.append(("window", f"{display(each.since, 'time')} to {display(each.until, 'time')}"))
    value = measured(result.value, claim.unit, digits=2, null=NOTHING)
    rows.append(("measured", f"{value}, from {low} to {high}{count}   [{result.method or 'no data'}]"))
    if result.level:
        rows.append(("evidence", result.level))
    rows += [("beside", text) for text in result.beside]
    rows += [("left out", one.words()) for one in claim.exclusions]
    if claim.exclusions:
        hours = "" if result.excluded_gpu_s is None else f", {display(result.excluded_gpu_s, 'gpu_h')} GPU-hours"
        rows.append(("", f"together {display(result.excluded_s, 'seconds')} of the window{hours}"))
    if each.adjudications:
        rows.append(("corrected", f"{each.adjudications} correction(s) by persons count: trackside adjudicate list"))
    if each.verdict == "undetermined" and result.needed:
        rows.append(("needed", result.needed))
    return rows


def markdown(text: str) -> None:
    """Print Markdown formatted for a terminal."""
    from rich.markdown import Markdown  # noqa: PLC0415 - only `docs` needs it

    out = console()
    out.width = min(out.width, _READABLE)
    out.print(Markdown(text.translate(_CONTROLS_IN_LINES), hyperlinks=False))


_READABLE = 110
"""Columns of text that are easily read."""


def explanation(content: Mapping[str, Any]) -> None:
    """Print what numbers mean and rest on."""
    out = console()
    for metric in content["metrics"]:
        out.print()
        out.print(Text.assemble((metric["metric"], "bold"), f"  [{metric['unit']}]  {metric['summary']}"))
        out.print(Text(f"  definition  {metric['definition']}"))
        out.print(Text(f"  interval    {metric['interval']}"))
        out.print(Text(f"  source      {metric['source']}"))
        out.print(Text(f"  computed by {metric['computed_by']}"))
        out.print(Text(f"  manual      trackside docs metrics#{metric['metric']}"))
    for number in content["numbers"]:
        out.print()
        out.print(Text(_in_line(f"{number.get('metric', '')} {number.get('subject', '')}: {_parts(number)}")))
    for window in content["windows"]:
        out.print()
        out.print(Text(_in_line(f"window  {window['cluster']}: {window['since']} to {window['until']}")))
    for name, sql in content["sql"].items():
        out.print()
        out.print(Text(_in_line(f"{named_queries()[name].file}  {content['parameters'] or ''}"), style="dim"))
        out.print(Text(sql.strip(), style="dim"))
    for cluster, constants in content["constants"].items():
        out.print()
        out.print(Text(_in_line(f"constants of {cluster}: {as_json(constants, sort_keys=True)}"), style="dim"))


def _parts(number: Mapping[str, Any]) -> str:
    parts = []
    for name, value in number.items():
        if name in {"metric", "subject"} or value is None:
            continue
        parts.append(f"{name} = {value:,.6g}" if isinstance(value, float) else f"{name} = {value}")
    return ", ".join(parts)
