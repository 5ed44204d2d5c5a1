"""A run's wall time second by second: each second in exactly one class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ettr.ettr import ettr_by_run, imputed, ordered, wait_intervals, waits
from metrics.ettr.timeline import NOT_ASKED, class_sums, run_timeline
from metrics.runs.naming import LOGGED
from metrics.runs.runs import runs
from tests.metrics.tables import at, attempt, attempts, joined, rows, spent, sums

if TYPE_CHECKING:
    from datetime import datetime

Spell: TypeAlias = dict[str, Any]
"""An attempt, or what GPUs did for a while."""

RUN = "7-20260302T000000Z"
SPENT: frames.Schema = {
    "started_at": frames.TIME,
    "ended_at": frames.TIME,
    "category": frames.TEXT,
    "cause": frames.TEXT,
    "evidence": frames.TEXT,
    "milli_gpus": frames.COUNT,
}


def held(low: float, high: float, category: str, *, gpus: float = 8, cause: str | None = None) -> Spell:
    """What GPUs of the run did, hours after the start."""
    return {
        "started_at": at(low),
        "ended_at": at(high),
        "category": category,
        "cause": cause,
        "evidence": "log",
        "milli_gpus": round(gpus * 1000),
    }


def of(history: list[Spell], ledger: list[Spell], *, since: float = 0, until: float = 100) -> pl.DataFrame:
    ran = attempts(*history)
    waited = wait_intervals(ordered(ran, joined(ran)), at(until))
    return run_timeline(waited, rows(SPENT, *ledger), at(since), at(until))


def as_rows(result: pl.DataFrame) -> list[tuple[float, float, str, str | None, float]]:
    """From, to (hours), class, cause, GPUs."""
    return [
        ((low - at(0)).total_seconds() / 3600, (high - at(0)).total_seconds() / 3600, kind, cause, gpus / 1000)
        for low, high, kind, cause, gpus in result.select(
            "started_at", "ended_at", "class", "cause", "milli_gpus"
        ).rows()
    ]


HISTORY: list[Spell] = [attempt("7", 0, 1, 5, "NODE_FAIL"), attempt("7", 5, 6, 8)]
LEDGER: list[Spell] = [
    held(1, 1.5, "startup", cause="launch"),
    held(1.5, 2, "startup", cause="checkpoint_load"),
    held(2, 4, "productive"),
    held(4, 4.5, "lost", cause="node_fail"),
    held(4.5, 5, "stalled", cause="node_fail"),
    held(6, 7, "startup", cause="data"),
    held(7, 7.75, "productive"),
    held(7.75, 8, "teardown"),
]


def test_a_run_by_hand() -> None:
    assert as_rows(of(HISTORY, LEDGER)) == [
        (0, 1, "queue_initial", None, 8),
        (1, 1.5, "launch", None, 8),
        (1.5, 2, "checkpoint_load", None, 8),
        (2, 4, "productive", None, 8),
        (4, 4.5, "lost", "node_fail", 8),
        (4.5, 5, "stalled", "node_fail", 8),
        (5, 6, "queue_requeue", None, 8),
        (6, 7, "startup", "data", 8),
        (7, 7.75, "productive", None, 8),
        (7.75, 8, "teardown", None, 8),
    ]


def test_the_classes_add_up_to_the_denominator_of_the_ettr() -> None:
    result = of(HISTORY, LEDGER)
    ran = attempts(*HISTORY)
    known, window = joined(ran), (at(0), at(100))
    hours = dict.fromkeys(("productive", "lost", "startup", "stalled", "teardown"), 0.0)
    for row in LEDGER:
        low, high = row["started_at"], row["ended_at"]
        hours[str(row["category"])] += 8 * (high - low).total_seconds() / 3600
    ledger = sums(*(spent(category, gpu_hours, subject=RUN) for category, gpu_hours in hours.items()))
    by_run = ettr_by_run(waits(ran, known, *window), ledger, imputed(ran, known, *window), runs(ran, known))
    by_class = dict(class_sums(result).select("class", "gpu_seconds").group_by("class").sum().iter_rows())
    assert result["gpu_seconds"].sum() == by_run["wall_gpu_s"].item() == 8 * 8 * 3600
    assert by_class["productive"] == by_run["productive"].item()
    assert class_sums(result)["share"].sum() == pytest.approx(1)


def test_nodes_that_differ_share_the_seconds_by_their_gpus() -> None:
    result = of([attempt("7", 0, 0, 2, gpus=16)], [held(0, 2, "productive", gpus=12), held(1, 2, "stalled", gpus=4),
                                                 held(0, 1, "productive", gpus=4)])  # fmt: skip
    assert as_rows(result) == [
        (0, 1, "productive", None, 16),
        (1, 2, "productive", None, 12),
        (1, 2, "stalled", None, 4),
    ]
    assert result["seconds"].to_list() == [3600, 2700, 900]


def test_midnights_and_equal_neighbours_start_no_new_interval() -> None:
    result = of([attempt("7", 0, 0, 30)], [held(0, 24, "productive"), held(24, 30, "productive")])
    assert as_rows(result) == [(0, 30, "productive", None, 8)]


def test_time_without_a_request_is_shown_and_counts_for_nothing() -> None:
    known = attempts(attempt("7", 0, 0, 2), attempt("8", 10, 11, 12))
    together = joined(known).with_columns(run_id=pl.lit("r"), attempt_no=pl.int_range(1, 3), joined_by=pl.lit(LOGGED))
    waited = wait_intervals(ordered(known, together), at(100))
    result = run_timeline(waited, rows(SPENT, held(0, 2, "productive"), held(11, 12, "productive")), at(0), at(100))
    assert [each[2] for each in as_rows(result)] == ["productive", NOT_ASKED, "queue_requeue", "productive"]
    assert result.filter(pl.col("class") == NOT_ASKED).select("seconds", "gpu_seconds").row(0) == (8 * 3600, 0)
    assert result["seconds"].sum() == 12 * 3600


def test_without_input_no_intervals_result() -> None:
    assert of([attempt("7", 0, 0, 2)], [], since=50).is_empty()


KINDS = ["productive", "lost", "startup", "checkpoint", "stalled", "other_work", "unattributed"]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Spell], list[Spell]]:
    """Attempts of one job in minutes, what they did on two nodes, and how long they waited."""
    time = 0
    history: list[Spell] = []
    ledger: list[Spell] = []
    for _ in range(draw(st.integers(1, 4))):
        submitted, started = time, time + draw(st.integers(0, 30))
        ended = started + draw(st.integers(1, 60))
        history.append(attempt("7", submitted / 60, started / 60, ended / 60, "NODE_FAIL", gpus=16))
        for gpus in (12, 4):
            at_ = started
            while at_ < ended:
                until = min(ended, at_ + draw(st.integers(1, 60)))
                cause = draw(st.sampled_from([None, "init", "compile", "hang"]))
                ledger.append(held(at_ / 60, until / 60, draw(st.sampled_from(KINDS)), gpus=gpus, cause=cause))
                at_ = until
        time = ended
    return history, ledger


def microseconds(moment: datetime) -> int:
    return round((moment - at(0)).total_seconds() * 1e6)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 60), st.integers(61, 300))
def test_every_gpu_second_of_a_run_is_in_exactly_one_class(
    run: tuple[list[Spell], list[Spell]], since: int, until: int
) -> None:
    history, ledger = run
    result = of(history, ledger, since=since / 60, until=until / 60)
    for second in range(since * 60, until * 60, 97):  # each second by itself
        moment = at(seconds=second)
        slow: dict[tuple[str, str | None], int] = {}
        for each in ledger:
            if each["started_at"] <= moment < each["ended_at"]:
                own = each["category"] == "startup" and each["cause"] in {"init", "compile"}
                key = (str(each["cause"]), None) if own else (str(each["category"]), each["cause"])
                slow[key] = slow.get(key, 0) + int(each["milli_gpus"])
        for number, each in enumerate(history):
            if each["submitted_at"] <= moment < each["started_at"]:
                slow["queue_requeue" if number else "queue_initial", None] = 16_000
        here = result.filter((pl.col("started_at") <= moment) & (pl.col("ended_at") > moment))
        assert {(kind, cause): gpus for kind, cause, gpus in here.select("class", "cause", "milli_gpus").rows()} == slow


@settings(max_examples=60, deadline=None)
@given(histories(), st.integers(0, 60), st.integers(61, 300))
def test_seconds_and_gpu_seconds_sum_exactly_to_those_of_the_run(
    run: tuple[list[Spell], list[Spell]], since: int, until: int
) -> None:
    history, ledger = run
    low, high = since * 60_000_000, until * 60_000_000
    result = of(history, ledger, since=since / 60, until=until / 60)

    def inside(begin: datetime, end: datetime) -> int:
        return max(0, min(microseconds(end), high) - max(microseconds(begin), low))

    exact = sum(inside(each["started_at"], each["ended_at"]) * int(each["milli_gpus"]) for each in ledger)
    exact += sum(inside(each["submitted_at"], each["started_at"]) * 16_000 for each in history)
    counted = sum(
        inside(begin, end) * gpus for begin, end, gpus in result.select("started_at", "ended_at", "milli_gpus").rows()
    )
    assert counted == exact
    span = inside(history[0]["submitted_at"], history[-1]["ended_at"])
    assert result["seconds"].sum() == pytest.approx(span / 1e6)


def test_the_order_of_rows_changes_nothing() -> None:
    assert of(HISTORY, LEDGER).equals(of(HISTORY[::-1], LEDGER[::-1]))
