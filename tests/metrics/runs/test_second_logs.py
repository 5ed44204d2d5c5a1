"""Two logs of one process count once: random processes, of which a second logger saw nearly the same."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.runs.second_logs import one_log_per_process
from tests.metrics.tables import rows

EPOCH = datetime(2026, 3, 2, tzinfo=UTC)
NAMES = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7"}
SESSIONS = frames.SESSIONS | {"origin": pl.String()}

Logged = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def at(second: float) -> datetime:
    return EPOCH + timedelta(seconds=second)


def recorded(seed: int) -> Logged:
    """Sessions and steps of several processes, each resuming before the last step of the one before."""
    chance = random.Random(seed)
    sessions, steps, now, first = [], [], 0.0, 0
    for restart in range(chance.randint(1, 4)):
        began = now
        now += chance.uniform(1, 3)
        count = chance.randint(1, 12)
        for step in range(first, first + count):
            took = chance.uniform(0.3, 0.5)
            steps.append(NAMES | {"step": step, "ts": at(now), "duration_s": took, "tokens": 100.0})
            now += took + chance.uniform(0, 0.02)
        sessions.append(session("run.jsonl", began, now, restart))
        first = max(0, first + count - chance.randint(0, 3))
        now += chance.uniform(0.05, 5)
    return sessions, steps


def session(origin: str, began: float, ended: float, restart: int) -> dict[str, Any]:
    times = {"started_at": at(began), "ended_at": at(ended), "read_at": at(1e6)}
    return NAMES | times | {"origin": origin, "restart_count": restart, "n_gpus": 16}


def second_log(logged: Logged, seed: int) -> Logged:
    """The same processes by another logger: a file each, a little later, without tokens or durations of its own."""
    chance = random.Random(seed)
    sessions, steps = logged
    seen = []
    for number, one in enumerate(sessions):
        own = [row for row in steps if one["started_at"] <= row["ts"] <= one["ended_at"]]
        own = own[: len(own) - chance.randint(0, len(own) // 2)]
        before = one["started_at"]
        for row in own:
            end = row["ts"] + timedelta(seconds=row["duration_s"] + chance.uniform(0, 0.005))
            seen.append(row | {"ts": before, "duration_s": (end - before).total_seconds(), "tokens": None, "loss": 2.0})
            before = end
        late = timedelta(seconds=chance.uniform(0, 0.05))
        ended = {"started_at": one["started_at"] + late, "ended_at": before + late + late}
        sessions = [*sessions, one | ended | {"origin": f"{number}.wandb", "n_gpus": None, "gpu_model": "H100"}]
    return sessions[-len(logged[0]) :], seen


def once(logs: list[Logged]) -> Logged:
    sessions, steps = one_log_per_process(
        rows(SESSIONS, *(row for log in logs for row in log[0])),
        rows(frames.STEPS, *(row for log in logs for row in log[1])),
    )
    return sessions.sort("started_at").to_dicts(), steps.sort("ts", "step").to_dicts()


@given(seed=st.integers(0, 10_000), wandb_first=st.booleans())
def test_two_logs_count_once(seed: int, *, wandb_first: bool) -> None:
    log = recorded(seed)
    second = second_log(log, seed)
    sessions, steps = once([second, log] if wandb_first else [log, second])
    alone, own = once([log])
    assert [row["step"] for row in steps] == [row["step"] for row in own]
    assert sum(row["tokens"] for row in steps) == sum(row["tokens"] for row in own)
    assert [row["duration_s"] for row in steps] == pytest.approx([row["duration_s"] for row in own], abs=0.01)
    assert [row["started_at"] for row in sessions] == [row["started_at"] for row in alone]
    assert {(row["n_gpus"], row["gpu_model"]) for row in sessions} == {(16, "H100")}


@given(st.integers(0, 10_000))
def test_one_log_stays_as_it_is(seed: int) -> None:
    log = recorded(seed)
    sessions, steps = rows(SESSIONS, *log[0]), rows(frames.STEPS, *log[1])
    same = one_log_per_process(sessions, steps)
    assert same[0].equals(sessions)
    assert same[1].equals(steps)


def test_a_restart_that_begins_before_the_old_log_ends_is_one() -> None:
    step = {"step": 1, "ts": at(5), "duration_s": 1.0}
    log = ([session("a", 0, 20, 0), session("b", 19, 40, 1)], [NAMES | step, NAMES | step | {"ts": at(25)}])
    sessions, steps = once([log])
    assert len(sessions) == len(steps) == 2
