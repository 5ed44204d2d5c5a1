"""What to do next about a run: two or three commands that work."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.run_page.contents import RunContents

MOST: Final = 3


@dataclass(frozen=True)
class NextStep:
    """A command, and its purpose."""

    command: str
    purpose: str


def next_steps(contents: RunContents, options: str = "") -> list[NextStep]:
    """The commands that make sense, the most useful first.

    Args:
        contents: of the page.
        options: options of the command line that the commands need, too, such as `--warehouse DIR`.
    """
    run = shlex.quote(contents.choice.run_id)
    steps = _of_log(run) if contents.choice.logged_only else _of_accounting(contents, run)
    return [NextStep(_whole(each.command, options), each.purpose) for each in list(steps)[:MOST]]


def _whole(command: str, options: str) -> str:
    """The command line; the manual needs no warehouse."""
    return f"trackside {command}" + ("" if command.startswith("docs ") else options)


def _of_log(run: str) -> Iterator[NextStep]:
    yield NextStep(f"run {run} --explain", "how its numbers come about")
    yield NextStep(f"run {run} --format json", "all numbers for programs")
    yield NextStep("docs sources/run-logs", "what else a log can record")


def _of_accounting(contents: RunContents, run: str) -> Iterator[NextStep]:
    if not contents.started:
        yield NextStep("show waste", "who holds GPUs and does not use them")
        yield NextStep("show nodes", "which nodes are out of service")
        return
    if not contents.gpus:
        yield NextStep(f"show runs --run {run}", "its attempts")
        yield NextStep("docs sources/slurm", "how Slurm is made to record GPUs")
        return
    advice = contents.checkpoints
    if contents.interruptions:
        yield NextStep(f"show interruptions --run {run}", "each interruption, its evidence and cost")
    if advice is not None and advice["advice"] in {"save less often", "save more often"}:
        yield NextStep(f"show checkpoints --run {run}", "how often to save")
    yield NextStep(f"show ettr --run {run} --explain", "every second of it, and the arithmetic")
    if contents.mfu:
        yield NextStep(f"show mfu --run {run}", "MFU by every convention")
    if contents.steps is None:
        yield NextStep("docs sources/run-logs", "log its steps: lost work, MFU, checkpoints")
    yield NextStep("show utilisation --by run", "what GPUs did, beside other runs")
