from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.goodput.job import (
    INFRASTRUCTURE_RECOVERY,
    OTHER,
    PROGRAM_STARTUP,
    WASTED_PROGRESS,
    Event,
    JobGoodput,
    job_goodput,
)
from tests.metrics.oracles.step_deviation import ideal_step_s, step_deviation

FIVE = [5.0, 8.0, 11.0, 14.0, 17.0]


def test_golden_1_a_smooth_job() -> None:
    result = job_goodput([0], range(5), FIVE, job_end=20, now=20)
    assert result == JobGoodput(20, 15, {OTHER: 5}, 4, 0)
    assert result.goodput == 0.75


def test_golden_2_a_slow_first_step() -> None:
    result = job_goodput([0], range(5), [5, 13, 16, 19, 22], job_end=25, now=25)
    assert result.goodput == pytest.approx(0.6)
    assert result.badput_s == {PROGRAM_STARTUP: 5, OTHER: 5}


def test_golden_3_a_restart_from_nothing() -> None:
    result = job_goodput([0, 25], [*range(5), 0, 1, 2], [*FIVE, 30, 33, 36], job_end=None, now=38)
    assert result.productive_s == 6
    assert result.goodput == pytest.approx(0.157895, rel=1e-5)
    assert result.badput_s == {INFRASTRUCTURE_RECOVERY: 8, OTHER: 24}
    assert result.disruptions == 1


def test_steps_after_the_checkpoint_are_wasted_and_others_kept() -> None:
    result = job_goodput([0, 25], [*range(5), 2, 3, 4], [*FIVE, 30, 33, 36], job_end=39, now=40)
    assert result.productive_s == 6 + 9
    assert result.badput_s == {WASTED_PROGRESS: 6, INFRASTRUCTURE_RECOVERY: 8, OTHER: 5 + 5}


def test_going_back_before_the_last_segment_wastes_earlier_steps() -> None:
    numbers = [0, 1, 2, 3, 4, 3, 4, 1, 2]
    result = job_goodput([0], numbers, list(range(9)), job_end=9, now=9)
    assert result.disruptions == 2
    # Kept: step 0 of the first segment, and the last segment's two; wasted: three of the first, one of the second.
    assert result.productive_s == 1 + 1 + 1
    assert result.badput_s == {WASTED_PROGRESS: 3 + 1, OTHER: 2}


def test_a_restart_within_the_process_has_no_recovery() -> None:
    result = job_goodput([0], [0, 1, 2, 1, 2], [1, 2, 3, 10, 11], job_end=12, now=12)
    assert INFRASTRUCTURE_RECOVERY not in result.badput_s


def test_events_inside_and_between_steps_have_their_buckets() -> None:
    events: list[Event] = [("init", 0, 4), ("eval", 9, 10), ("checkpoint_save", 12, 13), ("eval", 9.5, 10)]
    result = job_goodput([0], range(5), FIVE, job_end=20, now=20, events=events)
    startup = 3 - (2 + 2 + 3) / 3
    assert result.productive_s == pytest.approx(15 - 1 - 1 - startup)
    assert result.badput_s == pytest.approx(
        {"init": 4, "eval": 1, "checkpoint_save": 1, PROGRAM_STARTUP: startup, OTHER: 1}
    )


def test_non_consecutive_step_numbers_contribute_nothing() -> None:
    result = job_goodput([0], [0, 1, 5, 6], [0, 1, 2, 3], job_end=None, now=3)
    assert result.productive_s == 2


def test_without_any_job_start_no_result() -> None:
    assert job_goodput([], [], [], job_end=None, now=5).goodput is None


def test_a_job_without_steps_is_all_other() -> None:
    assert job_goodput([2], [], [], job_end=None, now=12) == JobGoodput(10, 0, {OTHER: 10}, None, 0)


def test_steps_outside_the_job_are_left_out_and_reported() -> None:
    result = job_goodput([10], [0, 1, 2], [5, 11, 12], job_end=13, now=13)
    assert result.warnings == ["steps outside the job, left out: 1"]
    assert result.productive_s == 2


def test_every_step_number_needs_a_beginning() -> None:
    with pytest.raises(ValueError, match="2 step numbers, but 1 beginnings"):
        job_goodput([0], [0, 1], [0], job_end=None, now=1)


def slowly(job_starts: list[int], steps: list[tuple[int, int]], job_end: int | None, now: int) -> dict[str, float]:
    """Every second of a job by itself: productive seconds before startup is taken out, and the buckets."""
    ended = now if job_end is None else job_end
    result = {"steps": 0.0, WASTED_PROGRESS: 0.0, INFRASTRUCTURE_RECOVERY: 0.0}
    for second in range(min(job_starts), ended):
        before = [at for at, (_, start) in enumerate(steps) if start <= second]
        if not before:
            continue
        at = before[-1]
        number = steps[at][0]
        if at + 1 == len(steps):
            result["steps"] += job_end is not None
            continue
        following = steps[at + 1][0]
        goes_back = [later for k, (later, _) in enumerate(steps) if k > at and later <= steps[k - 1][0]]
        if following <= number:
            restart = [start for start in job_starts if steps[at][1] < start <= steps[at + 1][1]]
            result[INFRASTRUCTURE_RECOVERY] += bool(restart) and second < min(restart)
        elif goes_back and following > min(goes_back):
            result[WASTED_PROGRESS] += min(goes_back) != 0
        else:
            result["steps"] += following == number + 1
    return result


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]], int | None, int]:
    time, number = draw(st.integers(0, 5)), draw(st.integers(0, 2))
    starts, steps = [time], []
    for _ in range(draw(st.integers(0, 12))):
        time += draw(st.integers(1, 6))
        what = draw(st.sampled_from(["step", "step", "step", "back", "skip", "restart"]))
        if what == "restart":
            starts.append(time)
            continue
        number += {"step": 1, "skip": 2, "back": -draw(st.integers(0, 3))}[what]
        number = max(number, 0)
        steps.append((number, time))
    now = time + draw(st.integers(1, 5))
    return starts, steps, draw(st.sampled_from([now, None])), now


@given(jobs())
def test_it_agrees_with_going_second_by_second_and_adds_up(
    job: tuple[list[int], list[tuple[int, int]], int | None, int],
) -> None:
    starts, steps, end, now = job
    result = job_goodput(starts, [n for n, _ in steps], [t for _, t in steps], job_end=end, now=now)
    slow = slowly(starts, steps, end, now)
    assert result.productive_s + result.badput_s.get(PROGRAM_STARTUP, 0) == pytest.approx(slow["steps"])
    for bucket in (WASTED_PROGRESS, INFRASTRUCTURE_RECOVERY):
        assert result.badput_s.get(bucket, 0) == pytest.approx(slow[bucket])
    assert result.productive_s + sum(result.badput_s.values()) == pytest.approx(result.total_s)
    assert min(result.productive_s, *result.badput_s.values()) >= 0


@given(jobs(), st.lists(st.tuples(st.sampled_from(["eval", "init"]), st.integers(0, 60), st.integers(0, 20))))
def test_with_events_it_still_adds_up(
    job: tuple[list[int], list[tuple[int, int]], int | None, int], events: list[tuple[str, int, int]]
) -> None:
    starts, steps, end, now = job
    spans = [(kind, float(begin), float(begin + length)) for kind, begin, length in events]
    result = job_goodput(starts, [n for n, _ in steps], [t for _, t in steps], job_end=end, now=now, events=spans)
    assert result.productive_s + sum(result.badput_s.values()) == pytest.approx(result.total_s)
    assert result.productive_s >= 0


def test_the_ideal_step_leaves_out_hiccups_and_half_steps() -> None:
    assert ideal_step_s(np.array([10, 10.2, 9.8, 10.1, 9.9, 30, 0.5])) == pytest.approx(10.0)


def test_steps_that_are_all_too_short_have_no_ideal() -> None:
    assert ideal_step_s(np.array([0.5, 0.4])) is None
    assert step_deviation(np.array([0.5, 0.4])) is None
    assert ideal_step_s(np.array([0.5, 0.4]), min_s=0) == pytest.approx(0.45)


def test_deviation_is_the_90th_percentile_of_the_last_100_steps() -> None:
    steady = np.full(1_000, 10.0)
    latest = 10.0 + np.tile(np.arange(1, 11) / 1e6, 10)  # deviations 1 to 10 of a millionth, ten times over
    times = np.concatenate([steady, latest])
    expected = np.percentile(np.abs(latest - 10.0), 90)
    assert step_deviation(times) == pytest.approx(expected, rel=1e-3)
    assert step_deviation(times, mode="cumulative") == pytest.approx(expected, rel=1e-3)
    assert np.percentile(np.arange(1, 11), 90) == pytest.approx(9.1)


def test_cumulative_deviation_shows_only_what_became_worse() -> None:
    shaky = np.tile([10.0, 10.0, 10.0, 12.0], 275)  # the median deviation is 0, the 90th percentile 2
    assert step_deviation(shaky[:1_099], mode="cumulative") == step_deviation(shaky[:1_099])
    uneven = np.tile([9.0, 11.0], 550)
    assert step_deviation(uneven, mode="cumulative") == pytest.approx(0.0)
    assert step_deviation(uneven) == pytest.approx(1.0)
