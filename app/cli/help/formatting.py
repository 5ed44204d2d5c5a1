"""Texts of `--help` in a terminal of any width: written for a wide one, with line breaks that mean something."""

from __future__ import annotations

import argparse
import re
import textwrap
from typing import Final

_TWO_COLUMNS: Final = re.compile(r"(?P<left> *\S.*? {2,})(?P<right>\S.*)")
"""A command or a name, and after two blanks what it is for."""

_LEAST: Final = 24
"""Characters that the second of two columns needs to be read; where it has fewer, it goes below the first."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, and wraps the lines that are wider than the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return super()._fill_text(wrapped(text, width - len(indent)), width, indent)


def wrapped(text: str, width: int) -> str:
    r"""Text whose lines fit a width, as far as they can be broken.

    A line that fits stays as it is. One that does not is continued by the next if that is of the same paragraph or
    column and begins with no option. It is wrapped to where it begins: prose at the margin, text of a second
    column below that column. Indented text without columns is an example, which stays as it is.

    Args:
        text: with the line breaks of its author.
        width: characters.

    >>> print(wrapped("  run 12345    a Slurm job, or a task of an array of these\n  run", 40))
      run 12345    a Slurm job, or a task of
                   an array of these
      run
    """
    return "\n".join(line for group in _groups(text.split("\n"), width) for line in _wrapped(group, width))


def _groups(lines: list[str], width: int) -> list[str]:
    """Lines, each with those that continue it where it is too wide."""
    groups: list[str] = []
    before, column = "", 0
    for line in lines:
        continues = line.strip() and _indent(line) == column and not line.lstrip().startswith("--")
        if len(before) > width and continues and not _is_example(before):
            groups[-1] = f"{groups[-1].rstrip()} {line.lstrip()}"
        else:
            groups.append(line)
            column = _column(line)
        before = line
    return groups


def _wrapped(line: str, width: int) -> list[str]:
    column = _column(line)
    if len(line) <= width or _is_example(line):
        return [line]
    left, right = line[:column], line[column:]
    if column and width - column < _LEAST:
        column = _indent(line) + 4
        return [*([left.rstrip()] if left.strip() else []), *_filled(right, width, " " * column, " " * column)]
    return _filled(right, width, left, " " * column)


def _is_example(line: str) -> bool:
    """Whether a line is indented text without a second column."""
    return 0 < _indent(line) == _column(line) < _LEAST // 2


def _filled(text: str, width: int, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _column(line: str) -> int:
    """Start of the part of a line that may be wrapped: that of its second column, or the whole line."""
    columns = _TWO_COLUMNS.match(line) if line.startswith(" ") else None
    return _indent(line) if columns is None else len(columns["left"])
