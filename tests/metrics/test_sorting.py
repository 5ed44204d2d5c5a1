"""Sorts that leave out keys in which no rows differ."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from metrics.sorting import sort_by

values = st.sampled_from(["a", "b", None])


@given(st.lists(st.tuples(values, values, st.integers(0, 3)), max_size=12))
def test_sort_by_has_the_order_of_all_the_keys(cells: list[tuple[str | None, str | None, int]]) -> None:
    rows = pl.DataFrame(cells, schema={"one": pl.String, "two": pl.String, "three": pl.Int64}, orient="row")
    keys = ["one", "two", "three"]
    assert sort_by(rows, keys).equals(rows.sort(keys))


def test_sort_by_sorts_a_cluster_that_is_alone_by_its_runs() -> None:
    rows = pl.DataFrame({"cluster": ["c"] * 3, "run_id": ["2", "10", "1"]})
    assert sort_by(rows, ["cluster", "run_id"])["run_id"].to_list() == ["1", "10", "2"]
