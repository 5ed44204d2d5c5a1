"""From the end of an interrupted attempt to the start of the next."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.interruptions import interruptions
from metrics.restarts.restarts import once, restart_summary, restarts
from metrics.restarts.stages import with_log_times
from metrics.runs.steps import executions_of_steps, match_sessions, with_runs
from tests.metrics.runs import test_steps as logs
from tests.metrics.runs.slow_steps import Attempt, Session
from tests.metrics.tables import Row, at, attempt, attempts, event, events, interruption, joined, on_nodes, rows


def restarted(*result: Row) -> pl.DataFrame:
    ran = attempts(*result)
    return restarts(ran, joined(ran), interruptions(ran, joined(ran), on_nodes(ran, {}), events()))


FAILED = attempt("7", 0, 1, 5, "NODE_FAIL", gpus=16)


def test_a_restart_by_hand() -> None:
    # ends at 5 h; Slurm holds it for 121 s; nodes come free 10 minutes after the end
    follower = attempt("7", 5, 5 + 10 / 60, 9, eligible_at=at(5, seconds=121))
    result = restarted(FAILED, follower).row(0, named=True)
    assert (result["class"], result["cause"], result["milli_gpus"]) == ("infrastructure", "node_fail", 16_000)
    assert (result["interrupted_at"], result["eligible_at"], result["restarted_at"]) == (
        at(5),
        at(5, seconds=121),
        at(5, minutes=10),
    )
    times = (result["time_to_requeue_s"], result["queue_s"], result["time_to_job_restart_s"])
    assert times == (121.0, 479.0, 600.0)
    assert result["in_allocation"] is False


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
def test_hold_and_queue_add_up_to_the_restart(resubmitted: int, held: int, queued: int) -> None:
    follower = attempt("7", 5, 5, None, "RUNNING") | {
        "submitted_at": at(5, seconds=resubmitted),
        "eligible_at": at(5, seconds=resubmitted + held),
        "started_at": at(5, seconds=resubmitted + held + queued),
    }
    result = restarted(FAILED, follower).row(0, named=True)
    assert result["time_to_requeue_s"] + result["queue_s"] == result["time_to_job_restart_s"]
    assert result["time_to_job_restart_s"] == resubmitted + held + queued
    assert result["queue_s"] == queued


def test_eligible_before_the_end_counts_from_the_end() -> None:
    result = restarted(FAILED, attempt("7", 5, 5.5, 6, eligible_at=at(4))).row(0, named=True)
    assert (result["time_to_requeue_s"], result["queue_s"]) == (0.0, 1800.0)


def test_a_waiting_restart_is_censored_and_not_zero() -> None:
    result = restarted(FAILED, attempt("7", 5, None, None, "PENDING", eligible_at=at(5, seconds=121))).row(
        0, named=True
    )
    assert (result["restarted_at"], result["queue_s"], result["time_to_job_restart_s"]) == (None, None, None)
    assert result["time_to_requeue_s"] == 121.0


def test_a_held_restart_has_no_hold_time_yet() -> None:
    """Requeued and held (`launch failed requeued held`, JobHeldUser): it is not eligible, so t3 has not come."""
    result = restarted(FAILED, attempt("7", 5, None, None, "PENDING", eligible_at=None)).row(0, named=True)
    assert result["time_to_job_restart_s"] is None
    assert result["time_to_requeue_s"] is None


@pytest.mark.parametrize(
    "history",
    [
        [FAILED],  # --no-requeue
        [FAILED, attempt("7", 5, None, 6, "CANCELLED")],  # given up while it waited
        [FAILED, attempt("8", 5, 6, 7)],  # another job
        [FAILED, attempt("7", 40, 41, 42)],  # the id given again
        [attempt("7", 0, 1, 5, "COMPLETED"), attempt("7", 5, 6, 7)],  # nothing was interrupted
        [attempt("7", 0, 1, 5, "RESIZING"), attempt("7", 5, 5, 7)],
    ],
)
def test_what_is_no_restart(history: list[Row]) -> None:
    assert restarted(*history).is_empty()


def test_every_interruption_of_a_chain_has_its_own_restart() -> None:
    result = restarted(
        attempt("7", 0, 1, 5, "NODE_FAIL"), attempt("7", 5, 6, 8, "PREEMPTED"), attempt("7", 8, 8.5, 9, "COMPLETED")
    )
    assert result.select("attempt_no", "class", "time_to_job_restart_s").rows() == [
        (1, "infrastructure", 3600.0),
        (2, "preemption", 1800.0),
    ]


@pytest.mark.parametrize("ids", [("11", "12"), ("99", "100")])
def test_het_job_restarts_once_as_its_leader_reports(ids: tuple[str, str]) -> None:
    leader, other = ids
    het: dict[str, Any] = {"het_job_id": leader}
    result = restarted(
        attempt(leader, 0, 1, 5, "NODE_FAIL", **het),
        attempt(other, 0, 1, 5, "CANCELLED", **het),
        attempt(leader, 5, 6, 9, **het),
        attempt(other, 5, 6, 9, **het),
    )
    assert result.select("job_id", "class", "time_to_job_restart_s").rows() == [(leader, "infrastructure", 3600.0)]


def ended(job: str, kind: str = "infrastructure", **more: object) -> Row:
    """A component of a run's first attempt that ended so."""
    return interruption(job, 1, 5, kind, **{"run_id": "r", "detail": "state NODE_FAIL"} | more)


BY_EVENT = {"node": "n2", "detail": "down: Not responding on n2 at 2026-03-02T05:00:00Z"}


@pytest.mark.parametrize(
    ("leading", "other", "stands"),
    [
        (ended("9", node="n1"), ended("10", **BY_EVENT), "10"),  # n1 is named only because it was alone
        (ended("9"), ended("10", node="n2"), "10"),
        (ended("9", "user", cause="failed"), ended("10"), "10"),
        (ended("9", "user", cause="cancelled"), ended("10", "user", cause="failed"), "10"),
        (ended("9", "user", cause="failed"), ended("10", "user", cause="cancelled"), "9"),
        (ended("9", node="n1"), ended("10", node="n2"), "9"),
        (ended("9", **BY_EVENT), ended("10", "user", cause="failed"), "9"),
    ],
)
def test_het_job_is_interrupted_once_by_the_explaining_component(leading: Row, other: Row, stands: str) -> None:
    for order in ((leading, other), (other, leading)):
        result = once(rows(frames.INTERRUPTIONS, *order))
        assert result.select("job_id", "milli_gpus", "n_nodes").rows() == [(stands, 16_000, 2)]


def test_attempts_of_one_run_are_interrupted_each() -> None:
    result = once(rows(frames.INTERRUPTIONS, ended("9"), ended("9", attempt_no=2), interruption("9", 1, 5)))
    assert sorted(result.select("run_id", "attempt_no").rows()) == [("9", 1), ("r", 1), ("r", 2)]
    assert set(result["milli_gpus"]) == {8000}


def test_restart_has_the_cause_of_any_component_and_all_gpus() -> None:
    het: dict[str, Any] = {"het_job_id": "7"}
    ran = attempts(
        attempt("7", 0, 1, 5, "CANCELLED", **het),
        attempt("8", 0, 1, 5, "NODE_FAIL", **het),
        attempt("7", 5, 6, 9, **het),
        attempt("8", 5, 6, 9, **het),
    )
    nodes = on_nodes(ran, {"7": ["n1"], "8": ["n2"]})
    result = restarts(ran, joined(ran), interruptions(ran, joined(ran), nodes, events(event("n2", at(5), "node_down"))))
    assert result.select("job_id", "class", "cause", "milli_gpus").rows() == [
        ("8", "infrastructure", "node_fail", 16_000)
    ]


def recovering(evaluator: tuple[Attempt, ...]) -> Row:
    """The log times of a trainer that a node failure sets back from step 19 to 0, beside another program's log."""
    trainer = [
        Attempt(0, 220, "NODE_FAIL", (Session(0, logs.training(0, 0, 20)),)),
        Attempt(400, 1000, "COMPLETED", (Session(410, logs.training(0, 430, 50), (("checkpoint_load", 411, 421),)),)),
    ]
    beside, ran = list(evaluator), logs.attempts_of(trainer)
    runs = rows(frames.RUN_ATTEMPTS, *(logs.key(n) | {"run_id": "r", "attempt_no": n + 1} for n in range(2)))
    named = pl.lit("eval").alias("run_id")
    happened = pl.concat([logs.events_of(trainer), logs.events_of(beside).with_columns(named)])
    sessions = pl.concat([logs.sessions_of(trainer), logs.sessions_of(beside, run_id="eval", restart_count=None)])
    matched = with_runs(match_sessions(sessions, ran), runs)
    steps = pl.concat([logs.steps_of(trainer), logs.steps_of(beside).with_columns(named)])
    broken = rows(
        frames.RESTARTS,
        logs.key(0)
        | {"run_id": "r", "attempt_no": 1, "class": "infrastructure", "cause": "node_fail"}
        | {"interrupted_at": logs.at(220), "restarted_at": logs.at(400)},
    )
    executed = executions_of_steps(steps, matched, happened, logs.RULES)
    return with_log_times(broken, runs, executed, matched, happened).row(0, named=True)


def test_evaluator_in_the_same_job_is_no_recovery_of_the_trainer() -> None:
    first = Attempt(0, 220, "NODE_FAIL", (Session(140, logs.training(0, 150, 5, 11)),))
    second = Attempt(
        400, 1000, "COMPLETED", (Session(412, logs.training(0, 425, 5, 1), (("checkpoint_load", 413, 424),)),)
    )
    alone, beside = recovering(()), recovering((first, second))
    # The trainer's last step ended at 200 s; then 10 s to its log, 11 s more to its checkpoint, 19 s to a first step.
    assert (alone["launch_s"], alone["load_s"], alone["warm_up_s"]) == (10, 11, 19)
    assert (alone["time_to_first_step_s"], alone["time_to_recover_s"]) == (240, 430)
    assert beside == alone


def observed(*seconds: float | None, kind: str = "infrastructure", cause: str = "node_fail") -> list[Row]:
    """Restarts that took so long, a third of it hold; None waits still."""
    return [
        {
            "cluster": "c",
            "class": kind,
            "cause": cause,
            "time_to_requeue_s": None if s is None else s / 3,
            "queue_s": None if s is None else 2 * s / 3,
            "time_to_job_restart_s": s,
        }
        for s in seconds
    ]


def test_the_summary_by_hand() -> None:
    result = restart_summary(
        rows(frames.RESTARTS, *observed(30, 60, 90, 120, 150, 180, 210, 240, 270, 3000, None))
    ).row(0, named=True)
    # 10 values: the median is halfway between the 5th and 6th; p90 a tenth of the way from the 9th to the 10th
    assert (result["n"], result["n_waiting"], result["median_s"], result["mean_s"]) == (10, 1, 165.0, 435.0)
    assert result["p90_s"] == pytest.approx(270 + 0.1 * (3000 - 270))
    assert (result["hold_median_s"], result["queue_median_s"]) == (55.0, 110.0)
    # 2nd and 9th of ten: P(2 <= Binomial(10, 1/2) <= 8) = 0.979
    assert (result["median_low_s"], result["median_high_s"]) == (60.0, 270.0)


def test_the_summary_has_a_total_before_the_causes_of_each_class() -> None:
    result = restart_summary(
        rows(
            frames.RESTARTS,
            *observed(10, cause="xid"),
            *observed(20, 30),
            *observed(40, kind="preemption", cause="preempted"),
        )
    )
    assert result.select("class", "cause", "n").rows() == [
        ("infrastructure", "all", 3),
        ("infrastructure", "node_fail", 2),
        ("infrastructure", "xid", 1),
        ("preemption", "all", 1),
        ("preemption", "preempted", 1),
    ]


def test_a_summary_of_nothing_but_waiting_restarts_has_no_times() -> None:
    result = restart_summary(rows(frames.RESTARTS, *observed(None, None))).row(0, named=True)
    assert (result["n"], result["n_waiting"]) == (0, 2)
    assert {result[name] for name in result if name.endswith("_s")} == {None}


def test_few_restarts_have_a_median_without_interval() -> None:
    result = restart_summary(rows(frames.RESTARTS, *observed(10, 20, 30, 40, 50))).row(0, named=True)
    assert (result["median_s"], result["median_low_s"], result["median_high_s"]) == (30.0, None, None)
