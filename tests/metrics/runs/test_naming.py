"""What users write at their jobs names runs: environment, comment, wckey, name patterns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.ettr.ettr import waits
from metrics.runs.naming import RunRules, named_runs
from metrics.runs.runs import run_attempts, runs
from tests.metrics.tables import Row, at, attempt, attempts, rows

ALL = RunRules(env="RUN_ID", comment_key="run", wckey=True, names=(r"^(?P<run>llama-.*)-(restart|part)\d+$",))


def labels(ran: pl.DataFrame, written: dict[str, Row]) -> pl.DataFrame:
    """What was written at each of the rows of some job ids."""
    key = ran.select(frames.ATTEMPT_KEY).rows(named=True)
    return rows(frames.ATTEMPT_LABELS, *(row | dict(written[row["job_id"]]) for row in key if row["job_id"] in written))


def called(written: Row, rules: RunRules = ALL, **more: Any) -> tuple[str, str] | None:
    """What a single job's run is called, and by which rule."""
    ran = attempts(attempt("7", 0, 1, 2, **more))
    result = named_runs(ran, labels(ran, {"7": written}), rules).select("run_id", "joined_by").rows()
    return result[0] if result else None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sbatch --export=ALL,RUN_ID=y train.sh", "y"),
        ("sbatch --export=RUN_ID=y,ALL train.sh", "y"),
        ("sbatch --export ALL,A=1,RUN_ID=moe-3 train.sh", "moe-3"),
        ('sbatch --export="ALL,RUN_ID=y" train.sh', "y"),
        ("sbatch -N2 --export=RUN_ID=y", "y"),
        ("sbatch --export=ALL,RUN_ID=a/b:c.d@e train.sh", "a/b:c.d@e"),
        ("sbatch --export=ALL,OTHER_RUN_ID=y train.sh", None),  # another variable
        ("sbatch --export=ALL,RUN_ID train.sh", None),  # taken from the shell: its value is not told
        ("sbatch --export=ALL,RUN_ID= train.sh", None),
        ("sbatch train.sh RUN_ID=y", None),  # the script's argument
        ("sbatch --export=ALL train.sh A,RUN_ID=y", None),
        ("sbatch --export-file=RUN_ID=y train.sh", None),
        ("", None),
        (None, None),
    ],
)
def test_the_environment_on_the_command_line(line: str | None, name: str | None) -> None:
    assert called({"submit_line": line}) == (None if name is None else (name, "environment"))


def test_a_stored_environment_beats_the_command_line() -> None:
    assert called({"env_run": "stored", "submit_line": "sbatch --export=RUN_ID=y x.sh"}) == ("stored", "environment")
    assert called({"env_run": "", "submit_line": "sbatch --export=RUN_ID=y x.sh"}) == ("y", "environment")


@pytest.mark.parametrize(
    ("comment", "name"),
    [
        ("run=x", "x"),
        ("for the paper; run=llama-7b, again", "llama-7b"),
        ("a=1,run=x,b=2", "x"),
        ("a=1;run=x;b=2", "x"),
        ("two\nlines run=x", "x"),
        ("run='x y'", "x"),
        ('{"run": "x", "note": "run=y"}', "x"),
        ('{"run": "two words"}', "two words"),
        ('{"run": 17}', "17"),
        ('{"run": null}', None),
        ('{"run": {"id": "x"}}', None),  # no name
        ('{"job": {"run": "x"}}', None),
        ('{"run": "x"', None),  # broken
        ("rerun=x", None),
        ("run = x", None),
        ("run=", None),
        ("run", None),
        ("", None),
        (None, None),
    ],
)
def test_the_key_in_a_comment(comment: str | None, name: str | None) -> None:
    expected = None if name is None else (name, "comment")
    assert called({"comment": comment}) == expected
    assert called({"admin_comment": comment}) == expected


def test_jobs_own_comment_precedes_the_administrators() -> None:
    assert called({"comment": "run=own", "admin_comment": "run=theirs"}) == ("own", "comment")
    assert called({"comment": "none here", "admin_comment": "run=theirs"}) == ("theirs", "comment")


def test_a_key_with_a_dot_in_its_name_is_not_a_pattern() -> None:
    rules = RunRules(comment_key="ml.run")
    assert called({"comment": "ml.run=x"}, rules) == ("x", "comment")
    assert called({"comment": "mlxrun=x"}, rules) is None
    assert called({"comment": '{"ml.run": "x"}'}, rules) == ("x", "comment")


@pytest.mark.parametrize(
    ("pattern", "job", "name"),
    [
        (r"^(?P<run>llama-.*)-(restart|part)\d+$", "llama-7b-part2", "llama-7b"),
        (r"^(?:restart|part)(\d)-(?P<run>.*)$", "part2-llama", "llama"),  # the group `run`, wherever it is
        (r"^(.*)_\d+$", "llama_2", "llama"),  # else the first group
        (r"^llama", "llama_2", "llama"),  # else what matched
        (r"^llama", "opt", None),
        (r"^(?P<run>.*?)x?$", "", None),  # an empty name is none
        (r"^llama", None, None),
    ],
)
def test_a_pattern_of_job_names(pattern: str, job: str | None, name: str | None) -> None:
    expected = None if name is None else (name, "name_pattern")
    assert called({}, RunRules(names=(pattern,)), name=job) == expected


def test_the_first_pattern_that_names_a_run_counts() -> None:
    assert called({}, RunRules(names=("^(x)", "^(llama)", "^(l)")), name="llama") == ("llama", "name_pattern")


def test_a_wckey_that_slurm_gave_by_default_names_nothing() -> None:
    assert called({"wckey": "proj"}) == ("proj", "wckey")
    assert called({"wckey": "*proj"}) is None
    assert called({"wckey": ""}) is None


def test_rules_that_are_not_set_name_nothing() -> None:
    written = {"env_run": "a", "submit_line": "sbatch --export=RUN_ID=b", "comment": "run=c", "wckey": "d"}
    assert called(written, RunRules(), name="llama-1-part1") is None


def test_the_surest_rule_names_the_run() -> None:
    """Log, environment, comment, wckey, name pattern; a requeue only joins what nothing names."""
    written = {"env_run": "by-env", "comment": "run=by-comment", "wckey": "by-wckey"}
    ran = attempts(attempt("7", 0, 1, 2, name="llama-x-part1"))
    log = ran.select(*frames.ATTEMPT_KEY, run_id=pl.lit("by-log"))
    output = labels(ran, {"7": written})
    assert named_runs(ran, output, ALL, log)["run_id"].to_list() == ["by-log"]
    for column, name in (("", "by-env"), ("env_run", "by-comment"), ("comment", "by-wckey"), ("wckey", "llama-x")):
        output = output.with_columns(pl.lit(None, dtype=pl.String).alias(column)) if column else output
        assert named_runs(ran, output, ALL)["run_id"].to_list() == [name]


def joined(ran: pl.DataFrame, written: dict[str, Row], rules: RunRules = ALL) -> list[tuple[str, int, str]]:
    """(run, attempt number, rule) of the attempts, by job and time."""
    result = run_attempts(ran, explicit=named_runs(ran, labels(ran, written), rules))
    return result.sort("job_id", "submitted_at").select("run_id", "attempt_no", "joined_by").rows()


X: Row = {"comment": "run=x"}


def test_jobs_of_one_comment_are_one_run_and_their_requeues_too() -> None:
    ran = attempts(
        attempt("1", 0, 1, 5, "NODE_FAIL"),
        attempt("1", 5, 6, 7, "TIMEOUT"),
        attempt("2", 7, 8, 9),
        attempt("3", 0, 1, 9),
    )
    assert joined(ran, {"1": X, "2": X}) == [
        ("x", 1, "comment"),
        ("x", 2, "requeue_chain"),
        ("x", 3, "comment"),
        ("3-20260302T000000Z", 1, "single"),
    ]
    table = runs(ran, run_attempts(ran, explicit=named_runs(ran, labels(ran, {"1": X, "2": X}), ALL)))
    assert table.filter(pl.col("run_id") == "x").select("joined_by", "n_attempts").rows() == [("comment", 3)]


def test_chain_is_named_by_its_surest_rule_of_any_attempt() -> None:
    ran = attempts(attempt("1", 0, 1, 5, "NODE_FAIL"), attempt("1", 5, 6, 7))
    second = labels(ran, {"1": {"env_run": "by-env"}}).tail(1)
    first = labels(ran, {"1": X}).head(1)
    result = run_attempts(ran, explicit=named_runs(ran, pl.concat([first, second]), ALL))
    assert result.select("run_id", "joined_by").rows() == [("by-env", "environment"), ("by-env", "requeue_chain")]


def test_job_that_follows_a_running_one_waits_for_its_turn() -> None:
    """Jobs of a chain (`--dependency=afterany`) are submitted at once: the later ones are not beside the first."""
    ran = attempts(
        attempt("1", 0, 1, None, "RUNNING"),
        attempt("2", 0.1, None, None, "PENDING", eligible_at=None),
        attempt("3", 0.2, None, None, "PENDING", eligible_at=None),
        attempt("4", 0.3, None, 0.5, "CANCELLED"),
    )
    assert joined(ran, dict.fromkeys("1234", X)) == [
        ("x", 2, "comment"), ("x", 3, "comment"), ("x", 4, "comment"), ("x", 1, "comment")
    ]  # fmt: skip


def test_overlapping_jobs_of_one_name_stay_separate() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 0, 4, 9), attempt("3", 9, 10, 12))
    assert joined(ran, dict.fromkeys("123", X)) == [
        ("x@1-20260302T000000Z", 1, "single"),
        ("x@2-20260302T000000Z", 1, "single"),
        ("x@3-20260302T090000Z", 1, "single"),
    ]


def test_jobs_before_and_after_overlapping_ones_stay_together() -> None:
    """No piece has the bare name, and jobs before the overlap are no run with jobs after it."""
    ran = attempts(
        attempt("1", 0, 1, 2, "NODE_FAIL"),
        attempt("1", 2, 3, 4, "TIMEOUT"),
        attempt("2", 0, 4, 5, "TIMEOUT"),
        attempt("3", 0, 6, 8, "NODE_FAIL"),
        attempt("3", 8, 8.1, 9),
        attempt("4", 0, 7, 9),
        attempt("5", 0, 9, 10, "TIMEOUT"),
        attempt("6", 0, 10, None, "RUNNING"),
        attempt("7", 0, None, None, "PENDING", eligible_at=None),
    )
    before, third, fourth, after = (f"x@{job}-20260302T000000Z" for job in (1, 3, 4, 5))
    assert joined(ran, dict.fromkeys("1234567", X)) == [
        (before, 1, "comment"),
        (before, 2, "requeue_chain"),
        (before, 3, "comment"),
        (third, 1, "single"),
        (third, 2, "requeue_chain"),
        (fourth, 1, "single"),
        (after, 1, "comment"),
        (after, 2, "comment"),
        (after, 3, "comment"),
    ]


def test_one_name_of_several_users_is_a_run_of_each() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 5, 6, 9, user="bob"))
    assert [run for run, _, _ in joined(ran, dict.fromkeys("12", X))] == ["x@alice", "x@bob"]


def test_names_by_a_pattern_are_of_one_account() -> None:
    ran = attempts(
        attempt("1", 0, 1, 5, name="llama-a-part1"),
        attempt("2", 5, 6, 9, name="llama-a-part2"),
        attempt("3", 9, 10, 11, name="llama-a-part1", account="other"),
        attempt("4", 5, 6, 9, name="llama-b-part1"),
    )
    assert joined(ran, {}) == [
        ("llama-a@lab", 1, "name_pattern"),
        ("llama-a@lab", 2, "name_pattern"),
        ("llama-a@other", 1, "name_pattern"),
        ("llama-b", 1, "name_pattern"),
    ]


def test_a_comment_may_continue_a_run_that_has_no_name() -> None:
    ran = attempts(attempt("1", 0, 1, 5, "NODE_FAIL"), attempt("1", 5, 6, 7, "FAILED"), attempt("2", 8, 9, 10))
    run = "1-20260302T000000Z"
    assert joined(ran, {"2": {"comment": f"run={run}"}}) == [
        (run, 1, "single"), (run, 2, "requeue_chain"), (run, 3, "comment")
    ]  # fmt: skip


def test_another_job_of_a_named_run_waits_from_eligibility_on() -> None:
    ran = attempts(attempt("1", 0, 1, 5), attempt("2", 495, 497, 500))
    result = run_attempts(ran, explicit=named_runs(ran, labels(ran, dict.fromkeys("12", X)), ALL))
    waited = waits(ran, result, at(0), at(1000)).sort("initial")
    assert [wait / 3600 for wait in waited["wait_s"]] == [2.0, 1.0]


def test_the_order_of_the_rows_does_not_matter() -> None:
    ran = attempts(
        attempt("1", 0, 1, 5, "NODE_FAIL"), attempt("1", 5, 6, 7), attempt("2", 8, 9, 10), attempt("3", 8, 9, 10)
    )
    output = labels(ran, dict.fromkeys("123", X))
    result = run_attempts(ran, explicit=named_runs(ran, output, ALL))
    assert run_attempts(ran.reverse(), explicit=named_runs(ran.reverse(), output.reverse(), ALL)).equals(result)


def test_attempt_without_a_user_is_its_chains_and_splits_no_run() -> None:
    ran = attempts(attempt("7", 0, 1, 2, state="NODE_FAIL", user=None), attempt("7", 2, 3, 4, user="u"))

    assert joined(ran, {"7": {"comment": "run=exp"}}) == [("exp", 1, "comment"), ("exp", 2, "requeue_chain")]
