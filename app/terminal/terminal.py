"""The terminal that a verb writes to: its width, and what it can show."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

NARROWEST: Final = 20
"""Columns below which nothing is laid out: a terminal that reports fewer has not been set up."""

USUAL: Final = (80, 24)
"""Columns and lines of a terminal that does not report its size."""


@dataclass(frozen=True)
class Terminal:
    """The output of a verb.

    Attributes:
        width: columns; None for a pipe or a file, whose lines have no limit.
        height: lines of the screen; None likewise.
        colours: whether it takes the sequences of the 16 colours.
        unicode: whether it shows letters beyond ASCII.
        moves: whether the cursor can be moved: pagers and progress bars need it.
    """

    width: int | None = None
    height: int | None = None
    colours: bool = False
    unicode: bool = True
    moves: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads it; pipes and files are none."""
        return self.width is not None

    @classmethod
    def of(cls, stream: TextIO | None = None, environment: Mapping[str, str] | None = None) -> Terminal:
        """The terminal of a stream, as it is now.

        `COLUMNS` and `LINES` go before the size that the terminal reports; `NO_COLOR` (any value but empty) and
        `TERM=dumb` switch colours off (https://no-color.org).

        Args:
            stream: standard output by default.
            environment: the process's by default.
        """
        out = sys.stdout if stream is None else stream
        values = os.environ if environment is None else environment
        unicode = _takes(out, "\N{FULL BLOCK}\N{MIDDLE DOT}")
        if not out.isatty():
            return cls(unicode=unicode)
        width, height = _size(out, values)
        moves = values.get("TERM", "") not in {"", "dumb", "unknown"}
        return cls(width, height, moves and not values.get("NO_COLOR"), unicode, moves)


PIPE: Final = Terminal()
"""A pipe or a file."""


def _size(out: TextIO, environment: Mapping[str, str]) -> tuple[int, int]:
    """Columns and lines."""
    try:
        reported = os.get_terminal_size(out.fileno())
    except (OSError, ValueError):
        reported = os.terminal_size((0, 0))
    columns = _number(environment.get("COLUMNS")) or reported.columns or USUAL[0]
    lines = _number(environment.get("LINES")) or reported.lines or USUAL[1]
    return max(columns, NARROWEST), lines


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _takes(out: TextIO, text: str) -> bool:
    """Whether a stream can encode a text."""
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
