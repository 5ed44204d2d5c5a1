"""What a terminal is, how wide it is, and when it has colours."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from app.terminal.terminal import NARROWEST, USUAL, Terminal
from tests.support.command import ROOT
from tests.support.pseudo_terminal import in_terminal

REPORT = """
import dataclasses, json
from app.terminal.terminal import Terminal
print(json.dumps(dataclasses.asdict(Terminal.of())))
"""


def reported(columns: int, lines: int = 30, env: dict[str, str] | None = None) -> dict[str, object]:
    """What `Terminal.of` returns in a pseudo-terminal."""
    screen = in_terminal(sys.executable, "-c", REPORT, columns=columns, lines=lines, env=env)
    assert screen.status == 0, screen.text
    return dict(json.loads(screen.text))


def test_size_is_that_of_the_terminal() -> None:
    assert reported(97, 31) == {"width": 97, "height": 31, "colours": True, "unicode": True, "moves": True}


def test_variables_go_before_the_reported_size() -> None:
    assert reported(97, 31, {"COLUMNS": "120", "LINES": "9", "NO_COLOR": ""}) == {
        "width": 120, "height": 9, "colours": True, "unicode": True, "moves": True,
    }  # fmt: skip
    assert reported(97, 31, {"COLUMNS": "wide", "LINES": ""})["width"] == 97


@pytest.mark.parametrize(
    ("env", "colours", "moves"),
    [({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False), ({"TERM": ""}, False, False)],
    ids=["NO_COLOR", "dumb", "no TERM"],
)
def test_colours_are_switched_off(env: dict[str, str], colours: bool, moves: bool) -> None:
    terminal = reported(80, env=env)
    assert (terminal["colours"], terminal["moves"]) == (colours, moves)


def test_a_terminal_without_a_size_has_the_usual_one() -> None:
    unset = reported(0, 0)
    assert (unset["width"], unset["height"]) == USUAL
    assert reported(3)["width"] == NARROWEST


def test_a_pipe_has_no_width_whatever_the_variables() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "width": None, "height": None, "colours": False, "unicode": True, "moves": False,
    }  # fmt: skip


def test_an_encoding_without_blocks_is_no_unicode() -> None:
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), {}).unicode
    assert not Terminal.of(io.TextIOWrapper(io.BytesIO(), encoding="latin-1"), {}).unicode
    assert Terminal.of(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), {}).unicode
