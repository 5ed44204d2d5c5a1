"""When a gang was whole again, some of whose pods lived on across a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from metrics import frames
from metrics.restarts.whole import begun_whole
from tests.metrics.tables import Row, at, attempt, attempts, moment, rows

if TYPE_CHECKING:
    from datetime import datetime


def held(
    node: str, begin: float, end: float | None, gpus: int | None, *, submitted: float = 5, scheduler: str = "kubernetes"
) -> Row:
    """A placement of the job's attempt."""
    milli = None if gpus is None else 1000 * gpus
    key = {"cluster": "c", "scheduler": scheduler, "job_id": "7", "submitted_at": at(submitted)}
    return key | {"node": node, "started_at": at(begin), "ended_at": moment(end), "milli_gpus": milli}


def begun(
    *placements: Row, started: float = 5, ended: float | None = 20, scheduler: str = "kubernetes"
) -> datetime | None:
    ran = attempts(attempt("7", 5, started, ended, gpus=16, scheduler=scheduler), attempt("8", 5, 5, 6))
    found = begun_whole(ran, rows(frames.ATTEMPT_NODES, *placements))
    assert found.drop("started_at").equals(ran.drop("started_at"))
    assert found["started_at"][1] == at(5)  # an attempt without placements
    begin: datetime | None = found["started_at"][0]
    return begin


def test_a_gang_is_whole_with_its_last_replacement() -> None:
    assert begun(held("a", 5, 20, 8), held("b", 9, 20, 8)) == at(9)


def test_one_node_may_have_the_survivor_and_its_replacement() -> None:
    assert begun(held("a", 5, 7, 8), held("a", 7, 20, 16)) == at(7)
    assert begun(held("a", 5, 7, 8), held("b", 7, 20, 8)) is None  # one after the other: never both


@pytest.mark.parametrize("ended", [None, 20])
def test_a_gang_without_its_replacement_is_not_whole(ended: float | None) -> None:
    assert begun(held("a", 5, ended, 8), ended=ended) is None


def test_an_attempt_that_waited_has_no_survivor() -> None:
    assert begun(held("a", 6, 20, 8), held("b", 9, 20, 8), started=6) == at(6)


def test_unknown_gpus_leave_the_start_as_it_was() -> None:
    assert begun(held("a", 5, 20, 8), held("b", 9, 20, None)) == at(5)


def test_another_attempt_of_the_job_is_no_part_of_it() -> None:
    assert begun(held("a", 5, 20, 8), held("b", 9, 20, 8), held("b", 1, 20, 8, submitted=1)) == at(9)


def test_slurm_starts_with_all_that_it_allocates() -> None:
    assert begun(held("a", 5, 20, 8, scheduler="slurm"), scheduler="slurm") == at(5)
