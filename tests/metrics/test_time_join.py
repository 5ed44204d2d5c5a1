"""Pairs of rows near each other in time at one place: the same as trying all pairs."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.frames import TEXT, TIME
from metrics.time_join import nearby, prefiltered
from tests.metrics.tables import START

Moments = list[tuple[str, int | None]]
_moments = st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.integers(-3000, 3000)), max_size=12)
_window = st.sampled_from([0, 1, 5, 60, 600])


def moments(result: Moments, at: str, number: str) -> pl.DataFrame:
    """Rows at a place so many seconds after `START`; None has no time."""
    rows = [
        (place, None if second is None else START + timedelta(seconds=second), row)
        for row, (place, second) in enumerate(result)
    ]
    return pl.DataFrame(rows, schema={"node": TEXT, at: TIME, number: pl.Int64()}, orient="row")


@settings(max_examples=100, deadline=None)
@given(_moments, _moments, _window, _window)
def test_what_is_near_is_what_trying_all_pairs_finds(many: Moments, few: Moments, before: int, after: int) -> None:
    left, right = moments(many, "ended", "i"), moments(few, "ts", "j")
    result = nearby(left, right, of="ended", at="ts", by=["node"], before_s=before, after_s=after)
    expected = [
        (i, j)
        for i, (place, end) in enumerate(many)
        for j, (other, ts) in enumerate(few)
        if place == other and end is not None and ts is not None and -before <= ts - end <= after
    ]
    assert sorted(result.select("i", "j").rows()) == sorted(expected)


@settings(max_examples=100, deadline=None)
@given(_moments, _moments, _window, _window)
def test_rows_at_some_time_hold_all_that_is_near(many: Moments, few: Moments, before: int, after: int) -> None:
    left, right = moments(many, "ended", "i"), moments(few, "ts", "j")
    near = nearby(left, right, of="ended", at="ts", by=["node"], before_s=before, after_s=after)
    some = prefiltered(left, right, of="ended", at="ts", before_s=before, after_s=after)
    assert set(near["i"]) <= set(some["i"]) <= set(left.drop_nulls("ended")["i"])
    assert some["i"].is_unique().all()
    widest = before + after + max(before, after, 1)
    times = [second for _, second in few if second is not None]
    ended = {i: second for i, (_, second) in enumerate(many) if second is not None}
    assert all(any(abs(ended[i] - ts) <= widest + 1 for ts in times) for i in some["i"]), "far from all of them"
