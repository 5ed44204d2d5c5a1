"""Room in blocks, against a count by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from metrics.placement.room import blocks, segments, standing
from tests.metrics.placement.test_spans import JOB, PLACED, at, inputs

IDLE = st.lists(st.tuples(st.sampled_from(("b1", "b2", "b3")), st.booleans()), min_size=1, max_size=20)


def room(
    jobs: list[dict[str, Any]], places: list[dict[str, Any]], out: list[dict[str, Any]], hour: float
) -> pl.DataFrame:
    data = inputs(jobs, places, out)
    return standing(
        data["attempt_nodes"], data["places"], inventory=data["inventory"], node_states=data["node_states"], at=at(hour)
    )


@given(IDLE)
def test_segments_are_filled_block_by_block(idle: list[tuple[str, bool]]) -> None:
    nodes = pl.DataFrame(
        [
            {"cluster": "c", "node": f"n{number}", "block": block, "idle": free, "milli_gpus": 8000}
            for number, (block, free) in enumerate(idle)
        ]
    )
    for row in segments(nodes).iter_rows(named=True):
        made = 0
        for block in {block for block, _ in idle}:
            left = sum(free for name, free in idle if name == block)
            while left >= row["segment"]:
                left, made = left - row["segment"], made + 1
        assert row["segments"] == made
        assert row["usable_gpus"] == made * row["segment"] * 8
        assert row["usable"] + row["left_over"] == row["idle"] == sum(free for _, free in idle)


def test_standing_has_each_node_of_two_partitions_once() -> None:
    rows = room([JOB | {"nodes": ["n1", "n3"]}], PLACED, [], 2)
    assert rows["node"].to_list() == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert rows["idle"].to_list() == [False, True, False, True, True, True]


def test_jobs_without_gpus_keep_a_node_from_being_idle() -> None:
    """They hold CPUs and memory: what is idle has all of its own."""
    assert room([JOB | {"nodes": ["n1"], "gpus": 0}], PLACED, [], 2)["idle"].to_list() == [False, *[True] * 5]


def test_reserved_nodes_are_not_idle() -> None:
    data = inputs([JOB | {"nodes": ["n1"]}], PLACED, [])
    reserved = pl.DataFrame({"cluster": "c", "node": ["n1", "n2", "n2", "elsewhere"]})
    rows = standing(
        data["attempt_nodes"], data["places"], inventory=data["inventory"], node_states=data["node_states"], at=at(2),
        reserved=reserved,
    )  # fmt: skip
    assert rows["node"].to_list() == ["n1", "n2", "n3", "n4", "n5", "n6"]
    assert rows["idle"].to_list() == [False, False, True, True, True, True]
    assert rows["reserved"].to_list() == [True, True, False, False, False, False]


def test_standing_without_a_place_is_in_no_segment() -> None:
    rows = segments(room([], PLACED[:2], [], 2))
    assert rows.select("segment", "segments", "left_over").rows() == [(1, 6, 0), (2, 1, 4)]


def test_blocks_count_attempts_that_reach_across() -> None:
    jobs = [JOB | {"nodes": ["n1", "n3"]}, JOB | {"nodes": ["n2"]}]
    down = [{"node": "n5", "started_at": at(0), "ended_at": at(9), "state": "down"}]
    rows = blocks(room(jobs, PLACED, down, 2)).select("block", "idle", "out", "attempts", "across").rows()
    assert rows == [("s1/b1", 0, 0, 2, 1), ("s1/b2", 1, 0, 1, 1), ("s1/b3", 1, 1, 0, 0)]
