"""Texts by the columns that a terminal needs for them: wide letters need two, combining ones none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
_UNITS: Final = re.compile(r"(?<=\d) (?=%|GPU-h|[a-zµ]{1,3}\b)")
"""Blanks between a number and its unit, where no line ends."""

_JOINED: Final = "\N{NO-BREAK SPACE}"


def width(text: str) -> int:
    r"""Columns of one line; sequences of `app.terminal.colour` need none.

    >>> width("naïve"), width("東京"), width("e\u0301"), width("\x1b[31mred\x1b[0m")
    (5, 4, 1, 3)
    """
    if "\x1b" in text:
        return width(_ESCAPES.sub("", text).replace("\x1b", ""))
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def fit(text: str, columns: int, *, right: bool = False) -> str:
    """One line of exactly so many columns: filled with blanks, or cut with an ellipsis at its end.

    >>> fit("gpu", 5), fit("gpu", 5, right=True), fit("gpu-node-17", 6), fit("東京都庁", 6)
    ('gpu  ', '  gpu', 'gpu-n…', '東京 …')
    """
    cells = width(text)
    if cells > columns:
        return set_cell_size(text, columns - 1) + "…"
    return " " * (columns - cells) + text if right else text + " " * (columns - cells)


def widths(texts: Iterable[str]) -> list[int]:
    """Columns of each of several texts; see `width`.

    >>> widths(["gpu", "東京"])
    [3, 4]
    """
    return [width(text) for text in texts]


def fit_column(texts: Sequence[str], columns: int, *, right: bool = False) -> list[str]:
    """The cells of one column, each of exactly so many columns of the terminal; see `fit`.

    >>> fit_column(["gpu", "7"], 4, right=True)
    [' gpu', '   7']
    """
    return [fit(text, columns, right=right) for text in texts]


def wrap(text: str, columns: int | None, *, indent: str = "", first: str | None = None) -> list[str]:
    """Lines of at most so many columns, broken between words; a word that is longer is broken within.

    Args:
        text: its own line breaks stay, and so does the indentation of a line.
        columns: None: there is no limit.
        indent: before each line.
        first: before the first line instead.

    >>> wrap("one two three", 9), wrap("abcdefgh", 4), wrap("a b", None, first="- ")
    (['one two', 'three'], ['abcd', 'efgh'], ['- a b'])
    >>> wrap("one two", 6, indent="  ", first="1 ")
    ['1 one', '  two']
    """
    lines: list[str] = []
    for line in text.split("\n"):
        before = indent if lines or first is None else first
        if columns is None or width(before + line) <= columns:
            lines.append((before + line).rstrip())
            continue
        own = line[: len(line) - len(line.lstrip(" "))]
        words = _UNITS.sub(_JOINED, line).split(" ")
        broken = _broken([word for word in words if word], columns, before + own, indent + own)
        lines += [each.replace(_JOINED, " ") for each in broken]
    return lines


def wrap_command(text: str, columns: int | None) -> list[str]:
    r"""A command in lines that a shell takes as one: broken between its words, with a backslash before each break.

    >>> wrap_command("  scontrol update Reason='two words' State=DRAIN", 36)
    ['  scontrol update \\', "    Reason='two words' State=DRAIN"]
    """
    if columns is None or width(text) <= columns:
        return [text]
    own = text[: len(text) - len(text.lstrip(" "))]
    lines = _broken(_WORDS_OF_COMMANDS.findall(text), columns - 2, own, f"{own}  ")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


_WORDS_OF_COMMANDS: Final = re.compile(r"""(?:'[^']*'|"[^"]*"|\\.|[^\s'"])+""")
"""Words of a shell, each with its quotes."""


def _broken(words: list[str], columns: int, first: str, indent: str) -> list[str]:
    """Words in lines."""
    lines, current, filled = [], first, False
    for word in words:
        for piece in _pieces(word, max(1, columns - width(indent))):
            needed = width(piece) + (1 if filled else 0)
            if filled and width(current) + needed > columns:
                lines.append(current)
                current, filled = indent, False
            current += f" {piece}" if filled else piece
            filled = True
    return [*lines, current]


def _pieces(word: str, columns: int) -> list[str]:
    return [word] if width(word) <= columns else chop_cells(word, columns)
