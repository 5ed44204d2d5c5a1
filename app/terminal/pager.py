"""Texts that are longer than the screen go through the user's pager."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from app.terminal.cells import width

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.terminal.terminal import Terminal

_LESS: Final = "FRX"
"""Options of `less` where the user has set none, as git does: quit if it fits, keep colours, keep the screen."""


def page(text: str, terminal: Terminal, environment: Mapping[str, str] | None = None, *, wide: bool = False) -> None:
    """Write a text to standard output: through the pager where it is longer than the terminal's screen.

    The pager is `$PAGER`, else `less`; an empty one, or `cat`, means none. Without a terminal there is none.

    Args:
        text: lines.
        terminal: of standard output.
        environment: the process's by default.
        wide: whether lines may be longer than the terminal is wide: `less` does not fold them.
    """
    values = dict(os.environ if environment is None else environment)
    command = _command(values.get("PAGER", "less"))
    if terminal.moves and command and command != ["cat"] and lines(text, terminal) >= (terminal.height or 0):
        sys.stdout.flush()
        if _through(command, text, {"LESS": _LESS + ("S" if wide else ""), **values}):
            return
    sys.stdout.write(text)
    sys.stdout.flush()


def _through(command: list[str], text: str, environment: dict[str, str]) -> bool:
    """Whether the pager could be started. Ctrl-C is the pager's while it runs: `less` stops a search with it."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
    except OSError:
        return False
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager has started with its own
    try:
        process.communicate(text.encode())
    finally:
        signal.signal(signal.SIGINT, ours)
    return True


def _command(text: str) -> list[str]:
    """The words of a command line; none where its quotes do not end."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def lines(text: str, terminal: Terminal) -> int:
    r"""Lines of the screen that a text needs: a line that is wider than the terminal needs several.

    >>> from app.terminal.terminal import Terminal
    >>> lines("abc\nabcdefghijk\n", Terminal(width=10, height=24))
    3
    """
    columns = terminal.width or 1
    return sum(max(1, -(-width(line) // columns)) for line in text.removesuffix("\n").split("\n"))
