"""What logs say of attempts: cases by hand, and a slow twin."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.categories import ALLOCATED
from metrics.ledger.log_evidence import logged_time
from metrics.runs.steps import StepRules, executions_of_steps, explicit_runs, match_sessions, with_runs
from tests.metrics.runs import slow_steps
from tests.metrics.runs.slow_steps import Attempt, Session, Step
from tests.metrics.tables import rows

EPOCH = datetime(2026, 3, 2, tzinfo=UTC)
RULES = StepRules(hang_steps=10, hang_min_s=30)


def at(second: float) -> datetime:
    return EPOCH + timedelta(seconds=second)


def key(number: int) -> dict[str, object]:
    return {"cluster": "c", "scheduler": "slurm", "job_id": "7", "submitted_at": at(number)}


def attempts_of(tried: list[Attempt]) -> pl.DataFrame:
    return rows(
        frames.ATTEMPTS,
        *(
            key(number)
            | {"started_at": at(a.start), "ended_at": at(a.end), "state": a.state, "milli_gpus": 16_000, "n_nodes": 2}
            for number, a in enumerate(tried)
        ),
    )


def sessions_of(tried: list[Attempt], **more: object) -> pl.DataFrame:
    named = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7", "n_gpus": 16}
    result = []
    for number, a in enumerate(tried):
        for session in a.sessions:
            last = max(
                [session.start, *(s.begin + s.length for s in session.steps), *(e for _, _, e in session.events)]
            )
            times = {"started_at": at(session.start), "ended_at": at(last), "restart_count": number}
            result.append(named | times | more)
    return rows(frames.SESSIONS, *result)


def steps_of(tried: list[Attempt]) -> pl.DataFrame:
    named = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7", "tokens": 1000.0}
    return rows(
        frames.STEPS,
        *(
            named | {"step": s.number, "ts": at(s.begin), "duration_s": float(s.length)}
            for a in tried
            for session in a.sessions
            for s in session.steps
        ),
    )


def events_of(tried: list[Attempt]) -> pl.DataFrame:
    named = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7", "blocking": True}
    return rows(
        frames.RUN_EVENTS,
        *(
            named | {"kind": kind, "ts": at(begin), "ended_at": at(end), "durable_at": at(end), "step": 0}
            for a in tried
            for session in a.sessions
            for kind, begin, end in session.events
        ),
    )


def interruptions_of(tried: list[Attempt]) -> pl.DataFrame:
    return rows(
        frames.INTERRUPTIONS,
        *(
            key(number) | {"cause": a.state, "class": "infrastructure" if a.state == "NODE_FAIL" else "user"}
            for number, a in enumerate(tried)
            if a.state != "COMPLETED"
        ),
    )


def logged(tried: list[Attempt], **session: object) -> pl.DataFrame:
    ran, events = attempts_of(tried), events_of(tried)
    joined = rows(frames.RUN_ATTEMPTS, *(key(n) | {"run_id": "r", "attempt_no": n + 1} for n in range(len(tried))))
    matched = with_runs(match_sessions(sessions_of(tried, **session), ran), joined)
    executed = executions_of_steps(steps_of(tried), matched, events, RULES)
    return logged_time(executed, matched, events, ran, interruptions_of(tried))


def sums(result: pl.DataFrame, number: int) -> Counter[tuple[str, str | None]]:
    """Seconds by category and cause, but for the first step's extra, which is productive here."""
    total: Counter[tuple[str, str | None]] = Counter()
    result = result.with_columns(
        category=pl.when(pl.col("cause").eq_missing("first_step")).then(pl.lit("productive")).otherwise("category")
    )
    microseconds: Counter[tuple[str, str | None]] = Counter()
    for row in result.filter(pl.col("submitted_at") == at(number)).iter_rows(named=True):
        cause = None if row["category"] in {"productive"} else row["cause"]
        microseconds[row["category"], cause] += round((row["ended_at"] - row["started_at"]).total_seconds() * 1e6)
    for key_, length in microseconds.items():
        total[key_] = round(length / 1e6)
    return total


def extra_s(result: pl.DataFrame, number: int) -> float:
    """Seconds of an attempt's first step that are startup."""
    mine = result.filter(pl.col("submitted_at") == at(number), pl.col("cause").eq_missing("first_step"))
    assert set(mine["category"]) <= {"startup"}
    return float(sum((row["ended_at"] - row["started_at"]).total_seconds() for row in mine.iter_rows(named=True)))


def training(first: int, begin: int, n: int, length: int = 10) -> tuple[Step, ...]:
    return tuple(Step(first + i, begin + i * length, length) for i in range(n))


def test_a_kill_loses_the_steps_run_again_and_the_unfinished_one() -> None:
    first = Attempt(0, 225, "NODE_FAIL", (Session(20, training(0, 100, 12), (("checkpoint_load", 30, 60),)),))
    second = Attempt(400, 800, "COMPLETED", (Session(410, training(5, 500, 20)),))
    result = logged([first, second])
    assert sums(result, 0) == {
        ("startup", "launch"): 20,
        ("startup", "init"): 10 + 40,
        ("startup", "checkpoint_load"): 30,
        ("productive", None): 50,
        ("lost", "NODE_FAIL"): 70 + 5,
    }
    assert sums(result, 1) == {
        ("startup", "launch"): 10,
        ("startup", "init"): 90,
        ("productive", None): 200,
        ("teardown", None): 100,
    }


@pytest.mark.parametrize(
    ("events", "extra"),
    [
        ((), 50),
        ((("compile", 105, 135),), 20),  # what an event names is its own
        ((("compile", 100, 160),), 0),
        ((("data", 130, 140),), 40),
    ],
)
def test_first_step_time_beyond_the_ideal_is_startup(events: tuple[tuple[str, int, int], ...], extra: int) -> None:
    """5.2 and 3.1: of a first step of 60 s where ten are usual, fifty are compilation and warm-up."""
    steps = (Step(0, 100, 60), *training(1, 160, 20), Step(21, 360, 35), *training(22, 395, 10))
    result = logged([Attempt(0, 600, "COMPLETED", (Session(20, steps, events),))])
    taken = sum(end - begin for _, begin, end in events)
    assert extra_s(result, 0) == extra
    assert sums(result, 0)["productive", None] == 395 - taken  # all the steps, the first one's extra too


def test_first_steps_that_are_undone_or_alone_have_no_extra() -> None:
    undone = Attempt(0, 225, "NODE_FAIL", (Session(0, (Step(0, 0, 60), *training(1, 60, 12))),))
    again = Attempt(400, 800, "COMPLETED", (Session(410, (Step(0, 420, 30), *training(1, 450, 12))),))
    result = logged([undone, again])
    assert (extra_s(result, 0), extra_s(result, 1)) == (0, 20)
    assert extra_s(logged([Attempt(0, 100, "COMPLETED", (Session(0, (Step(0, 0, 60),)),))]), 0) == 0
    short = [Attempt(0, 200, "COMPLETED", (Session(0, (Step(0, 0, 5), *training(1, 5, 12))),))]
    assert extra_s(logged(short), 0) == 0


def test_blocking_checkpoints_are_carved_out_and_others_are_not() -> None:
    steps = (Step(0, 10, 10), Step(1, 25, 10))
    events = (("checkpoint_save", 20, 25), ("eval", 35, 50))
    assert sums(logged([Attempt(0, 60, "COMPLETED", (Session(10, steps, events),))]), 0) == {
        ("startup", "launch"): 10,
        ("productive", None): 20,
        ("checkpoint", None): 5,
        ("other_work", "evaluation"): 15,
        ("teardown", None): 10,
    }


def test_long_pause_is_a_hang_unless_an_event_explains_it() -> None:
    steps = (*training(0, 10, 3), *training(3, 540, 3))
    explained = Attempt(0, 570, "COMPLETED", (Session(10, steps, (("eval", 45, 535),)),))
    assert ("stalled", "hang") not in sums(logged([explained]), 0)
    assert sums(logged([Attempt(0, 570, "COMPLETED", (Session(10, steps),))]), 0)["stalled", "hang"] == 500


def test_an_attempt_that_hung_until_it_was_killed_is_stalled() -> None:
    result = sums(logged([Attempt(0, 1000, "CANCELLED", (Session(0, training(0, 0, 5)),))]), 0)
    assert result == {("productive", None): 50, ("lost", "CANCELLED"): 10, ("stalled", "hang"): 940}


def test_a_session_that_never_stepped_only_started_up() -> None:
    result = sums(logged([Attempt(0, 100, "FAILED", (Session(20, (), (("init", 30, 50),)),))]), 0)
    assert sum(result.values()) == 100
    assert {category for category, _ in result} == {"startup"}


@pytest.mark.parametrize(
    ("sessions", "known"),
    [
        ((Session(20, ()),), {("startup", "launch"): 20}),
        ((Session(20, ()), Session(50, ())), {("startup", "launch"): 20, ("startup", "never_stepped"): 30}),
        (
            (Session(20, (), (("eval", 30, 50),)),),
            {
                ("startup", "launch"): 20,
                ("startup", "init"): 10,
                ("other_work", "evaluation"): 20,
                ("teardown", None): 50,
            },
        ),
    ],
)
def test_completed_attempt_without_a_step_has_no_teardown(
    sessions: tuple[Session, ...], known: dict[tuple[str, str | None], int]
) -> None:
    """What its log leaves open is neither startup nor teardown, unless an event was logged."""
    assert sums(logged([Attempt(0, 100, "COMPLETED", sessions)]), 0) == known


@pytest.mark.parametrize(
    ("state", "end"),
    [("COMPLETED", {("teardown", None): 80}), ("FAILED", {("lost", "FAILED"): 10, ("teardown", None): 70})],
)
def test_process_hung_before_its_first_step_is_startup(state: str, end: dict[tuple[str, str | None], int]) -> None:
    """However the attempt ends."""
    hung, trained = Session(10, ()), Session(1210, training(0, 1220, 70))
    assert sums(logged([Attempt(0, 2000, state, (hung, trained))]), 0) == {
        ("startup", "launch"): 10,
        ("startup", "never_stepped"): 1200,
        ("startup", "init"): 10,
        ("productive", None): 700,
        **end,
    }


def test_repeated_steps_of_an_attempt_are_lost_to_its_restart() -> None:
    """A worker crashes at 500 s and goes back 40 steps; the node fails at 3000 s, and the next attempt goes back 10."""
    first = Attempt(0, 3000, "NODE_FAIL", (Session(0, training(0, 0, 50)), Session(520, training(10, 530, 240))))
    second = Attempt(3100, 4000, "COMPLETED", (Session(3110, training(240, 3120, 80)),))
    result = sums(logged([first, second]), 0)
    assert result == {
        ("productive", None): 100 + 2300,
        ("lost", "restart_in_place"): 400 + 10,
        ("stalled", "restart_in_place"): 10,
        ("startup", "init"): 10,
        ("lost", "NODE_FAIL"): 100 + 10,
        ("stalled", "NODE_FAIL"): 60,
    }


def test_what_was_not_read_yet_is_not_claimed() -> None:
    tried = [Attempt(0, 1000, "COMPLETED", (Session(0, training(0, 0, 5)),))]
    assert sums(logged(tried, read_at=at(60)), 0) == {("productive", None): 50}
    assert sums(logged(tried, read_at=at(1000)), 0)["teardown", None] == 950


def test_a_log_by_a_wrong_clock_is_not_used() -> None:
    tried = [Attempt(0, 100, "COMPLETED", (Session(0, training(0, 0, 5)),))]
    late = sessions_of(tried).with_columns(pl.col("started_at", "ended_at") + timedelta(hours=2))
    matched = match_sessions(late, attempts_of(tried))
    assert matched["usable"].to_list() == [False]
    assert matched["submitted_at"].to_list() == [at(0)]  # the restart count still tells which attempt it was
    assert explicit_runs(matched)["run_id"].to_list() == ["r"]


def test_a_log_of_an_unknown_job_matches_nothing() -> None:
    tried = [Attempt(0, 100, "COMPLETED", (Session(0, training(0, 0, 5)),))]
    matched = match_sessions(sessions_of(tried, job_id="8"), attempts_of(tried))
    assert matched["submitted_at"].to_list() == [None]
    assert explicit_runs(matched).is_empty()


def test_a_log_of_fewer_gpus_covers_its_share() -> None:
    tried = [Attempt(0, 100, "COMPLETED", (Session(0, training(0, 0, 5)),))]
    assert set(logged(tried, n_gpus=4)["milli_share"]) == {250}
    assert set(logged(tried, n_gpus=16)["milli_share"]) == {1000}


@st.composite
def histories(draw: st.DrawFn) -> list[Attempt]:
    now, number, tried = 0, 0, []
    for _ in range(draw(st.integers(1, 3))):
        start = now
        now += draw(st.integers(0, 9))
        sessions = []
        for _ in range(draw(st.integers(1, 2))):
            begun = now
            now += draw(st.integers(0, 9))
            number = max(0, number - draw(st.integers(0, 6)))
            steps, events = [], []
            if draw(st.integers(0, 3)) == 0:  # it never steps
                if draw(st.booleans()):
                    events.append(("init", now, now + draw(st.integers(1, 20))))
                sessions.append(Session(begun, (), tuple(events)))
                now += draw(st.sampled_from([20, 100]))
                continue
            for _ in range(draw(st.integers(1, 6))):
                if draw(st.integers(0, 9)) == 0:  # the same process goes back
                    number = max(0, number - draw(st.integers(0, 3)))
                length = draw(st.sampled_from([2, 4, 6, 10]))  # medians are whole
                steps.append(Step(number, now, length))
                number, now = number + 1, now + length
                if draw(st.booleans()):
                    pause = draw(st.sampled_from([1, 4, 40, 80]))
                    kind = draw(st.sampled_from(["checkpoint_save", "eval", "data", "compile", None]))
                    if kind is not None:
                        events.append((kind, now, now + draw(st.integers(1, pause))))
                    now += pause
            sessions.append(Session(begun, tuple(steps), tuple(events)))
            now += draw(st.sampled_from([0, 1, 7, 100]))
        state = draw(st.sampled_from(["COMPLETED", "NODE_FAIL"]))
        if now == start:
            now += 1
        tried.append(Attempt(start, now, state, tuple(sessions)))
        now += draw(st.integers(200, 300))
    return tried


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(histories())
def test_the_slow_reading_agrees(tried: list[Attempt]) -> None:
    result = logged(tried)
    for number, attempt in enumerate(tried):
        got = sums(result, number)
        assert got == slow_steps.seconds(tried, number)
        assert extra_s(result, number) == pytest.approx(slow_steps.first_step_extra(tried, number), abs=2e-6)
        known = [at for at in range(attempt.start, attempt.end) if not slow_steps.is_unknown(attempt, at)]
        assert got.total() == len(known)


@pytest.mark.parametrize("state", ["COMPLETED", "NODE_FAIL"])
def test_intervals_of_an_attempt_do_not_overlap(state: str) -> None:
    doubled = Session(5, training(0, 8, 20))
    tried = [Attempt(0, 400, state, (Session(0, training(0, 3, 20)), doubled))]
    result = logged(tried).sort("started_at")
    assert (result["started_at"].shift(-1) >= result["ended_at"]).drop_nulls().all()


def test_two_programs_in_one_job_do_not_undo_each_others_steps() -> None:
    first = Attempt(0, 1000, "COMPLETED", (Session(0, training(0, 0, 20)),))
    ran = attempts_of([first])
    logs = pl.concat([sessions_of([first]), sessions_of([first], run_id="other").with_columns(
        pl.col("started_at", "ended_at") + timedelta(seconds=300))])  # fmt: skip
    steps = pl.concat([steps_of([first]), steps_of([first]).with_columns(
        pl.lit("other").alias("run_id"), pl.col("ts") + timedelta(seconds=300))])  # fmt: skip
    joined = rows(frames.RUN_ATTEMPTS, key(0) | {"run_id": "r", "attempt_no": 1})
    matched = match_sessions(logs, ran)
    assert explicit_runs(matched)["run_id"].to_list() == ["r"]  # the one that began first
    executed = executions_of_steps(steps, with_runs(matched, joined), events_of([first]), RULES)
    assert executed["kept"].all()


def test_session_unknown_to_accounting_is_not_the_one_before() -> None:
    known = Attempt(0, 200, "NODE_FAIL", (Session(0, training(0, 0, 10)),))
    later = Attempt(300, 400, "COMPLETED", (Session(310, training(5, 320, 5)),))
    ran = attempts_of([known])
    logs = sessions_of([known, later], restart_count=None)
    joined = rows(frames.RUN_ATTEMPTS, key(0) | {"run_id": "r", "attempt_no": 1})
    matched = with_runs(match_sessions(logs, ran), joined)
    assert matched["usable"].to_list() == [True, False]
    executed = executions_of_steps(steps_of([known, later]), matched, events_of([known]), RULES)
    result = sums(logged_time(executed, matched, events_of([known]), ran, interruptions_of([known])), 0)
    # What the later one ran again is lost; the rest is the unfinished step and the wait for the dead node.
    assert result == {("productive", None): 50, ("lost", "NODE_FAIL"): 50 + 10, ("stalled", "NODE_FAIL"): 90}


def test_data_wait_is_part_of_a_steps_time_and_saving_is_not() -> None:
    steps = (Step(0, 0, 10), Step(1, 20, 10), Step(2, 40, 10))
    events = (("data", 10, 20), ("checkpoint_save", 30, 40))
    tried = [Attempt(0, 50, "COMPLETED", (Session(0, steps, events),))]
    joined = rows(frames.RUN_ATTEMPTS, key(0) | {"run_id": "r", "attempt_no": 1})
    matched = with_runs(match_sessions(sessions_of(tried), attempts_of(tried)), joined)
    executed = executions_of_steps(steps_of(tried), matched, events_of(tried), RULES)
    assert executed["wall_s"].to_list() == [20, 10, 10]
    assert executed["own_s"].to_list() == [10, 10, 10]


def test_log_of_a_job_without_gpus_has_no_gpus() -> None:
    tried = [Attempt(0, 100, "COMPLETED", (Session(0, training(0, 0, 5)),))]
    ran = attempts_of(tried).with_columns(milli_gpus=pl.lit(0, dtype=pl.Int64))
    joined = rows(frames.RUN_ATTEMPTS, key(0) | {"run_id": "r", "attempt_no": 1})
    matched = with_runs(match_sessions(sessions_of(tried), ran), joined)
    executed = executions_of_steps(steps_of(tried), matched, events_of(tried), RULES)
    assert logged_time(executed, matched, events_of(tried), ran, interruptions_of(tried)).height > 0


@st.composite
def messes(draw: st.DrawFn) -> dict[str, pl.DataFrame]:
    """Attempts of a run one after the other, and a log in which nothing fits together but that it is one of theirs."""
    cuts = sorted(draw(st.lists(st.integers(0, 2000), min_size=2, max_size=6, unique=True)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    states = st.sampled_from(["COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED"])
    named = {"cluster": "c", "run_id": "r", "scheduler": "slurm", "job_id": "7"}
    tried = [Attempt(low, high, draw(states)) for low, high in spans]
    sessions: list[dict[str, object]] = []
    steps: list[dict[str, object]] = []
    events: list[dict[str, object]] = []
    program = st.sampled_from(["r", "r", "other"])
    for number, attempt in enumerate(tried):
        within = st.integers(attempt.start, attempt.end)
        for at_second in draw(st.lists(within, min_size=1, max_size=3, unique=True)):
            times = {"started_at": at(at_second), "ended_at": at(attempt.end), "restart_count": number}
            sessions.append(named | {"n_gpus": 16} | times | {"run_id": draw(program)})
        for begin, length, step in draw(
            st.lists(st.tuples(within, st.none() | st.integers(0, 300), st.integers(0, 8)), max_size=8)
        ):
            duration = None if length is None else float(length)
            steps.append(named | {"run_id": draw(program), "step": step, "ts": at(begin), "duration_s": duration})
        kinds = st.sampled_from(["checkpoint_save", "eval", "data", "compile", "init", "checkpoint_load", "profile"])
        for begin, length, kind in draw(st.lists(st.tuples(within, st.integers(0, 500), kinds), max_size=6)):
            happened = {"kind": kind, "ts": at(begin), "ended_at": at(begin + length), "step": draw(st.integers(0, 8))}
            events.append(named | {"run_id": draw(program), "blocking": draw(st.booleans())} | happened)
    return {
        "attempts": attempts_of(tried),
        "sessions": rows(frames.SESSIONS, *sessions),
        "steps": rows(frames.STEPS, *steps),
        "events": rows(frames.RUN_EVENTS, *events),
        "joined": rows(
            frames.RUN_ATTEMPTS, *(key(n) | {"run_id": "r", "attempt_no": n + 1} for n in range(len(tried)))
        ),
        "interruptions": interruptions_of(tried),
    }


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(messes(), st.integers(0, 1000))
def test_every_second_of_a_logged_run_is_in_exactly_one_class(mess: dict[str, pl.DataFrame], second: int) -> None:
    matched = with_runs(match_sessions(mess["sessions"], mess["attempts"]), mess["joined"])
    executed = executions_of_steps(mess["steps"], matched, mess["events"], RULES)
    result = logged_time(executed, matched, mess["events"], mess["attempts"], mess["interruptions"])
    assert set(result["category"]) <= set(ALLOCATED) - {"unattributed"}
    for attempt in mess["attempts"].iter_rows(named=True):
        begin, end = attempt["started_at"], attempt["ended_at"]
        own = result.filter(pl.col("submitted_at") == attempt["submitted_at"]).sort("started_at")
        known_until = end
        if attempt["state"] == "COMPLETED" and set(own["category"]) <= {"startup"}:
            known_until = own["ended_at"].max() or begin  # a log with neither step nor event leaves the rest open
        moment = begin + (known_until - begin) * second / 1001
        assert own.filter((pl.col("started_at") <= moment) & (pl.col("ended_at") > moment)).height == (
            known_until > begin
        )
        lengths = [(row["ended_at"] - row["started_at"]).total_seconds() for row in own.iter_rows(named=True)]
        assert sum(lengths) == pytest.approx((known_until - begin).total_seconds())
        assert own.is_empty() or (own["started_at"][0], own["ended_at"][-1]) == (begin, known_until)
        assert (own["ended_at"][:-1] == own["started_at"][1:]).all()
