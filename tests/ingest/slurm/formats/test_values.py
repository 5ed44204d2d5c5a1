from __future__ import annotations

from unittest import mock

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.formats import values

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-03:04:02", 97_442),
        ("03:04:02", 11_042),
        ("04:02", 242),
        ("00:02.500", 2.5),
        ("3-13", 306_000),
        ("1-02:30", 95_400),
        ("100", 100),
        ("100:00:00", 360_000),
        ("INVALID", None),
        ("1:2:3:4", None),
        ("-5", None),
        ("nan", None),
        ("", None),
    ],
)
def test_durations_in_all_spellings(text: str, seconds: float | None) -> None:
    assert values.durations(pl.Series([text, "00:01"])).to_list() == [seconds, 1]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1_800),
        ("1-00:00:00", 86_400),
        ("00:30:00", 1_800),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("", None),
    ],
)
def test_a_time_limit_without_colons_is_in_minutes(text: str, seconds: float | None) -> None:
    assert values.time_limits(pl.Series([text]))["read"].to_list() == [seconds]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("3000Mc", 3_000 * 2**20 * 8),
        ("48000Mn", 48_000 * 2**20 * 2),
        ("0n", 0),
        ("1Gn", 2 * GIB),
        ("7Gc", 56 * GIB),
        ("1000M", 1_000 * 2**20),
        ("1084.50M", int(1084.5 * 2**20)),
        ("320.5G", int(320.5 * GIB)),
        ("1280.50G", int(1280.5 * GIB)),
        ("3T", 3 * 1024 * GIB),
        ("2P", 2 * 1024**2 * GIB),
        ("1E", 1024**3 * GIB),
        ("4096", 4 * GIB),
        ("512K", 512 * 1024),
        ("2147486448Mn", None),
        ("2147486648Mn", None),
        ("18GG", None),
        ("16?", None),
        ("lots", None),
        ("", None),
    ],
)
def test_requested_memory(text: str, size: int | None) -> None:
    n_nodes, n_cpus = pl.Series([2]), pl.Series([8])
    sizes = values.memory_sizes(pl.Series([text]))
    assert values.total_memory(sizes, n_nodes=n_nodes, n_cpus=n_cpus).to_list() == [size]


def test_memory_per_core_of_unknown_cores_is_unknown() -> None:
    nothing = pl.Series([None], dtype=pl.Int64)
    sizes = values.memory_sizes(pl.Series(["1Gc"]))
    assert values.total_memory(sizes, n_nodes=nothing, n_cpus=nothing).to_list() == [None]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("2K", 2048),
        ("1.5K", 1536),
        ("1M", 1024**2),
        ("4294967294", None),
        ("4294967295", None),
        ("x", None),
    ],
)
def test_counts_may_come_scaled_or_as_the_mark_for_unset(text: str, number: int | None) -> None:
    assert values.whole_numbers(pl.Series([text])).to_list() == [number]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0:9", (0, 9)),
        ("127:0", (127, 0)),
        ("15:0", (15, 0)),
        ("0:125", (0, 125)),
        ("", (None, None)),
        ("a", (None, None)),
    ],
)
def test_exit_codes_are_status_and_signal(text: str, code: tuple[int | None, int | None]) -> None:
    assert values.exit_codes(pl.Series([text])).row(0)[:2] == code


@pytest.mark.parametrize(
    ("text", "state", "by", "known"),
    [
        ("COMPLETED", "COMPLETED", None, True),
        ("CANCELLED by 2001", "CANCELLED", "2001", True),
        ("CANCELLED+", "CANCELLED", None, True),
        ("CANCE+", "CANCELLED", None, True),
        ("NODE_F+", "NODE_FAIL", None, True),
        ("OUT_OF_ME+", "OUT_OF_MEMORY", None, True),
        ("COMPLET+", "COMPLETED", None, True),
        ("completed", "COMPLETED", None, True),
        ("timeout*", "TIMEOUT", None, True),
        ("RUNNING,COMPLETING", "RUNNING", None, True),
        ("REVOKED", "REVOKED", None, True),
        ("SPECIAL_EXIT", "SPECIAL_EXIT", None, True),
        ("RE+", "RE", None, False),
        ("foo", "FOO", None, False),
        ("???", None, None, False),
    ],
)
def test_states_without_their_tails(text: str, state: str | None, by: str | None, known: bool) -> None:
    assert values.states(pl.Series([text])).row(0) == (state, by, known)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("9", ("9", None, None, None, None)),
        ("9_3", ("9", 3, None, None, None)),
        ("10_[2-4%2]", ("10", None, "2-4%2", None, None)),
        ("10_[1-10:2]", ("10", None, "1-10:2", None, None)),
        ("10_[1,3,...", ("10", None, "1,3,...", None, None)),
        ("11+1", ("11", None, None, 1, None)),
        ("1000_2+3.1", ("1000", 2, None, 3, "1")),
        ("123.batch", ("123", None, None, None, "batch")),
        ("123.0", ("123", None, None, None, "0")),
        ("123.extern", ("123", None, None, None, "extern")),
        ("123.4294967294", ("123", None, None, None, "4294967294")),
        ("9_4294967294", ("9", None, None, None, None)),
        ("abc", (None, None, None, None, None)),
    ],
)
def test_job_ids_are_parsed(text: str, parts: tuple[object, ...]) -> None:
    assert values.job_ids(pl.Series([text, "1_1"])).row(0) == parts


def test_words_for_nothing_are_null_in_any_case_and_only_whole() -> None:
    column = pl.Series(["Unknown", "none", "N/A", "NA", " NONE ", "", "None assigned", "nonesuch", "Unknown2"])
    assert values.blank_to_null(column).to_list() == [None] * 7 + ["nonesuch", "Unknown2"]


# --- each distinct text is read once ---------------------------------------------------------------------

WORDS = st.sampled_from(["1", "2K", "Unknown", " 8 ", "x", "4294967294", "", "1-00:00:00", "00:10:00", "4Gn", "1:0"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | WORDS, max_size=60), st.sampled_from([0, values.FEW]))
def test_distinct_texts_convert_like_the_column_row_by_row(words: list[str | None], few: int) -> None:
    column = pl.Series("x", words, pl.String)
    known = values.blank_to_null(column)
    for convert in (values.blank_to_null, values.whole_numbers, values.durations):
        expected = convert(column), convert(known)
        with mock.patch.object(values, "FEW", few):
            assert values.Distinct(column).each(convert, as_written=True).equals(expected[0]), convert
            assert values.Distinct(column).each(convert).equals(expected[1]), convert
    for several in (values.states, values.exit_codes, values.memory_sizes):
        tables = _without_null_flags(several(column)), _without_null_flags(several(known))
        with mock.patch.object(values, "FEW", few):
            written = values.Distinct(column).each(several, as_written=True)
            assert _without_null_flags(written).equals(tables[0]), several
            assert _without_null_flags(values.Distinct(column).each(several)).equals(tables[1]), several


def _without_null_flags(table: pl.DataFrame) -> pl.DataFrame:
    """A row without a text has no flag, which counts as false."""
    return table.with_columns(pl.selectors.boolean().fill_null(value=False))


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
    assert values.Distinct(repeated).each(convert).equals(repeated)
    values.Distinct(pl.Series("x", [str(n) for n in range(2000)])).each(convert)
    nothing = pl.Series("x", [None] * 2000, pl.String)
    assert values.Distinct(nothing).each(convert).equals(nothing)
    assert looked_at == [2, 2000, 1]
