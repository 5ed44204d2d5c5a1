"""Run verbs of the checkout on PYTHONPATH in one process, each at a fixed time, and keep what each prints.

Usage: `python -P run_verbs.py MODULE:FUNCTION JOBS.json`. It is started by its path with the interpreter of another
checkout, so it imports nothing but the standard library and that checkout. Each job is a dict of `argv`, `now`,
`output`, `messages` and `status`: the last three are files for stdout, stderr and the exit status.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FixedClock:
    """The clock of the checkout: it shows the time of the current job."""

    moment = datetime(1970, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """The time of the current job."""
        return self.moment


def load(entry_point: str, clock: FixedClock) -> Callable[[list[str]], int]:
    """Import the command, after its clock was replaced."""
    module, _, function = entry_point.partition(":")
    package = module.split(".cli")[0]
    importlib.import_module(f"{package}.clock").__dict__["now"] = clock.now
    main: Callable[[list[str]], int] = getattr(importlib.import_module(module), function)
    return main


def run(main: Callable[[list[str]], int], job: dict[str, Any]) -> None:
    """Run one verb; what it prints and its exit status go to files."""
    with _printing_to(1, job["output"]), _printing_to(2, job["messages"]):
        status = _status(main, job["argv"])
    Path(job["status"]).write_text(f"{status}\n", "utf-8")


def _status(main: Callable[[list[str]], int], argv: list[str]) -> int | str | None:
    try:
        return main(argv)
    except SystemExit as ended:
        return ended.code


@contextlib.contextmanager
def _printing_to(descriptor: int, path: str) -> Iterator[None]:
    """Lead a file descriptor to a file, so that what libraries print is kept, too."""
    before = os.dup(descriptor)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, descriptor)
    os.close(file)
    try:
        yield
    finally:
        (sys.stdout if descriptor == 1 else sys.stderr).flush()
        os.dup2(before, descriptor)
        os.close(before)


def main() -> None:
    """Run the jobs in order."""
    clock = FixedClock()
    command = load(sys.argv[1], clock)
    for job in json.loads(Path(sys.argv[2]).read_text("utf-8")):
        clock.moment = datetime.fromisoformat(job["now"])
        run(command, job)


if __name__ == "__main__":
    main()
