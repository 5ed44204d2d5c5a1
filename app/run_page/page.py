"""The whole page about a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.run_page import failures, hardware, header, spending, training
from app.run_page.lines import NARROWEST, WIDEST, TextPage
from app.run_page.next_steps import next_steps
from app.run_page.unknowns import unknowns
from app.terminal.cells import width, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.run_page.contents import RunContents
    from app.run_page.next_steps import NextStep
    from app.terminal.terminal import Terminal


def page_of(contents: RunContents, terminal: Terminal, *, options: str = "", explained: Sequence[str] = ()) -> str:
    """The page as text, no wider than the terminal and than 80 columns.

    Args:
        contents: the numbers.
        terminal: where it is written to.
        options: as in `app.run_page.next_steps.next_steps`.
        explained: the arithmetic, line by line.
    """
    columns = min(WIDEST, max(NARROWEST, terminal.width or WIDEST))
    page = TextPage(columns, unicode=terminal.unicode)
    for note in contents.choice.notes:
        page.text(note, meaning="quiet")
    page.blank()
    header.title(page, contents)
    header.facts(page, contents)
    spending.ettr(page, contents)
    for section in (
        spending.where,
        failures.interrupted,
        failures.processes,
        training.training,
        hardware.hardware,
    ):
        section(page, contents)
    _unknowns(page, contents)
    _warnings(page, contents)
    if explained:
        _explained(page, explained)
    _next(page, next_steps(contents, options))
    return page.output(colours=terminal.colours)


def _unknowns(page: TextPage, contents: RunContents) -> None:
    rows = unknowns(contents)
    if not rows:
        return
    page.heading("Cannot tell")
    for row in rows:
        page.text(f"{row.what}: {row.because}", indent="    ", first="  ")


def _warnings(page: TextPage, contents: RunContents) -> None:
    if contents.warnings:
        page.blank()
    for warning in contents.warnings:
        page.text(warning, meaning="warning")


def _explained(page: TextPage, lines: Sequence[str]) -> None:
    page.heading("How the ETTR comes about")
    for line in lines:
        own = line[: len(line) - len(line.lstrip())]
        page.text(line, indent=f"{own}    ", first="  ")


def _next(page: TextPage, steps: Sequence[NextStep]) -> None:
    """Commands, each with its purpose beside it where there is room, else below it."""
    if not steps:
        return
    page.heading("Next")
    wide = max(width(step.command) for step in steps)
    beside = all(wide + width(step.purpose) + _BESIDE <= page.columns for step in steps)
    for step in steps:
        if beside:
            page.add((f"  {step.command:<{wide}}", "strong"), (f"  # {step.purpose}", "quiet"))
        else:
            page.text(f"# {step.purpose}", indent="  # ", first="  ", meaning="quiet")
            _command(page, step.command)


_BESIDE: Final = 6
"""Columns of the indentation and of the mark between a command and its comment."""


def _command(page: TextPage, command: str) -> None:
    """A command over as many lines as it needs, as a shell reads them."""
    lines = wrap(command, page.columns - 2, indent="    ", first="  ")
    for number, line in enumerate(lines, 1):
        page.add((line if number == len(lines) else f"{line} \\", "strong"))
