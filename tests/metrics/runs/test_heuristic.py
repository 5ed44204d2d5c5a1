"""Jobs that are alike and follow each other, joined by a guess."""

from __future__ import annotations

import polars as pl
import pytest

from metrics import frames
from metrics.runs.heuristic import join_similar
from metrics.runs.runs import run_attempts
from tests.metrics.tables import Row, attempt, attempts, rows

HOME = "/home/alice/llama"
FIRST = "1-20260302T000000Z"


def alike(
    *ran: Row, directories: dict[str, str | None] | None = None, array: tuple[str, ...] = (), other: str = ""
) -> list[tuple[str, int, str]]:
    """(run, attempt number, rule) of the attempts, by job and time. All jobs are in one directory unless told."""
    table = attempts(*ran)
    output = [
        {name: row[name] for name in frames.ATTEMPT_KEY}
        | {
            "work_dir": (directories or {}).get(row["job_id"], HOME),
            "array_job_id": "9" if row["job_id"] in array else None,
        }
        for row in table.iter_rows(named=True)
    ]
    result = join_similar(
        run_attempts(table),
        table,
        rows(frames.ATTEMPT_LABELS, *output),
        max_gap_s=86_400,
        gpu_factor=2,
        not_training=table.filter(pl.col("name") == other).select(frames.ATTEMPT_KEY),
    )
    return result.sort("job_id", "submitted_at").select("run_id", "attempt_no", "joined_by").rows()


def test_similar_jobs_in_sequence_are_one_run() -> None:
    assert alike(
        attempt("1", 0, 1, 5, "NODE_FAIL"),
        attempt("1", 5, 6, 7, "TIMEOUT"),
        attempt("2", 20, 21, 30),
        attempt("3", 2, 40, 50),
    ) == [(FIRST, 1, "single"), (FIRST, 2, "requeue_chain"), (FIRST, 3, "heuristic"), (FIRST, 4, "heuristic")]


@pytest.mark.parametrize(
    ("second", "same"),
    [
        (attempt("2", 29, 29, 30), True),  # 24 h after the end
        (attempt("2", 29.01, 30, 31), False),
        (attempt("2", 5, 40, 50), True),  # asked in time, and waited long
        (attempt("2", 5, 6, 9, gpus=16), True),
        (attempt("2", 5, 6, 9, gpus=4), True),
        (attempt("2", 5, 6, 9, gpus=17), False),
        (attempt("2", 5, 6, 9, gpus=3), False),
        (attempt("2", 5, 6, 9, gpus=0), False),
        (attempt("2", 5, 6, 9, user="bob"), False),
        (attempt("2", 5, 6, 9, user=None), False),
        (attempt("2", 5, 6, 9, account="other"), False),
        (attempt("2", 5, 6, 9, name="other"), False),
        (attempt("2", 5, 6, 9, name=None), False),
        (attempt("2", 5, 6, 9, cluster="d"), False),
        (attempt("2", 4, 4.9, 9), False),  # at the same time
        (attempt("2", 5, None, None, "PENDING"), False),  # has not begun
    ],
)
def test_what_is_similar_enough(second: Row, same: bool) -> None:
    result = alike(attempt("1", 0, 1, 5, "TIMEOUT"), second)
    assert (result[0][0] == result[1][0]) is same
    assert result[1][2] == ("heuristic" if same else "single")


def test_jobs_of_other_or_unknown_directories_are_left_alone() -> None:
    one, two = attempt("1", 0, 1, 5), attempt("2", 5, 6, 9)
    for elsewhere in ("/home/alice/opt", None):
        assert [rule for _, _, rule in alike(one, two, directories={"2": elsewhere})] == ["single", "single"]
    assert [rule for _, _, rule in alike(one, two, directories={"1": None, "2": None})] == ["single", "single"]


def test_array_tasks_and_jobs_that_do_not_train_are_left_alone() -> None:
    one, two = attempt("1", 0, 1, 5, name="eval"), attempt("2", 5, 6, 9, name="eval")
    assert [rule for _, _, rule in alike(one, two, array=("1", "2"))] == ["single", "single"]
    assert [rule for _, _, rule in alike(one, two, other="eval")] == ["single", "single"]


def test_overlapping_similar_job_neither_continues_nor_precedes() -> None:
    result = alike(attempt("1", 0, 1, 5), attempt("2", 0, 2, 6), attempt("3", 6, 7, 9), attempt("4", 9, 10, 11))
    assert [rule for _, _, rule in result] == ["single", "single", "single", "heuristic"]
    assert result[3][0] == result[2][0] == "3-20260302T060000Z"


def test_part_of_a_split_name_is_not_assumed_to_continue() -> None:
    """The comment named jobs 1 to 3, of which two ran at the same time; job 4 is like them, and nothing names it."""
    table = attempts(attempt("1", 0, 1, 5), attempt("2", 0, 2, 6), attempt("3", 6, 7, 9), attempt("4", 9, 10, 11))
    output = table.filter(pl.col("job_id") != "4").select(*frames.ATTEMPT_KEY, run_id=pl.lit("x"))
    result = run_attempts(table, explicit=output)
    labels = [
        {name: row[name] for name in frames.ATTEMPT_KEY} | {"work_dir": HOME, "array_job_id": None}
        for row in table.iter_rows(named=True)
    ]
    alone = join_similar(result, table, rows(frames.ATTEMPT_LABELS, *labels), max_gap_s=86_400, gpu_factor=2)
    assert alone.equals(result)
    assert dict(alone.select("job_id", "joined_by").rows()) == dict.fromkeys("1234", "single")
