"""An answer as a person reads it: the headline, the table, then the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.json_text import as_json
from app.terminal.cells import wrap, wrap_command
from app.terminal.colour import paint
from app.terminal.rows import USUAL
from app.terminal.table import TextTable, table_lines
from app.times import iso
from app.visible import escapes
from queries.sql_files import named_queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.show.answer import Answer, Brief, Order
    from app.terminal.rows import RowOptions
    from app.terminal.terminal import Terminal
    from app.window import Window

_CONTROLS = escapes("\n")


def answer_lines(
    answer: Answer,
    windows: list[Window],
    terminal: Terminal,
    options: RowOptions = USUAL,
    *,
    explained: Mapping[str, Any] | None = None,
) -> list[str]:
    """All lines of an answer.

    Args:
        answer: of one cluster, or of several together.
        windows: that it is of.
        terminal: where it is printed.
        options: which rows and columns are requested.
        explained: what the numbers mean and rest on, for `--explain`.

    Raises:
        UsageError: the options name a column that the answer does not have.
    """
    brief = _brief(answer, terminal, options, whole=explained is not None)
    notes = [_line(note) for note in (answer.notes if brief is None or brief.notes is None else brief.notes)]
    if answer.shown.is_empty():
        lines = [*_wrapped(answer.when_empty.split("\n"), terminal), *_wrapped(notes, terminal)]
    else:
        lines = [
            *_wrapped(answer.headline.split("\n") if answer.headline else (), terminal, strong=True),
            *_title(_titled(answer, options), windows, terminal),
            *_table(answer, brief, terminal, options, whole=explained is not None),
            *_below(notes, terminal),
        ]
    return lines if explained is None else [*lines, *_explained(answer, explained, terminal)]


def _line(note: str) -> str:
    return note.translate(_CONTROLS)


def _wrapped(texts: Iterable[str], terminal: Terminal, *, strong: bool = False) -> list[str]:
    lines = [line for text in texts for line in _broken(_line(text), terminal)]
    return [paint(line, "strong", colours=terminal.colours) for line in lines] if strong else lines


def _broken(text: str, terminal: Terminal) -> list[str]:
    command = text.startswith("  ") and text.split()[:1] in _COMMANDS
    return (wrap_command if command else wrap)(text, terminal.width)


_COMMANDS = (["scontrol"], ["trackside"])
"""How a line of a note begins that is to be typed."""


def _titled(answer: Answer, options: RowOptions) -> str:
    """The title, with the order of the rows where it is not that of --sort."""
    order = _order(answer, options)
    return answer.title if order is None else f"{answer.title}, {order.words}"


def _order(answer: Answer, options: RowOptions) -> Order | None:
    """How the rows of a table are sorted without --sort."""
    return None if options.sort else answer.order


def _title(title: str, windows: list[Window], terminal: Terminal) -> list[str]:
    """What it is, of which clusters and times."""
    if not terminal.is_terminal:
        return [f"{title}: {', '.join(f'{w.cluster} {iso(w.since)} to {iso(w.until)}' for w in windows)}"]
    spans = ", ".join(f"{w.cluster}, {_short(iso(w.since))} to {_short(iso(w.until))}" for w in windows)
    return [paint(line, "quiet", colours=terminal.colours) for line in wrap(f"{title}: {spans} UTC", terminal.width)]


def _short(moment: str) -> str:
    """A time as short as it can be without a loss.

    >>> _short("2026-10-01T00:00:00Z"), _short("2026-10-01T12:30:00Z"), _short("2026-10-01T12:30:05Z")
    ('2026-10-01', '2026-10-01 12:30', '2026-10-01 12:30:05')
    """
    text = moment.removesuffix("Z").replace("T", " ")
    return text.removesuffix(":00").removesuffix(" 00:00")


def _brief(answer: Answer, terminal: Terminal, options: RowOptions, *, whole: bool) -> Brief | None:
    """The shorter form of the answer, where it is to be shown."""
    return answer.brief if terminal.is_terminal and not whole and options == USUAL else None


def _table(answer: Answer, brief: Brief | None, terminal: Terminal, options: RowOptions, *, whole: bool) -> list[str]:
    if brief is not None:
        known = set(brief.rows.columns)
        rows = brief.rows.with_columns(each for each in answer.in_words if known.issuperset(each.meta.root_names()))
        made = table_lines(TextTable(rows, brief.columns, answer.ranked, below=brief.below), terminal)
    else:
        explained = () if whole else answer.explained
        order = _order(answer, options)
        worded = answer.shown if whole else answer.shown.with_columns(answer.in_words)
        rows = worded if order is None else order.sorted(worded)
        made = table_lines(TextTable(rows, answer.columns, answer.ranked, explained), terminal, options)
    return ["", *made] if terminal.is_terminal else made


def _below(notes: list[str], terminal: Terminal) -> list[str]:
    lines = _wrapped(notes, terminal)
    return ["", *lines] if lines and terminal.is_terminal else lines


def _explained(answer: Answer, content: Mapping[str, Any], terminal: Terminal) -> list[str]:
    """The tables of the arithmetic, definitions, parts of each number, windows, SQL and constants."""
    lines = []
    for details in answer.details:
        lines += ["", *_wrapped([details.title], terminal, strong=True)]
        lines += table_lines(TextTable(details.rows, details.columns), terminal)
    for metric in content["metrics"]:
        lines += ["", *_metric(metric, terminal)]
    for number in content["numbers"]:
        lines += [
            "",
            *_wrapped([f"{number.get('metric', '')} {number.get('subject', '')}: {_parts(number)}"], terminal),
        ]
    for window in content["windows"]:
        lines += ["", *_wrapped([f"window  {window['cluster']}: {window['since']} to {window['until']}"], terminal)]
    for name, sql in content["sql"].items():
        lines += ["", *_wrapped([f"{named_queries()[name].file}  {content['parameters'] or ''}"], terminal)]
        lines += _wrapped(sql.strip().split("\n"), terminal)
    for cluster, constants in content["constants"].items():
        lines += ["", *_wrapped([f"constants of {cluster}: {as_json(constants, sort_keys=True)}"], terminal)]
    return lines


_OF_METRICS = {
    "definition": "definition",
    "interval": "interval",
    "source": "source",
    "computed_by": "computed by",
}


def _metric(metric: Mapping[str, Any], terminal: Terminal) -> list[str]:
    heading = wrap(f"{metric['metric']}  [{metric['unit']}]  {metric['summary']}", terminal.width)
    rows = [(label, str(metric[key])) for key, label in _OF_METRICS.items()]
    rows.append(("manual", f"trackside docs metrics#{metric['metric']}"))
    lines = [paint(line, "strong", colours=terminal.colours) for line in heading]
    for label, text in rows:
        lines += wrap(_line(text), terminal.width, indent=" " * 14, first=f"  {label:<11} ")
    return lines


def _parts(number: Mapping[str, Any]) -> str:
    """The parts of a number: `value = 0.9, n = 3`."""
    parts = []
    for name, value in number.items():
        if name in {"metric", "subject"} or value is None:
            continue
        parts.append(f"{name} = {value:,.6g}" if isinstance(value, float) else f"{name} = {value}")
    return ", ".join(parts)
