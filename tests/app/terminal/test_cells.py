"""Texts by the columns that they need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.terminal.cells import fit, width, wrap

WORDS = st.text(alphabet="ab é東京́\u200d👩\n", max_size=60)


@given(WORDS, st.integers(4, 30))
def test_no_wrapped_line_is_wider_than_allowed(text: str, columns: int) -> None:
    assert all(width(line) <= columns for line in wrap(text, columns, indent="  ", first="1 "))


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=12), max_size=9), st.integers(4, 30))
def test_wrapping_loses_no_letter(words: list[str], columns: int) -> None:
    assert "".join("".join(wrap(" ".join(words), columns)).split()) == "".join(words)


@given(st.text(alphabet="ab東京éx", max_size=20), st.integers(1, 12), st.booleans())
def test_a_cell_has_exactly_its_width(text: str, columns: int, right: bool) -> None:
    made = fit(text, columns, right=right)
    assert width(made) == columns
    assert made.strip() == text or made.endswith("…")


def test_line_breaks_and_indentation_stay() -> None:
    assert wrap("To add it:\n  trackside ingest slurm", 80) == ["To add it:", "  trackside ingest slurm"]
    assert wrap("  one two three", 9) == ["  one two", "  three"]
