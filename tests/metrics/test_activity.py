"""What telemetry says of attempts: cases by hand, and a slow twin for whole nodes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.activity import active_time
from tests.metrics.tables import rows

if TYPE_CHECKING:
    import polars as pl

EPOCH = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = 60


def at(minute: float) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def held(*found: tuple[str, str, int, int, int]) -> pl.DataFrame:
    """(job, node, from, to, GPUs)"""
    return rows(
        frames.ATTEMPT_NODES,
        *(
            {
                "cluster": "c",
                "scheduler": "slurm",
                "job_id": job,
                "submitted_at": at(0),
                "node": node,
                "started_at": at(start),
                "ended_at": at(end),
                "milli_gpus": gpus * 1000,
                "evidence": "accounting",
            }
            for job, node, start, end, gpus in found
        ),
    )


def samples(*found: tuple[str, int, float, float, float]) -> pl.DataFrame:
    """(node, GPU, from, to, active share)"""
    return rows(
        frames.ACTIVITY,
        *(
            {
                "cluster": "c",
                "node": node,
                "gpu": str(gpu),
                "started_at": at(a),
                "ended_at": at(b),
                "active_share": share,
            }
            for node, gpu, a, b, share in found
        ),
    )


def seen(attempts: pl.DataFrame, activity: pl.DataFrame, gpus: int = 2) -> Counter[tuple[str, str, str | None]]:
    """GPU-minutes by job, category and cause."""
    nodes = sorted(set(attempts["node"]))
    there = rows(
        frames.INVENTORY,
        *(
            {"cluster": "c", "node": n, "started_at": at(0), "ended_at": at(10_000), "milli_gpus": gpus * 1000}
            for n in nodes
        ),
    )
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(0), "ended_at": at(10_000)})
    total: Counter[tuple[str, str, str | None]] = Counter()
    for row in active_time(activity, attempts, there, covered).iter_rows(named=True):
        minutes = (row["ended_at"] - row["started_at"]).total_seconds() / MINUTE
        total[row["job_id"], row["category"], row["cause"]] += row["milli_gpus"] * minutes / 1000
    return total


def test_startup_productive_stall_and_teardown_by_activity() -> None:
    both = [
        (node, gpu, a, b, share)
        for node, gpu in [("n1", 0), ("n1", 1)]
        for a, b, share in [
            (0, 5, 0.0),
            (5, 40, 1.0),
            (40, 43, 0.0),
            (43, 60, 1.0),
            (60, 70, 0.0),
            (70, 80, 1.0),
            (80, 90, 0.0),
        ]
    ]
    assert seen(held(("1", "n1", 0, 90, 2)), samples(*both)) == {
        ("1", "startup", None): 10,
        ("1", "productive", None): 2 * (35 + 17 + 10),
        ("1", "stalled", "inactive"): 6,
        ("1", "stalled", "hang"): 20,
        ("1", "teardown", None): 20,
    }


def test_one_idle_gpu_of_those_used_stalls_the_attempt_on_all_its_nodes() -> None:
    activity = samples(("n1", 0, 0, 60, 1.0), ("n1", 1, 0, 60, 1.0), ("n2", 0, 0, 60, 1.0), ("n2", 1, 0, 30, 1.0),
                       ("n2", 1, 30, 40, 0.0), ("n2", 1, 40, 60, 1.0))  # fmt: skip
    found = seen(held(("1", "n1", 0, 60, 2), ("1", "n2", 0, 60, 2)), activity)
    assert found == {("1", "productive", None): 4 * 50, ("1", "stalled", "inactive"): 4 * 10}


def test_gpus_that_are_never_used_are_idle_and_do_not_stall_the_others() -> None:
    activity = samples(("n1", 0, 0, 50, 1.0), ("n1", 1, 0, 50, 0.0))
    assert seen(held(("1", "n1", 0, 50, 2)), activity) == {
        ("1", "productive", None): 50,
        ("1", "stalled", "idle_gpus"): 50,
    }


def test_time_without_samples_is_not_told() -> None:
    activity = samples(("n1", 0, 0, 20, 1.0), ("n1", 1, 0, 20, 1.0))
    assert seen(held(("1", "n1", 0, 50, 2), ("1", "n2", 0, 50, 2)), activity) == {("1", "productive", None): 40}


def test_an_hour_is_divided_by_its_active_share() -> None:
    activity = samples(*((f"n{n}", g, h * 60, h * 60 + 60, share) for n in (1, 2) for g in (0, 1)
                         for h, share in [(0, 0.5), (1, 1.0), (2, 0.75), (3, 0.1)]))  # fmt: skip
    found = seen(held(("1", "n1", 0, 240, 2), ("1", "n2", 0, 240, 2)), activity)
    assert found == pytest.approx(
        {
            ("1", "productive", None): 4 * 60 * 2.35,
            ("1", "startup", None): 4 * 30,
            ("1", "stalled", "inactive"): 4 * 15,
            ("1", "teardown", None): 4 * 54,
        }
    )


def test_of_an_hour_held_in_part_only_what_must_be_so_is_said() -> None:
    activity = samples(("n1", 0, 0, 60, 0.75), ("n1", 1, 0, 60, 0.75))
    # 45 active minutes a GPU, 30 held by each: at least 15 of them were each one's, and none was idle for certain.
    assert seen(held(("1", "n1", 0, 30, 2), ("2", "n1", 30, 60, 2)), activity) == pytest.approx(
        {("1", "productive", None): 30, ("2", "productive", None): 30}
    )


def test_activity_while_nobody_held_the_node_is_not_the_next_attempts() -> None:
    # Twenty minutes of verification on the idle node, then an attempt that did nothing: 20 of 60 minutes active.
    activity = samples(("n1", 0, 0, 60, 1 / 3), ("n1", 1, 0, 60, 1 / 3))
    assert seen(held(("1", "n1", 40, 60, 2)), activity) == {}
    # One that held 50 of the 60 minutes had at least ten of the twenty, and idled for at least thirty.
    assert seen(held(("1", "n1", 0, 50, 2)), activity) == pytest.approx(
        {("1", "productive", None): 20, ("1", "startup", None): 60}, rel=0.01
    )


def test_a_stall_amid_an_attempt_is_one_wherever_only_hours_are_left() -> None:
    hours = [("n1", g, h * 60, h * 60 + 60, 0.5 if h == 5 else 1.0) for g in (0, 1) for h in range(10)]
    assert seen(held(("1", "n1", 0, 600, 2)), samples(*hours)) == pytest.approx(
        {("1", "productive", None): 2 * 570, ("1", "stalled", "inactive"): 60}
    )
    later = [("n1", g, 600, 630, 0.0) for g in (0, 1)] + [("n1", g, 630, 690, 1.0) for g in (0, 1)]
    found = seen(held(("1", "n1", 0, 690, 2)), samples(*hours, *later))
    assert ("1", "startup", None) not in found
    assert ("1", "teardown", None) not in found


def test_on_a_shared_node_only_what_must_be_so_is_said() -> None:
    def node(active: int) -> pl.DataFrame:
        return samples(*(("n1", g, 0, 30, 1.0 if g < active else 0.0) for g in range(4)))

    shared = held(("1", "n1", 0, 30, 3), ("2", "n1", 0, 30, 1))
    assert seen(shared, node(4), 4) == {("1", "productive", None): 90, ("2", "productive", None): 30}
    assert seen(shared, node(0), 4) == {("1", "stalled", "idle_gpus"): 90, ("2", "stalled", "idle_gpus"): 30}
    assert seen(shared, node(2), 4) == {("1", "stalled", "idle_gpus"): 30}


def test_a_shared_node_with_a_gpu_that_nobody_watched_tells_nothing() -> None:
    activity = samples(*(("n1", g, 0, 30, 1.0) for g in range(3)))
    assert seen(held(("1", "n1", 0, 30, 3)), activity, 4) == {}


@st.composite
def worlds(draw: st.DrawFn) -> dict[tuple[str, int], list[int | None]]:
    """For each GPU and minute: active (1), idle (0) or not seen (None)."""
    minute = st.sampled_from([0, 1, 1, 1, None])
    return {(node, gpu): draw(st.lists(minute, min_size=12, max_size=12)) for node in ("n1", "n2") for gpu in (0, 1)}


@settings(max_examples=100, deadline=None)
@given(worlds())
def test_a_slow_reading_agrees(world: dict[tuple[str, int], list[int | None]]) -> None:
    activity = samples(
        *(
            (node, gpu, m, m + 1, float(v))
            for (node, gpu), line in world.items()
            for m, v in enumerate(line)
            if v is not None
        )
    )
    used = [line for line in world.values() if 1 in line]
    whole = [bool([1 for u in used if u[m] is not None]) and all(u[m] != 0 for u in used) for m in range(12)]
    first, last = (whole.index(True), 11 - whole[::-1].index(True)) if True in whole else (None, None)
    expected: Counter[tuple[str, str]] = Counter()
    for line in world.values():
        for m, value in enumerate(line):
            if value is None:
                continue
            if 1 not in line:
                expected["1", "stalled"] += 1
            elif whole[m]:
                expected["1", "productive"] += 1
            elif first is not None and last is not None and m < first:
                expected["1", "startup"] += 1
            elif first is not None and last is not None and m > last:
                expected["1", "teardown"] += 1
            else:
                expected["1", "stalled"] += 1
    got: Counter[tuple[str, str]] = Counter()
    for (job, category, _), minutes in seen(held(("1", "n1", 0, 12, 2), ("1", "n2", 0, 12, 2)), activity).items():
        got[job, category] += round(minutes)
    assert got == expected
