"""Preemptions caused by runs that came back from a failure."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.failures.interruptions import interruptions
from metrics.failures.second_order import (
    FIRST,
    SECOND,
    UNKNOWN,
    attempts_for_second_order,
    second_order_loss,
    with_second_order,
)
from tests.metrics.failures import slow_diagnosis
from tests.metrics.tables import Row, attempt, attempts, events, interruption, joined, of_keys, on_nodes, rows

EIGHT = [f"n{n}" for n in range(8)]


def ordered(ran: pl.DataFrame, nodes: dict[str, list[str]], **more: float) -> pl.DataFrame:
    """Interruptions with whom their preemptions made room for."""
    held, runs = on_nodes(ran, nodes), joined(ran)
    cut = interruptions(ran, runs, held, events())
    return with_second_order(cut, ran, runs, of_keys(held, attempts_for_second_order(cut, ran, **more)), **more)


BIG = [
    attempt("1", 0, 0, 5, "NODE_FAIL", gpus=1024),
    attempt("1", 5, 5.01, 9, gpus=1024),
]
"""A job of 1,024 GPUs that a node failure sends back: it runs again 36 s later."""

SMALL = [attempt(str(n), 1, 2, 5, "PREEMPTED", gpus=8) for n in range(10, 18)]
"""Eight jobs of 8 GPUs that run for 3 hours and are preempted."""


def golden() -> pl.DataFrame:
    ran = attempts(*BIG, *SMALL)
    return ordered(ran, {"1": EIGHT} | {str(n): [f"n{n - 10}"] for n in range(10, 18)})


def test_what_a_job_that_comes_back_costs_others_is_second_order() -> None:
    result = golden()
    preempted = result.filter(pl.col("class") == "preemption")
    assert preempted["made_room_for"].unique().to_list() == ["1-20260302T000000Z"]
    assert preempted["made_room_for_attempt"].unique().to_list() == [2]
    assert preempted["second_order"].to_list() == [True] * 8
    (failed,) = result.filter(pl.col("class") == "infrastructure").to_dicts()
    assert (failed["made_room_for"], failed["second_order"]) == (None, None)


def test_lost_goodput_of_first_and_second_order_by_hand() -> None:
    loss = second_order_loss(golden().with_columns(cost_gpu_s=pl.lit(None, dtype=pl.Float64)))
    result = {row["order"]: row for row in loss.iter_rows(named=True)}
    assert result[FIRST]["imputed_gpu_s"] / 3600 == 512  # one 1024-GPU attempt that failed after 5 h
    assert result[SECOND]["imputed_gpu_s"] / 3600 == 32  # eight 8-GPU attempts preempted after 3 h
    share = result[SECOND]["imputed_gpu_s"] / (result[FIRST]["imputed_gpu_s"] + result[SECOND]["imputed_gpu_s"])
    assert share == pytest.approx(0.0588, abs=5e-5)
    assert [result[name]["n"] for name in (FIRST, SECOND, UNKNOWN)] == [1, 8, 0]
    assert {row["cost_gpu_s"] for row in result.values()} == {None}


def test_a_short_attempt_loses_no_more_than_it_ran() -> None:
    short = rows(frames.INTERRUPTIONS, interruption("7", 0, 0.2)).with_columns(cost_gpu_s=pl.lit(3600.0))
    first = second_order_loss(short).row(0, named=True)
    assert first["imputed_gpu_s"] / 3600 == pytest.approx(1.6)
    assert (first["n_priced"], first["cost_gpu_s"]) == (1, 3600.0)


VICTIM = attempt("7", 0, 1, 5, "PREEMPTED")


@pytest.mark.parametrize(
    ("others", "nodes", "expected"),
    [
        # a first attempt: nothing had failed
        ([attempt("9", 4, 5, 8)], {"9": ["n1"]}, ("9", 1, False)),
        # nobody started there
        ([], {}, (None, None, None)),
        ([attempt("9", 4, 5, 8)], {"9": ["n9"]}, (None, None, None)),
        ([attempt("9", 4, 4.99, 8)], {"9": ["n1"]}, (None, None, None)),  # was there before
        ([attempt("9", 4, 5 + 6 / 60, 8)], {"9": ["n1"]}, (None, None, None)),  # 6 minutes later
        ([attempt("9", 4, 5 + 5 / 60, 8)], {"9": ["n1"]}, ("9", 1, False)),
        # what was not asked for yet cannot have pushed it out
        ([attempt("9", 5.01, 5.02, 8)], {"9": ["n1"]}, (None, None, None)),
        ([attempt("9", 4, 5.02, 8, eligible_at=None)], {"9": ["n1"]}, ("9", 1, False)),
        # the preempted job itself, back on its own node
        ([attempt("7", 5, 5.01, 8)], {}, (None, None, None)),
        # of two the one that took more of the nodes, then the first, then the larger
        ([attempt("8", 4, 5, 8), attempt("9", 4, 5.01, 8)], {"8": ["n1"], "9": ["n1", "n2"]}, ("9", 1, False)),
        ([attempt("8", 4, 5.01, 8), attempt("9", 4, 5, 8)], {"8": ["n1"], "9": ["n1"]}, ("9", 1, False)),
        ([attempt("8", 4, 5, 8), attempt("9", 4, 5, 8, gpus=64)], {"8": ["n1"], "9": ["n1"]}, ("9", 1, False)),
        # back from a failure of its user: no cost of infrastructure
        (
            [attempt("9", 1, 2, 4, "REQUEUED", exit_code=1), attempt("9", 4, 5, 8)],
            {"9": ["n1"]},
            ("9", 2, False),
        ),
        ([attempt("9", 1, 2, 4, "NODE_FAIL"), attempt("9", 4, 5, 8)], {"9": ["n1"]}, ("9", 2, True)),
    ],
)
def test_which_job_a_preemption_made_room_for(
    others: list[Row], nodes: dict[str, list[str]], expected: tuple[str | None, int | None, bool | None]
) -> None:
    result = ordered(attempts(VICTIM, *others), {"7": ["n1", "n2"]} | nodes)
    (row,) = result.filter((pl.col("job_id") == "7") & (pl.col("class") == "preemption")).to_dicts()
    run = None if row["made_room_for"] is None else row["made_room_for"].partition("-")[0]
    assert (run, row["made_room_for_attempt"], row["second_order"]) == expected


def test_the_time_to_start_is_a_parameter() -> None:
    ran = attempts(VICTIM, attempt("9", 4, 5.5, 8))
    nodes = {"7": ["n1"], "9": ["n1"]}
    assert ordered(ran, nodes)["made_room_for"].to_list() == [None]
    assert ordered(ran, nodes, room_s=1800)["made_room_for"].null_count() == 0


def test_unknown_cause_has_unknown_order_and_no_failure_has_none() -> None:
    result = rows(
        frames.INTERRUPTIONS,
        interruption("1", 0, 5, "preemption", second_order=None),
        interruption("2", 0, 5, "preemption", second_order=False),
        interruption("3", 0, 5, "user"),
    ).with_columns(cost_gpu_s=pl.lit(None, dtype=pl.Float64))
    loss = second_order_loss(result)
    assert dict(loss.select("order", "n").rows()) == {FIRST: 0, SECOND: 0, UNKNOWN: 1}


_JOB = st.tuples(
    st.sampled_from([0, 1, 2]),  # submitted
    st.sampled_from([0, 1, 60, 299, 300, 301, 3600]),  # seconds that it waits
    st.sampled_from([60, 300, 3600]),  # seconds that it runs
    st.sampled_from(["COMPLETED", "NODE_FAIL", "PREEMPTED"]),
    st.sets(st.integers(0, 2), min_size=1),
    st.sampled_from([8, 16]),
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), _JOB), min_size=2, max_size=7, unique_by=lambda each: (each[0], each[1][0]))
)
def test_preemptors_equal_those_of_trying_every_attempt(
    jobs: list[tuple[int, tuple[int, int, int, str, set[int], int]]],
) -> None:
    result, nodes = [], []
    for job, (submitted, waits, runs, state, held, gpus) in jobs:
        start = submitted + waits / 3600
        result.append(attempt(str(job), submitted, start, start + runs / 3600, state, gpus=gpus))
        nodes.append([f"n{node}" for node in sorted(held)])
    ran = attempts(*result)
    held_nodes = pl.concat(
        [on_nodes(attempts(row), {str(row["job_id"]): names}) for row, names in zip(result, nodes, strict=True)]
    )
    runs_of = joined(ran)
    cut = interruptions(ran, runs_of, held_nodes, events())
    reported = with_second_order(cut, ran, runs_of, of_keys(held_nodes, attempts_for_second_order(cut, ran)))
    broken = {(r["run_id"], r["attempt_no"]) for r in cut.to_dicts() if r["class"] == "infrastructure"}
    for row in reported.filter(pl.col("class") == "preemption").to_dicts():
        who = slow_diagnosis.made_room_for(row, ran, runs_of, held_nodes, timedelta(seconds=300))
        assert (row["made_room_for"], row["made_room_for_attempt"]) == (who or (None, None))
        assert row["second_order"] == (None if who is None else (who[0], who[1] - 1) in broken)
    assert reported.select("job_id", "submitted_at").rows() == cut.select("job_id", "submitted_at").rows()
