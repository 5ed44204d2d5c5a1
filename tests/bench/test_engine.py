"""The two halves of a benchmark's cluster: what was recorded before a day, and what is new with it."""

from __future__ import annotations

import polars as pl

from tests.bench.engine import DAY_S, after, against_goal, before
from tests.bench.year import year

SPLIT = 4 * DAY_S


def test_past_and_new_day_report_each_job_of_the_whole() -> None:
    made = year(400, nodes=16, until=5 * DAY_S)
    past, new = before(made, SPLIT).jobs, after(made, SPLIT).jobs
    assert set(past["job"]) | set(new["job"]) == set(made.jobs["job"])
    both = past.join(new, on="job", suffix="_new")
    assert both.height > 0
    assert both["end"].null_count() == both.height
    assert set(both["state"]) == {"RUNNING"}
    assert new.equals(made.jobs.filter(pl.col("job").is_in(new["job"].to_list())))


def test_past_knows_nothing_of_the_new_day() -> None:
    past = before(year(400, nodes=16, until=5 * DAY_S), SPLIT)
    assert past.until == SPLIT
    for column in (past.jobs["start"], past.jobs["end"].drop_nulls(), past.downs["end"]):
        assert max(column.to_list(), default=0) < SPLIT


def test_a_part_of_the_year_cannot_hold_its_goal() -> None:
    holds = {
        (value, whole): against_goal("verify", value, 2.0, "s", whole=whole)["holds"]
        for value in (1.0, 3.0)
        for whole in (True, False)
    }
    assert holds == {(1.0, True): True, (1.0, False): None, (3.0, True): False, (3.0, False): False}
