"""Texts of `--help` fit the terminal, and say the same in any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.help.formatting import wrapped
from tests.support.command import trackside

LINES = st.lists(st.text("ab-=[ ", max_size=60), max_size=8)


@given(LINES, st.integers(20, 90))
def test_wrapping_keeps_every_word_in_order(lines: list[str], width: int) -> None:
    text = "\n".join(lines)
    assert wrapped(text, width).split() == text.split()


@given(LINES)
def test_lines_that_fit_stay(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert wrapped(text, 60) == text


def test_columns_are_wrapped_below_their_beginning() -> None:
    text = "  goodput    productive share of wall time,\n             and more\n             --by day"
    assert wrapped(text, 40).splitlines() == [
        "  goodput    productive share of wall",
        "             time, and more",
        "             --by day",
    ]


def test_examples_wider_than_the_terminal_stay_apart() -> None:
    text = "A copy:\n  trackside warehouse copy trackside-data LAKE\n  trackside show goodput"
    assert wrapped(text, 30) == text


def test_help_alone_keeps_its_lines_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert trackside("--help").stdout.splitlines()[-1].startswith("Help of a verb: ")


@pytest.mark.parametrize("verb", ["run", "show", "job", "completion", "retention", "fleet"])
def test_help_fits_eighty_columns(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, trackside(verb, "--help").stdout.splitlines())) <= 80


@pytest.mark.parametrize(
    ("verb", "lake"),
    [
        ("ingest slurm", False),
        ("compute", False),
        ("adjudicate cause", False),
        ("adjudicate list", True),
        ("show", True),
    ],
)
def test_verbs_that_write_offer_no_lake_as_their_warehouse(verb: str, lake: bool) -> None:
    assert ("or a lake" in trackside(*verb.split(), "--help").stdout) is lake
