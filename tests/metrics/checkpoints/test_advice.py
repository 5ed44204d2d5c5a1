"""Checkpoint advice: golden intervals, the loss behind them, what logs tell, and what cannot be told."""

from __future__ import annotations

import math
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from metrics import frames, theory
from metrics.checkpoints.advice import (
    Rate,
    best_interval_s,
    checkpoint_advice,
    held_time,
    logged_saves,
    loss_share,
    restart_overheads,
)
from metrics.runs.steps import StepRules, executions_of_steps, match_sessions, with_runs
from tests.metrics.oracles import theory as oracle
from tests.metrics.tables import at, attempt, attempts, joined, rows

MINUTE = 60.0
DAY_S = 86_400.0
M_S = 185.58 * MINUTE
"""MTTF of the golden intervals (definitions 9.4)."""


def rate_of(mttf_s: float, gpus: float = 1.0, factor: float = 1.5) -> Rate:
    """A rate at which a job of so many GPUs has this MTTF, with an interval of a factor to both sides."""
    value = DAY_S / mttf_s / gpus
    return Rate(value, value / factor, value * factor)


def run(**more: object) -> dict[str, Any]:
    return {
        "cluster": "c",
        "run_id": "r",
        "n_gpus": 1.0,
        "held_gpu_s": 1e6,
        "n_checkpoints": 10,
        "interval_s": 3600.0,
        "write_s": 10.0,
        "restart_s": 300.0,
    } | more


SCHEMA = {
    "cluster": pl.String(),
    "run_id": pl.String(),
    "n_gpus": pl.Float64(),
    "held_gpu_s": pl.Float64(),
    "n_checkpoints": pl.Int64(),
    "interval_s": pl.Float64(),
    "write_s": pl.Float64(),
    "restart_s": pl.Float64(),
}


def advised(rate: Rate, *runs: dict[str, Any]) -> list[dict[str, Any]]:
    return checkpoint_advice(pl.DataFrame(list(runs), schema=SCHEMA), rate).to_dicts()


def advice(rate: Rate, **more: object) -> dict[str, Any]:
    return advised(rate, run(**more))[0]


# --- golden numbers: definitions 9.4 ---------------------------------------------------------------------------------


def test_the_published_intervals_are_shown_with_the_exact_one() -> None:
    short, long = advice(rate_of(M_S)), advice(rate_of(M_S), write_s=300.0)
    assert short["young_s"] / MINUTE == pytest.approx(7.865, rel=5e-4)
    assert short["daly_s"] / MINUTE == pytest.approx(7.754, rel=5e-4)
    assert (short["availability_s"] + 10) / MINUTE == pytest.approx(8.139, rel=5e-4)
    assert long["young_s"] / MINUTE == pytest.approx(43.08, rel=5e-4)
    assert long["daly_s"] / MINUTE == pytest.approx(39.81, rel=5e-4)
    assert short["optimal_s"] == pytest.approx(short["daly_s"], rel=1e-3)
    assert long["optimal_s"] == pytest.approx(long["daly_s"], rel=1e-3)


def test_the_mttf_of_a_run_is_the_clusters_over_its_gpus() -> None:
    meta = 6.50 / 1000 / 8
    result = advice(Rate(meta, meta / 2, meta * 2), n_gpus=1024.0)
    assert result["mttf_s"] / 3600 == pytest.approx(28.846, rel=5e-5)
    assert result["mttf_low_s"] == pytest.approx(result["mttf_s"] / 2)
    assert result["mttf_high_s"] == pytest.approx(result["mttf_s"] * 2)


# --- the loss --------------------------------------------------------------------------------------------------------

WRITES = st.floats(0.5, 1000)
MTTFS = st.floats(1000, 1e8)
INTERVALS = st.floats(10, 1e6)


def loss(interval_s: float, write_s: float, mttf_s: float) -> float:
    return float(loss_share(np.array([interval_s]), np.array([write_s]), np.array([mttf_s]))[0])


def best(write_s: float, mttf_s: float) -> float:
    return float(best_interval_s(np.array([write_s]), np.array([mttf_s]))[0])


@given(INTERVALS, WRITES, MTTFS)
def test_loss_is_what_the_exact_ettr_leaves_without_restarts(every: float, w: float, m: float) -> None:
    assume(every < 500 * m)
    inputs = oracle.EttrInputs(mttf_s=m, restart_s=0.0, checkpoint_interval_s=every, checkpoint_write_s=w)
    assert loss(every, w, m) == pytest.approx(1 - oracle.ettr_exact(inputs), abs=1e-9)


@given(INTERVALS, WRITES)
def test_without_failures_only_saving_is_lost(every: float, w: float) -> None:
    assert loss(every, w, math.inf) == pytest.approx(loss(every, w, 1e13), abs=1e-6)
    assert best(w, math.inf) == math.inf


@given(INTERVALS, WRITES, MTTFS)
def test_no_interval_loses_less_than_the_best(every: float, w: float, m: float) -> None:
    assert loss(best(w, m), w, m) <= loss(every, w, m) + 1e-9


@given(WRITES, st.floats(1e5, 1e8))
def test_dalys_interval_is_close_to_the_best_for_short_saves(w: float, m: float) -> None:
    assert best(w, m) == pytest.approx(theory.daly_interval_s(w, m), rel=2e-3)


@settings(deadline=None)
@given(INTERVALS, WRITES, MTTFS, st.floats(0.01, 100))
def test_unit_of_time_scales_durations_and_nothing_else(every: float, w: float, m: float, by: float) -> None:
    assume(every < 500 * m)
    here = advice(rate_of(m), interval_s=every, write_s=w)
    there = advice(rate_of(m * by), interval_s=every * by, write_s=w * by, restart_s=300.0 * by, held_gpu_s=1e6 * by)
    assert there["loss_share"] == pytest.approx(here["loss_share"], abs=1e-9)
    assert there["optimal_s"] == pytest.approx(here["optimal_s"] * by, rel=1e-6)
    assert there["advice"] == here["advice"]
    assert there["gain_gpu_s"] == pytest.approx(here["gain_gpu_s"] * by, rel=1e-6, abs=1e-2 * by)


@settings(deadline=None)
@given(INTERVALS, WRITES, MTTFS)
def test_a_gain_is_never_negative_and_its_ends_enclose_it(every: float, w: float, m: float) -> None:
    assume(every < 500 * m)
    result = advice(rate_of(m), interval_s=every, write_s=w)
    assert result["gain_gpu_s"] >= -1e-3
    assert result["gain_low_gpu_s"] <= result["gain_gpu_s"] <= result["gain_high_gpu_s"]
    assert result["loss_low"] <= result["loss_share"] + 1e-12
    assert result["loss_share"] <= result["loss_high"] + 1e-12


def test_gain_is_the_ettr_difference_times_the_gpu_time_held() -> None:
    result = advice(rate_of(M_S), write_s=60.0)
    kept = [
        oracle.ettr_exact(
            oracle.EttrInputs(mttf_s=M_S, restart_s=300.0, checkpoint_interval_s=every, checkpoint_write_s=60.0)
        )
        for every in (result["optimal_s"], 3600.0)
    ]
    assert result["gain_gpu_s"] == pytest.approx(1e6 * (kept[0] - kept[1]))


# --- advice ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "output"), [(60.0, "save less often"), (480.0, "no case for a change"), (7200.0, "save more often")]
)
def test_only_an_interval_outside_the_uncertainty_is_to_change(every: float, output: str) -> None:
    assert advice(rate_of(M_S), interval_s=every)["advice"] == output


def test_without_a_failure_only_the_least_interval_is_known() -> None:
    result = advice(Rate(0.0, 0.0, 4.0), interval_s=60.0)
    assert (result["mttf_s"], result["optimal_s"], result["optimal_high_s"], result["gain_gpu_s"]) == (None,) * 4
    assert result["optimal_low_s"] == pytest.approx(best(10.0, DAY_S / 4))
    assert result["advice"] == "save less often"
    assert "no failure yet" in result["note"]
    assert result["loss_share"] == pytest.approx(10 / 70)


def test_advice_is_unknown_without_exposure() -> None:
    result = advice(Rate(None, None, None))
    assert (result["mttf_s"], result["optimal_low_s"], result["loss_share"], result["gain_gpu_s"]) == (None,) * 4
    assert result["advice"] == "cannot tell"


def test_saves_that_do_not_block_have_no_best_interval() -> None:
    result = advice(rate_of(M_S), write_s=0.0)
    assert (result["optimal_s"], result["young_s"], result["gain_gpu_s"]) == (None, None, None)
    assert result["advice"] == "save as often as storage takes it"
    assert result["loss_share"] == pytest.approx(loss(3600.0, 0.0, M_S))


def test_run_without_checkpoints_is_listed_with_metas_assumption() -> None:
    """The note says what one checkpoint an hour would mean."""
    result = advice(rate_of(M_S), n_checkpoints=None, interval_s=None, write_s=None, restart_s=None)
    assert (result["n_checkpoints"], result["loss_share"], result["optimal_s"]) == (0, None, None)
    assert result["advice"] == "cannot tell"
    assert result["note"].startswith("cannot tell: no checkpoints logged. Assumed one an hour: 15.")
    assert result["assumed_loss_share"] == pytest.approx(loss(3600.0, 0.0, M_S))


def test_an_assumed_loss_that_rounds_to_nothing_is_not_zero() -> None:
    rare = advice(rate_of(1e6 * M_S), n_checkpoints=None, interval_s=None, write_s=None, restart_s=None)
    assert "Assumed one an hour: < 0.1 %" in rare["note"]


def test_what_is_to_be_won_comes_first() -> None:
    result = advised(
        rate_of(M_S),
        run(run_id="good", interval_s=best(10.0, M_S)),
        run(run_id="none", n_checkpoints=None, interval_s=None, write_s=None, held_gpu_s=1e9),
        run(run_id="bad", interval_s=7200.0),
    )
    assert [row["run_id"] for row in result] == ["bad", "good", "none"]


# --- what logs tell --------------------------------------------------------------------------------------------------

STEP_S = 10


def logged(*sessions: list[tuple[float, bool | None]], steps: int = 30) -> dict[str, Any] | None:
    """What is told of a job that restarts in place: its sessions, half an hour apart, of steps of 10 s, and its saves.

    A save is (after which step, whether it blocks; None: not said) and takes 4 s, which blocking ones hold training up.
    """
    output, stepped, saves = [], [], []
    named = {"cluster": "c", "run_id": "log", "scheduler": "slurm", "job_id": "1"}
    for number, saved in enumerate(sessions):
        clock = 1800.0 * number + 20
        output.append(
            named | {"started_at": at(seconds=1800.0 * number + 5), "ended_at": at(seconds=1800.0 * number + 1700)}
        )
        for step in range(steps):
            stepped.append(
                named | {"step": number * steps + step, "ts": at(seconds=clock), "duration_s": float(STEP_S)}
            )
            clock += STEP_S
            for after, blocking in saved:
                if after == step:
                    times = {"ts": at(seconds=clock), "ended_at": at(seconds=clock + 4), "blocking": blocking}
                    saves.append(named | {"kind": "checkpoint_save"} | times)
                    clock += 0 if blocking is False else 4
    ran = attempts(attempt("1", 0, 0, 3))
    events = rows(frames.RUN_EVENTS, *saves)
    matched = with_runs(match_sessions(rows(frames.SESSIONS, *output), ran), joined(ran))
    executed = executions_of_steps(rows(frames.STEPS, *stepped), matched, events, StepRules())
    result = logged_saves(events, matched, executed, since=at(), until=at(3)).to_dicts()
    took = restart_overheads(executed, ran).row(0, named=True)
    assert took["restart_s"] == 20
    return result[0] if result else None


def test_interval_is_training_time_between_saves_without_saves() -> None:
    result = logged([(9, True), (19, True), (29, True)])
    assert result is not None
    assert result["run_id"].startswith("1-")
    assert (result["n_checkpoints"], result["n_intervals"], result["interval_s"], result["write_s"]) == (
        3,
        3,
        100.0,
        4.0,
    )


def test_an_interval_begins_with_each_process() -> None:
    result = logged([(9, None)], [(4, None), (19, None)])
    assert result is not None
    assert (result["n_checkpoints"], result["interval_s"]) == (3, median([100.0, 50.0, 150.0]))


def test_saves_in_the_background_hold_nothing_up() -> None:
    result = logged([(9, False), (19, False)])
    assert result is not None
    assert (result["interval_s"], result["write_s"]) == (100.0, 0.0)
    mixed = logged([(9, False), (19, True)])
    assert mixed is not None
    assert mixed["write_s"] == 2.0


def test_log_without_saves_has_no_interval() -> None:
    assert logged([]) is None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sets(st.integers(0, 29), max_size=6), min_size=1, max_size=3))
def test_intervals_agree_with_counting_steps(saved: list[set[int]]) -> None:
    sessions: list[list[tuple[float, bool | None]]] = [[(step, True) for step in sorted(steps)] for steps in saved]
    result = logged(*sessions)
    expected = [
        float((after - before) * STEP_S)
        for steps in saved
        for before, after in zip([-1, *sorted(steps)], sorted(steps), strict=False)
    ]
    assert (result is None) == (not expected)
    if result is not None:
        assert result["interval_s"] == pytest.approx(median(expected))
        assert result["n_checkpoints"] == len(expected)


def test_gpu_time_held_is_cut_at_the_window() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 0, 2, None), attempt("3", 0, 7, 9), attempt("4", 0, None, None))
    result = held_time(ran, joined(ran), since=at(2), until=at(6)).sort("held_gpu_s")
    assert (result["held_gpu_s"] / 3600 / 8).to_list() == [3.0, 4.0]
