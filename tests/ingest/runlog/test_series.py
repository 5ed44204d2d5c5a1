"""Logged values to steps: which names mean what, and the steps between two logged ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.runlog.series import Names, Point, ProcessSteps, point

T = 1_790_812_800.0


def lines(*points: Point, tokens: float | None = None) -> list[dict[str, Any]]:
    steps = ProcessSteps(tokens)
    return [json.loads(line) for each in points for line in steps.of(each)]


def spans(*points: Point) -> list[tuple[int, float, float | None]]:
    return [(line["step"], line["t"] - T, line.get("duration_s")) for line in lines(*points)]


def test_steps_between_two_logged_ones_share_their_time() -> None:
    assert spans(Point(10, T), Point(14, T + 8)) == [(10, 0, None), (11, 0, 2), (12, 2, 2), (13, 4, 2), (14, 6, 2)]


def test_a_logged_step_time_ends_at_the_logged_time() -> None:
    assert spans(Point(10, T, step_time=1.5), Point(12, T + 8, step_time=1.5)) == [
        (10, -1.5, 1.5),
        (11, 5, 1.5),
        (12, 6.5, 1.5),
    ]


def test_a_step_time_that_does_not_fit_is_cut() -> None:
    assert spans(Point(1, T), Point(2, T + 1, step_time=30)) == [(1, 0, None), (2, 0, 1)]


def test_a_pause_is_no_step() -> None:
    regular = [Point(step, T + step) for step in range(20)]
    assert spans(*regular, Point(20, T + 1019))[-1] == (20, 1018, 1)


def test_a_step_number_that_goes_back_begins_anew() -> None:
    assert spans(Point(10, T), Point(12, T + 4), Point(11, T + 9), Point(12, T + 10))[3:] == [(11, 9, None), (12, 9, 1)]


def test_step_that_another_writer_logs_counts_once() -> None:
    """Also where its row comes behind one of a later step."""
    first, second = ([Point(step, T + 4 * step + late) for step in range(5)] for late in (0, 0.5))
    assert spans(*first[:4], *second[:3], first[4], *second[3:]) == [
        (0, 0, None),
        (1, 0, 4),
        (2, 4, 4),
        (3, 8, 4),
        (4, 12, 4),
    ]


def test_first_steps_that_several_writers_log_count_once() -> None:
    points = [Point(step, T + 4 * step + late) for step in range(4) for late in (0, 0.5, 0.6)]
    steps = ProcessSteps()
    steps.look_ahead(points)
    assert [json.loads(line)["step"] for each in points for line in steps.of(each)] == [0, 1, 2, 3]
    assert steps.n_repeated == 8


def test_more_steps_than_the_time_holds_are_not_invented() -> None:
    regular = [Point(step, T + 2 * step) for step in range(10)]
    assert spans(*regular, Point(5000, T + 20), Point(11, T + 22))[10:] == [(5000, 18, 2), (11, 22, None)]


def test_fast_steps_that_are_executed_again_count() -> None:
    """Epochs of 20 steps of 20 ms that are numbered from 0, and 5 steps of 0.1 s behind a checkpoint."""
    epochs = [Point(n % 20, T + 0.02 * n) for n in range(1000)]
    assert len(spans(*epochs)) == 1000
    again = [Point(step, T + 0.1 * n) for n, step in enumerate((*range(100), *range(95, 100)))]
    assert len(spans(*again)) == 105
    slow = [Point(n % 2, T + 60 * min(n, 1) + 0.1 * n) for n in range(20)]
    assert len(spans(*slow)) == 20


def test_steps_that_become_faster_count_between_logged_ones() -> None:
    slow = [Point(step, T + 12 * step) for step in range(1, 7)]
    assert len(spans(*slow, *(Point(6 + 100 * n, T + 72 + 100 * n) for n in range(1, 4)))) == 306


def test_steps_beyond_doubt_count_where_they_go_on() -> None:
    """A thousand times as fast is doubted once, not for ever."""
    slow = [Point(step, T + 100 * step) for step in range(4)]
    assert len(spans(*slow, *(Point(3 + 100 * n, T + 300 + n) for n in range(1, 4)))) == 4 + 1 + 100 + 100


def test_numbers_with_gaps_of_their_own_have_no_steps_between() -> None:
    assert spans(Point(3, T), Point(5, T + 2, between=False)) == [(3, 0, None), (5, 0, 2)]


def test_tokens_so_far_are_those_of_a_step() -> None:
    points = Point(10, T, total_tokens=1000), Point(12, T + 2, total_tokens=1600)
    assert [line.get("tokens") for line in lines(*points)] == [None, 300, 300]
    assert [line.get("tokens") for line in lines(Point(1, T), tokens=64)] == [64]


def test_stated_names_go_before_known_ones() -> None:
    names = Names({"loss_key": "nll"})
    assert names.chosen({"nll": 1.0, "train/loss": 2.0, "Train/Step_Time": 3}) == {"loss_key": 1.0, "step_time_key": 3}


def test_of_several_names_the_first_known_counts() -> None:
    assert Names({}).chosen({"loss": 1.0, "train/loss": 2.0}) == {"loss_key": 2.0}


@pytest.mark.parametrize("values", [{"eval/loss": 1.0}, {"train/global_step": 3}, {"step_time": "soon"}, {}])
def test_values_of_no_training_step_are_none(values: dict[str, Any]) -> None:
    assert point(Names({}).chosen(values), 1, T) is None


def test_a_loss_that_is_not_a_number_leaves_the_step() -> None:
    made = point(Names({}).chosen({"loss": float("nan"), "step_time_ms": 250}), 7, T)
    assert made == Point(7, T, loss=None, step_time=0.25, between=False)


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.floats(0, 1000), st.none() | st.floats(0.001, 100)), min_size=1, max_size=20
    )
)
def test_steps_end_at_logged_times_and_never_overlap(
    rows: list[tuple[int, float, float | None]],
) -> None:
    moment, before, logged = T, None, set[int]()
    steps = ProcessSteps()
    for step, later, took in rows:
        moment += later
        made = [json.loads(line) for line in steps.of(Point(step, moment, step_time=took))]
        assert made or step in logged  # one that was logged a moment ago counts once
        logged.add(step)
        if not made:
            continue
        assert made[-1]["step"] == step
        assert made[-1]["t"] + made[-1].get("duration_s", 0) == pytest.approx(moment, abs=1e-3)
        if before is not None and len(made) > 1:
            assert made[0]["t"] >= before - 1e-3
        before = moment


def test_rows_of_litgpts_micro_batches_are_one_step() -> None:
    """LitGPT logs each micro-batch with the steps that are done: the first row of a number is the end of that step."""
    names, rows = Names({}), []
    for n in range(1, 13):
        row = {
            "iter": n,
            "step": n // 4,
            "trainer/global_step": n - 1,
            "iter_time": 0.5,
            "loss": 2.5,
            "total_tokens": 8 * n,
        }
        rows.append(point(names.chosen(row), n - 1, T + n))
    points = [one for one in rows if one is not None]
    assert len(points) == 9  # none before the first step is done
    assert [(line["step"], line["t"] - T, line.get("tokens")) for line in lines(*points)] == [
        (1, 4, None),
        (2, 4, 32),
        (3, 8, 32),
    ]
