"""Run verbs of the checkout on PYTHONPATH in one process, and count the calls of those that are trips.

Usage: `python -P trace_calls.py MODULE:FUNCTION JOBS.json COUNTS.json FOLDERS`. It is started by its path with the
interpreter of another checkout, so it imports nothing but the standard library and that checkout.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType


class Trace:
    """What was called in the product while it was on.

    Attributes:
        functions: file, name and line of each function that was called.
        switches: calls into another file than the call before, thread by thread.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        """Count calls in files below these folders."""
        self.functions: set[tuple[str, str, int]] = set()
        self.switches = 0
        self._folders = tuple(f"{folder}{os.sep}" for folder in folders)
        self._last: defaultdict[int, str] = defaultdict(str)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note a call, as `sys.setprofile` reports it."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._folders) or code.co_name == "<module>":
            return
        self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        thread = threading.get_ident()
        self.switches += self._last[thread] != code.co_filename
        self._last[thread] = code.co_filename

    def counts(self) -> dict[str, int]:
        """How many files and functions were called, and how often the file changed."""
        files = {file for file, _, _ in self.functions}
        return {"files": len(files), "functions": len(self.functions), "switches": self.switches}


def run(command: Callable[[list[str]], int], argv: list[str], folders: Sequence[str]) -> dict[str, int]:
    """Run one verb with every call traced."""
    trace = Trace(folders)
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        status = command(argv)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if status:
        sys.exit(f"{' '.join(argv)}: exit status {status}")
    return trace.counts()


def main() -> None:
    """Run the jobs in order; write the counts of the trips."""
    entry_point, jobs, result, folders = sys.argv[1:]
    module, _, function = entry_point.partition(":")
    command = getattr(importlib.import_module(module), function)
    counts = {}
    for job in json.loads(Path(jobs).read_text("utf-8")):
        counts[job.get("trip")] = run(command, job["argv"], folders.split(os.pathsep))
    counts.pop(None, None)
    Path(result).write_text(json.dumps(counts), "utf-8")


if __name__ == "__main__":
    main()
