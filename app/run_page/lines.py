"""The page as lines of spans: text with its meaning, never wider than the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from app.terminal.cells import fit, width, wrap
from app.terminal.colour import paint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from app.terminal.colour import Meaning

Span = tuple[str, "Meaning | None"]
Line = list[Span]

WIDEST: Final = 80
"""Columns of the page, also where the terminal has more: lines of text are easily read."""

NARROWEST: Final = 40
"""Columns below which it is not laid out anew."""

LABEL: Final = 13
"""Columns of the labels."""


@dataclass
class TextPage:
    """Lines, each of at most `columns` cells.

    Attributes:
        columns: of the page.
        unicode: whether letters beyond ASCII are shown.
        lines: so far.
    """

    columns: int
    unicode: bool = True
    lines: list[Line] = field(default_factory=list)

    def add(self, *spans: Span) -> None:
        """A line; its spans must fit."""
        self.lines.append([span for span in spans if span[0]])

    def blank(self) -> None:
        """An empty line."""
        if self.lines and self.lines[-1]:
            self.lines.append([])

    def rule(self) -> None:
        """A line across the page."""
        self.add((("\N{BOX DRAWINGS LIGHT HORIZONTAL}" if self.unicode else "-") * self.columns, "quiet"))

    def heading(self, text: str, right: str = "") -> None:
        """The title of a section, and a text at the right end of its line."""
        self.blank()
        left = fit(text, max(0, self.columns - width(right))) if right else text
        self.add((left, "heading"), (right, None))

    def fact(self, label: str, text: str, meaning: Meaning | None = None) -> None:
        """A label and what it is, over as many lines as it needs."""
        for number, line in enumerate(wrap(text, self.columns - LABEL)):
            self.add((fit(label if number == 0 else "", LABEL), "quiet"), (line, meaning))

    def text(self, text: str, *, indent: str = "", first: str | None = None, meaning: Meaning | None = None) -> None:
        """Text over as many lines as it needs."""
        for line in wrap(text, self.columns, indent=indent, first=first):
            self.add((line, meaning))

    def output(self, *, colours: bool) -> str:
        """The page as it is written to a terminal or a file."""
        return "".join(f"{_joined(line, colours=colours)}\n" for line in self.lines)


def _joined(line: Iterable[Span], *, colours: bool) -> str:
    painted = "".join(paint(text, meaning, colours=colours) for text, meaning in line)
    return painted if colours else painted.rstrip()
