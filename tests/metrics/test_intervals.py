"""The interval kernel against brute force, one microsecond at a time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.intervals import merge_equal, overlaps, split_days, sweep, union
from metrics.units import DAY_US

if TYPE_CHECKING:
    import random

Interval = tuple[int, int, int]
"""Lane, start, end; may be empty or inside out."""

intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 15), st.integers(-5, 15)), max_size=8)
LANES, TIMES = range(3), range(-5, 15)


def frame(result: list[Interval], **values: list[int]) -> pl.DataFrame:
    columns = (
        dict(zip(("lane", "started", "ended"), map(list, zip(*result, strict=True)), strict=False)) if result else {}
    )
    data = {name: columns.get(name, []) for name in ("lane", "started", "ended")} | values
    return pl.DataFrame(data, schema=dict.fromkeys(data, pl.Int64))


def covering(result: list[Interval], lane: int, time: int) -> list[int]:
    return [n for n, (where, start, end) in enumerate(result) if where == lane and start <= time < end]


@settings(max_examples=150, deadline=None)
@given(intervals, intervals, st.randoms(use_true_random=False))
def test_sweep_lists_what_covers_each_instant(
    held: list[Interval], down: list[Interval], chance: random.Random
) -> None:
    gpus = [chance.randint(0, 8) for _ in held]
    pieces = sweep([frame(held, gpus=gpus), frame(down, down=[1] * len(down))])
    expected = {
        (lane, time): (sum(gpus[n] for n in covering(held, lane, time)), len(covering(down, lane, time)))
        for lane in LANES
        for time in TIMES
        if covering(held, lane, time) or covering(down, lane, time)
    }
    rows = pieces.rows()
    result = {(lane, time): (g, d) for lane, start, end, g, d in rows for time in range(start, end)}
    assert result == expected
    assert sum(end - start for _, start, end, _, _ in rows) == len(expected)  # no instant twice
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)


@settings(max_examples=60, deadline=None)
@given(intervals, st.randoms(use_true_random=False))
def test_segments_end_only_at_interval_ends_and_merge_again(held: list[Interval], chance: random.Random) -> None:
    gpus = [chance.randint(1, 3) for _ in held]
    pieces = sweep([frame(held, gpus=gpus)])
    edges = {(lane, t) for lane, start, end in held if start < end for t in (start, end)}
    assert {(lane, t) for lane, start, end, _ in pieces.rows() for t in (start, end)} == edges
    merged = merge_equal(pieces)

    def by_instant(table: pl.DataFrame) -> dict[tuple[int, int], int]:
        return {(lane, t): g for lane, start, end, g in table.rows() for t in range(start, end)}

    assert by_instant(merged) == by_instant(pieces)
    neighbours = itertools.pairwise(merged.rows())
    assert not any((a[0], a[2], a[3]) == (b[0], b[1], b[3]) for a, b in neighbours)


@settings(max_examples=150, deadline=None)
@given(intervals, st.integers(0, 4))
def test_a_union_covers_the_same_time_with_gaps_closed(result: list[Interval], gap: int) -> None:
    joined = union(frame(result), gap=gap).rows()
    for lane in LANES:
        covered = [t for t in TIMES if covering(result, lane, t)]
        closed = {t for a, b in itertools.pairwise(covered) if b - a - 1 <= gap for t in range(a, b)}
        expected = closed | set(covered)
        assert {t for where, start, end in joined if where == lane for t in range(start, end)} == expected
    for before, after in itertools.pairwise(joined):
        assert before[0] < after[0] or before[2] + gap < after[1]


@settings(max_examples=100, deadline=None)
@given(intervals, intervals)
def test_overlaps_are_all_pairs_that_share_time_clipped_to_it(left: list[Interval], right: list[Interval]) -> None:
    pairs = overlaps(frame(left, l=list(range(len(left)))), frame(right, r=list(range(len(right)))))
    expected = {
        (n, m, max(a[1], b[1]), min(a[2], b[2]))
        for n, a in enumerate(left)
        for m, b in enumerate(right)
        if a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])
    }
    result = pairs.select("l", "r", "started", "ended").rows()
    assert sorted(result) == sorted(expected)


spans = st.tuples(st.integers(-4 * DAY_US, 4 * DAY_US), st.integers(1, 4 * DAY_US))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(spans, st.sampled_from([(0, DAY_US), (DAY_US - 1, 1), (DAY_US - 1, 2), (-1, 1)])), max_size=6)
)
def test_days_are_split_without_losing_a_microsecond(result: list[tuple[int, int]]) -> None:
    whole = frame([(n, start, start + length) for n, (start, length) in enumerate(result)])
    pieces = split_days(whole)
    length = (pl.col("ended") - pl.col("started")).sum().alias("length")
    per_lane = pieces.group_by("lane").agg(length).sort("lane").rows()
    assert per_lane == whole.group_by("lane").agg(length).sort("lane").rows()
    for _, start, end in pieces.rows():
        assert start // DAY_US == max(start, end - 1) // DAY_US
