"""Lines that a progress bar draws over for hours end somewhere, wherever the chunks do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.files.long_lines import MOST_HELD, with_ends

_TEXT = st.lists(st.sampled_from([b"a", b"bb", b"\r", b"\r\n", b"\n"]), max_size=60).map(b"".join)


@given(_TEXT, st.lists(st.integers(0, 120), max_size=4))
def test_ends_do_not_depend_on_chunks(text: bytes, cuts: list[int]) -> None:
    places = sorted(min(cut, len(text)) for cut in cuts)
    parts = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    assert b"".join(with_ends(parts, 7)) == b"".join(with_ends([text], 7))


@given(_TEXT)
def test_ends_replace_carriage_returns_alone(text: bytes) -> None:
    made = b"".join(with_ends([text], 7))
    assert made.replace(b"\r", b"\n") == text.replace(b"\r", b"\n")


def test_lines_within_the_limit_are_left_alone() -> None:
    assert list(with_ends([b"a\rb\r", b"c\nd\r\n"], 7)) == [b"a\rb", b"\rc\nd\r\n"]


def test_carriage_returns_without_end_are_not_kept() -> None:
    chunk = b"\r" * (2 * MOST_HELD)
    assert [len(each) for each in with_ends([chunk] * 4)] == [len(chunk)] * 4
