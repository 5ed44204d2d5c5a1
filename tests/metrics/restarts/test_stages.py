"""Every stage of restarts, by a new attempt and within an allocation."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.diagnosis import EVENTS
from metrics.failures.interruptions import interruptions
from metrics.restarts.restarts import restart_stages, restart_summary, restarts
from metrics.restarts.stages import (
    IN_PLACE,
    JOB_END,
    attempts_for_detection,
    in_place_restarts,
    with_detection,
    with_log_times,
)
from metrics.runs.steps import executions_of_steps, match_sessions, with_runs
from tests.metrics.restarts import slow_restarts
from tests.metrics.restarts.slow_restarts import CriticalEvent
from tests.metrics.runs import test_steps as logs
from tests.metrics.runs.slow_steps import Attempt, Session, Step
from tests.metrics.tables import of_keys, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

STAGES = tuple(slow_restarts.restarts([Attempt(0, 1, "FAILED"), Attempt(2, 3, "COMPLETED")], [])[False, 1])


def event(reported: CriticalEvent, **more: object) -> dict[str, object]:
    """A critical event on the job's node."""
    output = {
        "cluster": "c",
        "node": "n1",
        "ts": logs.at(reported.at),
        "kind": reported.kind,
        "code": "79",
        "detail": "x",
    }
    return output | {"class": "HW", "severity": "critical", "evidence": "telemetry"} | more


def decomposed(tried: list[Attempt], reported: Sequence[dict[str, object]] = (), *, of: str = "r") -> pl.DataFrame:
    """The restarts of job 7, which holds one node."""
    ran = logs.attempts_of(tried)
    held = rows(
        frames.ATTEMPT_NODES,
        *(
            {name: row[name] for name in (*frames.ATTEMPT_KEY, "started_at", "ended_at")} | {"node": "n1"}
            for row in ran.iter_rows(named=True)
        ),
    )
    joined = rows(frames.RUN_ATTEMPTS, *(logs.key(n) | {"run_id": of, "attempt_no": n + 1} for n in range(len(tried))))
    happened, seen = logs.events_of(tried), rows(EVENTS, *reported)
    sessions = with_runs(match_sessions(logs.sessions_of(tried), ran), joined)
    executed = executions_of_steps(logs.steps_of(tried), sessions, happened, logs.RULES)
    cut = interruptions(ran, joined, held, seen)
    again = restarts(ran, joined, cut)
    noticed = with_detection(again, cut, joined, of_keys(held, attempts_for_detection(again, joined, seen)), seen)
    within = in_place_restarts(
        executed, sessions, happened, attempts=ran, joined=joined, attempt_nodes=held, node_events=seen
    )
    result = pl.concat([with_log_times(noticed, joined, executed, sessions, happened), within])
    assert dict(result.schema) == frames.RESTARTS
    return result


def test_the_restart_demo() -> None:
    """Google's elastic demo on 48 slices: 13 s to detect, 50 s to reschedule, 5.4 s to restore, 12.7 s to step.

    Tenths of a second as whole ones here; an error in the log is its detection.
    """
    tried = [
        Attempt(0, 5 * 130, "FAILED", (Session(0, logs.training(0, 0, 2, 100), (("nccl_error", 330, 330),)),)),
        Attempt(820, 2000, "COMPLETED", (Session(830, (Step(2, 900, 111),), (("checkpoint_load", 830, 884),)),)),
    ]
    (row,) = decomposed(tried).to_dicts()
    assert (row["detected_by"], row["detected_at"]) == ("nccl_error", logs.at(330))
    rescheduled = row["time_to_terminate_s"] + row["time_to_job_restart_s"] + row["launch_s"]
    assert (row["time_to_detect_s"], rescheduled, row["load_s"], row["warm_up_s"]) == (130, 500, 54, 127)
    assert row["time_to_first_step_s"] == pytest.approx(811)  # 81.1 s
    assert (row["class"], row["cause"], row["in_allocation"]) == ("user", "failed", False)


BROKEN = Attempt(0, 220, "NODE_FAIL", (Session(0, logs.training(0, 0, 20)),))
AGAIN = Attempt(400, 1000, "COMPLETED", (Session(410, logs.training(10, 430, 50), (("checkpoint_load", 411, 421),)),))


@pytest.mark.parametrize(
    ("reported", "by", "detect", "terminate"),
    [
        ([], JOB_END, 20, 0),
        ([CriticalEvent(210)], "xid 79", 10, 10),
        ([CriticalEvent(212, "node_down"), CriticalEvent(205)], "xid 79", 5, 15),  # the first
        ([CriticalEvent(190)], "xid 79", 0, 20),  # told while the last step still ran: nothing to wait for
        ([CriticalEvent(230)], JOB_END, 20, 0),  # told after the end explains it, and did not detect it
        ([CriticalEvent(-381)], JOB_END, 20, 0),  # more than 10 minutes before the end
    ],
)
def test_first_evidence_of_the_failure(reported: list[CriticalEvent], by: str, detect: float, terminate: float) -> None:
    (row,) = decomposed([BROKEN, AGAIN], [event(each) for each in reported]).to_dicts()
    assert (row["detected_by"], row["time_to_detect_s"], row["time_to_terminate_s"]) == (by, detect, terminate)


@pytest.mark.parametrize(
    ("more", "by"),
    [
        ({"severity": "warning"}, JOB_END),
        ({"severity": "info", "class": "APP", "code": "31"}, "xid 31"),
        ({"severity": "info", "class": "CONSEQUENCE", "code": "45"}, "xid 45"),
        ({"severity": "info", "class": "INFO", "code": "63"}, JOB_END),
        ({"node": "n2"}, JOB_END),
    ],
)
def test_evidence_of_a_failure(more: dict[str, object], by: str) -> None:
    (row,) = decomposed([BROKEN, AGAIN], [event(CriticalEvent(210), **more)]).to_dicts()
    assert row["detected_by"] == by


@pytest.mark.parametrize("state", ["PREEMPTED", "TIMEOUT", "REQUEUED"])
def test_deliberate_ends_have_no_detection_time(state: str) -> None:
    (row,) = decomposed([Attempt(0, 220, state, BROKEN.sessions), AGAIN]).to_dicts()
    assert {row[name] for name in ("detected_at", "detected_by", "time_to_detect_s", "time_to_terminate_s")} == {None}
    assert (row["time_to_job_restart_s"], row["time_to_first_step_s"]) == (180, 240)


def test_without_a_log_only_terminate_time_is_known() -> None:
    bare = [Attempt(0, 220, "NODE_FAIL"), Attempt(400, 1000, "COMPLETED")]
    (row,) = decomposed(bare, [event(CriticalEvent(200))]).to_dicts()
    assert (row["time_to_detect_s"], row["time_to_terminate_s"], row["time_to_job_restart_s"]) == (None, 20, 180)
    assert {row[name] for name in STAGES if name.startswith(("launch", "load", "warm"))} == {None}


def test_log_event_before_the_last_step_is_no_detection() -> None:
    early = Session(0, logs.training(0, 0, 20), (("nccl_error", 100, 100),))
    (row,) = decomposed([Attempt(0, 220, "FAILED", (early,)), AGAIN]).to_dicts()
    assert (row["detected_by"], row["time_to_detect_s"]) == (JOB_END, 20)


def test_last_step_that_ended_after_its_attempt_is_no_recovery() -> None:
    """Accounting cuts ends to whole seconds, so a log's last step may end a moment after its attempt."""
    cut = Attempt(0, 199, "NODE_FAIL", BROKEN.sessions)
    (row,) = decomposed([cut, AGAIN]).to_dicts()
    assert (row["time_to_detect_s"], row["time_to_first_step_s"]) == (0, 241)
    assert row["time_to_recover_s"] == 530 - 199  # step 19 is done again at 530 s


TWICE = Attempt(
    0,
    2000,
    "COMPLETED",
    (
        Session(0, logs.training(0, 10, 20), (("nccl_watchdog", 300, 310),)),
        Session(400, logs.training(15, 450, 50), (("checkpoint_load", 405, 425),)),
    ),
)


def test_a_restart_within_an_allocation_by_hand() -> None:
    """Steps stop at 210 s, a watchdog tells at 300, the last line is at 310; a new process begins at 400."""
    (row,) = decomposed([TWICE]).to_dicts()
    assert (row["in_allocation"], row["class"], row["cause"]) == (True, IN_PLACE, "nccl_watchdog")
    assert (row["interrupted_at"], row["restarted_at"], row["milli_gpus"]) == (logs.at(310), logs.at(400), 16_000)
    assert {name: row[name] for name in STAGES} == {
        "time_to_detect_s": 90,
        "time_to_terminate_s": 10,
        "time_to_job_restart_s": 90,
        "launch_s": None,  # it lies within the 90 s
        "load_s": 25,
        "warm_up_s": 35,
        "time_to_first_step_s": 250,
        "time_to_recover_s": 490 - 210 + 10,  # step 19 is done again at 500 s
    }
    assert (row["attempt_no"], row["eligible_at"], row["queue_s"]) == (1, None, None)


def test_cause_of_a_restart_in_an_allocation_is_the_nodes_event() -> None:
    (row,) = decomposed([TWICE], [event(CriticalEvent(320, "ecc"))]).to_dicts()
    assert (row["class"], row["cause"], row["detected_by"]) == (IN_PLACE, "ecc", "nccl_watchdog")
    (row,) = decomposed([TWICE], [event(CriticalEvent(250, "ecc"))]).to_dicts()
    assert (row["cause"], row["detected_by"], row["time_to_detect_s"]) == ("ecc", "ecc 79", 40)


def test_a_restart_without_evidence_has_no_cause() -> None:
    silent = Attempt(
        0, 2000, "COMPLETED", (Session(0, logs.training(0, 10, 20)), Session(400, logs.training(15, 450, 5)))
    )
    (row,) = decomposed([silent]).to_dicts()
    assert (row["cause"], row["detected_at"], row["time_to_detect_s"]) == ("restart_in_place", None, None)
    assert row["time_to_first_step_s"] == 250


@pytest.mark.parametrize(
    "sessions",
    [
        (Session(0, logs.training(0, 10, 20)),),
        (Session(0), Session(100, logs.training(0, 110, 20))),  # nothing had stepped yet
        (Session(0, logs.training(0, 10, 20)), Session(105)),  # steps had not stopped
    ],
)
def test_what_is_no_restart_within_an_allocation(sessions: tuple[Session, ...]) -> None:
    assert decomposed([Attempt(0, 2000, "COMPLETED", sessions)]).is_empty()


def test_process_that_never_steps_is_a_restart_without_progress() -> None:
    tried = Attempt(0, 2000, "COMPLETED", (BROKEN.sessions[0], Session(300), Session(400, logs.training(15, 450, 50))))
    first, second = decomposed([tried]).to_dicts()
    assert (first["time_to_job_restart_s"], first["time_to_first_step_s"]) == (100, None)
    assert (second["time_to_job_restart_s"], second["time_to_first_step_s"]) == (100, 260)


def test_in_place_restarts_stay_separate_from_others() -> None:
    result = decomposed([Attempt(0, 1900, "NODE_FAIL", TWICE.sessions), Attempt(2000, 3000, "COMPLETED")])
    assert result["in_allocation"].to_list() == [False, True]
    summed = restart_summary(result)
    assert summed.select("in_allocation", "class", "cause", "n", "median_s").rows() == [
        (False, "infrastructure", "all", 1, 100.0),
        (False, "infrastructure", "node_fail", 1, 100.0),
        (True, IN_PLACE, "all", 1, 90.0),
        (True, IN_PLACE, "nccl_watchdog", 1, 90.0),
    ]
    stages = restart_stages(result).filter(pl.col("cause") == "all")
    of_stage = {
        (row["in_allocation"], row["stage"]): (row["n"], row["n_restarts"], row["mean_s"]) for row in stages.to_dicts()
    }
    assert of_stage[True, "detect"] == (1, 1, 90)
    assert of_stage[False, "job restart"] == (1, 1, 100)
    assert (False, "launch") not in of_stage


def test_stages_by_hand_have_their_own_n_and_mean_and_median() -> None:
    """Median and mean of the same restarts may be far apart: OLMo's are 3 min 42 s and 38 min 54 s."""
    some = [
        {"class": "infrastructure", "cause": "xid", "time_to_job_restart_s": s, "load_s": None if s > 90 else s / 10}
        for s in (30.0, 60.0, 90.0, 3000.0)
    ]
    result = restart_stages(rows(frames.RESTARTS, *some)).filter(pl.col("cause") == "xid")
    columns = ("stage", "n", "n_restarts", "median_s", "mean_s")
    assert result.select(columns).rows() == [("job restart", 4, 4, 75.0, 795.0), ("load", 3, 4, 6.0, 6.0)]
    assert result["median_low_s"].to_list() == [None, None]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Attempt], list[CriticalEvent]]:
    """Attempts of one job with processes that load, step, tell of errors and die; and what their node told."""
    now, number, tried = 0, 0, []
    for _ in range(draw(st.integers(1, 3))):
        start = now
        now += draw(st.integers(0, 30))
        sessions = []
        for _ in range(draw(st.integers(0, 3))):
            begun = now
            events: list[tuple[str, int, int]] = []
            if draw(st.booleans()):
                events.append(("checkpoint_load", now, now + 7))
                now += 7
            now += draw(st.integers(0, 9))
            number = max(0, number - draw(st.integers(0, 4)))
            steps = []
            for _ in range(draw(st.integers(0, 5))):
                steps.append(Step(number, now, 10))
                number, now = number + 1, now + 10
            if draw(st.booleans()):
                now += draw(st.integers(1, 400))
                events.append((draw(st.sampled_from(["nccl_timeout", "eval"])), now, now + 2))
                now += 2
            sessions.append(Session(begun, tuple(steps), tuple(events)))
            now += draw(st.integers(1, 50))
        now += draw(st.integers(1, 50))
        tried.append(
            Attempt(start, now, draw(st.sampled_from(["COMPLETED", "NODE_FAIL", "FAILED", "TIMEOUT"])), tuple(sessions))
        )
        now += draw(st.integers(100, 200))
    reported = [CriticalEvent(at) for at in draw(st.lists(st.integers(0, max(now, 1)), max_size=3))]
    return tried, reported


def stages_of(result: pl.DataFrame) -> dict[tuple[bool, int], dict[str, Any]]:
    ends = [round((at - logs.EPOCH).total_seconds()) for at in result["interrupted_at"]]
    return {
        (row["in_allocation"], end): {name: row[name] for name in STAGES}
        for end, row in zip(ends, result.to_dicts(), strict=True)
    }


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(histories())
def test_the_slow_decomposition_agrees(history: tuple[list[Attempt], list[CriticalEvent]]) -> None:
    tried, reported = history
    requeued = [(a.state, b) for a, b in itertools.pairwise(tried) if a.state != "COMPLETED"]
    result = decomposed(tried, [event(each) for each in reported])
    assert result.filter(~pl.col("in_allocation")).height == len(requeued)
    assert stages_of(result) == slow_restarts.restarts(tried, reported)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(histories())
def test_stages_that_are_known_are_not_negative_and_add_up(history: tuple[list[Attempt], list[CriticalEvent]]) -> None:
    tried, reported = history
    for row in decomposed(tried, [event(each) for each in reported]).to_dicts():
        known = [row[name] for name in STAGES if row[name] is not None]
        assert min(known) >= 0
        whole = row["time_to_first_step_s"]
        parts = [row[name] for name in STAGES[:3]] + [row["warm_up_s"]]
        if whole is not None and None not in parts:
            assert sum(parts) + (row["launch_s"] or 0) + (row["load_s"] or 0) == pytest.approx(whole)
        if None not in {row["time_to_requeue_s"], row["queue_s"]}:
            assert row["time_to_requeue_s"] + row["queue_s"] == row["time_to_job_restart_s"]


def test_a_clock_that_is_late_makes_no_stage_negative() -> None:
    """A log's clock that runs 20 s behind the scheduler's: its first line is before the attempt's start."""
    behind = Attempt(400, 1000, "COMPLETED", (Session(380, logs.training(20, 390, 50)),))
    (row,) = decomposed([BROKEN, behind]).to_dicts()
    assert (row["launch_s"], row["load_s"], row["warm_up_s"], row["time_to_first_step_s"]) == (0, None, 0, 200)
