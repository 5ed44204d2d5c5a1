"""Incidents: which events are one, and which attempts they touch."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.health_incidents import (
    ATTEMPT_HEALTH,
    HEALTH_EVENTS,
    INCIDENTS,
    attempts_for_incidents,
    incidents,
)
from tests.metrics.failures import slow_health_incidents
from tests.metrics.tables import at, attempt, attempts, of_keys, on_nodes, rows

if TYPE_CHECKING:
    from tests.metrics.tables import Row

NOBODY = attempts(), rows(frames.ATTEMPT_NODES)


def event(minute: float, what: str = "xid 79", severity: str = "critical", **more: object) -> dict[str, object]:
    kind, code = what.split(" ")
    reported = {
        "cluster": "c",
        "node": "n1",
        "ts": at(minutes=minute),
        "kind": kind,
        "code": code,
        "severity": severity,
    }
    return reported | more


def events(*result: Row) -> pl.DataFrame:
    return rows(HEALTH_EVENTS, *result)


def touched(minute: float, started: float, ended: float | None, severity: str = "critical") -> list[tuple[Any, ...]]:
    """Job, events, severity and `at_end` where an event at a minute meets an attempt between two others on n1."""
    ran = attempts(attempt("7", 0, started / 60, None if ended is None else ended / 60))
    _, result = incidents(events(event(minute, severity=severity)), ran, on_nodes(ran, {"7": ["n1"]}))
    return result.select("job_id", "n_events", "severity", "at_end").rows()


def test_events_within_15_minutes_chain_into_one_incident() -> None:
    result, _ = incidents(events(*(event(minute) for minute in (0, 15, 30, 45.01, 100))), *NOBODY)
    assert result.select("started_at", "ended_at", "n_events").rows() == [
        (at(), at(minutes=30), 3),
        (at(minutes=45.01), at(minutes=45.01), 1),
        (at(minutes=100), at(minutes=100), 1),
    ]


def test_nodes_have_incidents_of_their_own() -> None:
    result, _ = incidents(events(event(0), event(1, node="n2"), event(2, cluster="d")), *NOBODY)
    assert result.select("cluster", "node").rows() == [("c", "n1"), ("c", "n2"), ("d", "n1")]


def test_incident_is_as_bad_as_its_worst_event_listed_first() -> None:
    result, _ = incidents(
        events(
            event(0, "throttle thermal", "warning", gpu="3", action="look at cooling"),
            event(1, "xid 31", "info", gpu="10", action="debug it"),
            event(2, "ecc dbe", "critical", gpu="3", action="reset the GPU"),
            event(3, "condition Ready", "critical"),
            event(4, "ecc dbe", "critical", gpu="2", action="reset the GPU"),
            event(5, "ib link_downed", "critical", action="check the cable"),
        ),
        *NOBODY,
    )
    (row,) = result.iter_rows(named=True)
    assert row["kinds"] == "condition Ready, ecc dbe, ib link_downed, throttle thermal, xid 31"
    assert (row["severity"], row["gpus"], row["n_events"]) == ("critical", "10,2,3", 6)
    assert row["action"] == "check the cable; reset the GPU"  # what each of the worst asks for


def test_an_incident_of_information_only_is_one() -> None:
    result, _ = incidents(events(event(0, "xid 31", "info"), event(5, "x y", severity="")), *NOBODY)
    assert result.select("severity", "n_events", "n_attempts").rows() == [("info", 2, 0)]


def test_attempt_is_touched_on_the_node_and_5_minutes_after() -> None:
    assert touched(59.9, 60, 120) == []
    assert touched(60, 60, 120) == [("7", 1, "critical", False)]
    assert touched(125, 60, 120) == [("7", 1, "critical", True)]
    assert touched(125.1, 60, 120) == []


def test_event_may_explain_an_end_10_minutes_before_to_5_after() -> None:
    assert touched(109.9, 60, 120)[0][3] is False
    assert touched(110, 60, 120)[0][3] is True
    assert touched(120, 60, 120, severity="info")[0] == ("7", 1, "info", True)


def test_a_running_attempt_is_touched_and_has_no_end() -> None:
    assert touched(5000, 60, None) == [("7", 1, "critical", False)]


def test_attempt_is_touched_only_by_the_events_it_met() -> None:
    ran = attempts(attempt("7", 0, 0, 0.5), attempt("8", 0, 35.5 / 60, 2))
    seen = events(event(25, "a b", "warning"), event(34, "a c", "warning"), event(36), event(37))
    result, met = incidents(seen, ran, on_nodes(ran, {"7": ["n1", "n2"], "8": ["n1"]}))
    assert result.select("n_events", "n_attempts").rows() == [(4, 2)]
    assert met.select("job_id", "started_at", "n_events", "severity", "at_end").rows() == [
        ("7", at(minutes=25), 2, "warning", True),
        ("8", at(minutes=25), 2, "critical", False),
    ]


def test_without_events_nothing_results() -> None:
    result, met = incidents(events(), *NOBODY)
    assert result.equals(pl.DataFrame(schema=INCIDENTS))
    assert met.equals(pl.DataFrame(schema=ATTEMPT_HEALTH))


MINUTES = st.integers(0, 240)


@st.composite
def a_story(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Events on three nodes, and attempts that held some of them, one after the other or at the same time."""
    seen = [
        event(
            draw(MINUTES) / 2,
            draw(st.sampled_from(["xid 79", "ecc dbe", "ib link_downed"])),
            draw(st.sampled_from(["critical", "warning", "info"])),
            node=draw(st.sampled_from(["n1", "n2", "n3"])),
            gpu=draw(st.sampled_from([None, "0", "1"])),
            action=draw(st.sampled_from([None, "reset", "watch"])),
        )
        for _ in range(draw(st.integers(0, 12)))
    ]
    ran = []
    for number in range(draw(st.integers(0, 6))):
        begin, length = draw(MINUTES) / 120, draw(st.integers(0, 60)) / 60
        end, by = None if draw(st.integers(0, 5)) == 0 else begin + length, draw(st.sampled_from([None, None, "1001"]))
        ran.append(attempt(str(number), 0, begin, end, "CANCELLED" if by else "COMPLETED", cancelled_by=by))
    held = {row["job_id"]: draw(st.lists(st.sampled_from(["n1", "n2"]), unique=True)) for row in ran}
    all_attempts = attempts(*ran)
    return events(*seen), all_attempts, on_nodes(all_attempts, held)  # type: ignore[arg-type]  # job ids are text


@given(a_story())
@settings(max_examples=80, deadline=None)
def test_incidents_equal_those_of_the_exhaustive_comparison(
    story: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame],
) -> None:
    seen, ran, held = story
    result, met = incidents(seen, ran, of_keys(held, attempts_for_incidents(seen, ran)))
    slow_found, slow_met = slow_health_incidents.incidents(*story)
    assert result.sort("node", "started_at").equals(rows(INCIDENTS, *slow_found).sort("node", "started_at"))
    by = ["node", "started_at", "job_id"]
    assert met.sort(by).equals(rows(ATTEMPT_HEALTH, *slow_met).sort(by))


@given(a_story())
@settings(max_examples=40, deadline=None)
def test_every_event_is_in_one_incident_whatever_the_order(
    story: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame],
) -> None:
    seen, ran, held = story
    result, met = incidents(*story)
    assert result["n_events"].sum() == seen.height
    assert met.height == result["n_attempts"].sum()
    again = incidents(seen.reverse(), ran.reverse(), held.reverse())
    assert again[0].equals(result)
    assert again[1].equals(met)


@pytest.mark.slow
def test_a_node_with_many_attempts_and_events_is_no_square() -> None:
    """50,000 attempts one after another, and an event in each: paired one by one that would be 2.5 billion."""
    n = 50_000
    starts = pl.Series([at(minutes=30 * number) for number in range(n)], dtype=frames.TIME)
    ran = pl.DataFrame({"job_id": [str(number) for number in range(n)], "started_at": starts}).with_columns(
        cluster=pl.lit("c"),
        scheduler=pl.lit("slurm"),
        submitted_at=pl.col("started_at"),
        ended_at=pl.col("started_at") + timedelta(minutes=20),
        node=pl.lit("n1"),
    )
    seen = ran.select("cluster", "node", ts=pl.col("started_at") + timedelta(minutes=10)).with_columns(
        kind=pl.lit("xid"), code=pl.lit("79"), severity=pl.lit("critical")
    )
    begun = time.perf_counter()
    result, met = incidents(
        frames.conform(seen, HEALTH_EVENTS),
        frames.conform(ran, frames.ATTEMPTS),
        frames.conform(ran, frames.ATTEMPT_NODES),
    )
    assert time.perf_counter() - begun < 20
    assert (result.height, met.height, met["at_end"].all()) == (n, n, True)
