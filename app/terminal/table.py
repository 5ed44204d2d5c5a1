"""Tables that fit: no line is wider than the terminal, and what is left out is named.

In a terminal the most informative columns are shown, as many as fit. Empty ones and those with one value in all rows
are named below the table, and long texts are printed there, each once. In pipes and files every row is one line with
all columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.terminal.cells import fit_column, width, widths, wrap
from app.terminal.colour import paint
from app.terminal.columns import full, neat, safe
from app.terminal.rows import USUAL, USUAL_ROWS, Headings, RowOptions, columns, sort_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from app.terminal.colour import Meaning
    from app.terminal.terminal import Terminal

GAP: Final = 2
"""Blanks between columns."""

LONG: Final = 32
"""Columns of a text beyond which it may be printed below the table."""

SHORT: Final = 12
"""Columns of a text that stays in its row, whatever others of its column do."""

MOST_NOTED: Final = 8
"""Different long texts of a column that are printed below the table; where there are more they are cut."""

LEAST_ROWS: Final = 3
"""Rows from which on a value that all have is printed once, below."""

FIRST: Final = 12
"""Columns of the terminal that the first column is wider than other texts before it becomes narrower, as they do."""

MOST_LINES: Final = 4
"""Lines of a cell."""

FOLLOWERS: Final = ("to", "at most", "theirs")
"""How the heading of a column begins that is only understood next to the one before it."""

_LEFT: Final = frozenset({"text", "time"})
_NOTHING: Final = "-"

_WORDS: Final[dict[Meaning, tuple[str, ...]]] = {
    "bad": ("lemon", "critical", "lost", "unavailable", "NODE_FAIL", "FAILED", "refuted", "refuted as read"),
    "warning": ("suspect", "warning", "stalled", "TIMEOUT", "OUT_OF_MEMORY", "RUNAWAY", "undetermined"),
    "good": ("productive", "COMPLETED", "RUNNING", "supported"),
}
_MEANINGS: Final = {word: meaning for meaning, words in _WORDS.items() for word in words}
"""Words in cells that have a colour."""


@dataclass(frozen=True)
class TextTable:
    """A table for a terminal.

    Attributes:
        rows: all of them, with all columns.
        headings: column -> heading and display unit, in the order in which they are shown.
        ranked: columns that are shown first where not all fit; then come the others in the order of `headings`.
        explained: columns that are shown only where they are requested.
        below: what else is left out, in words.
        hint: how the columns that are left out can be seen.
    """

    rows: pl.DataFrame
    headings: Mapping[str, tuple[str, str]]
    ranked: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    below: str = ""
    hint: str = "--wide, or --columns NAME,..."


@dataclass
class _ShownColumn:
    """A column that may be shown."""

    name: str
    heading: str
    unit: str
    cells: list[str]
    follows: str | None = None
    noted: bool = False

    @property
    def left(self) -> bool:
        return self.unit in _LEFT

    @property
    def natural(self) -> int:
        """Columns of the terminal that its cells need."""
        return max(widths(self.cells), default=0)

    @property
    def word(self) -> int:
        """Columns that the longest word of its heading needs."""
        return max(widths(self.heading.split()), default=0)


def table_lines(table: TextTable, terminal: Terminal, options: RowOptions = USUAL) -> list[str]:
    """A table's lines, with what is left out named below it.

    Args:
        table: its rows and columns.
        terminal: where it is printed.
        options: which rows and columns are requested.

    Raises:
        UsageError: the options name a column that it does not have.
    """
    ordered = sort_rows(table.rows, options.sort, table.headings)
    if not terminal.is_terminal:
        shown = ordered if options.limit is None or options.every else ordered.head(options.limit)
        return _grid(_columns(shown, _requested(table, options), exact=True), terminal)
    shown = ordered if options.every else ordered.head(USUAL_ROWS if options.limit is None else options.limit)
    return _in_terminal(table, shown, terminal, options)


def _requested(table: TextTable, options: RowOptions) -> Headings:
    return columns(options.columns, table.rows, table.headings) if options.columns else dict(table.headings)


def _in_terminal(table: TextTable, shown: pl.DataFrame, terminal: Terminal, options: RowOptions) -> list[str]:
    columns_ = _requested(table, options)
    if options.wide:
        return _grid(_columns(shown, columns_, exact=False), terminal, limited=False) + _footer(
            _more(table.rows.height - shown.height), terminal
        )
    empty, constant = ({}, {}) if options.columns else _constant_columns(table.rows, columns_)
    hidden = {} if options.columns else {name: columns_[name] for name in table.explained if name in columns_}
    left = {name: how for name, how in columns_.items() if name not in {*empty, *constant, *hidden}}
    candidates = _columns(shown, left, exact=False)
    notes = _take_notes(candidates, terminal.width or 0)
    fitting = _columns_that_fit(_ranked(candidates, table), candidates, terminal.width or 0)
    names = {column.name for column in fitting}
    also = [_label(name, how) for name, how in columns_.items() if name not in {*empty, *constant, *names}]
    left_out = [
        *_more(table.rows.height - shown.height),
        *([table.below] if table.below else []),
        *_once(constant),
        *_empty(empty),
        *([f"also: {', '.join(also)} ({table.hint})"] if also else []),
    ]
    texts = [(mark, text) for name, mark, text in notes if name in names]
    return [*_grid(fitting, terminal), *_footer(left_out, terminal), *_noted(texts, terminal)]


def _footer(texts: list[str], terminal: Terminal) -> list[str]:
    lines = [line for text in texts for line in wrap(text, terminal.width, indent="  ", first="")]
    return [paint(line, "quiet", colours=terminal.colours) for line in lines]


def _noted(texts: list[tuple[str, str]], terminal: Terminal) -> list[str]:
    return [line for mark, text in texts for line in wrap(text, terminal.width, indent="    ", first=f"{mark:<3} ")]


def _label(name: str, how: tuple[str, str]) -> str:
    """Name of a column that is left out: as `--columns` has it; the heading of one that was made for people."""
    return safe(how[0] if "." in name else name)


def _columns(rows: pl.DataFrame, headings: Mapping[str, tuple[str, str]], *, exact: bool) -> list[_ShownColumn]:
    made: list[_ShownColumn] = []
    for name, (heading, unit) in headings.items():
        cells = (full if exact else neat)(rows.get_column(name).to_list(), unit)
        follows = made[-1].name if made and _is_follower(heading) else None
        made.append(_ShownColumn(name, safe(heading), unit, cells, follows))
    return made


def _is_follower(heading: str) -> bool:
    return any(heading == word or heading.startswith(f"{word} ") for word in FOLLOWERS)


def _constant_columns(
    rows: pl.DataFrame, headings: Mapping[str, tuple[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Columns without a value, and those with one value in all rows, each in words. The first column stays."""
    empty: dict[str, str] = {}
    constant: dict[str, str] = {}
    for name, how in list(headings.items())[1:]:
        values = rows.get_column(name)
        if rows.height and values.null_count() == rows.height:
            empty[name] = _label(name, how)
        elif rows.height >= LEAST_ROWS and not values.dtype.is_nested() and values.n_unique() == 1:
            constant[name] = f"{safe(how[0] or name)} {neat([values[0]], how[1])[0]}"
    return empty, constant


def _take_notes(candidates: list[_ShownColumn], columns: int) -> list[tuple[str, str, str]]:
    """Put long texts below the table, the longest first, as far as the line is too short for all columns.

    Their cells become marks.

    Returns:
        a column's name, mark and text.
    """
    notes: list[tuple[str, str, str]] = []
    for column in sorted(candidates[1:], key=lambda each: -each.natural):
        texts = [text for text in dict.fromkeys(column.cells) if text != _NOTHING]
        if column.unit != "text" or column.natural <= LONG or len(texts) > MOST_NOTED:
            continue
        if sum(max(each.natural, each.word) + GAP for each in candidates) - GAP <= columns:
            break
        long = [text for text in texts if width(text) > SHORT]
        marks = {text: f"[{len(notes) + number}]" for number, text in enumerate(long, start=1)}
        notes += [(column.name, mark, text) for text, mark in marks.items()]
        column.noted = True
        column.cells = [marks.get(text, text) for text in column.cells]
    return notes


def _ranked(candidates: list[_ShownColumn], table: TextTable) -> list[_ShownColumn]:
    """Columns by rank: the first one, those that the table ranks, then the others in their order."""
    order = {name: number for number, name in enumerate((*tuple(table.headings)[:1], *table.ranked))}
    others = len(order)
    return sorted(
        candidates, key=lambda column: order.get(column.name, others - (1 if column.noted and table.ranked else 0) / 2)
    )


def _columns_that_fit(ranked: list[_ShownColumn], candidates: list[_ShownColumn], columns: int) -> list[_ShownColumn]:
    """The columns that fit, in the order of `candidates`; one that follows another comes with it or not at all."""
    taken: list[_ShownColumn] = []
    used = -GAP
    for column in ranked:
        group = [] if column in taken else _group(column, candidates)
        needed = sum(_needed(each, columns // (3 if taken else 2)) + GAP for each in group)
        if used + needed <= columns or not taken:
            taken += group
            used += needed
    return [column for column in candidates if column in taken]


def _group(column: _ShownColumn, candidates: list[_ShownColumn]) -> list[_ShownColumn]:
    """A column with those that follow it, or that it follows."""
    by_name = {each.name: each for each in candidates}
    followers = {each.follows: each for each in candidates if each.follows}
    first = column
    while first.follows in by_name:
        first = by_name[first.follows]
    group = [first]
    while group[-1].name in followers:
        group.append(followers[group[-1].name])
    return group


def _needed(column: _ShownColumn, most: int) -> int:
    """Columns of the terminal that a column takes at least: texts may be cut to `most`, numbers are not."""
    return max(min(column.natural, most) if column.unit == "text" else column.natural, column.word)


def _grid(shown: list[_ShownColumn], terminal: Terminal, *, limited: bool = True) -> list[str]:
    """Heading and rows."""
    most = terminal.width if limited else None
    sizes = _widths(shown, most)
    headings = [
        wrap(column.heading, size) if most else [column.heading] for column, size in zip(shown, sizes, strict=True)
    ]
    deepest = max(map(len, headings), default=1)
    folded = [_folded_cells(column, size) for column, size in zip(shown, sizes, strict=True)]
    depths = [max(map(len, row)) for row in zip(*folded, strict=True)]
    fitted = []
    for column, size, heading, cells in zip(shown, sizes, headings, folded, strict=True):
        texts = [""] * (deepest - len(heading)) + heading
        for parts, depth in zip(cells, depths, strict=True):
            texts += parts + [""] * (depth - len(parts))
        fitted.append(fit_column(texts, size, right=not column.left))
    lines = list(zip(*fitted, strict=True)) or [()]
    return [
        *(paint(_joined(line), "heading", colours=terminal.colours) for line in lines[:deepest]),
        *(_painted(line, terminal) for line in lines[deepest:]),
    ]


def _folded_cells(column: _ShownColumn, size: int) -> list[list[str]]:
    """The lines of each cell: several where a text is wider than its column."""
    needed = widths(column.cells)
    return [[cell] if own <= size else _folded(cell, size) for cell, own in zip(column.cells, needed, strict=True)]


def _folded(cell: str, columns: int) -> list[str]:
    """The lines of a cell; what needs more than `MOST_LINES` is cut."""
    parts = wrap(cell, columns)
    return parts if len(parts) <= MOST_LINES else [*parts[: MOST_LINES - 1], " ".join(parts[MOST_LINES - 1 :])]


def _widths(shown: list[_ShownColumn], most: int | None) -> list[int]:
    """Columns of the terminal for each: what it needs, as long as all fit; texts become narrower, the longest first."""
    if most is None:
        return [max(column.natural, width(column.heading)) for column in shown]
    sizes = [max(column.natural, column.word) for column in shown]
    _widen(shown, sizes, most - GAP * (len(sizes) - 1))
    while sum(sizes) + GAP * (len(sizes) - 1) > most:
        texts = [n for n, column in enumerate(shown) if column.unit == "text" and sizes[n] > max(column.word, 4)]
        widest = max(texts or range(len(sizes)), key=lambda n: sizes[n] - (FIRST if n == 0 else 0))
        if sizes[widest] <= 1:
            break
        sizes[widest] -= 1
    return sizes


def _widen(shown: list[_ShownColumn], sizes: list[int], most: int) -> None:
    """Use what is left of the line for headings that need more than one line of their own, the deepest first."""
    while sum(sizes) < most:
        depths = [len(wrap(column.heading, size)) for column, size in zip(shown, sizes, strict=True)]
        if max(depths, default=1) == 1:
            return
        sizes[depths.index(max(depths))] += 1


def _painted(line: Sequence[str], terminal: Terminal) -> str:
    """A line of a row, with the words that have a colour in it."""
    cells = [*line[:-1], line[-1].rstrip()]
    for number, cell in enumerate(cells if terminal.colours else ()):
        word = cell.strip()
        if word in _MEANINGS:
            cells[number] = cell.replace(word, paint(word, _MEANINGS[word], colours=True))
    return _joined(cells)


def _joined(cells: Sequence[str]) -> str:
    return (" " * GAP).join(cells).rstrip()


def _more(count: int) -> list[str]:
    return [f"{count:,} more: --all"] if count > 0 else []


def _once(constant: Mapping[str, str]) -> list[str]:
    return [f"in all rows: {', '.join(constant.values())}"] if constant else []


def _empty(empty: Mapping[str, str]) -> list[str]:
    return [f"without a value: {', '.join(empty.values())}"] if empty else []
