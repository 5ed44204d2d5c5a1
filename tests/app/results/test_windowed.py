"""Rows of a window that come from one reading of all windows are those of a query of that window."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from app.results import windowed as results
from app.results.source import CachedSource
from app.results.windowed import SLICES, WindowedSource
from app.results.windows import ledger_sums
from app.window import Window
from queries.warehouse import open_reader
from tests.support.warehouses import from_everything

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.window import RowSource

T = TypeVar("T")
DAYS = 32
MICROSECONDS = DAYS * 86_400_000_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowSource]:
    with open_reader(from_everything(tmp_path_factory.mktemp("windowed"), days=DAYS)) as reader:
        yield reader


@pytest.fixture(scope="module")
def whole(source: RowSource) -> Window:
    computed = source.query("computed", cluster="demo").row(0, named=True)
    return Window("demo", computed["since"], computed["until"])


offsets = st.one_of(
    st.integers(0, MICROSECONDS),
    st.integers(0, DAYS).map(lambda day: day * 86_400_000_000),
    st.sampled_from([0, MICROSECONDS]),
)


def part(whole: Window, ends: tuple[int, int]) -> Window | None:
    low, high = (min(whole.since + timedelta(microseconds=end), whole.until) for end in sorted(ends))
    return Window("demo", low, high) if low < high else None


@pytest.fixture(scope="module")
def windowed(source: RowSource, whole: Window) -> WindowedSource:
    return WindowedSource(source, whole)


@settings(max_examples=25, deadline=None)
@given(ends=st.tuples(offsets, offsets))
@pytest.mark.parametrize("name", sorted({*SLICES, "endings", "exposures"}))
def test_windowed_source_returns_the_rows_of_the_query(
    source: RowSource, windowed: WindowedSource, whole: Window, name: str, ends: tuple[int, int]
) -> None:
    if window := part(whole, ends):
        requested = {"cluster": "demo", "since": window.since, "until": window.until}
        assert_frame_equal(windowed.query(name, **requested), source.query(name, **requested))


@settings(max_examples=25, deadline=None)
@given(ends=st.tuples(offsets, offsets))
@pytest.mark.parametrize("dimension", ["cluster", "run", "node", "day"])
def test_windowed_source_returns_the_ledger_sums_of_the_query(
    source: RowSource, windowed: WindowedSource, whole: Window, dimension: str, ends: tuple[int, int]
) -> None:
    if window := part(whole, ends):
        sums = ledger_sums(windowed, window, dimension)
        assert_frame_equal(sums, ledger_sums(source, window, dimension), check_row_order=False)


@settings(max_examples=25, deadline=None)
@given(ends=st.tuples(offsets, offsets))
@pytest.mark.parametrize("dimension", ["cluster", "day"])
def test_ledger_sums_of_whole_days_are_those_of_rows(
    source: RowSource, whole: Window, dimension: str, ends: tuple[int, int]
) -> None:
    """Sums of days are read as stored; those of nodes are of the ledger's rows, and add up to the same."""
    if window := part(whole, ends):
        kind = ["state", "category", "cause", "evidence"]
        added = pl.col("gpu_seconds").sum()
        sums, rows = (ledger_sums(source, window, each).group_by(kind).agg(added) for each in (dimension, "node"))
        assert_frame_equal(sums, rows, check_row_order=False)


def test_windowed_source_reads_the_ledger_once(source: RowSource, whole: Window) -> None:
    counted = Counted(source)
    windowed = WindowedSource(counted, whole)
    first = whole.since.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for day in range(DAYS - 2):
        for dimension in ("cluster", "run"):
            ledger_sums(windowed, Window("demo", first, first + timedelta(days=day + 1)), dimension)
    assert counted.names == ["day_sums_of_cluster", "ledger_sums_by_day"]


def test_windowed_source_reads_as_many_days_of_runs_as_needed(
    source: RowSource, whole: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_MONTH", 7)
    counted = Counted(source)
    windowed = WindowedSource(counted, whole)
    first = whole.since.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for day in (30, 25, 20, 23, 9, 28):
        ledger_sums(windowed, Window("demo", first + timedelta(days=day), first + timedelta(days=day + 1)), "run")
    last = whole.until.replace(hour=0, minute=0, second=0, microsecond=0)
    read = (last - timedelta(days=7), first + timedelta(days=20), first + timedelta(days=9))
    assert counted.windows == [("demo", since) for since in read]


def test_windowed_source_leaves_what_is_outside_to_the_source(source: RowSource, whole: Window) -> None:
    counted = Counted(source)
    windowed = WindowedSource(counted, whole)
    windowed.query("runs", cluster="another", since=whole.since, until=whole.until)
    windowed.query("runs", cluster="demo", since=whole.since - timedelta(days=1), until=whole.until)
    assert counted.windows == [("another", whole.since), ("demo", whole.since - timedelta(days=1))]


class Counted:
    """A source that counts its queries."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.names: list[str] = []
        self.windows: list[tuple[object, object]] = []

    def query(self, name: str, **params: object) -> pl.DataFrame:
        self.names.append(name)
        self.windows.append((params["cluster"], params.get("since")))
        return self._source.query(name, **params)

    def memo(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        return self._source.memo(key, make)


def test_rows_that_were_let_go_of_are_read_again(source: RowSource, whole: Window) -> None:
    counted = Counted(source)
    cached = CachedSource(WindowedSource(counted, whole), only={"attempts", "exposures"})
    period = {"cluster": "demo", "since": whole.since, "until": whole.until}
    first = cached.query("attempts", **period), cached.query("exposures", **period)
    cached.keep("attempts", first[0].head(0), cluster="another", since=whole.since)
    cached.let_go("exposures")
    assert cached.query("exposures", **period).equals(first[1])
    assert counted.names == ["attempts"]  # exposures are a part of them
    cached.let_go("attempts", "exposures")
    assert cached.query("attempts", cluster="another", since=whole.since).is_empty()
    assert cached.query("attempts", **period).equals(first[0])
    assert cached.query("exposures", **period).equals(first[1])
    assert counted.names == ["attempts"] * 3
