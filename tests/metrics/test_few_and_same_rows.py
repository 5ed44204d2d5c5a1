"""Joins that compare nothing where that changes nothing have the rows of polars' own."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from metrics.few_rows import join_few, only_few
from metrics.same_rows import join_same

KEY = ["cluster", "job_id"]


def table(jobs: list[str | None], column: str) -> pl.DataFrame:
    """One row per job of a cluster, with its place in a column."""
    values = {"cluster": ["c"] * len(jobs), "job_id": jobs, column: range(len(jobs))}
    return pl.DataFrame(values, schema={"cluster": pl.String(), "job_id": pl.String(), column: pl.Int64()})


@given(
    jobs=st.lists(st.sampled_from([*"abcd", None]), unique=True),
    others=st.none() | st.lists(st.sampled_from([*"abcd", None]), unique=True),
)
def test_join_same_has_the_rows_of_an_inner_join(jobs: list[str | None], others: list[str | None] | None) -> None:
    left, right = table(jobs, "state"), table(jobs if others is None else others, "run")
    joined = left.join(right, on=KEY)
    assert_frame_equal(join_same(left, right, on=KEY), joined, check_row_order=False)


def test_join_same_pairs_no_nulls() -> None:
    rows = table([None, "a"], "state")
    assert join_same(rows, rows.rename({"state": "run"}), on=KEY)["job_id"].to_list() == ["a"]


@pytest.mark.parametrize("few", [[], ["b"], ["b", "x"]])
def test_few_rows_are_joined_as_any_others(few: list[str | None]) -> None:
    rows, others = table(["a", "b", "c"], "state"), table(few, "saved")
    assert_frame_equal(join_few(rows, others, on=KEY), rows.join(others, on=KEY, how="left", maintain_order="left"))
    assert_frame_equal(only_few(rows, others, on=KEY), rows.join(others, on=KEY, how="semi", maintain_order="left"))
