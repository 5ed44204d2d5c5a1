"""When work waited beside idle GPUs, and why: cases by hand, and a slow twin."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypedDict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.intervals import split_days
from metrics.ledger import demand_causes
from metrics.ledger.demand import Waiting, waiting
from metrics.units import DAY_US
from tests.metrics.ledger import slow_demand
from tests.metrics.ledger.slow_demand import Job, Place, Places
from tests.metrics.oracles.fingerprints import fingerprints
from tests.metrics.tables import rows

EPOCH = datetime(2026, 3, 1, 22, tzinfo=UTC)  # two hours before a midnight
TICK_S = 600
TICKS_AN_HOUR = 6
UNTIL = 24


def at(tick: int) -> datetime:
    return EPOCH + timedelta(seconds=tick * TICK_S)


def span(start: int, end: int) -> pl.DataFrame:
    return rows(frames.COVERAGE, {"cluster": "c", "started_at": at(start), "ended_at": at(end)})


def demand(places: Places, jobs: list[Job]) -> pl.DataFrame:
    return waiting(**reported(places, jobs)).demand()


class Reported(TypedDict):
    attempts: pl.DataFrame
    nodes: pl.DataFrame
    inventory: pl.DataFrame
    covered: pl.DataFrame
    attempt_nodes: pl.DataFrame
    node_states: pl.DataFrame
    blocks: pl.DataFrame


def reported(places: Places, jobs: list[Job]) -> Reported:
    waits = rows(
        frames.ATTEMPTS,
        *(
            {
                "cluster": "c",
                "scheduler": "slurm",
                "job_id": str(number),
                "submitted_at": at(job.start),
                "eligible_at": at(job.start),
                "started_at": at(job.end),
                "partition": ",".join(job.partitions),
                "reason": "QOSMaxGRESPerUser" if job.rule else "Resources",
                "req_milli_gpus": job.gpus * 1000,
                "milli_gpus": job.gpus * 1000,
                "req_nodes": job.nodes,
                "req_segment": job.segment,
            }
            for number, job in enumerate(jobs)
        ),
    )
    named = [{"cluster": "c", "node": name} for name in places]
    nodes = [
        node | {"valid_from": at(0), "partitions": list(place.partitions)}
        for node, place in zip(named, places.values(), strict=True)
    ]
    whole = {"started_at": at(0), "ended_at": at(UNTIL)}
    there = [node | whole | {"milli_gpus": p.gpus * 1000} for node, p in zip(named, places.values(), strict=True)]
    held = [
        {"cluster": "c", "node": name, "started_at": at(a), "ended_at": at(b), "milli_gpus": n and n * 1000}
        for name, place in places.items()
        for a, b, n in place.held
    ]
    out = [
        {"cluster": "c", "node": name, "started_at": at(a), "ended_at": at(b), "state": "down"}
        for name, place in places.items()
        for a, b in place.out
    ]
    standing = {"cluster": pl.String, "node": pl.String, "block": pl.String}
    blocks = [("c", name, place.block) for name, place in places.items() if place.block is not None]
    return {
        "attempts": waits,
        "nodes": rows(frames.NODES, *nodes),
        "inventory": rows(frames.INVENTORY, *there),
        "covered": span(0, UNTIL),
        "attempt_nodes": rows(frames.ATTEMPT_NODES, *held),
        "node_states": rows(frames.NODE_STATES, *out),
        "blocks": pl.DataFrame(blocks, schema=standing, orient="row"),
    }


def ticks(result: pl.DataFrame) -> Counter[tuple[str, str | None]]:
    total: Counter[tuple[str, str | None]] = Counter()
    for row in result.iter_rows(named=True):
        total[row["node"], row["cause"]] += round((row["ended_at"] - row["started_at"]).total_seconds() / TICK_S)
    return total


MAIN = ("main",)
FREE = Place(8, MAIN)
HALF = Place(8, MAIN, held=((0, UNTIL, 4),))


@pytest.mark.parametrize(
    ("partition", "waiting"),
    [("main", ["n1", "n3"]), ("main,scav", ["n1", "n2", "n3"]), ("scav", ["n2", "n3"]), ("other", ["n3"]),
     ("", ["n1", "n2", "n3"])],
)  # fmt: skip
def test_demand_waits_on_the_nodes_of_its_partitions(partition: str, waiting: list[str]) -> None:
    places = {"n1": FREE, "n2": Place(8, ("scav",)), "n3": Place(8, ())}
    result = demand(places, [Job(tuple(partition.split(",")), 5, 9, 8)]).sort("node")
    assert result.rows() == [("c", node, at(5), at(9), None) for node in waiting]


@pytest.mark.parametrize(
    ("reason", "waits"), [(None, True), ("Resources", True), ("JobHeldUser", False), ("PartitionNodeLimit", False)]
)
def test_a_job_that_no_idle_node_could_start_is_no_demand(reason: str | None, waits: bool) -> None:
    attempts = rows(
        frames.ATTEMPTS,
        {"cluster": "c", "job_id": "1", "eligible_at": at(5), "state": "PENDING", "reason": reason,
         "req_milli_gpus": 8000, "milli_gpus": 0},
    )  # fmt: skip
    there = rows(frames.INVENTORY, {"cluster": "c", "node": "n1"})
    result = waiting(attempts, frames.empty(frames.NODES), there, span(0, UNTIL)).demand()
    assert (result.height > 0) == waits
    assert result["cause"].null_count() == result.height


@pytest.mark.parametrize(
    ("scheduler", "requested", "waits"),
    [("kubernetes", None, True), ("kubernetes", 0, False), ("slurm", None, False), ("slurm", 1000, True)],
)
def test_pod_with_an_unknown_share_of_gpus_waits(scheduler: str, requested: int | None, *, waits: bool) -> None:
    attempts = rows(
        frames.ATTEMPTS,
        {"cluster": "c", "scheduler": scheduler, "job_id": "1", "eligible_at": at(5), "state": "PENDING",
         "req_milli_gpus": requested, "milli_gpus": 0},
    )  # fmt: skip
    whole = {"cluster": "c", "node": "n1", "started_at": at(0), "ended_at": at(UNTIL), "milli_gpus": 8000}
    held = frames.empty(frames.ATTEMPT_NODES)
    there = rows(frames.INVENTORY, whole)
    result = waiting(attempts, frames.empty(frames.NODES), there, span(0, UNTIL), attempt_nodes=held).demand()
    assert ticks(result) == ({("n1", None): UNTIL - 5} if waits else {})


def test_idle_gpus_that_suffice_only_across_nodes_are_fragmented() -> None:
    result = demand({"n1": HALF, "n2": HALF}, [Job(MAIN, 5, 9, 8, nodes=1)])
    assert ticks(result) == {("n1", "fragmentation"): 4, ("n2", "fragmentation"): 4}


def test_job_that_needs_more_than_all_idle_is_not_fragmented() -> None:
    result = demand({"n1": HALF, "n2": HALF}, [Job(MAIN, 5, 9, 16, nodes=2)])
    assert ticks(result) == {("n1", None): 4, ("n2", None): 4}


def test_a_job_that_fits_waits_for_what_the_data_do_not_show() -> None:
    fits, does_not = Job(MAIN, 5, 9, 4, nodes=1), Job(MAIN, 5, 9, 8, nodes=1)
    assert ticks(demand({"n1": HALF, "n2": HALF}, [fits, does_not])) == {("n1", None): 4, ("n2", None): 4}


def test_job_on_any_number_of_nodes_fits_wherever_gpus_are_idle() -> None:
    for nodes in (None, 1):  # 16 GPUs fit on no node, so one node is not what it asked for
        result = demand({"n1": HALF, "n2": HALF, "n3": FREE}, [Job(MAIN, 5, 9, 16, nodes=nodes)])
        assert {cause for _, cause in ticks(result)} == {None}


def test_a_down_node_is_not_idle() -> None:
    places = {"n1": Place(8, MAIN, out=((0, 7),)), "n2": HALF, "n3": HALF}
    result = demand(places, [Job(MAIN, 5, 9, 8, nodes=1)])
    assert ticks(result) == {
        ("n1", None): 4,
        **{(node, cause): 2 for node in ("n2", "n3") for cause in ("fragmentation", None)},
    }


def test_no_gpu_is_idle_on_a_node_whose_holders_gpus_are_unknown() -> None:
    places = {"n1": Place(8, MAIN, held=((0, 7, None),)), "n2": HALF, "n3": HALF}
    result = demand(places, [Job(MAIN, 5, 9, 8, nodes=1)])
    assert ticks(result)["n2", "fragmentation"] == 2


def test_rule_holds_gpus_if_all_waiting_have_one_and_one_fits() -> None:
    held_back = Job(MAIN, 5, 9, 8, nodes=1, rule=True)
    too_large = Job(MAIN, 5, 9, 16, nodes=2, rule=True)
    assert ticks(demand({"n1": FREE}, [held_back, too_large])) == {("n1", "limits"): 4}
    assert ticks(demand({"n1": FREE}, [too_large])) == {("n1", None): 4}
    assert ticks(demand({"n1": FREE}, [held_back, Job(MAIN, 7, 9, 16, nodes=2)])) == {
        ("n1", "limits"): 2,
        ("n1", None): 2,
    }


@pytest.mark.parametrize(
    "reason",
    ["QOSMaxGRESPerUser", "QOSGrpNodeLimit", "AssocGrpGRES", "AssocMaxJobsLimit", "AssociationResourceLimit",
     "MaxGRESPerAccount", "Licenses", "JobArrayTaskLimit", "Reservation"],
)  # fmt: skip
def test_these_reasons_are_rules(reason: str) -> None:
    assert _cause_of(reason) == "limits"


@pytest.mark.parametrize("reason", [None, "Resources", "Priority", "ReqNodeNotAvail", "BeginTime", "TimeLimit"])
def test_these_reasons_are_no_rules(reason: str | None) -> None:
    assert _cause_of(reason) is None


def _cause_of(reason: str | None) -> object:
    job = {"cluster": "c", "eligible_at": at(5), "started_at": at(9), "reason": reason, "req_milli_gpus": 8000}
    there = {"cluster": "c", "node": "n1", "started_at": at(0), "ended_at": at(UNTIL), "milli_gpus": 8000}
    waits = waiting(
        rows(frames.ATTEMPTS, job),
        frames.empty(frames.NODES),
        rows(frames.INVENTORY, there),
        span(0, UNTIL),
        attempt_nodes=frames.empty(frames.ATTEMPT_NODES),
    )
    return waits.demand()["cause"].item()


def test_nodes_in_several_blocks_are_topology_for_a_segment_job() -> None:
    places = {f"n{i}": Place(8, MAIN, block="ab"[i % 2]) for i in range(4)}
    assert {cause for _, cause in ticks(demand(places, [Job(MAIN, 5, 9, 24, nodes=3, segment=3)]))} == {"topology"}
    assert {cause for _, cause in ticks(demand(places, [Job(MAIN, 5, 9, 32, nodes=4, segment=2)]))} == {None}
    assert {cause for _, cause in ticks(demand(places, [Job(MAIN, 5, 9, 24, nodes=3)]))} == {None}


def test_topology_is_no_cause_where_blocks_are_unknown() -> None:
    places = {"n1": Place(8, MAIN, block="a"), "n2": Place(8, MAIN, block="b"), "n3": Place(8, MAIN)}
    assert {cause for _, cause in ticks(demand(places, [Job(MAIN, 5, 9, 16, nodes=2, segment=2)]))} == {None}


def test_causes_within_an_hour_are_consecutive_and_in_their_hour() -> None:
    """A small job fits in every second tick; it does so 3 times in the first hour, and never in the second."""
    small = [Job(MAIN, tick, tick + 1, 4, nodes=1) for tick in (6, 8, 10)]
    result = demand({"n1": HALF, "n2": HALF}, [*small, Job(MAIN, 6, 18, 8, nodes=1)]).filter(pl.col("node") == "n1")
    assert result.sort("started_at").rows() == [
        ("c", "n1", at(6), at(9), "fragmentation"),
        ("c", "n1", at(9), at(12), None),
        ("c", "n1", at(12), at(18), "fragmentation"),
    ]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Places, list[Job]]:
    names = ["main", "scav"]
    some = st.lists(st.sampled_from(names), unique=True)

    def interval() -> tuple[int, int]:
        low, high = sorted((draw(st.integers(0, UNTIL)), draw(st.integers(0, UNTIL))))
        return low, high

    places = {
        f"n{number}": Place(
            draw(st.sampled_from([2, 4])),
            tuple(draw(some)),
            draw(st.sampled_from(["a", "b", "b", None])),
            tuple((*interval(), draw(st.sampled_from([1, 2, 3, 4, None]))) for _ in range(draw(st.integers(0, 3)))),
            tuple(interval() for _ in range(draw(st.integers(0, 1)))),
        )
        for number in range(draw(st.integers(1, 4)))
    }
    jobs = [
        Job(
            tuple(draw(st.lists(st.sampled_from(names), unique=True, min_size=1))),
            *interval(),
            draw(st.integers(1, 8)),
            draw(st.sampled_from([None, 1, 1, 2, 3])),
            draw(st.sampled_from([None, None, 1, 2])),
            draw(st.booleans()),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    return places, jobs


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(clusters(), st.sampled_from([1, 3, 2_000_000]))
def test_the_slow_reading_agrees(cluster: tuple[Places, list[Job]], piece: int) -> None:
    places, jobs = cluster
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demand_causes, "PIECE", piece)  # however the time is cut
        result = demand(places, jobs).sort("node", "started_at")
    overlap = (pl.col("node") == pl.col("node").shift(1)) & (pl.col("started_at") < pl.col("ended_at").shift(1))
    assert result.filter(overlap).is_empty()
    slow = slow_demand.ticks(places, jobs, UNTIL, TICKS_AN_HOUR)
    assert _idle_ticks(result, places) == +Counter({key: n for key, n in slow.items() if key[2] is not None})
    for name, place in places.items():
        waited = sum(
            any(job.start <= tick < job.end and any(map(place.serves, job.partitions)) for job in jobs)
            for tick in range(UNTIL)
        )
        assert sum(n for (node, _), n in ticks(result).items() if node == name) == waited


DAYS = (20_513, 20_514)
"""Days since 1970 that the ticks are in."""


def of_day(queue: Waiting, day: int) -> pl.DataFrame:
    return queue.demand(day * DAY_US, (day + 1) * DAY_US).sort("node", "started_at")


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(clusters())
def test_demand_of_each_day_is_that_of_all_days_cut_at_midnight(cluster: tuple[Places, list[Job]]) -> None:
    queue = waiting(**reported(*cluster))
    ends = [pl.col(name).dt.epoch("us").alias(name.removesuffix("_at")) for name in ("started_at", "ended_at")]
    whole = split_days(queue.demand().select("node", *ends, "cause")).sort("node", "started")
    by_day = pl.concat([of_day(queue, day) for day in DAYS]).select("node", *ends, "cause").sort("node", "started")
    assert by_day.equals(whole)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(clusters(), st.sampled_from(["job", "hold", "out", "block", "node"]))
def test_days_of_the_same_fingerprint_have_the_same_demand(cluster: tuple[Places, list[Job]], what: str) -> None:
    places, jobs = cluster
    name, place = next(iter(places.items()))
    later = {
        "job": (places, jobs[1:]),
        "hold": (places | {name: replace(place, held=place.held[1:])}, jobs),
        "out": (places | {name: replace(place, out=place.out[1:])}, jobs),
        "block": (places | {name: replace(place, block=None)}, jobs),
        "node": (places | {"other": replace(place, gpus=8)}, jobs),
    }[what]
    before, after = (prints(reported(*each)) for each in (cluster, later))
    for day in before.keys() & after.keys():
        if before[day] == after[day]:
            assert of_day(waiting(**reported(*cluster)), day).equals(of_day(waiting(**reported(*later)), day))


def prints(known: Reported) -> dict[int, str]:
    queue = waiting(**known)
    covered = known["covered"]
    told = {
        "inventory": known["inventory"],
        "attempt_nodes": known["attempt_nodes"],
        "node_states": known["node_states"],
        "demand": frames.empty(frames.DEMAND),
        "states_known": covered,
        "covered": covered,
    }
    return fingerprints(told, queue.by_time(), queue.lasting())


def test_another_days_jobs_leave_a_fingerprint_as_it_is() -> None:
    """The first day ends with the twelfth tick."""
    first, later = Job(MAIN, 5, 9, 8), Job(("scav",), 14, 16, 8)
    before, after = (prints(reported({"n1": FREE}, jobs)) for jobs in ([first], [first, later]))
    assert before[DAYS[0]] == after[DAYS[0]]
    assert before[DAYS[1]] != after[DAYS[1]]


def _idle_ticks(result: pl.DataFrame, places: Places) -> slow_demand.Seconds:
    """Ticks with a cause, by node and hour; the node must have idle GPUs then."""
    total: slow_demand.Seconds = Counter()
    for row in result.drop_nulls("cause").iter_rows(named=True):
        first, last = (round((row[name] - EPOCH).total_seconds() / TICK_S) for name in ("started_at", "ended_at"))
        for tick in range(first, last):
            assert places[row["node"]].idle(tick)
            total[row["node"], tick // TICKS_AN_HOUR, row["cause"]] += 1
    return total
