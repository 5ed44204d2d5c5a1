"""The straggling overlay: cases by hand, the published numbers, and a slow twin."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ledger.straggling import straggling
from metrics.runs.steps import StepRules, executions_of_steps, match_sessions, with_runs
from tests.metrics.oracles.step_deviation import ideal_step_s
from tests.metrics.oracles.straggling import SCORE, straggler_score, waste
from tests.metrics.tables import rows

DAY = 86_400
EPOCH = datetime(2026, 3, 2, tzinfo=UTC)
KEY = {"cluster": "c", "scheduler": "slurm", "job_id": "7", "submitted_at": EPOCH}

Found = dict[date, float]


def executed(times: list[float], *, begin: float = 0, kept: list[bool] | None = None) -> pl.DataFrame:
    """Steps one after the other, of the given own times."""
    ends = np.cumsum([begin, *times])
    return pl.DataFrame(
        {
            "session": 0,
            "begin": [round((EPOCH.timestamp() + t) * 1e6) for t in ends[:-1]],
            "reach": [round((EPOCH.timestamp() + t) * 1e6) for t in ends[1:]],
            "own_s": [float(t) for t in times],
            "kept": kept or [True] * len(times),
        },
        schema={"session": pl.UInt32, "begin": pl.Int64, "reach": pl.Int64, "own_s": pl.Float64, "kept": pl.Boolean},
    ).with_columns(**{name: pl.lit(value) for name, value in KEY.items()})


def shares(result: pl.DataFrame) -> Found:
    assert dict(result.schema) == frames.STRAGGLING
    return dict(zip(result["day"], result["share"], strict=True))


@pytest.mark.parametrize(
    ("slowdown", "wasted"), [(1, 0.0), (1.1, 0.0909), (1.27, 0.2126), (1.28, 0.2188), (3.04, 0.6711)]
)
def test_waste_is_as_published(slowdown: float, wasted: float) -> None:
    assert round(waste(slowdown), 4) == wasted


def test_a_section_at_0_591_of_the_fastest_straggles() -> None:
    assert straggler_score(1 / 0.591, 1) == pytest.approx(0.591)
    assert straggler_score(1 / 0.591, 1) < SCORE < straggler_score(1 / 0.8, 1)


def test_nonsense_is_refused() -> None:
    for slowdown in (0.9, float("nan")):
        with pytest.raises(ValueError, match="at least 1"):
            waste(slowdown)
    with pytest.raises(ValueError, match="compared"):
        straggler_score(0, 1)


def test_step_time_beyond_the_ideal_counts_from_a_tenth_on() -> None:
    times = [10.0] * 20 + [10.9, 11.0, 30.0]
    ideal = ideal_step_s(np.array(times))
    assert ideal == 10.0
    assert shares(straggling(executed(times))) == {date(2026, 3, 2): pytest.approx((1 + 20) / sum(times))}


def test_what_was_undone_does_not_straggle() -> None:
    kept = [True] * 20 + [False]
    assert shares(straggling(executed([10.0] * 20 + [30.0], kept=kept))) == {date(2026, 3, 2): 0.0}


def test_the_first_step_of_a_session_is_start_up() -> None:
    assert shares(straggling(executed([60.0, *[10.0] * 20]))) == {date(2026, 3, 2): 0.0}


def test_a_step_across_midnight_is_shared_out() -> None:
    times = [10.0] * 9 + [40.0]
    result = shares(straggling(executed(times, begin=DAY - 100)))
    assert result == {
        date(2026, 3, 2): pytest.approx(30 * 0.25 / 100),
        date(2026, 3, 3): 30 / 40,
    }


def test_steps_too_short_for_an_ideal_are_ignored() -> None:
    assert straggling(executed([0.2] * 9 + [0.9])).is_empty()


def test_saving_and_waiting_for_data_are_no_straggling() -> None:
    """Every fifth step is followed by 20 s of saving or waiting, which an event names."""
    steps = [(n, 15 * n + 20 * (n // 5)) for n in range(40)]
    events = [("checkpoint_save" if n % 2 else "data", begin - 20, begin) for n, begin in steps[5::5]]
    named = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7"}

    def at(second: float) -> datetime:
        return EPOCH + timedelta(seconds=second)

    ran = rows(frames.ATTEMPTS, KEY | {"started_at": at(0), "ended_at": at(900), "state": "COMPLETED"})
    sessions = rows(frames.SESSIONS, named | {"started_at": at(0), "ended_at": at(890)})
    matched = with_runs(
        match_sessions(sessions, ran), rows(frames.RUN_ATTEMPTS, KEY | {"run_id": "r", "attempt_no": 1})
    )
    done = executions_of_steps(
        rows(frames.STEPS, *(named | {"step": n, "ts": at(begin), "duration_s": 14.0} for n, begin in steps)),
        matched,
        rows(
            frames.RUN_EVENTS,
            *(named | {"kind": kind, "ts": at(a), "ended_at": at(b), "blocking": True} for kind, a, b in events),
        ),
        StepRules(),
    )
    assert shares(straggling(done)) == {date(2026, 3, 2): 0.0}


def test_nothing_in_nothing_out() -> None:
    result = straggling(executed([]))
    assert result.is_empty()
    assert dict(result.schema) == frames.STRAGGLING


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=12), max_size=3),
    st.integers(0, DAY),
)
def test_the_slow_reading_agrees(sessions: list[list[tuple[int, bool]]], begin: int) -> None:
    made = []
    for number, steps in enumerate(sessions):
        one = executed([t for t, _ in steps], begin=begin + 1000 * number, kept=[kept for _, kept in steps])
        made.append(one.with_columns(session=pl.lit(number, dtype=pl.UInt32)))
    result = straggling(pl.concat([executed([]), *made]))
    assert shares(result) == pytest.approx(_slow(sessions, begin))
    assert result["share"].is_between(0, 1).all()


def _slow(sessions: list[list[tuple[int, bool]]], begin: int) -> Found:
    over: Counter[date] = Counter()
    time: Counter[date] = Counter()
    for number, steps in enumerate(sessions):
        ideal = ideal_step_s(np.array([float(t) for t, _ in steps]))
        now = begin + 1000 * number
        for place, (length, kept) in enumerate(steps):
            straggles = place > 0 and ideal is not None and length >= 1.1 * ideal
            for second in range(now, now + length):
                day = (EPOCH + timedelta(seconds=second)).date()
                if kept:
                    time[day] += 1
                    over[day] += (length - (ideal or 0)) / length if straggles else 0  # type: ignore[assignment]  # Counter counts parts, too
            now += length
    return {day: over[day] / time[day] for day in time}
