"""Joins that compare nothing where that changes nothing have the rows of polars' own."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from metrics.joins import inner_join, left_join, semi_join

KEY = ["cluster", "job_id"]


def table(jobs: list[str | None], column: str) -> pl.DataFrame:
    """One row per job of a cluster, with its place in a column."""
    values = {"cluster": ["c"] * len(jobs), "job_id": jobs, column: range(len(jobs))}
    return pl.DataFrame(values, schema={"cluster": pl.String(), "job_id": pl.String(), column: pl.Int64()})


@given(
    jobs=st.lists(st.sampled_from([*"abcd", None]), unique=True),
    others=st.none() | st.lists(st.sampled_from([*"abcd", None]), unique=True),
)
def test_inner_join_has_the_rows_of_polars(jobs: list[str | None], others: list[str | None] | None) -> None:
    left, right = table(jobs, "state"), table(jobs if others is None else others, "run")
    joined = left.join(right, on=KEY)
    assert_frame_equal(inner_join(left, right, on=KEY), joined, check_row_order=False)


def test_inner_join_pairs_no_nulls() -> None:
    rows = table([None, "a"], "state")
    assert inner_join(rows, rows.rename({"state": "run"}), on=KEY)["job_id"].to_list() == ["a"]


@pytest.mark.parametrize("right", [[], ["b"], ["b", "x"]])
def test_joins_with_few_rows_are_those_of_polars(right: list[str | None]) -> None:
    rows, others = table(["a", "b", "c"], "state"), table(right, "saved")
    assert_frame_equal(left_join(rows, others, on=KEY), rows.join(others, on=KEY, how="left", maintain_order="left"))
    assert_frame_equal(semi_join(rows, others, on=KEY), rows.join(others, on=KEY, how="semi", maintain_order="left"))
