"""The ledger against its slow twin, and the laws it must keep."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.categories import CATEGORIES
from metrics.ledger.capacity import coverage, inventory
from metrics.ledger.ledger import other_work, with_silence
from tests.metrics.ledger.slow_ledger import SILENCE, Attempt, Cluster, State, milli_gpu_seconds
from tests.metrics.oracles.ledger import gpu_time

if TYPE_CHECKING:
    from collections.abc import Mapping

EPOCH = datetime(2026, 3, 1, 23, 59, 40, tzinfo=UTC)  # 20 s before a midnight, so that days are cut


def at(second: int) -> datetime:
    return EPOCH + timedelta(seconds=second)


def rows(schema: frames.Schema, *result: Mapping[str, object]) -> pl.DataFrame:
    complete = [dict.fromkeys(schema, None) | dict(row) for row in result]
    return pl.DataFrame(complete, schema=schema)


def attempt_nodes(cluster: Cluster) -> pl.DataFrame:
    return rows(
        frames.ATTEMPT_NODES,
        *(
            {
                "cluster": "c",
                "scheduler": "slurm",
                "job_id": f"{index:03d}",
                "submitted_at": at(a.start),
                "node": a.node,
                "started_at": at(a.start),
                "ended_at": None if a.end is None else at(a.end),
                "suspended_s": float(a.suspended),
                "milli_gpus": a.milli_gpus,
                "evidence": "assumed" if a.guessed else "accounting",
            }
            for index, a in enumerate(cluster.attempts)
        ),
    )


def node_states(cluster: Cluster) -> pl.DataFrame:
    return rows(
        frames.NODE_STATES,
        *(
            {
                "cluster": "c",
                "node": s.node,
                "started_at": at(s.start),
                "ended_at": None if s.end is None else at(s.end),
                "state": s.kind,
                "reason": "Not responding" if s.silent else "admin",
                "planned": s.kind == "maintenance",
            }
            for s in cluster.states
        ),
    )


def span(start: int, end: int) -> pl.DataFrame:
    return rows(frames.COVERAGE, {"cluster": "c", "started_at": at(start), "ended_at": at(end)})


def ledger(cluster: Cluster) -> pl.DataFrame:
    return gpu_time(**inputs(cluster))


def inputs(cluster: Cluster) -> dict[str, pl.DataFrame]:
    """Arguments of `gpu_time`."""
    covered = span(cluster.since, cluster.until)
    nodes = rows(
        frames.INVENTORY,
        *(
            {
                "cluster": "c",
                "node": node,
                "started_at": at(cluster.since),
                "ended_at": at(cluster.until),
                "milli_gpus": gpus,
                "evidence": "accounting",
            }
            for node, gpus in cluster.gpus.items()
        ),
    )
    demand = rows(
        frames.DEMAND,
        *(
            {"cluster": "c", "node": node, "started_at": at(start), "ended_at": at(end), "cause": cause}
            for node in cluster.gpus
            for start, end, cause in cluster.waits
        ),
    )
    timeout = pl.DataFrame({"cluster": ["c"], "slurmd_timeout_s": [SILENCE]})
    return {
        "inventory": nodes,
        "attempt_nodes": attempt_nodes(cluster),
        "node_states": with_silence(node_states(cluster), timeout),
        "demand": demand,
        "states_known": span(cluster.states_known_from, cluster.until),
        "covered": covered,
        "logged": logged(cluster),
        "active": active(cluster),
        "other_work": pl.DataFrame(
            [_attempt(index, a) | {"kind": "eval"} for index, a in enumerate(cluster.attempts) if not a.trains],
            schema={name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY} | {"kind": pl.String},
        ),
    }


def _words(output: str) -> dict[str, str | None]:
    category, _, cause = output.partition(":")
    return {"category": category, "cause": cause or None}


def logged(cluster: Cluster) -> pl.DataFrame:
    return rows(
        frames.LOGGED,
        *(
            _attempt(index, a) | {"started_at": at(low), "ended_at": at(high), "milli_share": share} | _words(what)
            for index, a in enumerate(cluster.attempts)
            for low, high, what, share in a.logged
        ),
    )


def active(cluster: Cluster) -> pl.DataFrame:
    return rows(
        frames.ACTIVE,
        *(
            _attempt(index, a)
            | {"node": a.node, "started_at": at(low), "ended_at": at(high), "milli_gpus": milli}
            | _words(what)
            for index, a in enumerate(cluster.attempts)
            for low, high, what, milli in a.active
        ),
    )


def _attempt(index: int, attempt: Attempt) -> dict[str, object]:
    return {"cluster": "c", "scheduler": "slurm", "job_id": f"{index:03d}", "submitted_at": at(attempt.start)}


def sums(result: pl.DataFrame) -> Counter[tuple[str, int | None, str, str | None]]:
    total: Counter[tuple[str, int | None, str, str | None]] = Counter()
    for row in result.iter_rows(named=True):
        length = (row["ended_at"] - row["started_at"]).total_seconds()
        job = None if row["job_id"] is None else int(row["job_id"])
        total[row["node"], job, row["category"], row["cause"]] += round(row["milli_gpus"] * length)
    return total


times = st.integers(0, 60)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    # Whole nodes, one that is shared in shards (thousandths), one with the sevenths of MIG.
    gpus = {name: draw(st.sampled_from([1000, 4000, 7000, 8000])) for name in ["n1", "n2"]}

    def interval(*, open_end: bool) -> tuple[int, int | None]:
        start, end = draw(times), draw(times)
        return min(start, end), None if open_end and draw(st.booleans()) else max(start, end)

    attempts = []
    for job in range(draw(st.integers(0, 5))):
        start, end = interval(open_end=True)
        suspended = draw(st.sampled_from([0, 0, 3, 100]))
        held = draw(st.sampled_from([125, 143, 500, 857, 1000, 3000, 8000]))
        place, guessed = draw(st.sampled_from(["n1", "n2"])), draw(st.booleans())
        cuts = sorted(draw(st.lists(times, max_size=4)))
        kinds = st.sampled_from(
            ["productive", "lost", "startup", "stalled", "stalled:idle_gpus", "productive:provisional"]
        )
        by_log = [(a, b, draw(kinds), draw(st.sampled_from([1000, 1000, 333]))) for a, b in itertools.pairwise(cuts)]
        seen = [
            (*interval(open_end=False), draw(kinds), draw(st.sampled_from([500, 1000, 8000])))
            for _ in range(draw(st.integers(0, 2)))
        ]
        by_telemetry = [(a, b or 0, kind, milli) for a, b, kind, milli in seen]
        attempts.append(
            Attempt(
                job,
                place,
                start,
                end,
                held,
                suspended,
                guessed,
                tuple(by_log),
                tuple(by_telemetry),
                draw(st.sampled_from([True, True, False])),
            )
        )
    states = []
    for _ in range(draw(st.integers(0, 4))):
        start, end = interval(open_end=True)
        kind = draw(st.sampled_from(["down", "drained", "maintenance", "unknown"]))
        silent = kind == "down" and draw(st.booleans())
        states.append(State(draw(st.sampled_from(["n1", "n2"])), start, end, kind, silent))
    why = st.sampled_from([None, "fragmentation", "limits"])
    waits = [
        (start, end or 0, draw(why))
        for start, end in (interval(open_end=False) for _ in range(draw(st.integers(0, 2))))
    ]
    return Cluster(60, gpus, tuple(attempts), tuple(states), tuple(waits), draw(st.integers(0, 60)))


_TEXTS = st.one_of(st.none(), st.sampled_from(["", "eval-7", "train", "dev", "eval dev"]))


@given(texts=st.lists(st.tuples(_TEXTS, _TEXTS), max_size=8))
def test_other_work_is_the_first_pattern_in_either_text(texts: list[tuple[str | None, str | None]]) -> None:
    kinds = {"evaluation": "^eval", "nameless": "^$", "interactive": "dev$"}
    key = {"cluster": "c", "scheduler": "slurm", "submitted_at": at(0)}
    ran = rows(
        frames.ATTEMPTS,
        *(key | {"job_id": str(job), "name": name, "partition": where} for job, (name, where) in enumerate(texts)),
    )
    expected = []
    for job, own in enumerate(texts):
        found = [kind for kind, pattern in kinds.items() if any(re.search(pattern, text or "") for text in own)]
        expected += [(str(job), found[0])] if found else []
    assert other_work(ran, kinds).select("job_id", "kind").rows() == expected


def test_other_work_is_by_name_or_partition_and_idles_as_stalled() -> None:
    ran = rows(
        frames.ATTEMPTS,
        *(
            {
                "cluster": "c",
                "scheduler": "slurm",
                "job_id": job,
                "submitted_at": at(0),
                "name": name,
                "partition": where,
            }
            for job, name, where in [("000", "eval-7", "main"), ("001", "train", "dev"), ("002", "train", "main")]
        ),
    )
    result = other_work(ran, {"evaluation": "^eval", "interactive": "^dev$"})
    assert result.select("job_id", "kind").rows() == [("000", "evaluation"), ("001", "interactive")]
    held = Attempt(0, "n1", 0, 10, 2000, active=((0, 10, "productive", 1000), (0, 10, "stalled", 1000)))
    cluster = Cluster(10, {"n1": 2000}, (held,))
    idle = active(cluster).with_columns(
        cause=pl.when(pl.col("category") == "stalled").then(pl.lit("idle_gpus")).otherwise(None)
    )
    seen = gpu_time(
        inventory=rows(
            frames.INVENTORY,
            {
                "cluster": "c",
                "node": "n1",
                "started_at": at(0),
                "ended_at": at(10),
                "milli_gpus": 2000,
                "evidence": "accounting",
            },
        ),
        attempt_nodes=attempt_nodes(cluster),
        node_states=node_states(cluster),
        demand=rows(frames.DEMAND),
        states_known=span(0, 10),
        covered=span(0, 10),
        active=idle,
        other_work=result.head(1),
    )
    assert sums(seen) == {("n1", 0, "other_work", "evaluation"): 10_000, ("n1", 0, "stalled", "idle_gpus"): 10_000}


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(clusters())
def test_the_slow_ledger_agrees_exactly(cluster: Cluster) -> None:
    assert sums(ledger(cluster)) == milli_gpu_seconds(cluster)


@settings(max_examples=40, deadline=None)
@given(clusters(), times, times)
def test_any_clipping_adds_up_to_capacity(cluster: Cluster, one: int, other: int) -> None:
    low, high = at(min(one, other)), at(max(one, other))
    clipped = (
        ledger(cluster)
        .with_columns(started_at=pl.max_horizontal("started_at", low), ended_at=pl.min_horizontal("ended_at", high))
        .filter(pl.col("started_at") < pl.col("ended_at"))
    )
    result = clipped.select(
        (pl.col("milli_gpus") * (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds()).sum()
    )
    assert result.item() == sum(cluster.gpus.values()) * round((high - low).total_seconds() * 1e6)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(clusters())
def test_node_rows_sum_up_at_every_instant_and_stay_in_a_day(cluster: Cluster) -> None:
    result = ledger(cluster)
    for node, capacity in cluster.gpus.items():
        for second in range(cluster.until):
            here = result.filter(
                (pl.col("node") == node) & (pl.col("started_at") <= at(second)) & (pl.col("ended_at") > at(second))
            )
            assert here["milli_gpus"].sum() == capacity
    within = (result["ended_at"] - timedelta(microseconds=1)).dt.date() == result["started_at"].dt.date()
    assert within.all()
    assert set(result["category"]) <= set(CATEGORIES)


def test_the_order_of_the_input_does_not_matter() -> None:
    cluster = Cluster(
        50,
        {"n1": 8000, "n2": 4000},
        (Attempt(0, "n1", 0, 30, 8000), Attempt(1, "n1", 10, 40, 4000), Attempt(2, "n2", 5, None, 3000)),
        (State("n1", 20, 25, "down"),),
    )
    mirrored = Cluster(50, {"n2": 4000, "n1": 8000}, cluster.attempts[::1], cluster.states[::-1])
    assert ledger(cluster).equals(ledger(mirrored))


def test_a_dead_nodes_gpus_are_stalled_until_the_attempt_ends() -> None:
    cluster = Cluster(
        100,
        {"n1": 8000, "n2": 8000},
        (Attempt(0, "n1", 0, 58, 8000), Attempt(0, "n2", 0, 58, 8000)),
        (State("n1", 48, 70, "down"),),
    )
    result = sums(ledger(cluster))
    assert result["n1", 0, "stalled", "node_down"] == 10 * 8000
    assert result["n1", None, "down", None] == 12 * 8000
    assert ("n2", 1, "stalled", "node_down") not in result


def test_slurm_notices_a_dead_node_only_after_slurmd_timeout() -> None:
    states = rows(
        frames.NODE_STATES,
        {"cluster": "c", "node": "n1", "started_at": at(58), "ended_at": at(59), "state": "down",
         "reason": "Not responding", "planned": False},
        {"cluster": "c", "node": "n2", "started_at": at(58), "state": "down", "reason": "admin", "planned": False},
    )  # fmt: skip
    timeout = pl.DataFrame({"cluster": ["c"], "slurmd_timeout_s": [10]})
    added = with_silence(states, timeout).filter(pl.col("ended_at") == at(58))
    assert added.select("node", "started_at").rows() == [("n1", at(48))]


def test_coverage_closes_short_gaps_and_keeps_long_ones() -> None:
    loads = pl.DataFrame(
        {"cluster": ["c"] * 3, "started_at": [at(0), at(5000), at(90000)], "ended_at": [at(3000), at(9000), at(99000)]},
        schema=frames.COVERAGE,
    )
    assert coverage(loads, gap_s=3600).rows() == [("c", at(0), at(9000)), ("c", at(90000), at(99000))]


def nodes_seen(*observations: tuple[str, int, int, int]) -> pl.DataFrame:
    return rows(
        frames.NODES,
        *(
            {"cluster": "c", "node": node, "valid_from": at(first), "last_seen_at": at(last), "milli_gpus": gpus}
            for node, first, last, gpus in observations
        ),
    )


def test_the_first_inventory_reaches_back_as_assumed() -> None:
    nodes = nodes_seen(("n1", 50, 50, 8000))
    result = inventory(nodes, frames.empty(frames.ATTEMPT_NODES), frames.empty(frames.NODE_STATES), span(0, 100))
    assert result.select("started_at", "ended_at", "milli_gpus", "evidence").rows() == [
        (at(0), at(50), 8000, "assumed"),
        (at(50), at(100), 8000, "accounting"),
    ]


def test_node_of_a_later_inventory_exists_from_its_first_sight() -> None:
    nodes = nodes_seen(("n1", 10, 60, 8000), ("n2", 60, 60, 4000))
    seen = attempt_nodes(Cluster(100, {}, (Attempt(0, "n2", 30, 40, 4000),)))
    result = inventory(nodes, seen, frames.empty(frames.NODE_STATES), span(0, 100)).filter(pl.col("node") == "n2")
    assert result.select("started_at", "ended_at", "evidence").rows() == [
        (at(30), at(60), "assumed"),
        (at(60), at(100), "accounting"),
    ]


def test_node_that_left_the_inventory_ends_at_its_last_activity() -> None:
    nodes = nodes_seen(("n1", 10, 20, 8000), ("n2", 10, 60, 8000))
    seen = attempt_nodes(Cluster(100, {}, (Attempt(0, "n1", 30, 40, 4000),)))
    result = inventory(nodes, seen, frames.empty(frames.NODE_STATES), span(0, 100)).filter(pl.col("node") == "n1")
    assert result["ended_at"].max() == at(40)


def test_node_is_gone_while_inventories_lack_it() -> None:
    nodes = nodes_seen(("n1", 10, 20, 8000), ("n1", 60, 70, 4000), ("n2", 10, 80, 8000)).with_columns(
        gone_at=pl.Series([at(30), at(80), None], dtype=frames.TIME)
    )
    nothing = frames.empty(frames.ATTEMPT_NODES), frames.empty(frames.NODE_STATES)
    result = inventory(nodes, *nothing, span(0, 100)).filter(pl.col("node") == "n1")
    assert result.select("started_at", "ended_at", "milli_gpus", "evidence").rows() == [
        (at(0), at(10), 8000, "assumed"),
        (at(10), at(30), 8000, "accounting"),
        (at(60), at(80), 4000, "accounting"),
    ]


def test_node_used_after_an_inventory_without_it_still_existed() -> None:
    nodes = nodes_seen(("n1", 10, 20, 8000), ("n2", 10, 80, 8000)).with_columns(
        gone_at=pl.Series([at(30), None], dtype=frames.TIME)
    )
    seen = attempt_nodes(Cluster(100, {}, (Attempt(0, "n1", 25, 28, 4000), Attempt(1, "n1", 35, 50, 4000))))
    result = inventory(nodes, seen, frames.empty(frames.NODE_STATES), span(0, 100)).filter(pl.col("node") == "n1")
    assert result.select("started_at", "ended_at", "milli_gpus", "evidence").rows()[1:] == [
        (at(10), at(30), 8000, "accounting"),
        (at(30), at(50), 8000, "assumed"),
    ]


def test_node_without_inventory_has_the_most_gpus_ever_held() -> None:
    seen = attempt_nodes(Cluster(100, {}, (Attempt(0, "n1", 10, 30, 3000), Attempt(1, "n1", 20, 40, 4000))))
    result = inventory(frames.empty(frames.NODES), seen, frames.empty(frames.NODE_STATES), span(0, 100))
    assert result.select("started_at", "ended_at", "milli_gpus", "evidence").rows() == [
        (at(10), at(40), 7000, "assumed")
    ]


def test_known_gpus_are_not_scaled_by_assumed_ones() -> None:
    """7 GPUs are known to be held; of 3 on two nodes it is only assumed that 2 are here: the guess gives way."""
    cluster = Cluster(10, {"n1": 8000}, (Attempt(0, "n1", 0, 10, 7000), Attempt(1, "n1", 0, 10, 2000, guessed=True)))
    result = ledger(cluster)
    assert result.select("job_id", "milli_gpus", "evidence").unique().sort("job_id").rows() == [
        ("000", 7000, "accounting"),
        ("001", 1000, "assumed"),
    ]
