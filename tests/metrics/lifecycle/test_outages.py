"""Outages of nodes and their stages, against a walk through every second."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.lifecycle.outages import DRAINING, OUT, STAGES, STATES, UNAVAILABLE_TIME, outages
from metrics.lifecycle.summary import ORDER
from tests.metrics.lifecycle import slow_outages
from tests.metrics.lifecycle.slow_outages import Spent, State
from tests.metrics.tables import START, rows

if TYPE_CHECKING:
    from datetime import datetime
    from random import Random

UNTIL = 30
NODES = ("n1", "n2")
KNOWN = ("triage", "reboot", "replacement", "verification")


def second(number: int | None) -> datetime | None:
    return None if number is None else START + timedelta(seconds=number)


def frames_of(states: list[State], spent: list[Spent]) -> tuple[pl.DataFrame, pl.DataFrame]:
    reported = [
        {"cluster": "c", "node": each.node, "started_at": second(each.begin), "ended_at": second(each.end),
         "state": each.state, "stage": each.stage, "silent": each.silent, "cause": each.cause,
         "planned": each.planned}
        for each in states
    ]  # fmt: skip
    ledger = [
        {"cluster": "c", "node": each.node, "started_at": second(each.begin), "ended_at": second(each.end),
         "state": "unavailable" if each.category else "allocated", "category": each.category or "unattributed",
         "milli_gpus": each.gpus * 1000}
        for each in spent
    ]  # fmt: skip
    return rows(STATES, *reported), rows(UNAVAILABLE_TIME, *ledger)


def found(states: list[State], spent: list[Spent] | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
    return outages(*frames_of(states, spent or []), known_until=START + timedelta(seconds=UNTIL))


@st.composite
def a_state(draw: st.DrawFn) -> State:
    begin = draw(st.integers(0, UNTIL - 1))
    end = draw(st.none() | st.integers(begin, UNTIL + 10))
    state = draw(st.sampled_from((*OUT, "unknown")))
    stage = draw(st.none() | st.sampled_from(KNOWN))
    silent = state == "down" and draw(st.booleans())
    return State(draw(st.sampled_from(NODES)), begin, end, state, stage, silent)


@st.composite
def a_cost(draw: st.DrawFn) -> Spent:
    begin = draw(st.integers(0, UNTIL - 1))
    category = draw(st.none() | st.sampled_from(OUT))
    return Spent(
        draw(st.sampled_from(NODES)), begin, draw(st.integers(begin + 1, UNTIL)), category, draw(st.integers(1, 8))
    )


@pytest.mark.slow
@given(st.lists(a_state(), max_size=8), st.lists(a_cost(), max_size=6), st.randoms(use_true_random=False))
def test_outages_and_stages_are_those_of_a_walk(states: list[State], spent: list[Spent], order: Random) -> None:
    out = [each for each in states if each.state in OUT]
    expected = slow_outages.outages(out, spent, UNTIL)
    order.shuffle(states)
    whole, stages = found(states, spent)
    walked = [(node, each.begin, each.end) for node, several in expected.items() for each in several]
    ends = pl.coalesce("back_at", pl.lit(second(UNTIL)))
    assert [(n, s, e) for n, s, e in whole.select("node", seconds("failed_at"), seconds(ends)).rows()] == walked
    parts = [(node, *part) for node, several in expected.items() for each in several for part in each.stages]
    assert stages.select("node", "stage", seconds("started_at"), seconds("ended_at")).rows() == parts
    costs = Counter[tuple[str, str, str]]()
    for node, several in expected.items():
        for each in several:
            costs.update({(node, *key): n for key, n in each.spent.items()})
    summed = stages.group_by("node", "stage").agg(pl.col(f"{name}_gpu_s").sum() for name in (*OUT, "held"))
    for row in summed.to_dicts():
        for name in (*OUT, "held"):
            assert row[f"{name}_gpu_s"] == costs.pop((row["node"], row["stage"], name), 0)
    assert not costs


def seconds(moment: str | pl.Expr) -> pl.Expr:
    """Seconds after `START`."""
    time = pl.col(moment) if isinstance(moment, str) else moment
    return (time.dt.epoch("s") - int(START.timestamp())).alias(f"s_{moment}" if isinstance(moment, str) else "s_end")


def test_lost_time_is_the_ledgers_whatever_the_stages() -> None:
    states = [State("n1", 2, 20, "drained"), State("n1", 10, 15, "down", "reboot"), State("n1", 25, None, "down")]
    lost = ((5, 10, "drained"), (10, 15, "down"), (15, 20, "drained"), (25, 30, "down"))
    spent = [Spent("n1", 2, 5, None, 8), *(Spent("n1", begin, end, kind, 8) for begin, end, kind in lost)]
    whole, stages = found(states, spent)
    assert stages["stage"].to_list() == ["draining", "drained", "reboot", "drained", "down"]
    assert stages.select(pl.col("down_gpu_s", "drained_gpu_s", "held_gpu_s").sum()).row(0) == (80, 80, 24)
    assert whole.select("outcome", "lost_gpu_s", "held_gpu_s", "out_s").rows() == [
        ("rebooted", 120, 24, 18),
        ("open", 40, 0, 5),
    ]
    assert whole["relapse"].to_list() == [False, True]


def test_symptom_is_the_cause_where_nothing_else_is_known() -> None:
    down = State("n1", 5, 20, "down", cause="not_responding")
    known = State("n1", 20, 25, "drained", cause="gpu")
    assert found([down])[0]["cause"].to_list() == ["not_responding"]
    assert found([down, known])[0]["cause"].to_list() == ["gpu"]
    assert found([State("n1", 5, 20, "maintenance", planned=True)])[0]["cause"].to_list() == ["maintenance"]


def test_what_is_announced_for_later_is_no_outage() -> None:
    whole, stages = found([State("n1", UNTIL, UNTIL + 9, "maintenance", planned=True)])
    assert whole.is_empty()
    assert stages.is_empty()


def test_nothing_out_of_service_makes_no_rows() -> None:
    whole, stages = found([])
    assert (whole.height, stages.height) == (0, 0)


def test_two_clusters_with_the_same_names_are_apart() -> None:
    states, spent = frames_of([State("n1", 5, 20, "down")], [])
    other = states.with_columns(cluster=pl.lit("d"), started_at=pl.col("started_at") + timedelta(seconds=5))
    whole, _ = outages(pl.concat([other, states]), spent, known_until=START + timedelta(seconds=UNTIL))
    assert whole.select("cluster", "out_s").rows() == [("c", 15), ("d", 10)]


def test_stages_are_listed_as_a_repair_goes() -> None:
    assert set(ORDER) == {*STAGES, DRAINING}
