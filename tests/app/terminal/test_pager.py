"""What is longer than the screen goes through the pager; nothing else does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.pseudo_terminal import in_terminal

if TYPE_CHECKING:
    from pathlib import Path

PRINT = """
import sys
from app.terminal.pager import page
from app.terminal.terminal import Terminal
page("line\\n" * int(sys.argv[1]), Terminal.of())
"""
PAGER = f"{sys.executable} -c 'import sys; print(sum(1 for _ in sys.stdin), \"through the pager\")'"


def printed(count: int, **env: str) -> str:
    screen = in_terminal(sys.executable, "-c", PRINT, str(count), columns=80, lines=20, env={"PAGER": PAGER, **env})
    assert screen.status == 0, screen.text
    return screen.text


def test_a_long_text_goes_through_the_pager() -> None:
    assert printed(20) == "20 through the pager\n"
    assert printed(19) == "line\n" * 19, "the prompt needs a line, too"


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"PAGER": ""}, {"PAGER": "cat"}, {"PAGER": "no-such-program"},
                                 {"PAGER": "'"}])  # fmt: skip
def test_without_a_pager_everything_is_printed(env: dict[str, str]) -> None:
    assert printed(30, **env) == "line\n" * 30


def test_an_interrupt_is_the_pagers(tmp_path: Path) -> None:
    fake = tmp_path / "pager"
    fake.write_text("#!/bin/sh\ncat > /dev/null\nkill -INT $PPID\nsleep 1\necho still here\n")
    fake.chmod(0o755)
    assert printed(30, PAGER=str(fake)) == "still here\n"


def test_less_shows_colours_and_leaves_the_text_on_the_screen(tmp_path: Path) -> None:
    fake = tmp_path / "less"
    fake.write_text("#!/bin/sh\necho options $LESS\n")
    fake.chmod(0o755)
    assert printed(30, PAGER=str(fake)) == "options FRX\n"
    assert printed(30, PAGER=str(fake), LESS="-i") == "options -i\n"
