"""Runs that logs name: put together across jobs, and kept apart where one name cannot mean one run."""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.ettr.ettr import waits
from metrics.runs.runs import run_attempts, runs
from tests.metrics.tables import at, attempt, attempts

KEY = list(frames.ATTEMPT_KEY)


def named(ran: pl.DataFrame, names: dict[str, str]) -> pl.DataFrame:
    """What the logs of jobs call their run."""
    result = ran.filter(pl.col("job_id").is_in(list(names)))
    return result.select(*KEY, pl.col("job_id").replace_strict(names).alias("run_id"))


def joined(ran: pl.DataFrame, names: dict[str, str]) -> dict[tuple[str, int], tuple[str, int]]:
    """(job, which of its rows) -> (run, attempt number)"""
    result = run_attempts(ran, explicit=named(ran, names)).sort("job_id", "submitted_at")
    number = pl.col("submitted_at").rank("ordinal").over("job_id").cast(pl.Int64)
    return {(job, n): (run, no) for job, n, run, no in result.select("job_id", number, "run_id", "attempt_no").rows()}


def test_jobs_that_log_one_name_one_after_the_other_are_one_run() -> None:
    ran = attempts(attempt("1", 0, 1, 5, "TIMEOUT"), attempt("2", 6, 7, 9), attempt("3", 0, 1, 2))
    assert joined(ran, {"1": "llama", "2": "llama"}) == {
        ("1", 1): ("llama", 1),
        ("2", 1): ("llama", 2),
        ("3", 1): ("3-20260302T000000Z", 1),
    }
    (run,) = (
        runs(ran, run_attempts(ran, explicit=named(ran, {"1": "llama", "2": "llama"})))
        .filter(pl.col("run_id") == "llama")
        .to_dicts()
    )
    assert (run["joined_by"], run["n_attempts"]) == ("explicit", 2)


def test_requeues_without_a_log_belong_to_their_jobs_run() -> None:
    ran = attempts(attempt("1", 0, 1, 5, "NODE_FAIL"), attempt("1", 5, 6, 6.1, "NODE_FAIL"), attempt("1", 6.1, 7, 9))
    first = named(ran, {"1": "llama"}).head(1)
    result = run_attempts(ran, explicit=first)
    assert result["run_id"].to_list() == ["llama"] * 3
    assert result["attempt_no"].to_list() == [1, 2, 3]


def test_requeue_under_another_name_is_the_same_run() -> None:
    ran = attempts(attempt("1", 0, 1, 5, "NODE_FAIL"), attempt("1", 5, 6, 9))
    names = named(ran, {"1": "x"}).with_columns(run_id=pl.Series(["wandb-a", "wandb-b"]))
    assert run_attempts(ran, explicit=names)["run_id"].to_list() == ["wandb-a", "wandb-a"]


def test_jobs_of_one_name_at_the_same_time_are_not_one_run() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 0, 1, 5), attempt("3", 6, 7, 9))
    result = joined(ran, {"1": "sweep", "2": "sweep", "3": "sweep"})
    assert result["1", 1][0].startswith("sweep@1-")
    assert result["2", 1][0].startswith("sweep@2-")
    assert result["3", 1] == ("sweep@3-20260302T060000Z", 1)


def test_one_name_of_several_users_is_a_run_of_each() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 6, 7, 9, user="bob"))
    assert joined(ran, {"1": "test", "2": "test"}) == {("1", 1): ("test@alice", 1), ("2", 1): ("test@bob", 1)}


def test_run_waits_for_another_job_only_once_it_is_eligible() -> None:
    """Metric-definitions 1.2: wall clock is time in which a job of the run was scheduled, or eligible but queued."""
    ran = attempts(
        attempt("1", 0, 1, 5, "COMPLETED"),
        attempt("2", 495, 497, 500, "NODE_FAIL"),  # taken up again after weeks
        attempt("2", 501, 502, 503, "TIMEOUT"),  # a requeue: Slurm's hold before it counts
        attempt("3", 90, 504, 505),  # waited in the queue long before its turn
    )
    result = run_attempts(ran, explicit=named(ran, {"1": "llama", "2": "llama", "3": "llama"}))
    assert result["joined_by"].to_list() == ["explicit", "explicit", "requeue_chain", "explicit"]
    waited = waits(ran, result, at(0), at(1000)).sort("wait_s", "initial")
    assert [(initial, wait / 3600) for initial, wait in waited.select("initial", "wait_s").rows()] == [
        (False, 1.0),
        (True, 1.0),
        (False, 2.0),
        (False, 2.0),
    ]
