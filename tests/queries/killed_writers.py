"""Days of samples, and writers that are killed after they committed."""

from __future__ import annotations

import atexit
import functools
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import polars as pl

from queries.warehouse import open_writer
from tests.queries.test_warehouse import NOW, users

FIRST = date(2026, 10, 29)
HERE = Path(__file__).parents[2]


def samples(day: int, value: float = 0.5) -> pl.DataFrame:
    ts = datetime.combine(FIRST + timedelta(days=day), datetime.min.time(), UTC)
    rows = {"cluster": "c", "node": "n1", "gpu": "0", "ts": [ts], "gpu_util": pl.Series([value], dtype=pl.Float32)}
    return pl.DataFrame(rows).with_columns(pl.col("ts").dt.cast_time_unit("us"))


def killed_writer(root: Path, *, commits: int = 1) -> None:
    """A writer that committed (into the write-ahead log) and was killed within the next transaction."""
    process = _forks()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{commits} {root}\n")
    process.stdin.flush()
    assert int(process.stdout.readline()) == -signal.SIGKILL


@functools.cache
def _forks() -> subprocess.Popen[str]:
    """What forks killed writers: a process that has imported all they need, and has no threads yet."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import fork_writers; fork_writers()"],
        cwd=HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def fork_writers() -> None:
    """Of each line of the input a killed writer: how often it commits, and where; a line of the output is its end."""
    for line in sys.stdin:
        commits, _, root = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            _be_killed(Path(root), int(commits))
        _, how = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(how), flush=True)  # noqa: T201 - the answer


def _be_killed(root: Path, commits: int) -> NoReturn:
    try:
        with open_writer(root, verb="test", now=NOW) as writer:
            for number in range(commits):
                with writer.transaction():
                    writer.append("users", users(f"killed{number}"))
                    writer.write_partition(
                        "gpu_samples", "c", FIRST + timedelta(days=10 + number), samples(10 + number)
                    )
            with writer.transaction():
                writer.write_partition("gpu_samples", "c", FIRST, samples(0, 0.125))
                os.kill(os.getpid(), signal.SIGKILL)
    finally:
        os._exit(70)
