"""GPUs that pods hold at the same time, minute by minute, and of Jobs whose pods come one after the other."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from ingest.kubernetes.at_once import held_at_once, most_at_once
from tests.ingest.kubernetes.test_attempts import derived
from tests.support.kubernetes.objects import moment, owner, pod, workload

ZERO = datetime(2026, 10, 1, tzinfo=UTC)
END = 20


class Held(NamedTuple):
    """A pod: where, from which minute to which (None: it is still there), and of how many GPUs (None: unknown)."""

    node: str
    begin: int
    end: int | None
    gpus: int | None


pods = st.builds(
    Held,
    node=st.sampled_from("ab"),
    begin=st.integers(0, 9),
    end=st.one_of(st.none(), st.integers(0, 9)),
    gpus=st.sampled_from((None, 0, 1, 1, 2, 4, 8)),
).map(lambda one: one._replace(end=None if one.end is None else one.begin + one.end))


def table(every: list[Held]) -> pl.DataFrame:
    def at(minute: int | None) -> datetime | None:
        return None if minute is None else ZERO + timedelta(minutes=minute)

    rows = [(each.node, at(each.begin), at(each.end), each.gpus) for each in every]
    time = pl.Datetime("us", "UTC")
    frame = pl.DataFrame(rows, schema=["node", "begins", "ends", "n_gpus"], orient="row", infer_schema_length=None)
    return frame.cast({"node": pl.String, "begins": time, "ends": time, "n_gpus": pl.Decimal(12, 3)})


def by_minute(every: list[Held]) -> dict[tuple[str, int], int | None]:
    """The GPUs of each node in each minute with a pod: unknown where one's are."""
    found: dict[tuple[str, int], int | None] = {}
    for each in every:
        for minute in range(each.begin, END if each.end is None else each.end):
            before = found.get((each.node, minute), 0)
            found[each.node, minute] = None if before is None or each.gpus is None else before + each.gpus
    return found


@given(st.lists(pods, max_size=8))
def test_each_minute_has_the_gpus_of_its_pods(every: list[Held]) -> None:
    found: Counter[tuple[str, int]] = Counter()
    minutes = {}
    rows = held_at_once(table(every), ["node"])
    for node, started_at, ended_at, gpus in rows.select("node", "started_at", "ended_at", "n_gpus").rows():
        last = END if ended_at is None else (ended_at - ZERO) // timedelta(minutes=1)
        for minute in range((started_at - ZERO) // timedelta(minutes=1), last):
            found[node, minute] += 1
            minutes[node, minute] = None if gpus is None else int(gpus)
    assert minutes == by_minute(every)
    assert set(found.values()) <= {1}
    assert set(rows["node"]) == {each.node for each in every}


@given(st.lists(pods, min_size=1, max_size=8))
def test_most_at_once_is_that_of_the_fullest_minute(every: list[Held]) -> None:
    minutes = by_minute(every)
    for node, gpus in most_at_once(table(every), ["node"], "begins").rows():
        own = [each for each in every if each.node == node]
        if any(each.gpus is None for each in own):
            assert gpus is None
        else:
            held = [number for (where, _), number in minutes.items() if where == node]
            assert gpus == (max(number or 0 for number in held) if held else sum(each.gpus or 0 for each in own))


def test_pods_one_after_the_other_hold_the_same_gpu() -> None:
    above, index = owner("Job", "sweep"), "batch.kubernetes.io/job-completion-index"
    turns = [
        pod(f"s-{n}", above=above, gpus=1, created=60 * n, scheduled=60 * n, ended=60 * n + 60, labels={index: str(n)})
        for n in range(4)
    ]
    attempts, placements = derived(workload("Job", "sweep"), *turns)
    assert [(row["n_gpus"], row["req_gpus"]) for row in attempts] == [(1, 1)]
    assert [(row["started_at"], row["ended_at"], row["n_gpus"]) for row in placements] == [(moment(0), moment(240), 1)]


def test_a_pod_that_ends_early_gives_its_gpus_back() -> None:
    above = owner("Job", "two")
    both = [pod(f"t-{n}", above=above, gpus=4, scheduled=1, ended=11 + 10 * n) for n in range(2)]
    attempts, placements = derived(workload("Job", "two"), *both)
    assert [row["n_gpus"] for row in attempts] == [8]
    assert [(row["started_at"], row["ended_at"], row["n_gpus"]) for row in placements] == [
        (moment(1), moment(11), 8),
        (moment(11), moment(21), 4),
    ]
