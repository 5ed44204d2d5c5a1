"""Spells of inventories: whatever the order in which snapshots are loaded, they are what all of them in order give."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.slurm.nodes.merge import SNAPSHOTS, merge_nodes, merge_topology
from ingest.tables import NODE_TOPOLOGY, NODES, empty
from tests.support.slurm.parsing import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Snapshot = tuple[int, dict[str, int]]
"""When all nodes were read, and how many GPUs each had."""

Spell = tuple[str, int, int, int]
"""Node, first and last moment, GPUs."""


def inventory(moment: int, gpus: Mapping[str, int]) -> pl.DataFrame:
    rows = [
        {
            **dict.fromkeys(NODES),
            "cluster": "c",
            "node": node,
            "valid_from": at(moment),
            "last_seen_at": at(moment),
            "n_gpus": Decimal(count),
            "partitions": ["main"],
            "evidence": "accounting",
        }
        for node, count in gpus.items()
    ]
    return pl.DataFrame(rows, schema=NODES, orient="row")


def looks(moments: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame([("c", at(moment)) for moment in sorted(set(moments))], schema=SNAPSHOTS, orient="row")


def loaded(snapshots: Sequence[Snapshot]) -> list[Spell]:
    """The spells after loading the snapshots one by one, as the warehouse does it."""
    there, moments = empty(NODES), list[int]()
    for moment, gpus in snapshots:
        if gpus:
            there = merge_nodes(there, inventory(moment, gpus), looks(moments))
            moments.append(moment)
    return [
        (node, int(first.timestamp()), int(last.timestamp()), int(count))
        for node, first, last, count in there.select("node", "valid_from", "last_seen_at", "n_gpus").rows()
    ]


def expected(snapshots: Sequence[Snapshot]) -> list[Spell]:
    """The same the slow way: every observation of every node, in order of time."""
    moments = sorted({moment for moment, gpus in snapshots if gpus})
    spells: list[Spell] = []
    for node in sorted({node for _, gpus in snapshots for node in gpus}):
        open_spell: Spell | None = None
        for moment in moments:
            reported = [str(gpus[node]) for when, gpus in snapshots if when == moment and node in gpus]
            count = int(max(reported)) if reported else None
            if open_spell and count == open_spell[3]:
                open_spell = (node, open_spell[1], moment, count)
                spells[-1] = open_spell
            elif count is not None:
                open_spell = (node, moment, moment, count)
                spells.append(open_spell)
            else:
                open_spell = None
    return spells


T = 1_795_247_000
A, B = {"n1": 8, "n2": 8}, {"n1": 4, "n2": 8}


def test_equal_snapshots_are_one_interval() -> None:
    assert loaded([(T, A), (T + 1, A), (T + 2, A)]) == [("n1", T, T + 2, 8), ("n2", T, T + 2, 8)]


@pytest.mark.slow
def test_late_snapshot_splits_the_interval_around_it() -> None:
    snapshots = [(T, A), (T + 1, A), (T + 2, B), (T + 3, A), (T + 4, A)]
    spells = [("n1", T, T + 1, 8), ("n1", T + 2, T + 2, 4), ("n1", T + 3, T + 4, 8), ("n2", T, T + 4, 8)]
    for order in itertools.permutations(snapshots):
        assert loaded(order) == spells


def test_a_node_that_a_snapshot_lacks_was_gone_then() -> None:
    snapshots = [(T, A), (T + 1, {"n2": 8}), (T + 2, A)]
    for order in itertools.permutations(snapshots):
        assert loaded(order) == [("n1", T, T, 8), ("n1", T + 2, T + 2, 8), ("n2", T, T + 2, 8)]


@pytest.mark.slow
def test_the_halves_of_one_moment_are_the_whole() -> None:
    snapshots = [(T, A), (T + 1, {"n1": 8}), (T + 1, {"n2": 8}), (T + 2, A)]
    for order in itertools.permutations(snapshots):
        assert loaded(order) == [("n1", T, T + 2, 8), ("n2", T, T + 2, 8)]


_snapshots = st.lists(
    st.tuples(
        st.integers(T, T + 5),
        st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), st.sampled_from([4, 8]), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(snapshots=_snapshots, data=st.data())
def test_snapshots_in_any_order_and_repeated_give_the_same(snapshots: list[Snapshot], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(snapshots), max_size=4))
    order = data.draw(st.permutations([*snapshots, *again]))
    assert loaded(order) == expected(snapshots)


def test_clusters_do_not_change_each_others_nodes() -> None:
    here, there = inventory(T, A), inventory(T + 1, A).with_columns(cluster=pl.lit("d"))
    first = merge_nodes(empty(NODES), here, looks([]))
    both = merge_nodes(first, pl.concat([there, inventory(T + 2, A)]), looks([T]))
    assert both.select("cluster", "node", "valid_from", "last_seen_at").rows() == [
        ("c", "n1", at(T), at(T + 2)),
        ("c", "n2", at(T), at(T + 2)),
        ("d", "n1", at(T + 1), at(T + 1)),
        ("d", "n2", at(T + 1), at(T + 1)),
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_positions_in_the_network_are_intervals_too(order: tuple[int, ...]) -> None:
    paths = [["spine", "leaf1"], ["spine", "leaf2"], ["spine", "leaf1"]]
    there, moments = empty(NODE_TOPOLOGY), list[int]()
    for number in order:
        row = ("c", "n1", at(T + number), at(T + number), "tree", paths[number])
        seen = pl.DataFrame([row], schema=NODE_TOPOLOGY, orient="row")
        there = merge_topology(there, seen, looks(moments))
        moments.append(T + number)
    assert there.select("valid_from", "last_seen_at", "path").rows() == [
        (at(T + number), at(T + number), path) for number, path in enumerate(paths)
    ]
