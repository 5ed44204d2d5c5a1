"""Increases of counters in the cells of a grid: what is known, and what is not told."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.node import counters
from ingest.prometheus.node.counters import Counters, grown
from tests.ingest.prometheus.node.slow_counters import GONE, WIDTH, Cell, Reading, slow

if TYPE_CHECKING:
    from collections.abc import Sequence


def fast(*batches: Sequence[tuple[int, Sequence[Reading]]], width: int = WIDTH) -> dict[int, dict[int, Cell]]:
    """Batches of stretches (number of the series, readings), by series and cell."""
    taker = Counters(width)
    result: dict[int, dict[int, Cell]] = defaultdict(dict)
    for batch in batches:
        reported = grown(
            np.array([series for series, _ in batch], np.int64),
            np.array([len(readings) for _, readings in batch], np.int64),
            np.array([at for _, readings in batch for at, _ in readings], np.int64),
            np.array([value for _, readings in batch for _, value in readings], np.float64),
            width_ms=width,
        )
        inside = list(zip(reported.increases.series.tolist(), reported.increases.cells.tolist(), strict=True))
        assert inside == sorted(set(inside))
        rows = list(zip(*(column.tolist() for column in taker.add(reported)), strict=True))
        for series, cell, increase, covered, begin, end in rows:
            old = result[series].get(cell)
            new = Cell(Fraction(increase), covered, begin, end)
            if old is not None:
                new = Cell(old.increase + new.increase, old.covered + covered, min(old.begin, begin), max(old.end, end))
            result[series][cell] = new
    return dict(result)


def same(reported: dict[int, Cell], exact: dict[int, Cell]) -> bool:
    """Whether both know the same times, and the same increases but for rounding."""
    return reported.keys() == exact.keys() and all(
        reported[cell][1:] == exact[cell][1:]
        and math.isclose(reported[cell].increase, exact[cell].increase, rel_tol=1e-9, abs_tol=1e-9)
        for cell in exact
    )


def counted(*readings: tuple[float, float], width: int = WIDTH) -> dict[int, tuple[float, float]]:
    """Increase and covered seconds by cell of one series, whose times are in seconds."""
    result = fast([(0, [(round(at * 1000), value) for at, value in readings])], width=width)
    return {number: (float(cell.increase), cell.covered / 1000) for number, cell in result.get(0, {}).items()}


values = st.one_of(
    st.integers(0, 10**6).map(float), st.floats(0, 1e12), st.sampled_from([0.0, math.nan, math.inf, -math.inf, -1.0])
)
stretches = st.lists(
    st.tuples(st.one_of(st.integers(1, 90_000), st.sampled_from([15_000, 60_000, GONE, GONE + 1, 10**6])), values),
    max_size=30,
).map(lambda reported: [(sum(gap for gap, _ in reported[: n + 1]), value) for n, (_, value) in enumerate(reported)])
widths = st.sampled_from([10_000, 60_000, 3_600_000])


def test_increase_is_split_among_the_cells_it_crosses() -> None:
    assert counted((50, 100), (80, 130)) == {0: (10, 10), 1: (20, 20)}


def test_a_reading_at_the_end_of_a_cell_is_of_that_cell() -> None:
    assert counted((0, 5), (60, 65), (120, 65)) == {0: (60, 60), 1: (0, 60)}


def test_first_reading_gives_no_increase() -> None:
    assert counted((30, 1e9)) == {}


def test_value_below_the_previous_is_the_growth_since_a_restart() -> None:
    assert counted((0, 1000), (30, 1010), (60, 6)) == {0: (16, 60)}


def test_gap_gives_no_values_though_the_counter_went_on() -> None:
    assert counted((0, 0), (30, 30), (30 + GONE_S + 1, 900), (30 + GONE_S + 31, 930)) == {
        0: (30, 30),
        5: (pytest.approx(29), 29),
        6: (pytest.approx(1), 1),
    }


def test_readings_at_the_silence_limit_cover_the_time_between() -> None:
    assert counted((0, 0), (GONE_S, GONE_S)) == dict.fromkeys(range(GONE_S // 60), (60, 60))


def test_a_gap_within_a_cell_is_no_covered_time() -> None:
    assert counted((0, 0), (600, 5), (900, 10), (1500, 0), (1600, 1), width=3_600_000) == {0: (6, 400)}


def test_values_that_no_counter_has_are_left_out_and_counted() -> None:
    times, values = np.arange(6) * 10_000, np.array([0, math.nan, math.inf, -1, 40, 50.0])
    reported = grown(np.array([0]), np.array([6]), times, values, width_ms=WIDTH)
    assert (reported.increases.increase.tolist(), reported.increases.covered_ms.tolist()) == ([50], [50_000])
    assert reported.n_left_out == 3


def test_a_reading_that_comes_twice_counts_once() -> None:
    first = [(0, [(0, 1.0), (30_000, 2.0)])]
    assert fast(first, [(0, [(30_000, 2.0), (60_000, 5.0)])]) == fast(first, [(0, [(60_000, 5.0)])])


def test_intervals_of_a_series_in_one_batch_are_one() -> None:
    whole = fast([(0, [(0, 0.0), (10_000, 10.0), (20_000, 30.0)]), (1, [(0, 0.0), (5_000, 1.0)])])
    parts = [(0, [(10_000, 10.0), (20_000, 30.0)]), (1, [(0, 0.0), (5_000, 1.0)]), (0, [(0, 0.0)])]
    assert fast(parts) == whole


def test_empty_batch_gives_no_rows() -> None:
    assert fast([], [(0, [])], [(3, [(0, 1.0)])]) == {}


@given(stretches, widths)
def test_cells_equal_those_of_plain_python(readings: list[Reading], width: int) -> None:
    assert same(fast([(0, readings)], width=width).get(0, {}), slow(readings, width))


@given(st.lists(stretches, max_size=6))
def test_series_do_not_touch_each_other(series: list[list[Reading]]) -> None:
    reported = fast(list(enumerate(series)))
    assert all(same(reported.get(number, {}), slow(readings)) for number, readings in enumerate(series))


@given(stretches, widths)
def test_what_cells_grew_is_what_the_counter_grew(readings: list[Reading], width: int) -> None:
    good = [(at, Fraction(value)) for at, value in readings if math.isfinite(value) and value >= 0]
    pairs = [(low, high) for low, high in itertools.pairwise(good) if high[0] - low[0] <= GONE]
    grown = sum((high[1] - low[1] if high[1] >= low[1] else high[1] for low, high in pairs), Fraction(0))
    reported = fast([(0, readings)], width=width).get(0, {}).values()
    assert math.isclose(sum(cell.increase for cell in reported), grown, rel_tol=1e-9, abs_tol=1e-6)
    assert sum(cell.covered for cell in reported) == sum(high[0] - low[0] for low, high in pairs)


@given(stretches, st.lists(st.integers(0, 30), max_size=4), widths)
def test_how_readings_are_cut_into_batches_does_not_matter(
    readings: list[Reading], cuts: list[int], width: int
) -> None:
    ends = [0, *sorted(cuts), len(readings)]
    batches = [[(0, readings[low:high])] for low, high in itertools.pairwise(ends)]
    assert same(fast(*batches, width=width).get(0, {}), slow(readings, width))


@given(stretches, st.lists(st.integers(0, 40), max_size=4))
def test_cells_of_an_interval_need_only_readings_within_limits(readings: list[Reading], cuts: list[int]) -> None:
    """The limit is how long a series may be silent."""
    ends = [0, *sorted({cut for cut in cuts if cut}), 10**6]
    result: dict[int, Cell] = {}
    for low, high in itertools.pairwise(ends):
        near = [one for one in readings if low * WIDTH - GONE < one[0] <= high * WIDTH + GONE]
        reported = fast([(0, near)]).get(0, {})
        result |= {cell: known for cell, known in reported.items() if low <= cell < high}
    assert same(result, slow(readings))


@settings(max_examples=20, deadline=None)
@given(st.lists(stretches, min_size=1, max_size=6), st.integers(1, 8))
def test_blocks_of_any_size_give_the_same(series: list[list[Reading]], size: int) -> None:
    whole = fast(list(enumerate(series)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counters, "BLOCK", size)
        assert fast(list(enumerate(series))) == whole
