"""Drains that Slurm records in two parts."""

from __future__ import annotations

import polars as pl
import pytest

from metrics import frames
from metrics.lifecycle.drains import candidates, whole_drains
from tests.metrics.tables import at, rows

STATES = frames.NODE_STATES | {"source": frames.TEXT}


def states(*, event: float = 5, reason: str | None = "dimm") -> pl.DataFrame:
    asked = {"cluster": "c", "node": "n", "started_at": at(1), "ended_at": at(2), "state": "drained", "reason": "dimm",
             "source": "slurm.nodes"}  # fmt: skip
    gone = asked | {"started_at": at(event), "ended_at": at(9), "source": "slurm.events", "reason": reason}
    return rows(STATES, asked, gone)


def job(began: float, finished: float, node: str = "n") -> pl.DataFrame:
    return rows(frames.ATTEMPT_NODES, {"cluster": "c", "node": node, "started_at": at(began), "ended_at": at(finished)})


def test_drain_lasts_until_its_event_while_a_job_goes_on() -> None:
    assert whole_drains(states(), job(0, 5))["ended_at"].to_list() == [at(5), at(9)]


@pytest.mark.parametrize(
    ("known", "ran"),
    [
        (states(), job(0, 4)),
        (states(), job(3, 5)),
        (states(), job(0, 5, node="other")),
        (states(reason="psu"), job(0, 5)),
        (states(event=1.5), job(0, 1.5)),
    ],
)
def test_drain_without_such_a_job_or_event_ends_as_observed(known: pl.DataFrame, ran: pl.DataFrame) -> None:
    assert whole_drains(known, ran).equals(known)


def test_drain_of_no_reason_has_an_event_of_no_reason() -> None:
    known = states(reason=None).with_columns(reason=pl.lit(None, dtype=pl.String))
    assert candidates(known).height == 1
    assert whole_drains(known, job(0, 5))["ended_at"].to_list() == [at(5), at(9)]
