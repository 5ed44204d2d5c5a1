"""When GPUs were active: cases by hand, the slow twin, and the laws."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.telemetry.activity_intervals import activity_intervals
from metrics.telemetry.sample_grid import inactive
from tests.metrics.telemetry import slow_activity as slow
from tests.metrics.telemetry.slow_activity import HOUR, Interval, RollUp, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = datetime(2026, 3, 1, 22, tzinfo=UTC)  # two hours before a midnight, so that days are cut
MIDNIGHT = 2 * HOUR
TICK_S = 30
ALL = (0, 5 * HOUR)
IDLE = inactive(0.02, 0.1, 0.1)
_SAMPLES = {
    "node": frames.TEXT,
    "gpu": frames.TEXT,
    "ts": frames.TIME,
    "interval_s": pl.Float32(),
    "tensor_active": pl.Float32(),
    "gr_engine_active": pl.Float32(),
    "gpu_util": pl.Float32(),
}
_HOURS = {
    "node": frames.TEXT,
    "gpu": frames.TEXT,
    "ts": frames.TIME,
    "interval_s": pl.Float64(),
    "active_share": pl.Float64(),
}


def at(tick: int) -> datetime:
    return EPOCH + timedelta(seconds=TICK_S * tick)


def us(tick: int) -> int:
    return round(at(tick).timestamp() * 1e6)


def samples_table(samples: Sequence[Sample]) -> pl.DataFrame:
    rows = [("n", s.gpu, at(s.at), TICK_S * s.lasts, None if s.active is None else 0.5 * s.active, None, None)
            for s in samples]  # fmt: skip
    return pl.DataFrame(rows, schema=_SAMPLES, orient="row", strict=False)


def hours_table(hours: Sequence[RollUp]) -> pl.DataFrame:
    rows = [("n", r.gpu, at(r.hour * HOUR), float(TICK_S * r.known), r.share) for r in hours]
    return pl.DataFrame(rows, schema=_HOURS, orient="row")


def intervals(
    samples: Sequence[Sample], hours: Sequence[RollUp] = (), since: int = ALL[0], until: int = ALL[1]
) -> list[Interval]:
    """Intervals of activity, those that midnight cuts joined again."""
    days = [
        (samples_table([s for s in samples if late == (s.at >= MIDNIGHT)]),
         hours_table([r for r in hours if late == (r.hour * HOUR >= MIDNIGHT)]))
        for late in (True, False)
    ]  # fmt: skip
    result = pl.concat(list(activity_intervals(days, IDLE, since_us=us(since), until_us=us(until))))
    assert frames.conform(result.with_columns(cluster=pl.lit("c")), frames.ACTIVITY).height == result.height
    return joined([interval_of(row) for row in result.sort("gpu", "started_at").iter_rows(named=True)])


def interval_of(row: dict[str, object]) -> Interval:
    start, end, longest = row["started_at"], row["ended_at"], row["interval_s"]
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    ticks = [(moment - EPOCH) / timedelta(seconds=TICK_S) for moment in (start, end)]
    assert all(tick == int(tick) for tick in ticks)
    assert isinstance(row["active_share"], float)
    length = longest / TICK_S if isinstance(longest, float) else None
    return Interval(str(row["gpu"]), int(ticks[0]), int(ticks[1]), row["active_share"], length)  # type: ignore[arg-type]  # half a tick shows as such


def joined(result: list[Interval]) -> list[Interval]:
    """With the samples' intervals of one state as one that the first sample after midnight begins a new interval of."""
    whole: list[Interval] = []
    cut = {
        gpu: min((each.start for each in result if each.gpu == gpu and each.start >= MIDNIGHT), default=None)
        for gpu in {each.gpu for each in result}
    }
    for each in result:
        before = whole[-1] if whole else None
        if (
            before is not None
            and before.longest is not None
            and each.longest is not None
            and (before.gpu, before.end, before.share) == (each.gpu, each.start, each.share)
            and each.start == cut[each.gpu]
        ):
            whole[-1] = Interval(each.gpu, before.start, each.end, each.share, max(before.longest, each.longest))
        else:
            whole.append(each)
    return whole


def steady(gpu: str, start: int, end: int, active: int | None, step: int = 2) -> list[Sample]:
    return [Sample(gpu, tick, step, active) for tick in range(start, end, step)]


def test_activity_intervals_are_of_one_state_and_end_at_gaps() -> None:
    samples = steady("0", 0, 10, 1) + steady("0", 10, 20, 0) + steady("0", 24, 30, 1)
    assert intervals(samples) == [
        Interval("0", 0, 10, 1.0, 2), Interval("0", 10, 20, 0.0, 2), Interval("0", 24, 30, 1.0, 2),
    ]  # fmt: skip


def test_activity_interval_ends_where_the_next_sample_begins() -> None:
    assert intervals([Sample("0", 0, 8, 1), Sample("0", 4, 2, 0)]) == [
        Interval("0", 0, 4, 1.0, 8), Interval("0", 4, 6, 0.0, 2),
    ]  # fmt: skip


def test_sample_activity_across_midnight_is_cut_by_the_next_day() -> None:
    late = [Sample("0", MIDNIGHT - 2, 10, 1), Sample("0", MIDNIGHT + 4, 2, 0)]
    assert intervals(late) == [Interval("0", MIDNIGHT - 2, MIDNIGHT + 4, 1.0, 10),
                               Interval("0", MIDNIGHT + 4, MIDNIGHT + 6, 0.0, 2)]  # fmt: skip


def test_activity_of_an_hour_with_other_samples_is_its_roll_ups() -> None:
    """Samples of power alone do not show activity: they neither fill an hour nor end a sample that does."""
    hours = [RollUp("0", 1, HOUR, 0.25)]
    samples = [Sample("0", 0, 10, 1), *steady("0", 4, 2 * HOUR, None)]
    assert intervals(samples, hours) == [Interval("0", 0, 10, 1.0, 10), Interval("0", HOUR, 2 * HOUR, 0.25, None)]


def test_activity_is_unknown_where_a_value_is_no_number() -> None:
    """A tensor activity that is not a number counts as missing: utilisation decides."""
    rows = samples_table(steady("0", 0, 4, 1)).with_columns(
        tensor_active=pl.lit(float("nan"), dtype=pl.Float32), gpu_util=pl.Series([0.0, 0.5], dtype=pl.Float32)
    )
    (result,) = activity_intervals([(rows, hours_table([]))], IDLE, since_us=us(0), until_us=us(100))
    assert result["active_share"].to_list() == [0.0, 1.0]


def test_activity_of_a_duplicate_sample_counts_once() -> None:
    once = [*steady("0", 0, 4, 1), Sample("0", 4, 2, 0)]
    assert intervals([*once, *once[::-1]]) == intervals(once)


@pytest.mark.parametrize("since", [HOUR, HOUR + 10])
def test_activity_in_a_window_is_the_whole_cut_at_its_begin(since: int) -> None:
    """A sample of an hour with a roll-up counts for nothing, also for a window that begins after that hour."""
    samples = [Sample("0", HOUR - 10, 40, 1)]
    assert intervals(samples, [RollUp("0", 0, HOUR, 0.5)], since=since) == []
    assert intervals(samples, since=since) == [Interval("0", since, HOUR + 30, 1.0, 40)]


# --- the slow twin, and laws


@st.composite
def readings(draw: st.DrawFn) -> tuple[list[Sample], list[RollUp]]:
    samples, hours = [], []
    for gpu in "01":
        step = draw(st.sampled_from([1, 2, 2, 20, 60, 120]))
        tick = draw(st.integers(0, 2 * HOUR))
        end = draw(st.integers(tick, 5 * HOUR))
        chance = draw(st.randoms(use_true_random=False))
        active: int | None = 1
        while tick < end:
            fate = chance.randrange(20)
            if fate < 3:
                active = [1, 0, None][fate]
            lasts = {3: step * 2, 4: max(step // 2, 1), 5: 1}.get(fate, step)
            samples.append(Sample(gpu, tick, min(lasts, HOUR), active))
            tick += step + (chance.randrange(HOUR) if fate == 6 else 0)
        shares = st.sampled_from([None, 0.0, 0.25, 1.0])
        hours += [
            RollUp(gpu, hour, draw(st.sampled_from([HOUR, HOUR, 118, 117, 60])), draw(shares))
            for hour in draw(st.sets(st.integers(0, 4)))
        ]
    return samples, hours


@settings(max_examples=60, deadline=None)
@given(readings(), st.integers(0, 3 * HOUR), st.integers(1, 5 * HOUR))
@example(([Sample("0", MIDNIGHT - 60, 120, 1)], [RollUp("0", 2, 118, 0.25)]), 0, 5 * HOUR)
@example(([Sample("0", 0, 118, 1)], [RollUp("0", 0, HOUR, 0.25)]), 0, 5 * HOUR)
def test_activity_intervals_agree_with_the_slow_twin(
    made: tuple[list[Sample], list[RollUp]], since: int, length: int
) -> None:
    samples, hours = made
    until = min(since + length, 5 * HOUR)
    assert intervals(samples, hours, since, until) == slow.intervals(samples, hours, since, until)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(readings(), st.randoms(use_true_random=False), st.integers(1, 5 * HOUR - 1))
def test_activity_intervals_need_no_order_and_windows_add_up(
    made: tuple[list[Sample], list[RollUp]], chance: object, cut: int
) -> None:
    samples, hours = made
    whole = intervals(samples, hours)
    mixed = list(samples)
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis hands over a random.Random
    assert intervals(mixed, hours[::-1]) == whole
    parts = [*intervals(samples, hours, until=cut), *intervals(samples, hours, since=cut)]
    for share in {each.share for each in whole}:
        sums = [sum(each.end - each.start for each in some if each.share == share) for some in (whole, parts)]
        assert sums[0] == sums[1]
