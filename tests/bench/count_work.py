"""Run the command line, and print its counts as the last line of stderr: see `tests.bench.work`."""

from __future__ import annotations

import atexit
import json
import sys
from typing import Any, Final

import duckdb

COUNTS: Final = {"statements": 0, "rows_read": 0}


class Counted:
    """A connection, or a result, whose statements and rows are counted."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def execute(self, *args: Any) -> Counted:
        """Run a statement."""
        COUNTS["statements"] += 1
        return Counted(self._inner.execute(*args))

    def pl(self, *args: Any) -> Any:
        """All rows as a frame."""
        frame = self._inner.pl(*args)
        COUNTS["rows_read"] += frame.height
        return frame

    def fetchall(self) -> Any:
        """All rows as tuples."""
        rows = self._inner.fetchall()
        COUNTS["rows_read"] += len(rows)
        return rows


def _report() -> None:
    modules = len(sys.modules)
    print(json.dumps(COUNTS | {"modules": modules}), file=sys.stderr)


def run() -> int:
    """Run the command line with DuckDB counted from its first import on."""
    connect = duckdb.connect
    vars(duckdb)["connect"] = lambda *args, **kwargs: Counted(connect(*args, **kwargs))
    atexit.register(_report)
    sys.path.pop(0)  # this folder is not the program's
    from app.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(run())
