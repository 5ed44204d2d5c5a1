"""Progress of long work on stderr: a bar in a terminal, elsewhere a line every ten seconds.

Both have what is being done, the percentage where the amount is known, and the time; the bar also has the time that is
left. Nothing is printed of work that takes less than ten seconds where there is no terminal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.terminal_text import echo
from app.visible import escapes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    ReportProgress: TypeAlias = Callable[[str, int, int], None]

_CONTROLS: Final = escapes()

INTERVAL_S: Final = 10
"""Seconds between two lines where there is no terminal."""


@contextlib.contextmanager
def progress(title: str = "", *, quiet: bool) -> Iterator[ReportProgress]:
    """A function that takes what is being done, how much of it is done, and of how much in all (1: unknown).

    Args:
        title: text before the name of the present step.
        quiet: print nothing.
    """
    if quiet:
        yield lambda _what, _done, _total: None
        return
    with _bar(title) if sys.stderr.isatty() else _lines(title) as report:
        yield report


def described(title: str, what: str) -> str:
    """The text of a line: of a path its last part.

    >>> described("read Slurm", "/tmp/demo/sacct.txt"), described("", "demo: ledger"), described("simulate", "")
    ('read Slurm: sacct.txt', 'demo: ledger', 'simulate')
    """
    shown = Path(what).name if what.startswith("/") else what
    return ": ".join(part for part in (title, shown) if part)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[ReportProgress]:
    from rich.progress import (  # noqa: PLC0415 - heavy, and only for a terminal
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column  # noqa: PLC0415 - as above

    from app import console  # noqa: PLC0415 - as above

    text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))
    percentage, elapsed, remaining = TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    columns = (text, BarColumn(bar_width=20), percentage, elapsed, TextColumn("left"), remaining)
    with Progress(*columns, console=console.console(error=True), transient=True, expand=True) as bar:
        task, known = bar.add_task(described(title, ""), total=None), 1

        def report(what: str, done: int, total: int) -> None:
            nonlocal known
            if total != known:  # another amount of work: how fast the last one went does not matter
                bar.reset(task, total=total if total > 1 else None)
                known = total
            bar.update(task, description=described(title, what).translate(_CONTROLS), completed=done)

        yield report


@contextlib.contextmanager
def _lines(title: str) -> Iterator[ReportProgress]:
    """A thread prints what was reported last every `INTERVAL_S` seconds."""
    state = _LastReport(title)
    ended = threading.Event()
    thread = threading.Thread(target=_print_lines, args=(state, ended), name="progress", daemon=True)
    thread.start()
    try:
        yield state.report
    finally:
        ended.set()
        thread.join()


class _LastReport:
    """The last report."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._now = ("", 0, 1)

    def report(self, what: str, done: int, total: int) -> None:
        """Replace what is printed next."""
        self._now = (what, done, total)

    def line(self, seconds: int) -> str:
        """The line after so many seconds."""
        what, done, total = self._now
        share = f", {100 * done // total} % done" if total > 1 and done else ""
        return f"trackside: {described(self._title, what) or 'at work'}{share} ({seconds} s)"


def _print_lines(state: _LastReport, ended: threading.Event) -> None:
    seconds = 0
    while not ended.wait(INTERVAL_S):
        seconds += INTERVAL_S
        echo(state.line(seconds), error=True)
