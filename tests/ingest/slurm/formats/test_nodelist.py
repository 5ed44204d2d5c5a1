from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.formats.nodelist import LIMIT, NodeListError, expand, expand_column


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,n2", ["n1", "n2"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("cpn-f13-03-[01-02],cpn-f13-04-[01-02]", [f"cpn-f13-{r}-{n}" for r in ("03", "04") for n in ("01", "02")]),
        ("d13n[03,05,07-08,16]", ["d13n03", "d13n05", "d13n07", "d13n08", "d13n16"]),
        ("h100-193-[039,041,043]", ["h100-193-039", "h100-193-041", "h100-193-043"]),
        ("node[1-2][3-4]", ["node13", "node14", "node23", "node24"]),
        (
            "compute-a-[0-1]-b-[3,9-10],compute-c,compute-d",
            [f"compute-a-{a}-b-{b}" for a in (0, 1) for b in (3, 9, 10)] + ["compute-c", "compute-d"],
        ),
        ("Nodes=node[1-2],node[6-7]", ["node1", "node2", "node6", "node7"]),
        ("a.b_c[9-11].d", ["a.b_c9.d", "a.b_c10.d", "a.b_c11.d"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("n[1,1],n1", ["n1"]),
        ("x", ["x"]),
        ("None assigned", []),
        ("(null)", []),
        ("", []),
        ("  ", []),
    ],
)
def test_every_form_of_node_list_is_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["gpu[30", "14-15]", "n[3-1]", "n[]", "n[1,,2]", "n[a-b]", "a,,b", "a,", "a b", "n[1-2]]", "n[1-2,[3]]", "(x)"],
)
def test_a_broken_node_list_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(NodeListError, match="node list"):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-999999999999]", "n[1-999][1-999]", "n[1-60000],m[1-60000]"])
def test_a_damaged_range_cannot_fill_the_memory(text: str) -> None:
    with pytest.raises(NodeListError, match=f"{LIMIT:,}"):
        expand(text)


def test_a_column_is_expanded_once_per_distinct_text() -> None:
    table = expand_column(pl.Series(["n[1-2]", None, "n[1-2]", "", "x["])).sort("text")
    assert table["text"].to_list() == ["", "n[1-2]", "x["]
    assert table["nodes"].to_list() == [[], ["n1", "n2"], None]
    assert table["error"].null_count() == 2


@settings(deadline=None)
@given(st.lists(st.integers(0, 9_999), min_size=1, unique=True), st.integers(1, 5))
def test_numbers_written_in_brackets_come_back(numbers: list[int], width: int) -> None:
    padded = [f"{number:0{width}d}" for number in numbers]
    assert expand(f"gpu[{','.join(padded)}]") == [f"gpu{number}" for number in padded]
