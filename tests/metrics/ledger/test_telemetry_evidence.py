"""What telemetry says of attempts: cases by hand, and a slow twin for whole nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import ceil, floor
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.ledger.telemetry_evidence import active_time
from tests.metrics.tables import rows

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = datetime(2026, 3, 2, tzinfo=UTC)
MINUTE = 60


def at(minute: float) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def held(*result: tuple[str, str, float, float, int]) -> pl.DataFrame:
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
            for job, node, start, end, gpus in result
        ),
    )


def samples(*result: tuple[str, int, float, float, float]) -> pl.DataFrame:
    """(node, GPU, from, to, active share); samples of a minute, and hours where the share says neither."""
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
                "interval_s": MINUTE if share in {0, 1} else None,
            }
            for node, gpu, a, b, share in result
        ),
    )


def evidence_of(
    attempts: pl.DataFrame,
    activity: pl.DataFrame,
    gpus: int = 2,
    read: Sequence[float] = (0, 10_000),
    state: str | None = "COMPLETED",
) -> pl.DataFrame:
    """What telemetry tells; inventories are read at these minutes, the last of which ends the window."""
    nodes = sorted(set(attempts["node"]))
    there = rows(
        frames.INVENTORY,
        *(
            {"cluster": "c", "node": n, "started_at": at(a), "ended_at": at(b), "milli_gpus": gpus * 1000}
            for n in nodes
            for a, b in pairwise(read)
        ),
    )
    covered = rows(frames.COVERAGE, {"cluster": "c", "started_at": at(read[0]), "ended_at": at(read[-1])})
    return active_time(activity, attempts, there, covered, ended(attempts, state))


def ended(attempts: pl.DataFrame, state: str | None) -> pl.DataFrame:
    """The attempts that held nodes, all of which ended in this state."""
    key = list(frames.ATTEMPT_KEY)
    return frames.conform(attempts.select(key).unique().with_columns(state=pl.lit(state)), frames.ATTEMPTS)


def seen(
    attempts: pl.DataFrame,
    activity: pl.DataFrame,
    gpus: int = 2,
    read: Sequence[float] = (0, 10_000),
    state: str | None = "COMPLETED",
) -> Counter[tuple[str, str, str | None]]:
    """GPU-minutes by job, category and cause."""
    total: Counter[tuple[str, str, str | None]] = Counter()
    for row in evidence_of(attempts, activity, gpus, read, state).iter_rows(named=True):
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


def test_one_idle_gpu_of_those_used_stalls_all_nodes() -> None:
    activity = samples(("n1", 0, 0, 60, 1.0), ("n1", 1, 0, 60, 1.0), ("n2", 0, 0, 60, 1.0), ("n2", 1, 0, 30, 1.0),
                       ("n2", 1, 30, 40, 0.0), ("n2", 1, 40, 60, 1.0))  # fmt: skip
    result = seen(held(("1", "n1", 0, 60, 2), ("1", "n2", 0, 60, 2)), activity)
    assert result == {
        ("1", "productive", None): 4 * 50,
        ("1", "stalled", "inactive"): 10,
        ("1", "stalled", "lockstep"): 3 * 10,
    }


def eight(*of_gpu_3: tuple[float, float, float]) -> pl.DataFrame:
    """Eight GPUs busy for two hours, but GPU 3 only as it is said."""
    others = [("n1", gpu, 0, 120, 1.0) for gpu in range(8) if gpu != 3]
    return samples(*others, *(("n1", 3, *told_) for told_ in of_gpu_3))


@pytest.mark.parametrize(
    "of_gpu_3",
    [
        [(0, 60, 1.0), (60, 120, 0.0)],  # a rank that ends early
        [(0, 60, 0.0), (60, 120, 1.0)],  # one that starts late
        [(0, 30, 1.0), (30, 90, 0.0), (90, 120, 1.0)],  # one without work for a while
    ],
)
def test_seven_gpus_with_an_idle_one_are_lockstep_stalled(
    of_gpu_3: list[tuple[float, float, float]],
) -> None:
    """They are neither startup nor teardown, nor known to be idle."""
    result = seen(held(("1", "n1", 0, 120, 8)), eight(*of_gpu_3), 8)
    assert result == {
        ("1", "productive", None): 8 * 60,
        ("1", "stalled", "lockstep"): 7 * 60,
        ("1", "stalled", "inactive"): 60,
    }


def test_seven_gpus_with_an_unused_or_unobserved_are_productive() -> None:
    whole = held(("1", "n1", 0, 120, 8))
    assert seen(whole, eight((0, 120, 0.0)), 8) == {
        ("1", "productive", None): 7 * 120,
        ("1", "stalled", "idle_gpus"): 120,
    }
    assert seen(whole, eight((0, 60, 1.0)), 8) == {("1", "productive", None): 7 * 120 + 60}


def test_tasks_that_end_in_turn_leave_only_their_own_gpus_idle() -> None:
    activity = samples(*(("n1", g, a, b, s) for g in range(4)
                         for a, b, s in [(0, 10, 0.0), (10, 20 + 10 * g, 1.0), (20 + 10 * g, 60, 0.0)]))  # fmt: skip
    assert seen(held(("1", "n1", 0, 60, 4)), activity, 4) == {
        ("1", "startup", None): 4 * 10,
        ("1", "productive", None): 4 * 10,
        ("1", "stalled", "lockstep"): 10 * (3 + 2 + 1),
        ("1", "stalled", "inactive"): 10 * (1 + 2 + 3),
        ("1", "teardown", None): 4 * 10,
    }


def test_in_hours_too_only_the_idle_gpu_is_idle() -> None:
    of_an_hour = [0.5] + [1.0] * 3
    hours = samples(*(("n1", g, h * 60, h * 60 + 60, 1.0 if h == 1 else of_an_hour[g]) for g in range(4)
                      for h in range(3)))  # fmt: skip
    assert seen(held(("1", "n1", 0, 180, 4)), hours, 4) == {
        ("1", "productive", None): 4 * 120,
        ("1", "stalled", "inactive"): 2 * 30,
        ("1", "stalled", "lockstep"): 2 * 3 * 30,
    }


def test_never_used_gpus_are_idle_and_do_not_stall_the_others() -> None:
    activity = samples(("n1", 0, 0, 50, 1.0), ("n1", 1, 0, 50, 0.0))
    assert seen(held(("1", "n1", 0, 50, 2)), activity) == {
        ("1", "productive", None): 50,
        ("1", "stalled", "idle_gpus"): 50,
    }


def test_time_without_samples_is_no_evidence() -> None:
    activity = samples(("n1", 0, 0, 20, 1.0), ("n1", 1, 0, 20, 1.0))
    assert seen(held(("1", "n1", 0, 50, 2), ("1", "n2", 0, 50, 2)), activity) == {("1", "productive", None): 40}


def test_an_hour_is_divided_by_its_active_share() -> None:
    activity = samples(*((f"n{n}", g, h * 60, h * 60 + 60, share) for n in (1, 2) for g in (0, 1)
                         for h, share in [(0, 0.5), (1, 1.0), (2, 0.75), (3, 0.1)]))  # fmt: skip
    result = seen(held(("1", "n1", 0, 240, 2), ("1", "n2", 0, 240, 2)), activity)
    assert result == pytest.approx(
        {
            ("1", "productive", None): 4 * 60 * 2.35,
            ("1", "startup", None): 4 * 30,
            ("1", "stalled", "inactive"): 4 * 15,
            ("1", "teardown", None): 4 * 54,
        }
    )


def test_hour_held_in_part_gives_only_what_must_be_so() -> None:
    activity = samples(("n1", 0, 0, 60, 0.75), ("n1", 1, 0, 60, 0.75))
    # 45 active minutes a GPU, 30 held by each: at least 15 of them were each one's, and none was idle for certain.
    assert seen(held(("1", "n1", 0, 30, 2), ("2", "n1", 30, 60, 2)), activity) == pytest.approx(
        {("1", "productive", None): 30, ("2", "productive", None): 30}
    )


def test_activity_of_an_unheld_node_is_not_the_next_holders() -> None:
    # Twenty minutes of verification on the idle node, then an attempt that did nothing: 20 of 60 minutes active.
    activity = samples(("n1", 0, 0, 60, 1 / 3), ("n1", 1, 0, 60, 1 / 3))
    assert seen(held(("1", "n1", 40, 60, 2)), activity) == {}
    # One that held 50 of the 60 minutes had at least ten of the twenty, and idled for at least thirty.
    assert seen(held(("1", "n1", 0, 50, 2)), activity) == pytest.approx(
        {("1", "productive", None): 20, ("1", "startup", None): 60}, rel=0.01
    )


def test_roll_up_cut_by_the_window_counts_for_the_whole_hour() -> None:
    activity = samples(("n1", 0, 0, 30, 0.75), ("n1", 1, 0, 30, 0.75))
    # 45 active minutes a GPU, at most 30 of them after the window's end.
    assert seen(held(("1", "n1", 0, 30, 2)), activity, read=(0, 30)) == {("1", "productive", None): 30}


def test_stall_amid_an_attempt_is_one_where_only_hours_are_left() -> None:
    hours = [("n1", g, h * 60, h * 60 + 60, 0.5 if h == 5 else 1.0) for g in (0, 1) for h in range(10)]
    assert seen(held(("1", "n1", 0, 600, 2)), samples(*hours)) == pytest.approx(
        {("1", "productive", None): 2 * 570, ("1", "stalled", "inactive"): 60}
    )
    later = [("n1", g, 600, 630, 0.0) for g in (0, 1)] + [("n1", g, 630, 690, 1.0) for g in (0, 1)]
    result = seen(held(("1", "n1", 0, 690, 2)), samples(*hours, *later))
    assert ("1", "startup", None) not in result
    assert ("1", "teardown", None) not in result


def test_shared_node_gives_only_what_must_be_so() -> None:
    def node(active: int) -> pl.DataFrame:
        return samples(*(("n1", g, 0, 30, 1.0 if g < active else 0.0) for g in range(4)))

    shared = held(("1", "n1", 0, 30, 3), ("2", "n1", 0, 30, 1))
    assert seen(shared, node(4), 4) == {("1", "productive", None): 90, ("2", "productive", None): 30}
    assert seen(shared, node(0), 4) == {("1", "stalled", "idle_gpus"): 90, ("2", "stalled", "idle_gpus"): 30}
    assert seen(shared, node(2), 4) == {("1", "stalled", "idle_gpus"): 30}


def test_part_of_a_node_is_productive_if_all_held_gpus_are() -> None:
    def node(active: int, begin: float = 0, end: float = 30) -> pl.DataFrame:
        return samples(*(("n1", g, begin, end, 1.0 if g < active else 0.0) for g in range(4)))

    both = held(("1", "n1", 0, 30, 2), ("2", "n1", 0, 30, 1))
    assert seen(both, node(3), 4) == {("1", "productive", None): 60, ("2", "productive", None): 30}
    assert seen(both, node(2), 4) == {}  # the idle GPU of the three is the one's or the other's
    alone = held(("1", "n1", 0, 30, 2))
    assert seen(alone, node(3), 4) == {}  # a GPU that nobody holds is active
    assert seen(alone, pl.concat([node(2, 0, 10), node(0, 10, 30)]), 4) == {
        ("1", "productive", None): 20, ("1", "stalled", "idle_gpus"): 40,
    }  # fmt: skip
    # Samples last a minute: up to one before 10.5 and after it they may be of two holders or of one.
    leaves = held(("1", "n1", 0, 30, 2), ("2", "n1", 0, 10.5, 1))
    assert seen(leaves, pl.concat([node(3, 0, 10), node(2, 10, 30)]), 4) == {
        ("1", "productive", None): 2 * (9.5 + 18.5), ("2", "productive", None): 9.5,
    }  # fmt: skip
    unknown = pl.concat([alone, held(("2", "n1", 0, 30, 1)).with_columns(milli_gpus=pl.lit(None, pl.Int64))])
    assert seen(unknown, node(2), 4) == {}


def test_an_active_gpu_is_no_evidence_of_each_of_its_slices() -> None:
    """A GPU is active while any of its slices is: whose that is, its activity does not show."""

    def node(active: int) -> pl.DataFrame:
        return samples(*(("n1", g, 0, 30, 1.0 if g < active else 0.0) for g in range(3)))

    def slices(*of_jobs: tuple[str, int]) -> pl.DataFrame:
        return pl.concat(
            [held((job, "n1", 0, 30, 1)).with_columns(milli_gpus=pl.lit(milli, pl.Int64)) for job, milli in of_jobs]
        )

    shared = slices(("1", 429), ("2", 571), ("3", 2000))
    assert seen(shared, node(3), 3) == {("3", "productive", None): 60}
    assert seen(shared, node(0), 3) == {
        ("1", "stalled", "idle_gpus"): pytest.approx(0.429 * 30),
        ("2", "stalled", "idle_gpus"): pytest.approx(0.571 * 30),
        ("3", "stalled", "idle_gpus"): 60,
    }
    # Two active ones may be those of the two slices, beside an idle one of the third job.
    assert seen(slices(("1", 429), ("2", 571), ("3", 1000)), node(2), 3) == {}
    assert seen(slices(("1", 429)), node(3), 3) == {("1", "productive", None): pytest.approx(0.429 * 30)}
    # The sample of 10 to 11 may be of the other's slice, which it had until 10.5.
    leaves = slices(("1", 429), ("2", 571)).with_columns(
        ended_at=pl.when(job_id="2").then(pl.lit(at(10.5)).cast(frames.TIME)).otherwise("ended_at")
    )
    assert seen(leaves, node(3), 3) == {("1", "productive", None): pytest.approx(0.429 * 18.5)}


@pytest.mark.parametrize("held_too", [1, 0])
def test_parts_of_several_nodes_are_productive_together(held_too: int) -> None:
    """On the second node no GPU is active after ten minutes: the attempt waits, as with whole nodes (`lockstep`)."""

    def node(name: str, active: int, begin: float, end: float) -> list[tuple[str, int, float, float, float]]:
        return [(name, g, begin, end, 1.0 if g < active else 0.0) for g in range(4)]

    two = held(*(("1", name, 0, 30, 3) for name in ("n1", "n2")), *(("2", "n1", 0, 30, 1) for _ in range(held_too)))
    first = node("n1", 3 + held_too, 0, 30)
    activity = samples(*first, *node("n2", 3, 0, 10), *node("n2", 0, 10, 30))
    expected: dict[tuple[str, str, str | None], float] = {
        ("1", "productive", None): 60, ("1", "stalled", "idle_gpus"): 60,
    }  # fmt: skip
    if held_too:
        expected["2", "productive", None] = 30
    assert seen(two, activity, 4) == expected


def test_part_beside_a_whole_node_is_productive_until_one_idles() -> None:
    """One node is the attempt's, and half of another: an idle GPU on either may hold up what is on the other."""

    def node(name: str, active: int, begin: float, end: float) -> list[tuple[str, int, float, float, float]]:
        return [(name, g, begin, end, 1.0 if g < active else 0.0) for g in range(4)]

    mixed = held(("1", "n1", 0, 30, 4), ("1", "n2", 0, 30, 2))
    beside = pl.concat([mixed, held(("2", "n2", 0, 30, 2))])
    expected: dict[tuple[str, str, str | None], float] = {
        ("1", "productive", None): 180, ("2", "productive", None): 60,
    }  # fmt: skip
    assert seen(beside, samples(*node("n1", 4, 0, 30), *node("n2", 4, 0, 30)), 4) == expected
    idle = samples(*node("n1", 4, 0, 10), *node("n1", 0, 10, 30), *node("n2", 2, 0, 30))
    assert seen(mixed, idle, 4) == {("1", "productive", None): 40 + 20, ("1", "teardown", None): 80}
    unobserved = samples(*node("n2", 4, 0, 30))
    assert seen(beside, unobserved, 4) == {("1", "productive", None): 60, ("2", "productive", None): 60}


def test_shared_node_with_an_unwatched_gpu_is_no_evidence() -> None:
    activity = samples(*(("n1", g, 0, 30, 1.0) for g in range(3)))
    assert seen(held(("1", "n1", 0, 30, 3)), activity, 4) == {}


def test_hours_of_a_shared_node_give_what_must_hold_for_the_hour() -> None:
    whole = held(("1", "n1", 0, 60, 3))
    assert seen(whole, samples(*(("n1", g, 0, 60, 0.9) for g in range(4))), 4) == pytest.approx(
        {("1", "productive", None): 3 * 60 * 0.6}
    )
    assert seen(whole, samples(*(("n1", g, 0, 60, 0.5) for g in range(4))), 4) == {("1", "stalled", "idle_gpus"): 60}


@pytest.mark.parametrize("share", [0.5, 0.501])
def test_shares_of_an_hour_held_in_part_are_no_evidence(share: float) -> None:
    # All four may have been active in the first half, and idle in the second.
    """Also where they sum to whole GPUs."""
    activity = samples(*(("n1", g, 0, 60, share) for g in range(4)))
    assert seen(held(("1", "n1", 0, 30, 3)), activity, 4) == {}


def test_hourly_share_is_not_spread_by_samples_of_another_gpu() -> None:
    # Active in the first half, GPU 0 took turns with GPU 1, and the attempt may have had both in turn.
    activity = samples(("n1", 0, 0, 60, 0.5), ("n1", 1, 0, 30, 0.0), ("n1", 1, 30, 60, 1.0))
    assert seen(held(("1", "n1", 0, 60, 1)), activity) == {}


def test_active_samples_across_ends_on_a_shared_node_are_unsure() -> None:
    all_of_them = samples(*(("n1", g, a, b, s) for g in range(4) for a, b, s in [(0, 31, 1.0), (31, 60, 0.0)]))
    assert seen(held(("1", "n1", 0, 30.5, 3), ("2", "n1", 30.5, 60, 3)), all_of_them, 4) == {
        ("1", "productive", None): 3 * 29.5,
        ("2", "stalled", "idle_gpus"): 3 * 29,
    }
    start = samples(*(("n1", g, 0, 60, 1.0) for g in range(4)))
    assert seen(held(("2", "n1", 30.5, 60, 3)), start, 4) == {("2", "productive", None): 3 * 28.5}
    half = samples(*(("n1", g, 0, 60, 1.0 if g < 2 else 0.0) for g in range(4)))
    assert seen(held(("2", "n1", 10.5, 50.5, 3)), half, 4) == {("2", "stalled", "idle_gpus"): 40}


def test_end_of_one_attempt_is_not_first_activity_of_the_next() -> None:
    activity = samples(
        *(("n1", g, a, b, s) for g in (0, 1) for a, b, s in [(0, 11, 1.0), (11, 30, 0.0), (30, 70, 1.0)])
    )
    assert seen(held(("1", "n1", 0, 10.5, 2), ("2", "n1", 10.5, 70, 2)), activity) == {
        ("1", "productive", None): 21,
        ("2", "startup", None): 39,
        ("2", "productive", None): 80,
    }


def test_a_gpu_that_only_the_attempt_before_used_is_idle() -> None:
    activity = samples(("n1", 0, 0, 70, 1.0), ("n1", 1, 0, 11, 1.0), ("n1", 1, 11, 70, 0.0))
    assert seen(held(("1", "n1", 0, 10.5, 2), ("2", "n1", 10.5, 70, 2)), activity) == {
        ("1", "productive", None): 21,
        ("2", "productive", None): 59.5,
        ("2", "stalled", "idle_gpus"): 59.5,
    }


def test_a_gpu_that_only_the_attempt_after_uses_is_idle() -> None:
    activity = samples(("n1", 0, 0, 120, 1.0), ("n1", 1, 0, 60, 0.0), ("n1", 1, 60, 120, 1.0))
    assert seen(held(("1", "n1", 0, 60.5, 2), ("2", "n1", 60.5, 120, 2)), activity) == {
        ("1", "productive", None): 60.5,
        ("1", "stalled", "idle_gpus"): 60.5,
        ("2", "productive", None): 119,
    }


def test_lone_active_sample_across_the_end_is_no_evidence() -> None:
    activity = samples(*(("n1", g, a, b, s) for g in (0, 1) for a, b, s in [(0, 5, 1.0), (9, 20, 1.0)]))
    assert seen(held(("1", "n1", 0, 9.5, 2)), activity) == {("1", "productive", None): 10}
    assert seen(held(("1", "n1", 9.5, 11, 2)), samples(("n1", 0, 9, 20, 1.0), ("n1", 1, 9, 20, 1.0))) == {}


def test_one_whole_sample_within_the_attempt_is_enough() -> None:
    activity = samples(*(("n1", g, a, b, s) for g in (0, 1) for a, b, s in [(0, 12, 1.0), (12, 20, 0.0)]))
    for begin in (11, 10.5):
        assert seen(held(("1", "n1", begin, 20, 2)), activity) == {
            ("1", "productive", None): 2 * (12 - begin),
            ("1", "teardown", None): 16,
        }
    assert seen(held(("1", "n1", 4.5, 6.5, 2)), activity) == {("1", "productive", None): 4}


def test_possible_neighbour_activity_ends_no_startup_or_teardown() -> None:
    # Of GPU 1 the samples across the attempt's beginning and end are missing, and beside them it is idle.
    alone = samples(("n1", 0, 0, 20, 1.0), ("n1", 1, 3, 4, 0.0), ("n1", 1, 4, 16, 1.0), ("n1", 1, 16, 17, 0.0))
    assert seen(held(("1", "n1", 2.5, 17.5, 2)), alone) == {
        ("1", "productive", None): 2 * 12 + 1,
        ("1", "stalled", "lockstep"): 2,
        ("1", "stalled", "inactive"): 2,
    }
    of_both = [(3, 4, 0.0), (4, 16, 1.0), (16, 17, 0.0)]
    activity = samples(("n1", 0, 0, 3, 1.0), ("n1", 0, 17, 20, 1.0),
                       *(("n1", g, *told_) for g in (0, 1) for told_ in of_both))  # fmt: skip
    assert seen(held(("1", "n1", 2.5, 17.5, 2)), activity) == {
        ("1", "productive", None): 2 * 12,
        ("1", "startup", None): 2 + 0.5,
        ("1", "teardown", None): 2 + 0.5,
    }


def test_new_inventory_or_window_end_starts_no_other_attempt() -> None:
    activity = samples(*(("n1", g, a, b, s) for g in (0, 1) for a, b, s in [(0, 0.5, 1.0), (0.5, 20, 0.0)]))
    result = {("1", "productive", None): 1, ("1", "teardown", None): 39}
    assert seen(held(("1", "n1", -30, 20, 2)), activity) == result
    assert seen(held(("1", "n1", -30, 90, 2)), activity, read=(0, 0.25, 20)) == result


@st.composite
def worlds(draw: st.DrawFn) -> dict[tuple[str, int], list[int | None]]:
    """For each GPU and minute: active (1), idle (0) or not seen (None)."""
    minute = st.sampled_from([0, 1, 1, 1, None])
    return {(node, gpu): draw(st.lists(minute, min_size=12, max_size=12)) for node in ("n1", "n2") for gpu in (0, 1)}


def minutes(world: dict[tuple[str, int], list[int | None]]) -> pl.DataFrame:
    return samples(
        *(
            (node, gpu, m, m + 1, float(v))
            for (node, gpu), line in world.items()
            for m, v in enumerate(line)
            if v is not None
        )
    )


def of_the_holder(line: list[int | None], begin: float, end: float) -> list[int | None]:
    """Minute by minute, what a GPU did for who held it; an active minute held in part is as the whole one beside it."""
    own: list[int | None] = [v if m < end and m + 1 > begin else None for m, v in enumerate(line)]
    for cut, beside in [(floor(begin), floor(begin) + 1), (floor(end), floor(end) - 1)]:
        if cut not in (begin, end) and own[cut] == 1:
            own[cut] = line[beside]
    return own


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(worlds(), st.sampled_from([0, 0.5, 1]), st.sampled_from([11, 11.25, 12]))
def test_a_slow_reading_agrees(world: dict[tuple[str, int], list[int | None]], begin: float, end: float) -> None:
    lines = [of_the_holder(line, begin, end) for line in world.values()]
    used = [line for line in lines if 1 in line]
    whole = [bool([1 for u in used if u[m] is not None]) and all(u[m] != 0 for u in used) for m in range(12)]
    sure = [m for m in range(ceil(begin), floor(end)) if any(u[m] == 1 for u in used)]
    expected: dict[tuple[str, str | None], float] = defaultdict(float)
    for line in lines:
        for m, value in enumerate(line):
            length = min(m + 1, end) - max(m, begin)
            if value is None:
                continue
            all_idle = all(u[m] != 1 for u in used)
            if 1 not in line:
                expected["stalled", "idle_gpus"] += length
            elif whole[m]:
                expected["productive", None] += length
            elif value == 1:
                expected["stalled", "lockstep"] += length
            elif all_idle and sure and m < sure[0]:
                expected["startup", None] += length
            elif all_idle and sure and m > sure[-1]:
                expected["teardown", None] += length
            else:
                expected["stalled", "inactive"] += length
    got: dict[tuple[str, str | None], float] = defaultdict(float)
    result = seen(held(("1", "n1", begin, end, 2), ("1", "n2", begin, end, 2)), minutes(world))
    for (_, category, cause), length in result.items():
        got[category, "inactive" if cause == "hang" else cause] += length
    assert got == pytest.approx(expected)


@pytest.mark.slow
@settings(max_examples=75, deadline=None)
@given(worlds(), st.lists(st.integers(0, 11), max_size=3), st.booleans())
def test_per_gpu_activity_is_within_the_bounds(
    world: dict[tuple[str, int], list[int | None]], rolled: list[int], whole_hours: bool
) -> None:
    """GPUs that do not wait for each other are productive while they are active: at most that, and no more is idle."""
    scale = 60 if whole_hours else 1
    activity = samples(
        *(
            (node, gpu, m * scale, (m + 1) * scale, v * 0.75 if whole_hours and m in rolled else float(v))
            for (node, gpu), line in world.items()
            for m, v in enumerate(line)
            if v is not None
        )
    )
    result = seen(held(("1", "n1", 0, 12 * scale, 2), ("1", "n2", 0, 12 * scale, 2)), activity)
    active = sum(
        (0.75 if whole_hours and m in rolled else 1.0) * v * scale
        for line in world.values() for m, v in enumerate(line) if v is not None
    )  # fmt: skip
    unseen = 4 * 12 * scale - sum(result.values())
    productive = result["1", "productive", None]
    assert productive <= active + 1e-6
    assert active <= productive + result["1", "stalled", "lockstep"] + unseen + 1e-6
    if not any(v is None for line in world.values() for v in line) and not whole_hours:
        assert active == pytest.approx(productive + result["1", "stalled", "lockstep"])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(worlds(), worlds(), worlds(), st.sampled_from([2, 2.25, 2.9]), st.sampled_from([9.1, 9.5, 10]))
def test_the_neighbours_activity_changes_nothing_amid_an_attempt(
    own: dict[tuple[str, int], list[int | None]],
    one: dict[tuple[str, int], list[int | None]],
    other: dict[tuple[str, int], list[int | None]],
    begin: float,
    end: float,
) -> None:
    amid = range(ceil(begin), floor(end))

    def beside(neighbours: dict[tuple[str, int], list[int | None]]) -> list[set[tuple[object, ...]]]:
        world = {
            gpu: [
                v if m in amid or (v is None and m < end and m + 1 > begin) else max(v or 0, neighbours[gpu][m] or 0)
                for m, v in enumerate(line)
            ]
            for gpu, line in own.items()
        }
        attempts = held(*((job, n, a, b, 2) for n in ("n1", "n2")
                          for job, a, b in [("1", 0, begin), ("2", begin, end), ("3", end, 12)]))  # fmt: skip
        result = evidence_of(attempts, minutes(world)).rows(named=True)
        return [
            {
                (row["node"], row["category"], row["cause"], row["milli_gpus"])
                for row in result
                if row["job_id"] == "2" and row["started_at"] < at(m + 1) and row["ended_at"] > at(m)
            }
            for m in amid
        ]

    assert beside(one) == beside(other)
