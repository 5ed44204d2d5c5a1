"""Delays by nodes out of service, hour by hour, and by runs that came back from a failure."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.placement.delays import BLOCK, DELAYS, OUTAGE, RESTART, by_outages, by_restarts, summed
from metrics.placement.spans import NodePlaces
from tests.metrics.placement.test_spans import BEGIN, NODES, PLACED, SINCE, UNTIL, at, inputs

BLOCK_OF = dict(zip(NODES, ("b1", "b1", "b2", "b2", "b3", "b3"), strict=True))
"""As `PLACED` has them."""
HOUR = 3600.0


def delays(
    jobs: list[dict[str, Any]], out: list[dict[str, Any]], places: list[dict[str, Any]] = PLACED
) -> pl.DataFrame:
    data = inputs(jobs, places, out)
    shape = pl.DataFrame(
        {
            "job_id": [str(number) for number in range(len(jobs))],
            "n_nodes": [len(job["nodes"]) for job in jobs],
            "milli_gpus": [1000 * job["gpus"] * len(job["nodes"]) for job in jobs],
            "eligible_at": [at(job.get("eligible", job["from"])) for job in jobs],
            "reason": [job.get("reason") for job in jobs],
        },
        schema={name: frames.ATTEMPTS[name] for name in ("job_id", "n_nodes", "milli_gpus", "eligible_at", "reason")},
    )
    attempts = data["attempts"].drop(shape.columns[1:]).join(shape, on="job_id")
    cluster = NodePlaces(data["attempt_nodes"], data["places"], data["nodes"], data["inventory"], data["node_states"])
    return by_outages(frames.conform(attempts, frames.ATTEMPTS), cluster, since=SINCE, until=UNTIL)[0]


def slow(jobs: list[dict[str, Any]], out: list[dict[str, Any]]) -> dict[str, float]:
    """Each hour of each wait by itself: everything changes at full hours."""
    hours: dict[str, float] = {}
    for number, job in enumerate(jobs):
        serves = NODES[:4] if job["partition"] == "main" else NODES[2:]
        segment = job.get("segment") or 1
        for hour in range(job["eligible"], job["from"]):
            running = [each for each in jobs if each["from"] <= hour < each["to"]]
            roomy = [
                node
                for node in serves
                if 2 - sum(each["gpus"] for each in running if node in each["nodes"]) >= job["gpus"]
            ]
            gone = {one["node"]: one["planned"] for one in out if one["started_at"] <= at(hour) < one["ended_at"]}
            planned = {one["node"] for one in out if one["planned"] and one["started_at"] <= at(hour) < one["ended_at"]}
            ready = [node for node in roomy if node not in gone]
            could = [node for node in roomy if node not in planned]
            need = -(-len(job["nodes"]) // segment)
            if fit(ready, segment) < need <= fit(could, segment):
                hours[str(number)] = hours.get(str(number), 0) + 1
    return hours


def fit(nodes: list[str], segment: int) -> int:
    if segment == 1:
        return len(nodes)
    return sum(sum(BLOCK_OF[node] == block for node in nodes) // segment for block in set(BLOCK_OF.values()))


hours = st.integers(0, 5)


def _timed(job: dict[str, Any]) -> dict[str, Any]:
    start = job["eligible"] + job["waits"]
    return job | {"from": start, "to": start + job["lasts"]}


waiting_jobs = st.fixed_dictionaries(
    {
        "eligible": hours,
        "waits": st.integers(0, 4),
        "lasts": st.integers(1, 4),
        "gpus": st.integers(1, 2),
        "partition": st.sampled_from(("main", "debug")),
        "segment": st.sampled_from((None, 2)),
        "nodes": st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True),
    }
).map(_timed)
outages = st.tuples(st.sampled_from(NODES), hours, st.booleans()).map(
    lambda one: {
        "node": one[0], "started_at": at(one[1]), "ended_at": at(one[1] + 3), "state": "drained", "planned": one[2],
    }
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(waiting_jobs, min_size=1, max_size=5), st.lists(outages, max_size=4))
def test_by_outages_is_that_of_every_hour(jobs: Any, out: Any) -> None:
    rows = delays(jobs, out)
    assert dict(rows.select("job_id", pl.col("delayed_s") / HOUR).rows()) == slow(jobs, out)


JOB = {"partition": "main", "gpus": 2, "eligible": 1, "from": 4, "to": 9}
DRAINED = {"node": "n1", "started_at": at(0), "ended_at": at(3), "state": "drained", "planned": False}


def test_by_outages_a_drained_block_delays_what_needs_a_block() -> None:
    """n2 and n4 are idle, and no block has both of its nodes while n1 is drained."""
    other = {"partition": "main", "gpus": 2, "eligible": 0, "from": 0, "to": 9, "nodes": ["n3"]}
    rows = delays([other, JOB | {"segment": 2, "nodes": ["n1", "n2"]}], [DRAINED])
    assert rows.select("kind", "delayed_s", "waited_s").rows() == [(BLOCK, 2 * HOUR, 3 * HOUR)]
    assert delays([other, JOB | {"nodes": ["n1", "n2"]}], [DRAINED]).is_empty()  # any two nodes do


def test_by_outages_leaves_out_plans_and_rules() -> None:
    jobs = [JOB | {"nodes": ["n1", "n2", "n3", "n4"]}]
    assert delays(jobs, [DRAINED])["delayed_s"].to_list() == [2 * HOUR]
    assert delays(jobs, [DRAINED | {"planned": True}]).is_empty()
    assert delays([jobs[0] | {"reason": "QOSMaxGRESPerUser"}], [DRAINED]).is_empty()


def test_by_restarts_is_the_wait_after_a_second_order_preemption() -> None:
    key = {"cluster": "c", "scheduler": "slurm", "submitted_at": BEGIN, "attempt_no": 1, "ended_at": at(1)}
    rows = [
        key | {"job_id": "1", "run_id": "a", "milli_gpus": 8000, "second_order": True},
        key | {"job_id": "2", "run_id": "b", "milli_gpus": 8000, "second_order": False},
        key | {"job_id": "3", "run_id": "c", "milli_gpus": 4000, "second_order": True},
    ]
    again = [
        key | {"run_id": run, "in_allocation": False, "interrupted_at": at(1), "restarted_at": at(hour)}
        for run, hour in (("a", 3), ("b", 9))
    ]
    interruptions = frames.conform(pl.DataFrame(rows), frames.INTERRUPTIONS)
    restarts = pl.DataFrame(again).with_columns(pl.col("interrupted_at", "restarted_at").cast(frames.TIME))
    found = by_restarts(interruptions, restarts)
    assert found.select("job_id", "delayed_s", "open").rows() == [("1", 2 * HOUR, False), ("3", None, True)]
    (row,) = summed(found).filter(pl.col("kind") == RESTART).to_dicts()
    assert (row["n"], row["n_open"], row["n_unknown"], row["delayed_gpu_s"]) == (2, 1, 1, 16 * HOUR)


def test_summed_of_nothing_is_an_unknown_sum() -> None:
    rows = summed(pl.DataFrame(schema=DELAYS)).select("kind", "n", "delayed_gpu_s").rows()
    assert rows == [(OUTAGE, 0, None), (BLOCK, 0, None), (RESTART, 0, None)]
