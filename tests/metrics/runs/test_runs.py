"""Which attempts are one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.runs.runs import executions, run_attempts, runs
from tests.metrics.tables import Row, at, attempt, attempts

if TYPE_CHECKING:
    import random


def numbered(ran: pl.DataFrame) -> list[tuple[str, str, int]]:
    """(run, job, number) of every attempt."""
    return run_attempts(ran).sort("job_id", "submitted_at").select("run_id", "job_id", "attempt_no").rows()


def test_a_requeue_chain_is_one_run_with_numbered_attempts() -> None:
    ran = attempts(
        attempt("29", 0, 0.5, 3, "NODE_FAIL"),
        attempt("29", 3, 3.1, 5, "PREEMPTED"),
        attempt("29", 5, 5.2, 9, "COMPLETED"),
    )
    result = run_attempts(ran)
    assert result["run_id"].unique().to_list() == ["29-20260302T000000Z"]
    assert result["attempt_no"].to_list() == [1, 2, 3]
    assert result["joined_by"].to_list() == ["single", "requeue_chain", "requeue_chain"]


@pytest.mark.parametrize(
    ("second", "n_runs"),
    [
        (attempt("7", 5, 5, 6), 1),  # requeued in the second in which the first ended
        (attempt("7", 5.01, 6, 7), 1),  # up to KillWait later
        (attempt("7", 29, 29, 30), 1),  # 24 h after the end: still within
        (attempt("7", 29.001, 30, 31), 2),  # later: the id was given again
        (attempt("7", 5, 5, 6, user="bob"), 2),  # somebody else's job
        (attempt("8", 5, 5, 6), 2),  # another job of alice's
        (attempt("7", 5, 5, 6, cluster="d"), 2),  # ids belong to a cluster
        (attempt("7", 5, 5, 6, scheduler="kubeflow"), 2),
    ],
)
def test_next_row_of_an_id_joins_unless_the_id_was_reused(second: Row, n_runs: int) -> None:
    ran = attempts(attempt("7", 0, 1, 5, "NODE_FAIL"), second)
    assert run_attempts(ran).select("cluster", "scheduler", "run_id").n_unique() == n_runs


@pytest.mark.parametrize(
    ("first", "second", "n_runs"),
    [
        # people may requeue a finished job, but a controller that lost its state gives ids again at once
        (attempt("7", 0, 1, 5, "COMPLETED"), attempt("7", 5, 5, 6), 1),
        (attempt("7", 0, 1, 5, "COMPLETED"), attempt("7", 5.1, 5.2, 6, name="other"), 2),
        (attempt("7", 0, 1, 5, "COMPLETED"), attempt("7", 5.1, 5.2, 6, name=None), 1),  # a dump without names
        (attempt("7", 0, 1, 5, "NODE_FAIL"), attempt("7", 5, 5.2, 6, name="renamed"), 1),
        (attempt("7", 0, 1, None, "RUNNING"), attempt("7", 5, 5.2, 6, name="other"), 2),  # never closed
        (attempt("7", 0, 1, None, "RUNNING"), attempt("7", 5, 5.2, 6), 1),  # seen once, before it was requeued
    ],
)
def test_row_after_one_not_requeued_must_have_the_same_name(first: Row, second: Row, n_runs: int) -> None:
    assert run_attempts(attempts(first, second))["run_id"].n_unique() == n_runs


@pytest.mark.parametrize(
    ("state", "user", "n_runs"), [("COMPLETED", "alice", 2), ("COMPLETED", "bob", 2), ("REQUEUED", "alice", 1)]
)
def test_id_reused_in_one_second_is_two_runs_unless_requeued(state: str, user: str, n_runs: int) -> None:
    """They differ in db_index, and so by a microsecond of `submitted_at` (ingest.slurm.accounting.merge)."""
    second = at(0).replace(microsecond=1)
    ran = attempts(attempt("1", 0, 0, 0, state), attempt("1", 0, 1, 2, user=user, submitted_at=second))
    result = run_attempts(ran)
    names = ["1-20260302T000000Z", "1-20260302T000000.000001Z"]
    assert sorted(result["run_id"].unique().to_list(), key=len) == names[:n_runs]
    assert runs(ran, result).height == n_runs


def test_gap_counts_from_the_end_of_the_previous_attempt() -> None:
    """However long that one ran."""
    ran = attempts(attempt("7", 0, 0, 24 * 6, "NODE_FAIL"), attempt("7", 24 * 6, 24 * 6 + 1, None, "RUNNING"))
    assert [number for _, _, number in numbered(ran)] == [1, 2]


def test_het_components_share_a_run_and_their_attempt_numbers() -> None:
    het: dict[str, Any] = {"het_job_id": "11"}
    ran = attempts(
        attempt("11", 0, 1, 2, "NODE_FAIL", **het),
        attempt("12", 0, 1, 2, "NODE_FAIL", **het),
        attempt("11", 2, 3, 4, **het),
        attempt("12", 2, 3, 4, **het),
    )
    run = "11-20260302T000000Z"
    assert numbered(ran) == [(run, "11", 1), (run, "11", 2), (run, "12", 1), (run, "12", 2)]
    assert run_attempts(ran).filter(pl.col("attempt_no") == 1)["joined_by"].to_list() == ["het", "het"]


def test_het_components_stay_together_if_their_id_is_reused() -> None:
    ran = attempts(
        attempt("11", 0, 1, 2, user="bob"),
        attempt("11", 100, 101, 102, het_job_id="11"),
        attempt("12", 100, 101, 102, het_job_id="11"),
    )
    result = {(job, submitted): run for _, _, job, submitted, run, _, _ in run_attempts(ran).rows()}
    assert result["12", at(100)] == result["11", at(100)]
    assert result["12", at(100)] != result["11", at(0)]


def test_a_resize_goes_on_with_the_same_run() -> None:
    ran = attempts(attempt("7", 0, 1, 3, "RESIZING", gpus=16), attempt("7", 3, 3, 5, "COMPLETED", gpus=8))
    assert run_attempts(ran)["run_id"].n_unique() == 1


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """Rows of a few job ids in the order of submission: some requeued, some ids given again, some heterogeneous."""
    result: list[Row] = []
    for job in draw(st.lists(st.sampled_from(["7", "8", "10"]), unique=True)):
        clock = 0.0
        for _ in range(draw(st.integers(1, 4))):
            user = draw(st.sampled_from(["alice", "alice", "bob", None]))
            length = draw(st.sampled_from([0.0, 1.0, 30.0]))
            result.append(attempt(job, clock, clock, clock + length, user=user))
            clock += length + draw(st.sampled_from([0.001, 1.0, 24.0, 25.0]))
    return sorted(result, key=lambda row: str(row["submitted_at"]))


@settings(max_examples=40, deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_every_attempt_is_in_exactly_one_run_whatever_the_order(history: list[Row], chance: random.Random) -> None:
    ran = attempts(*history)
    result = run_attempts(ran)
    key = list(frames.ATTEMPT_KEY)
    assert result.select(key).sort(key).equals(ran.select(key).sort(key))
    assert result.select("run_id", "attempt_no", "job_id").is_duplicated().sum() == 0
    shuffled = chance.sample(history, len(history))
    assert run_attempts(attempts(*shuffled)).equals(result)


@settings(max_examples=40, deadline=None)
@given(histories(), st.integers(0, 12))
def test_run_ids_and_numbers_stay_when_later_attempts_arrive(history: list[Row], known: int) -> None:
    early = run_attempts(attempts(*history[:known]))
    late = run_attempts(attempts(*history))
    assert late.join(early, on=early.columns, how="semi", nulls_equal=True).height == early.height


def test_an_execution_puts_het_components_together() -> None:
    het: dict[str, Any] = {"het_job_id": "11"}
    ran = attempts(
        attempt("11", 0, 1, 4, "FAILED", gpus=8, **het),
        attempt("12", 0, 1.001, 4.002, "CANCELLED", gpus=32, **het),
    )
    result = executions(ran, run_attempts(ran)).row(0, named=True)
    assert (result["started_at"], result["ended_at"]) == (at(1), at(4.002))
    assert (result["milli_gpus"], result["n_nodes"], result["state"]) == (40_000, 5, "FAILED")


def test_an_execution_is_not_over_while_a_component_runs() -> None:
    het: dict[str, Any] = {"het_job_id": "11"}
    ran = attempts(attempt("11", 0, 1, 4, **het), attempt("12", 0, 1, None, "RUNNING", **het))
    assert executions(ran, run_attempts(ran))["ended_at"].to_list() == [None]


def test_execution_has_the_state_of_its_leader() -> None:
    """Also where ids gain a digit."""
    het: dict[str, Any] = {"het_job_id": "99"}
    ran = attempts(attempt("99", 0, 1, 4, "NODE_FAIL", **het), attempt("100", 0, 1, 4, "CANCELLED", **het))
    assert executions(ran, run_attempts(ran))["state"].to_list() == ["NODE_FAIL"]


def test_a_run_by_hand() -> None:
    ran = attempts(
        attempt("29", 0, 0.5, 3, "NODE_FAIL", gpus=16, partition="scav"),
        attempt("29", 3, 3.1, 5, "COMPLETED", gpus=16),
    )
    result = runs(ran, run_attempts(ran)).row(0, named=True)
    assert result == {
        "cluster": "c",
        "run_id": "29-20260302T000000Z",
        "joined_by": "requeue_chain",
        "user": "alice",
        "account": "lab",
        "partition": "main",
        "name": "train",
        "n_attempts": 2,
        "milli_gpus": 16_000,
        "first_submitted_at": at(0),
        "eligible_at": at(0),
        "started_at": at(0.5),
        "ended_at": at(5),
        "state": "COMPLETED",
    }


def test_a_run_whose_last_attempt_waits_has_no_end() -> None:
    ran = attempts(attempt("29", 0, 0.5, 3, "NODE_FAIL"), attempt("29", 3, None, None, "PENDING"))
    result = runs(ran, run_attempts(ran)).row(0, named=True)
    assert (result["ended_at"], result["state"]) == (None, "PENDING")
