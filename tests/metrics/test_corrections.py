"""Persons' corrections: what they change, that order matters only where they conflict, and that none change nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.corrections import (
    CONTINUED,
    IN_SERVICE,
    CauseFix,
    RunFix,
    StateFix,
    beginnings,
    corrected_causes,
    corrected_runs,
    corrected_states,
)
from metrics.failures.interruptions import critical_states, with_incidents
from metrics.runs.runs import run_attempts, runs
from tests.metrics.tables import at, attempt, attempts, interruption, rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metrics.corrections import AttemptKey

# --- causes ------------------------------------------------------------------------------------------------


def key(job: str, submitted: float) -> AttemptKey:
    return "slurm", job, at(submitted)


def interrupted(*result: Any) -> pl.DataFrame:
    return with_incidents(rows(frames.INTERRUPTIONS, *result)).select(list(frames.INTERRUPTIONS))


TWO = interrupted(
    interruption("1", 0, 5, node="n1", detail="state NODE_FAIL"), interruption("2", 1, 5.1, "user", cause="failed")
)


def test_overruled_cause_names_its_author() -> None:
    fix = CauseFix("adj-1", (key("2", 1),), "adjudicated by A: RMA", "infrastructure", "nvlink", "n1")
    one, two = with_incidents(corrected_causes(TWO, [fix])).sort("job_id").to_dicts()
    assert (two["class"], two["cause"], two["node"], two["adjudication"]) == ("infrastructure", "nvlink", "n1", "adj-1")
    assert two["detail"] == "adjudicated by A: RMA (-)"
    assert two["evidence"] == "accounting"
    assert one["incident"] == two["incident"] is not None  # 6 minutes apart, on one node now
    assert one["adjudication"] is None


def test_corrected_non_infrastructure_has_no_node_or_incident() -> None:
    fix = CauseFix("adj-1", (key("1", 0),), "adjudicated by A: a bug", "user", "failed")
    one = with_incidents(corrected_causes(TWO, [fix])).sort("job_id").to_dicts()[0]
    assert (one["class"], one["node"], one["incident"]) == ("user", None, None)


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        ((None, "nvlink"), ("user", "nvlink", None)),
        ((None, None, "n2"), ("user", "failed", "n2")),
        (("infrastructure", "ecc"), ("infrastructure", "ecc", "n1")),
        (("preemption", "preempted"), ("preemption", "preempted", None)),
    ],
)
def test_later_cause_keeps_what_it_leaves_out(late: tuple[str | None, ...], expected: tuple[str | None, ...]) -> None:
    early = CauseFix("adj-1", (key("1", 0),), "a", "user", "failed")
    one = corrected_causes(TWO, [early, CauseFix("adj-2", (key("1", 0),), "b", *late)]).sort("job_id").to_dicts()[0]
    assert (one["class"], one["cause"], one["node"]) == expected
    assert one["adjudication"] == "adj-2"


def test_node_named_after_the_class_leaves_the_class() -> None:
    """The second correction names the node only: the interruption stays infrastructure's, by that node."""
    blamed = CauseFix("adj-1", (key("2", 1),), "a", "infrastructure", "nvlink")
    named = CauseFix("adj-2", (key("2", 1),), "b", node="n2")
    freed = CauseFix("adj-3", (key("2", 1),), "c", "user", "failed")
    for fixes, expected in (
        ([blamed, named], ("infrastructure", "nvlink", "n2")),
        ([blamed, named, freed], ("user", "failed", None)),
        ([named], ("user", "failed", "n2")),
    ):
        one = corrected_causes(TWO, fixes).sort("job_id").to_dicts()[1]
        assert (one["class"], one["cause"], one["node"]) == expected


def test_cause_of_an_uninterrupted_attempt_changes_nothing() -> None:
    fix = CauseFix("adj-1", (key("9", 0),), "a", "user", "failed")
    assert corrected_causes(TWO, [fix]).equals(TWO)


@given(st.permutations(range(4)))
def test_causes_of_different_attempts_apply_in_any_order(order: list[int]) -> None:
    many = interrupted(*(interruption(str(n), n, n + 0.5) for n in range(4)))
    fixes = [CauseFix(f"adj-{n}", (key(str(n), n),), "a", "user", f"cause_{n}") for n in range(4)]
    assert corrected_causes(many, [fixes[n] for n in order]).equals(corrected_causes(many, fixes))


# --- node states -------------------------------------------------------------------------------------------


def state(node: str, began: float, ended: float | None, kind: str = "down", reason: str = "fault") -> dict[str, Any]:
    states_of = {
        "cluster": "c",
        "node": node,
        "started_at": at(began),
        "ended_at": None if ended is None else at(ended),
    }
    return states_of | {"state": kind, "reason": reason, "actor": "root", "planned": kind == "maintenance"}


def state_fix(node: str, since: float, until: float, kind: str = "maintenance", name: str = "adj-1") -> StateFix:
    return StateFix(name, "c", node, at(since), at(until), kind, "A", "adjudicated by A: agreed")


def states_of(states: pl.DataFrame, node: str = "n1") -> list[tuple[Any, Any, str]]:
    mine = states.filter(pl.col("node") == node)
    return [
        ((began - at(0)) / timedelta(hours=1), None if ended is None else (ended - at(0)) / timedelta(hours=1), kind)
        for began, ended, kind in mine.select("started_at", "ended_at", "state").iter_rows()
    ]


def test_within_a_correction_nothing_else_holds() -> None:
    states = rows(frames.NODE_STATES, state("n1", 0, 10), state("n1", 4, None, "drained"), state("n2", 0, 10))
    result = corrected_states(states, [state_fix("n1", 3, 5)])
    assert states_of(result) == [(0, 3, "down"), (3, 5, "maintenance"), (5, 10, "down"), (5, None, "drained")]
    assert states_of(result, "n2") == [(0, 10, "down")]
    row = result.filter(pl.col("state") == "maintenance").to_dicts()[0]
    assert (row["reason"], row["actor"], row["planned"]) == ("adjudicated by A: agreed", "A", True)


def test_a_node_that_was_in_service_has_no_state() -> None:
    states = rows(frames.NODE_STATES, state("n1", 0, 10))
    assert states_of(corrected_states(states, [state_fix("n1", 0, 10, IN_SERVICE)])) == []


def test_state_continuing_after_a_correction_did_not_begin_then() -> None:
    """Else it would explain the end of whatever ran at that moment, and silence would be put before it."""
    states = rows(frames.NODE_STATES, state("n1", 0, 10, reason="Not responding"))
    result = corrected_states(states, [state_fix("n1", 3, 5), state_fix("n1", 6, 7, name="adj-2")])
    assert result["reason"].to_list()[-1] == CONTINUED + "Not responding"
    began = critical_states(beginnings(result), critical_reasons="x")
    assert began["ts"].to_list() == [at(0)]


def on_grid(states: pl.DataFrame, node: str) -> list[str | None]:
    """The state of a node at each half hour; intervals of these tests lie on whole hours."""
    spans = [(low, high if high is not None else 24, kind) for low, high, kind in states_of(states, node)]
    return [
        "+".join(sorted(kind for low, high, kind in spans if low <= hour + 0.5 < high)) or None for hour in range(24)
    ]


SPANS = st.tuples(st.integers(0, 22), st.integers(1, 23)).map(lambda ends: (min(ends), max(ends[1], min(ends) + 1)))
FIXES = st.lists(
    st.tuples(st.sampled_from("ab"), SPANS, st.sampled_from(["maintenance", "down", IN_SERVICE])), max_size=5
)


@given(st.lists(st.tuples(st.sampled_from("ab"), SPANS, st.sampled_from(["down", "drained"])), max_size=5), FIXES)
def test_each_moment_follows_the_last_correction(known: list[Any], fixes: list[Any]) -> None:
    """Against a plain reading of what a correction means, moment by moment."""
    states = rows(frames.NODE_STATES, *(state(node, span[0], span[1], kind) for node, span, kind in known))
    made = [state_fix(node, span[0], span[1], kind, f"adj-{n}") for n, (node, span, kind) in enumerate(fixes)]
    result = corrected_states(states, made)
    for node in "ab":
        expected = on_grid(states, node)
        for one, (low, high), kind in fixes:
            for hour in range(low, high):
                if one == node:
                    expected[hour] = None if kind == IN_SERVICE else kind
        assert on_grid(result, node) == expected


@given(st.permutations(range(4)))
def test_corrections_of_disjoint_states_apply_in_any_order(order: list[int]) -> None:
    states = rows(frames.NODE_STATES, state("n1", 0, 20))
    fixes = [state_fix("n1", 4 * n, 4 * n + 2, ["maintenance", IN_SERVICE][n % 2], f"adj-{n}") for n in range(4)]
    assert corrected_states(states, [fixes[n] for n in order]).equals(corrected_states(states, fixes))


# --- runs --------------------------------------------------------------------------------------------------

RAN = attempts(
    attempt("1", 0, 1, 5, "NODE_FAIL"),
    attempt("1", 5, 6, 9, "NODE_FAIL"),
    attempt("1", 9, 10, 12),
    attempt("2", 13, 14, 15),
    attempt("3", 16, 17, 18),
)
JOINED = run_attempts(RAN)
ONE, TWO_, THREE = "1-20260302T000000Z", "2-20260302T130000Z", "3-20260302T160000Z"


def joined(fixes: Sequence[RunFix], derived: pl.DataFrame = JOINED) -> dict[str, list[tuple[str, float]]]:
    """The attempts of each run, in the order of their numbers."""
    result = corrected_runs(derived, RAN, fixes)
    assert result.height == derived.height
    assert result.select(frames.ATTEMPT_KEY).n_unique() == result.height
    out: dict[str, list[tuple[str, float]]] = {}
    for row in result.sort("run_id", "attempt_no").iter_rows(named=True):
        mine = out.setdefault(row["run_id"], [])
        mine.append((row["job_id"], (row["submitted_at"] - at(0)) / timedelta(hours=1)))
        assert row["attempt_no"] == len(mine)
    return out


def test_a_job_assigned_to_a_run_is_numbered_in_it() -> None:
    fix = RunFix("adj-1", (key("2", 13),), key("1", 0))
    assert joined([fix]) == {ONE: [("1", 0), ("1", 5), ("1", 9), ("2", 13)], THREE: [("3", 16)]}
    table = runs(RAN, corrected_runs(JOINED, RAN, [fix]))
    assert dict(table.select("run_id", "joined_by").rows())[ONE] == "adjudicated"


def test_an_attempt_can_be_separated_from_its_requeues() -> None:
    fix = RunFix("adj-1", (key("1", 5),), None, whole_job=False)
    assert joined([fix]) == {
        ONE: [("1", 0), ("1", 9)],
        "1-20260302T050000Z": [("1", 5)],
        TWO_: [("2", 13)],
        THREE: [("3", 16)],
    }


def test_run_whose_first_attempt_is_separated_is_renamed() -> None:
    """Its name comes from what is left."""
    fix = RunFix("adj-1", (key("1", 0),), None, whole_job=False)
    result = joined([fix])
    assert result[ONE] == [("1", 0)]
    assert result["1-20260302T050000Z"] == [("1", 5), ("1", 9)]


def test_a_separated_job_takes_its_requeues_along() -> None:
    explicit = JOINED.select(*frames.ATTEMPT_KEY).with_columns(run_id=pl.lit("llama"))
    together = run_attempts(RAN, explicit=explicit)
    result = joined([RunFix("adj-1", (key("1", 0),), None)], together)
    assert result == {"llama": [("2", 13), ("3", 16)], ONE: [("1", 0), ("1", 5), ("1", 9)]}


def test_who_follows_one_that_moves_moves_along() -> None:
    chain = [RunFix("adj-1", (key("3", 16),), key("2", 13)), RunFix("adj-2", (key("2", 13),), key("1", 0))]
    everyone = {ONE: [("1", 0), ("1", 5), ("1", 9), ("2", 13), ("3", 16)]}
    assert joined(chain) == joined(chain[::-1]) == everyone


def test_those_that_follow_each_other_are_one_run() -> None:
    circle = [RunFix("adj-1", (key("3", 16),), key("2", 13)), RunFix("adj-2", (key("2", 13),), key("3", 16))]
    assert joined(circle) == joined(circle[::-1])
    assert joined(circle)[TWO_] == [("2", 13), ("3", 16)]


def test_the_later_of_two_joins_counts() -> None:
    first, second = RunFix("adj-1", (key("3", 16),), key("1", 0)), RunFix("adj-2", (key("3", 16),), key("2", 13))
    assert joined([first, second])[TWO_] == [("2", 13), ("3", 16)]
    assert joined([second, first])[ONE][-1] == ("3", 16)


@pytest.mark.parametrize(
    "fix",
    [
        RunFix("adj-1", (key("9", 0),), key("1", 0)),
        RunFix("adj-1", (key("2", 13),), key("9", 0)),
        RunFix("adj-1", (key("9", 0),), None),
    ],
)
def test_join_of_unknown_attempts_changes_nothing(fix: RunFix) -> None:
    assert corrected_runs(JOINED, RAN, [fix]).equals(JOINED)


def test_without_corrections_the_frames_are_the_same_objects() -> None:
    states = rows(frames.NODE_STATES, state("n1", 0, 10))
    assert corrected_runs(JOINED, RAN, []) is JOINED
    assert corrected_states(states, []) is states
    assert corrected_causes(TWO, []) is TWO


MOVES = st.lists(st.tuples(st.sampled_from([("2", 13.0), ("3", 16.0), ("1", 9.0)]),
                           st.sampled_from([None, ("1", 0.0), ("2", 13.0), ("3", 16.0)])), max_size=4)  # fmt: skip


@given(MOVES)
def test_every_attempt_is_in_one_run_under_any_corrections(moves: list[Any]) -> None:
    fixes = [
        RunFix(f"adj-{n}", (key(*who),), None if to is None else key(*to), whole_job=False)
        for n, (who, to) in enumerate(moves)
        if who != to
    ]
    result = joined(fixes)
    assert sorted(each for run in result.values() for each in run) == [
        ("1", 0), ("1", 5), ("1", 9), ("2", 13), ("3", 16),
    ]  # fmt: skip
    last = {fix.attempts[0]: fix for fix in fixes}
    for fix in last.values():
        _, job, submitted = fix.attempts[0]
        mine = next(run for run in result.values() if (job, (submitted - at(0)) / timedelta(hours=1)) in run)
        if fix.anchor is not None:
            assert (fix.anchor[1], (fix.anchor[2] - at(0)) / timedelta(hours=1)) in mine


@given(st.permutations(range(3)))
def test_joins_of_different_attempts_can_be_made_in_any_order(order: list[int]) -> None:
    fixes = [
        RunFix("adj-0", (key("1", 9),), None, whole_job=False),
        RunFix("adj-1", (key("2", 13),), key("1", 9)),
        RunFix("adj-2", (key("3", 16),), key("2", 13)),
    ]
    assert joined([fixes[n] for n in order]) == joined(fixes)
    assert joined(fixes)["1-20260302T090000Z"] == [("1", 9), ("2", 13), ("3", 16)]
