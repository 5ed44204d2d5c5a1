"""Progress of long work: a bar in a terminal, a line every few seconds elsewhere, nothing on stdout."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app import progress as module
from app.progress import progress
from app.terminal_text import echo

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
WORK = (
    "import time\nfrom app.progress import progress\n"
    "with progress('load', quiet=False) as report:\n"
    "    for done in range(40):\n"
    "        report('/data/sacct.txt', done, 40)\n"
    "        time.sleep(0.02)\n"
)


def until(holds: Callable[[], bool]) -> None:
    """Wait for what another thread does; the limit only ends a test that would wait for ever."""
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")


def test_lines_have_what_is_done_and_the_percentage(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)
    monkeypatch.setattr(module, "echo", lambda text, *, error: lines.append(f"{error} {text}"))
    with progress("load", quiet=False) as report:
        until(lambda: bool(lines))
        report("/data/sacct.txt", 3, 8)
        until(lambda: "37 %" in lines[-1])
        report("checking", 0, 1)
        until(lambda: "checking" in lines[-1])
    count = len(lines)
    assert lines[0].startswith("True trackside: load (")
    assert any(line.startswith("True trackside: load: sacct.txt, 37 % done (") for line in lines)
    assert lines[-1].startswith("True trackside: load: checking (")
    time.sleep(0.05)
    assert len(lines) == count, "it went on after the work"
    assert capfd.readouterr() == ("", "")


def test_work_of_less_than_an_interval_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("load", quiet=False) as report:
        report("a file", 1, 2)
    assert capfd.readouterr() == ("", "")


def test_quiet_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", lambda **_: pytest.fail("a thread"))
    with progress("load", quiet=True) as report:
        report("a file", 1, 2)


def test_the_thread_ends_with_work_that_fails() -> None:
    before, during = threading.active_count(), []

    def work() -> None:
        with progress("load", quiet=False):
            during.append(threading.active_count())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert (during, threading.active_count()) == ([before + 1], before)


def test_terminal_shows_a_bar_with_percentage_and_time_left() -> None:
    main, other = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", WORK], stdout=subprocess.PIPE, stderr=other, env=env, check=True)
    os.close(other)
    shown = os.read(main, 1 << 20).decode(errors="replace")
    os.close(main)
    assert done.stdout == b""
    assert "load: sacct.txt" in shown
    assert re.search(r"\d+%", shown)
    assert "left" in shown


def test_hostile_names_do_not_reach_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    state = module._LastReport("load")  # noqa: SLF001 - what a thread prints
    state.report("a\x1b[31m\nb", 0, 1)
    echo(state.line(10), error=True)
    assert "\x1b" not in capfd.readouterr().err
