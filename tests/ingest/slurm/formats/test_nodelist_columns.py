"""Whole columns of node lists, where the usual forms go a faster way than the others."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.formats.nodelist import NodeListError, expand, expand_column

numbers = st.sampled_from(["0", "00", "1", "01", "7", "09", "10", "100", "99999999999999999", ""])
pieces = st.builds("{}{}{}".format, numbers, st.sampled_from(["", "-", "-"]), numbers)
names = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["n", "gpu-a.b", "", "é", "None", "node=n", " n", "n1,m"]),
    st.sampled_from(["", "[", "["]),
    st.lists(pieces, max_size=3).map(",".join),
    st.sampled_from(["", "]", "]", "]-x"]),
)


def one_by_one(text: str) -> tuple[list[str] | None, str | None]:
    try:
        return expand(text), None
    except NodeListError as error:
        return None, str(error)


@settings(max_examples=100, deadline=None)
@given(st.lists(names, max_size=30))
def test_a_column_is_read_as_each_of_its_lists_is(texts: list[str]) -> None:
    result = {text: (nodes, error) for text, nodes, error in expand_column(pl.Series(texts, dtype=pl.String)).rows()}
    assert result == {text: one_by_one(text) for text in texts}


@pytest.mark.parametrize("text", ["n[1-100001]", "n[1-60000,100001-160000]", "n[2-1]"])
def test_too_many_or_no_names_are_an_error_in_a_column_too(text: str) -> None:
    assert expand_column(pl.Series([text])).row(0) == (text, None, one_by_one(text)[1])


def test_overlapping_ranges_name_each_node_once() -> None:
    assert expand_column(pl.Series(["n[1-2,2-3]"]))["nodes"].to_list() == [["n1", "n2", "n3"]]
