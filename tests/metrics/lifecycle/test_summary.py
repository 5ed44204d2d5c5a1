"""Time from failure to capacity back, and repeat offenders."""

from __future__ import annotations

from statistics import median_low
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from metrics.lifecycle.outages import OUTAGES, STAGE_ROWS
from metrics.lifecycle.summary import repeat_offenders, stage_summary, time_to_capacity_back
from tests.metrics.tables import Row, at, rows

WINDOW = {"since": at(0), "until": at(1000)}


def outage(
    number: int, lasted: float, *, node: str = "n1", begins: float = 1, still: bool = False, **more: object
) -> Row:
    return {
        "cluster": "c", "node": node, "outage": number, "failed_at": at(begins), "noticed_at": at(begins),
        "back_at": None if still else at(begins, seconds=lasted), "out_s": float(lasted), "planned": False,
        "outcome": "open" if still else "returned", "relapse": False, "lost_gpu_s": 8.0 * lasted, "held_gpu_s": 0.0,
    } | more  # fmt: skip


def summed(*given: Row, by: str = "cause") -> dict[str, dict[str, Any]]:
    table = time_to_capacity_back(rows(OUTAGES, *given), by, **WINDOW)
    return {row["subject"]: row for row in table.to_dicts()}


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=30))
def test_median_without_censoring_is_the_plain_one(times: list[int]) -> None:
    row = summed(*(outage(n, lasted) for n, lasted in enumerate(times)))["all"]
    assert row["median_s"] == median_low(times)
    assert row["p90_s"] == sorted(times)[-(-9 * len(times) // 10) - 1]
    assert (row["n"], row["n_open"]) == (len(times), 0)


def test_open_outages_make_the_median_longer_and_never_shorter() -> None:
    over = [outage(n, 100) for n in range(3)]
    alone = summed(*over)["all"]["median_s"]
    later = summed(*over, *(outage(9 + n, 50, still=True) for n in range(2)))["all"]
    lasting = summed(*over, *(outage(9 + n, 500, still=True) for n in range(4)))["all"]
    assert (alone, later["median_s"], later["n_open"]) == (100, 100, 2)
    assert (lasting["median_s"], lasting["n"], lasting["n_open"]) == (None, 7, 4)


def test_planned_outages_have_a_row_of_their_own() -> None:
    found = summed(outage(1, 100, cause="gpu"), outage(2, 7200, planned=True, cause="maintenance"), outage(3, 9))
    assert {name: (row["outages"], row["median_s"]) for name, row in found.items()} == {
        "all": (2, 9), "maintenance": (1, 7200), "gpu": (1, 100), "unknown": (1, 9)
    }  # fmt: skip


def test_outage_of_before_costs_here_but_its_time_counts_there() -> None:
    row = summed(outage(1, 7200, begins=-1), outage(2, 60))["all"]
    assert (row["outages"], row["n"], row["median_s"], row["lost_gpu_s"]) == (2, 1, 60, 8 * 7260)


def test_nodes_that_relapse_come_first() -> None:
    given = [outage(1, 60, node="a"), outage(2, 60, node="a", begins=90), outage(3, 9, node="b"),
             outage(4, 90, node="b", begins=2, relapse=True, cause="gpu", outcome="rebooted"),
             outage(5, 60, node="c", planned=True)]  # fmt: skip
    found = repeat_offenders(rows(OUTAGES, *given))
    columns = ("node", "outages", "relapses", "out_s", "longest_s", "outcome")
    assert found.select(columns).rows() == [("b", 2, 1, 99, 90, "rebooted"), ("a", 2, 0, 120, 60, "returned")]


def test_stage_costs_what_its_rows_cost() -> None:
    parts = [
        {"cluster": "c", "node": "a", "outage": 1, "stage": name, "started_at": at(begin), "ended_at": at(end),
         "open": name == "reboot", "down_gpu_s": 10.0, "drained_gpu_s": 1.0, "maintenance_gpu_s": 0.0,
         "held_gpu_s": 2.0}
        for name, begin, end in (("reboot", 3, 4), ("down", 1, 3), ("down", 4, 5))
    ]  # fmt: skip
    found = stage_summary(rows(STAGE_ROWS, *parts), **WINDOW)
    columns = ("stage", "n", "n_open", "median_s", "lost_gpu_s", "held_gpu_s")
    assert found.select(columns).rows() == [("down", 2, 0, 3600, 22, 4), ("reboot", 1, 1, None, 11, 2)]
    assert found["total_s"].to_list() == [10_800, 3600]


def test_summaries_of_nothing_have_no_rows() -> None:
    nothing = pl.DataFrame(schema=OUTAGES)
    assert time_to_capacity_back(nothing, "cause", **WINDOW).is_empty()
    assert repeat_offenders(nothing).is_empty()
    assert stage_summary(pl.DataFrame(schema=STAGE_ROWS), **WINDOW).is_empty()
