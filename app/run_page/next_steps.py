"""What to do next about a run: two or three commands that work."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.run_page.contents import Contents

MOST: Final = 3


@dataclass(frozen=True)
class Step:
    """A command, and what it gives."""

    command: str
    gives: str


def next_steps(contents: Contents, options: str = "") -> list[Step]:
    """The commands that make sense, the most useful first.

    Args:
        contents: of the page.
        options: options of the command line that the commands need, too, such as `--warehouse DIR`.
    """
    run = shlex.quote(contents.choice.run_id)
    steps = _of_log(run) if contents.choice.logged_only else _of_accounting(contents, run)
    return [Step(_whole(each.command, options), each.gives) for each in list(steps)[:MOST]]


def _whole(command: str, options: str) -> str:
    """The command line; the manual needs no warehouse."""
    return f"trackside {command}" + ("" if command.startswith("docs ") else options)


def _of_log(run: str) -> Iterator[Step]:
    yield Step(f"run {run} --explain", "how its numbers come about")
    yield Step(f"run {run} --format json", "all numbers for programs")
    yield Step("docs sources/run-logs", "what else a log can record")


def _of_accounting(contents: Contents, run: str) -> Iterator[Step]:
    if not contents.started:
        yield Step("show waste", "who holds GPUs and does not use them")
        yield Step("show nodes", "which nodes are out of service")
        return
    if not contents.gpus:
        yield Step(f"show runs --run {run}", "its attempts")
        yield Step("docs sources/slurm", "how Slurm is made to record GPUs")
        return
    advice = contents.checkpoints
    if contents.interruptions:
        yield Step(f"show interruptions --run {run}", "each interruption, its evidence and cost")
    if advice is not None and advice["advice"] in {"save less often", "save more often"}:
        yield Step(f"show checkpoints --run {run}", "how often to save")
    yield Step(f"show ettr --run {run} --explain", "every second of it, and the arithmetic")
    if contents.mfu:
        yield Step(f"show mfu --run {run}", "MFU by every convention")
    if contents.steps is None:
        yield Step("docs sources/run-logs", "log its steps: lost work, MFU, checkpoints")
    yield Step("show utilisation --by run", "what GPUs did, beside other runs")
