"""Time beside computation: a link that is slow throughout, a host that is late, and what cannot be told of either."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.stragglers.outside_computation import LEAST_SHARE, late_hosts
from metrics.stragglers.sessions import session_stragglers

RANKS, NODE_RANKS, INTERVALS = 32, 8, 40


def run(
    name: str, *, transfer_s: float = 10.0, host_s: dict[int, float] | None = None, seed: int = 0, in_turn: bool = False
) -> pl.DataFrame:
    """A session of 32 ranks on four nodes that compute 100 s an interval.

    All wait for the slowest, and for transfers. `host_s` is what the host of a rank takes longer; `in_turn` moves it
    on to another rank in each interval.
    """
    chance = np.random.default_rng(seed)
    compute = 100.0 + chance.normal(0, 0.2, (INTERVALS, RANKS))
    late = np.zeros((INTERVALS, RANKS))
    for first, seconds in (host_s or {}).items():
        for number in range(INTERVALS):
            late[number, (first + 5 * number) % RANKS if in_turn else first] = seconds
    busy = compute + late
    wait = busy.max(axis=1, keepdims=True) - busy + transfer_s
    interval, rank = (each.ravel() for each in np.meshgrid(np.arange(INTERVALS), np.arange(RANKS), indexing="ij"))
    rows = pl.DataFrame(
        {
            "cluster": "c",
            "session": name,
            "run_id": name,
            "rank": rank,
            "node": [f"{name}-n{number // NODE_RANKS}" for number in rank],
            "first_step": interval * 100,
            "steps": 100,
            "compute_s": compute.ravel(),
            "wait_s": wait.ravel(),
            "wall_s": (busy + wait).ravel(),
        }
    )
    return frames.conform(rows, frames.RANK_STEPS)


def verdicts(*runs: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["run_id"]: row for row in session_stragglers([pl.concat(runs)]).to_dicts()}


@pytest.mark.parametrize(
    ("transfer_s", "cause"), [(10.0, "none"), (25.0, "none"), (60.0, "unknown"), (150.0, "network")]
)
def test_one_run_alone_is_none_only_with_short_transfers(transfer_s: float, cause: str) -> None:
    (found,) = verdicts(run("a", transfer_s=transfer_s)).values()
    assert (found["cause"], found["nodes"]) == (cause, [])
    if cause == "unknown":
        assert "transfers take 37 % of the time" in found["reason"]
        assert "a slow link would look the same" in found["reason"]


def test_none_says_what_it_leaves_open_about_links() -> None:
    nobody = "no rank computes longer than its peers by what matters"
    short, longer = run("a", transfer_s=5.0), run("b", transfer_s=25.0)
    unrecorded = run("c").with_columns(wait_s=pl.lit(None, pl.Float64))
    found = {name: each["reason"] for name, each in verdicts(short, longer, unrecorded).items()}
    assert found == {
        "a": nobody,
        "b": f"{nobody}; a link slow throughout costs at most 20 % (all waiting)",
        "c": f"{nobody}; waiting is not recorded, so slow links and hosts would not be seen",
    }


def test_bubbles_of_a_pipeline_are_not_taken_for_transfers() -> None:
    stage = (pl.col("rank") // NODE_RANKS).cast(frames.RANK_STEPS["stage"])
    (found,) = verdicts(run("a", transfer_s=150.0).with_columns(stage=stage)).values()
    assert found["cause"] == "unknown"
    assert found["reason"].startswith("transfers and bubbles take 60 %") or "too few" in found["reason"]


def test_other_runs_show_a_link_slow_from_the_first_step() -> None:
    sound = [run(name, seed=seed) for seed, name in enumerate("bcd", 1)]
    found = verdicts(run("a", transfer_s=30.0), *sound)
    assert {name: each["cause"] for name, each in found.items()} == {
        "a": "network",
        "b": "none",
        "c": "none",
        "d": "none",
    }
    assert found["a"]["reason"].startswith("transfers take 3.0 times as long as in 3 other runs")
    assert found["a"]["lost_gpu_s"] == pytest.approx(20 * INTERVALS * RANKS, rel=0.02)


def test_long_transfers_are_usual_where_all_runs_have_them() -> None:
    found = verdicts(*(run(name, transfer_s=60.0, seed=seed) for seed, name in enumerate("abc")))
    assert {each["cause"] for each in found.values()} == {"none"}


def test_runs_of_other_work_or_size_are_no_reference() -> None:
    heavier = [run(name, seed=seed) for seed, name in enumerate("bcd", 1)]
    longer = [
        each.with_columns(pl.col("compute_s") * 1.3, pl.col("wall_s") + 0.3 * pl.col("compute_s")) for each in heavier
    ]
    smaller = [each.filter(pl.col("rank") < 16) for each in heavier]
    for others in (longer, smaller, heavier[:1]):
        assert verdicts(run("a", transfer_s=30.0), *others)["a"]["cause"] == "none"


def test_a_late_host_is_named_with_its_rank_and_node() -> None:
    (found,) = verdicts(run("a", host_s={13: 20.0})).values()
    assert (found["cause"], found["nodes"]) == ("launch", [])
    assert (
        found["reason"]
        == "the others wait 15.3 % of the time for rank 13 on a-n1, which computes no longer: its host is late"
    )
    assert found["lost_gpu_s"] == pytest.approx(20 * INTERVALS * RANKS, rel=0.03)


def test_late_hosts_in_turn_are_the_shape_of_the_job() -> None:
    (found,) = verdicts(run("a", host_s={13: 20.0}, in_turn=True)).values()
    assert found["cause"] == "job_shape"
    assert "another one from interval to interval" in found["reason"]


def test_a_rank_that_records_too_little_is_not_late() -> None:
    rows = run("a").with_columns(compute_s=pl.when(pl.col("rank") == 3).then(60.0).otherwise("compute_s"))
    assert verdicts(rows)["a"]["cause"] == "none"


def by_hand(rows: list[dict[str, Any]]) -> tuple[float, int, float] | None:
    """`late_hosts` of one session in plain Python."""
    late: dict[int, float] = {}
    n = 0
    for first_step in sorted({row["first_step"] for row in rows}):
        lines = sorted((row for row in rows if row["first_step"] == first_step), key=lambda row: row["rank"])
        wall = median(row["wall_s"] for row in lines)
        rest = [max(wall - row["compute_s"] - row["wait_s"], 0.0) for row in lines]
        waits = [row["wait_s"] for row in lines]
        last = waits.index(min(waits))
        s = min(median(waits) - waits[last], rest[last] - median(rest))
        if s > LEAST_SHARE * wall:
            late[lines[last]["rank"]] = late.get(lines[last]["rank"], 0.0) + s
            n += 1
    if n < 3:
        return None
    total = sum(late.values())
    share, rank = max((s / total, -rank) for rank, s in late.items())
    return total, -rank, share


@given(st.lists(st.lists(st.tuples(*[st.integers(0, 40)] * 3), min_size=3, max_size=5), min_size=1, max_size=6))
def test_late_hosts_are_those_counted_by_hand(intervals: list[list[tuple[int, int, int]]]) -> None:
    rows = [
        {"cluster": "c", "run_id": "r", "session": "s", "rank": rank, "node": f"n{rank}", "first_step": step}
        | {"compute_s": float(compute), "wait_s": float(wait), "wall_s": float(compute + wait + rest + 1)}
        for step, lines in enumerate(intervals)
        for rank, (compute, wait, rest) in enumerate(lines)
    ]
    expected = by_hand(rows)
    found = late_hosts(pl.DataFrame(rows).sample(fraction=1.0, shuffle=True, seed=1)).to_dicts()
    assert bool(found) == (expected is not None)
    if expected is not None:
        assert found[0]["late_s"] == pytest.approx(expected[0])
        assert found[0]["late_rank_share"] == pytest.approx(expected[2])
