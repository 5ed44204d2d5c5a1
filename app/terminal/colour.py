"""Colours by meaning, of the 16 that every terminal has.

No meaning is in a colour alone: a word or a sign has it, too.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Meaning: TypeAlias = Literal["good", "bad", "warning", "quiet", "strong", "heading"]

_CODES: Final[dict[Meaning, str]] = {
    "good": "32",
    "bad": "31",
    "warning": "33",
    "quiet": "2",
    "strong": "1",
    "heading": "1",
}
"""Parameters of SGR (ECMA-48): standard colours, which a terminal's theme keeps readable on its background."""


def paint(text: str, meaning: Meaning | None, *, colours: bool) -> str:
    r"""A text with its colour, where there are colours.

    >>> paint("refuted", "bad", colours=True), paint("refuted", "bad", colours=False), paint("x", None, colours=True)
    ('\x1b[31mrefuted\x1b[0m', 'refuted', 'x')
    """
    if not colours or meaning is None or not text:
        return text
    return f"\x1b[{_CODES[meaning]}m{text}\x1b[0m"
