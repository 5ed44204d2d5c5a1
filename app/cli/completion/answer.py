"""The hidden verb `_complete`: it prints what may follow, and nothing else, whatever happens."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from typing import TYPE_CHECKING, Final

from app.cli.completion.candidates import Candidates, candidates

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

_END: Final = "\x00"
"""Marks the end of what is typed: no argument of a process holds it."""


def answer(arguments: Sequence[str], build_parser: Callable[[str | None], argparse.ArgumentParser]) -> int:
    """Print the kind of the answer in one line, then a candidate a line: `VALUE`, or `VALUE<TAB>DESCRIPTION`.

    It never fails and prints no error: a shell would show it amid what a person types.

    Args:
        arguments: the shell; for bash its line up to the cursor and what it takes for ends of words, for zsh and fish
            the words after the program's name.
        build_parser: see `candidates`.
    """
    with contextlib.suppress(BaseException), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # noqa: PTH123 - no path
        text = "\n".join(_lines(arguments, build_parser))
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    return 0


def _lines(arguments: Sequence[str], build_parser: Callable[[str | None], argparse.ArgumentParser]) -> list[str]:
    shell, *rest = arguments
    if shell != "bash":
        found = candidates(rest, build_parser)
        return [found.kind, *(f"{word}\t{text}".rstrip("\t") for word, text in found.words)]
    line, breaks = rest
    words = split(line)[1:]
    found = candidates(words, build_parser)
    return [found.kind, *after_break(found, words[-1] if words else "", breaks)]


def split(line: str) -> list[str]:
    r"""The words of a shell's line; the last one is being typed: it may be empty, or in a quote that is not closed.

    >>> split("trackside show "), split("trackside 'two wo"), split("a\\ b")
    (['trackside', 'show', ''], ['trackside', 'two wo'], ['a b'])
    """
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            *words, last = shlex.split(line + _END + closing)
            return [*words, last.removesuffix(_END)]
    return []


def after_break(found: Candidates, typed: str, breaks: str) -> list[str]:
    """The words from where bash takes its last word to begin: `--run=12` are three words to it."""
    start = max((typed.rfind(each) for each in breaks), default=-1) + 1
    return [word[start:] for word, _ in found.words]
