"""Reading each different text once gives what reading every row gives."""

from __future__ import annotations

from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.accounting.columns import Distinct, DumpColumns
from ingest.slurm.formats import values
from tests.support.slurm.parsing import parse, text

WORDS = st.sampled_from(["1", "2K", "Unknown", " 8 ", "x", "4294967294", "", "1-00:00:00", "00:10:00", "4Gn", "1:0"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | WORDS, max_size=60), st.sampled_from([0, values.FEW]))
def test_distinct_texts_convert_like_the_column_row_by_row(words: list[str | None], few: int) -> None:
    column = pl.Series("x", words, pl.String)
    known = values.blank_to_null(column)
    for convert in (values.blank_to_null, values.whole_numbers, values.durations):
        expected = convert(column), convert(known)
        with mock.patch.object(values, "FEW", few):
            assert Distinct(column).each(convert, as_written=True).equals(expected[0]), convert
            assert Distinct(column).each(convert).equals(expected[1]), convert
    for several in (values.states, values.exit_codes, values.memory_sizes):
        tables = several(column), several(known)
        with mock.patch.object(values, "FEW", few):
            assert Distinct(column).each(several, as_written=True).equals(tables[0]), several
            assert Distinct(column).each(several).equals(tables[1]), several


@pytest.mark.parametrize("words", [values.NOTHING, values.UNLIMITED, frozenset({"", "(null)"})])
@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.none() | WORDS | st.sampled_from(["\tNone", "N/A ", "UNLIMITED", "(null)", "  ", " é "])))
def test_words_for_nothing_are_null_as_in_plain_python(words: frozenset[str], texts: list[str | None]) -> None:
    texts = [*texts, "a word"]  # where all are numbers they stay as they are
    expected = [None if each is None or each.strip().lower() in words else each.strip() for each in texts]
    assert values.blank_to_null(pl.Series("x", texts, pl.String), words).to_list() == expected


def test_repeated_texts_are_parsed_once() -> None:
    looked_at = []

    def convert(column: pl.Series) -> pl.Series:
        looked_at.append(len(column))
        return column

    repeated = pl.Series("x", ["a", None, "b", "a"] * 500)
    assert Distinct(repeated).each(convert).equals(repeated)
    Distinct(pl.Series("x", [str(n) for n in range(2000)])).each(convert)
    nothing = pl.Series("x", [None] * 2000, pl.String)
    assert Distinct(nothing).each(convert).equals(nothing)
    assert looked_at == [2, 2000, 1]


@pytest.mark.parametrize("few", [0, values.FEW])
def test_what_cannot_be_read_is_counted_row_by_row(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "FEW", few)
    frame = pl.DataFrame({"reqmem": ["odd"] * 9 + ["1G"] * 9, "nnodes": ["8", "x"] * 9, "timelimit": ["soon"] * 18})
    columns = DumpColumns(frame, timezone=None, origin="x")
    ones = pl.Series([1] * 18)
    columns.memory(ones, ones)
    columns.whole("nnodes", "allocnodes")
    columns.time_limit()
    assert columns.unreadable == {"reqmem": 9, "nnodes": 9, "timelimit": 18}


def test_repeated_rows_are_parsed_like_one() -> None:
    one = parse(text({"ReqMem": "4Gn", "Timelimit": "1-00:00:00"})).frames["attempts"].drop("job_id", "display_id")
    rows = [{"JobIDRaw": str(n), "JobID": str(n), "ReqMem": "4Gn", "Timelimit": "1-00:00:00"} for n in range(1, 3000)]
    many = parse(text(*rows)).frames["attempts"].drop("job_id", "display_id")
    assert many.height == len(rows)
    assert many.unique().equals(one)
