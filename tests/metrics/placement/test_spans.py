"""Spans of attempts and the least possible, against brute force over every choice of nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations, dropwhile
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.placement.spans import PLACES, by_size, least_groups, spans

BEGIN = datetime(2026, 9, 1, tzinfo=UTC)
SINCE, UNTIL = BEGIN, BEGIN + timedelta(hours=100)
NODES = ("n1", "n2", "n3", "n4", "n5", "n6")


def at(hour: float) -> datetime:
    return BEGIN + timedelta(hours=hour)


def key(number: int, cluster: str = "c") -> dict[str, Any]:
    return {"cluster": cluster, "scheduler": "slurm", "job_id": str(number), "submitted_at": BEGIN}


def table(rows: list[dict[str, Any]], schema: frames.Schema) -> pl.DataFrame:
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def inputs(
    jobs: list[dict[str, Any]], places: list[dict[str, Any]], out: list[dict[str, Any]], cluster: str = "c"
) -> dict[str, pl.DataFrame]:
    """Frames of a cluster: nodes of two GPUs; n1 to n4 in `main`, n3 to n6 in `debug`."""
    whose = {"cluster": cluster}
    attempts = [
        key(number, cluster)
        | {
            "partition": job["partition"],
            "req_segment": job.get("segment"),
            "eligible_at": BEGIN,
            "started_at": at(job["from"]),
            "ended_at": at(job["to"]),
            "state": "COMPLETED",
        }
        for number, job in enumerate(jobs)
    ]
    held = [
        each | {"node": node, "milli_gpus": job["gpus"] * 1000}
        for each, job in zip(attempts, jobs, strict=True)
        for node in job["nodes"]
    ]
    parts = {node: [name for name, of in (("main", NODES[:4]), ("debug", NODES[2:])) if node in of] for node in NODES}
    return {
        "attempts": table(attempts, frames.ATTEMPTS),
        "attempt_nodes": table(held, frames.ATTEMPT_NODES),
        "places": table([whose | place for place in places], PLACES),
        "nodes": table(
            [whose | {"node": node, "valid_from": BEGIN, "partitions": parts[node]} for node in NODES], frames.NODES
        ),
        "inventory": table(
            [whose | {"node": node, "started_at": BEGIN, "ended_at": UNTIL, "milli_gpus": 2000} for node in NODES],
            frames.INVENTORY,
        ),
        "node_states": table([whose | each for each in out], frames.NODE_STATES),
    }


def found(data: dict[str, pl.DataFrame]) -> pl.DataFrame:
    given_ = {name: frame for name, frame in data.items() if name not in {"attempts", "attempt_nodes", "places"}}
    return spans(data["attempts"], data["attempt_nodes"], data["places"], since=SINCE, until=UNTIL, **given_)


def slow(jobs: list[dict[str, Any]], places: list[dict[str, Any]], out: list[dict[str, Any]]) -> dict[int, Any]:
    """Every choice of as many nodes as the attempt had; None: a place is unknown."""
    answers: dict[int, Any] = {}
    for number, job in enumerate(jobs):
        if len(job["nodes"]) < 2:
            continue
        now = at(job["from"])
        block = {node: place_of(node, now, places) for node in NODES}
        if any(block[node] is None for node in job["nodes"]):
            answers[number] = None
            continue
        serves = NODES[:4] if job["partition"] == "main" else NODES[2:]
        could = set(job["nodes"])
        for node in serves:
            taken = sum(
                each["gpus"] for each in jobs if node in each["nodes"] and at(each["from"]) <= now < at(each["to"])
            )
            broken = any(one["node"] == node and one["started_at"] <= now < one["ended_at"] for one in out)
            if block[node] is not None and not broken and 2 - taken >= job["gpus"]:
                could.add(node)
        empty = set(job["nodes"]) | {node for node in serves if block[node] is not None}
        answers[number] = (
            len({block[node] for node in job["nodes"]}),
            fewest(could, block, len(job["nodes"])),
            fewest(empty, block, len(job["nodes"])),
        )
    return answers


def place_of(node: str, now: datetime, places: list[dict[str, Any]]) -> str | None:
    """The latest place reported by then, else the first; None: none, or it left the network."""
    own = sorted((each for each in places if each["node"] == node), key=lambda each: each["valid_from"])
    own = list(dropwhile(lambda each: not each["path"], own))
    before = [each for each in own if each["valid_from"] <= now] or own[:1]
    return before[-1]["path"][-1] if before and before[-1]["path"] else None


def fewest(nodes: set[str], block: dict[str, str | None], n: int) -> int:
    return min(len({block[node] for node in chosen}) for chosen in combinations(sorted(nodes), n))


def _with_end(job: dict[str, Any]) -> dict[str, Any]:
    return job | {"to": job["from"] + job["lasts"]}


hours = st.integers(0, 6)
whole_jobs = st.fixed_dictionaries(
    {
        "from": hours,
        "lasts": st.integers(1, 4),
        "gpus": st.integers(1, 2),
        "partition": st.sampled_from(("main", "debug")),
        "nodes": st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True),
    }
).map(_with_end)
moves = st.fixed_dictionaries(
    {
        "node": st.sampled_from(NODES),
        "valid_from": hours.map(at),
        "path": st.sampled_from((["s1", "b1"], ["s1", "b2"], ["s2", "b3"], [])),
    }
)
outages = st.tuples(st.sampled_from(NODES), hours).map(
    lambda one: {"node": one[0], "started_at": at(one[1]), "ended_at": at(one[1] + 2), "state": "down"}
)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(whole_jobs, min_size=1, max_size=5),
    st.lists(moves, max_size=9, unique_by=lambda each: (each["node"], each["valid_from"])),
    st.lists(outages, max_size=3),
)
def test_spans_are_those_of_brute_force(jobs: Any, places: Any, out: Any) -> None:
    rows = found(inputs(jobs, places, out))
    wanted = slow(jobs, places, out)
    got = {
        int(job): None if least is None else (spanned, least, empty)
        for job, spanned, least, empty in rows.select("job_id", "spanned", "least", "least_empty").rows()
    }
    assert got == wanted


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(1, 4),
)
def test_least_groups_with_segments_is_that_of_every_choice(counts: list[int], n: int, segment: int) -> None:
    wanted = 0
    need = -(-n // segment)
    for size in range(1, len(counts) + 1):
        if any(sum(each // segment for each in chosen) >= need for chosen in combinations(counts, size)):
            wanted = size
            break
    found_ = least_groups(np.array([counts]), np.array([n]), np.array([segment]))
    assert found_.tolist() == [wanted]


PLACED = [
    {"node": node, "valid_from": BEGIN, "path": ["s1", block]}
    for node, block in zip(NODES, ("b1", "b1", "b2", "b2", "b3", "b3"), strict=True)
]
JOB = {"from": 1, "to": 5, "gpus": 2, "partition": "main"}


def test_spans_take_the_place_at_the_start() -> None:
    """The network is described anew while the job runs."""
    moved = [*PLACED, {"node": "n2", "valid_from": at(3), "path": ["s1", "b9"]}]
    row = found(inputs([JOB | {"nodes": ["n1", "n2"]}], moved, [])).row(0, named=True)
    assert (row["spanned"], row["least"], row["assumed"]) == (1, 1, False)


def test_spans_of_a_node_that_left_the_network_are_unknown() -> None:
    left = [*PLACED, {"node": "n2", "valid_from": at(3), "path": []}]
    jobs = [JOB | {"nodes": ["n1", "n2"]}, JOB | {"from": 5, "to": 6, "nodes": ["n1", "n2"]}]
    assert found(inputs(jobs, left, []))["spanned"].to_list() == [1, None]


def test_spans_of_places_reported_later_are_assumed() -> None:
    late = [place | {"valid_from": at(2)} for place in PLACED]
    row = found(inputs([JOB | {"nodes": ["n1", "n3"]}], late, [])).row(0, named=True)
    assert (row["spanned"], row["least"], row["assumed"]) == (2, 1, True)


def test_spans_of_equal_names_in_two_clusters_are_apart() -> None:
    here = inputs([JOB | {"nodes": ["n1", "n3"]}], PLACED, [])
    busy = inputs([JOB | {"nodes": ["n1", "n3"]}, JOB | {"from": 0, "nodes": ["n2", "n4"]}], PLACED, [], cluster="d")
    both = {name: pl.concat([here[name], busy[name]]) for name in here}
    rows = found(both).filter(pl.col("job_id") == "0")
    assert rows.sort("cluster").select("cluster", "spanned", "least").rows() == [("c", 2, 1), ("d", 2, 2)]


def test_spans_count_a_node_in_two_partitions_once() -> None:
    row = found(inputs([JOB | {"partition": "debug", "nodes": ["n3", "n4", "n5", "n6"]}], PLACED, [])).row(
        0, named=True
    )
    assert (row["n_nodes"], row["spanned"], row["least"]) == (4, 2, 2)


@pytest.mark.parametrize("partition", [None, "renamed"])
def test_least_span_of_an_unlisted_partition_is_unknown(partition: str | None) -> None:
    """Its own nodes are not all that it could have had: two blocks would look like the least number."""
    data = inputs([JOB | {"partition": partition, "nodes": ["n1", "n3"]}], PLACED, [])
    assert found(data).select("n_nodes", "spanned", "least").rows() == [(2, None, None)]
    without = data | {"nodes": data["nodes"].with_columns(partitions=pl.lit(None, frames.NODES["partitions"]))}
    assert found(without).select("spanned", "least").rows() == [(2, 1)]


def test_by_size_counts_the_least_and_what_is_unknown() -> None:
    jobs = [JOB | {"nodes": ["n1", "n2"]}, JOB | {"from": 2, "nodes": ["n3", "n5"], "partition": "debug"}]
    rows = found(inputs(jobs, PLACED, []))
    unknown = found(inputs([JOB | {"nodes": ["n1", "n2"]}], PLACED[2:], [])).with_columns(job_id=pl.lit("9"))
    row = by_size(pl.concat([rows, unknown]), pl.lit("all")).row(0, named=True)
    assert (row["n"], row["n_known"], row["n_least"], row["excess"], row["share"]) == (3, 2, 1, 1, 0.5)
    assert row["excess_gpu_s"] == 4 * 3 * 3600


def test_spans_of_unplaced_nodes_sweep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [{"nodes": ["n1", "n2"], "gpus": 2, "from": 1, "to": 5, "partition": "main"}]
    monkeypatch.setattr("metrics.placement.spans.sweep", lambda _: pytest.fail("swept"))
    found = spans(**inputs(jobs, [], []), since=SINCE, until=UNTIL)
    assert found.select("n_nodes", "milli_gpus", "least", "assumed").rows() == [(2, 4000, None, False)]
