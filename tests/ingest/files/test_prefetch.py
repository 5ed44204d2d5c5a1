"""Working ahead in a second thread, and ending it."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from ingest.files.prefetch import prefetch_one, started
from tests.lab.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_prefetch_ends_and_releases_when_the_caller_stops() -> None:
    before, ended = threading.active_count(), threading.Event()

    def numbers() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            ended.set()

    for number in prefetch_one(numbers()):
        if number == 2:
            break
    assert ended.wait(60)
    wait_until(lambda: threading.active_count() <= before, 60, "the thread to end")


WAITING = """
import os, signal, threading, time
import polars as pl
from ingest.files.prefetch import prefetch_one, started

pl.LazyFrame({"a": [1]}).select(pl.col("a") + 1).collect()  # from now on polars handles signals, too

def hang():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    time.sleep(60)
    yield 1

for wait in (lambda: next(prefetch_one(hang())), lambda: started(lambda: next(hang()))()):
    try:
        wait()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def test_waiting_caller_can_be_interrupted_on_a_stalled_source() -> None:
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, timeout=45, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["interrupted"] * 2, "", 0)


def test_started_work_is_awaited_and_its_error_raised() -> None:
    go = threading.Event()
    one = started(lambda: go.wait(60) and 1)
    other = started(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        other()
    go.set()
    assert one() == 1
