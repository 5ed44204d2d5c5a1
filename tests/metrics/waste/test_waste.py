"""Waste: what each kind counts, its two ends, and shares of GPU-time by how it ended."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.waste.waste import (
    CANCEL,
    COMPLETE,
    FAIL,
    KINDS,
    OPEN,
    PREEMPT,
    SPENDING,
    ending,
    flagged,
    maxima,
    state_shares,
    time_limits,
    waste,
)
from tests.metrics.tables import Row, at, rows

HOUR = 3600.0


def spent(job: str, started: float = 0, ended: float | None = 2, *, gpus: float = 8, **more: object) -> Row:
    """An attempt whose GPU-time was all seen, by its log, and worked all the time unless told otherwise."""
    held = gpus * HOUR * ((100 if ended is None else ended) - started)
    return {
        "cluster": "c",
        "scheduler": "slurm",
        "job_id": job,
        "submitted_at": at(started),
        "run_id": job,
        "user": "alice",
        "account": "lab",
        "partition": "main",
        "name": "train",
        "state": "COMPLETED",
        "started_at": at(started),
        "ended_at": None if ended is None else at(ended),
        "time_limit_s": 4 * HOUR,
        "suspended_s": 0.0,
        "n_gpus": gpus,
        "allocated_s": held,
        "idle_s": 0.0,
        "unused_s": 0.0,
        "worked_s": held,
        "unseen_s": 0.0,
        "log_s": held,
        "telemetry_s": 0.0,
        "accounting_s": 0.0,
        "assumed_s": 0.0,
    } | more


def flags(*result: Row, until: float = 100) -> pl.DataFrame:
    return flagged(rows(SPENDING, *result), since=at(), until=at(until))


def hours(table: pl.DataFrame) -> dict[str, tuple[float, float, int]]:
    """By kind: GPU-hours at least and at most, and attempts."""
    return {row["kind"]: (row["gpu_s"] / HOUR, row["high_gpu_s"] / HOUR, row["n"]) for row in waste(table).to_dicts()}


# --- golden numbers: definitions 9.9, sums of AcmeTrace's cluster_summary.csv (GPU-seconds) -------------------------

ACME = {
    "Seren": ((4560592618, 14274584510, 2675447459), (0.2120, 0.6636, 0.1244), 5_975_173),
    "Kalos": ((1667685146, 3239202064, 426292851), (0.3127, 0.6074, 0.0799), 1_481_439),
    "Philly": ((2210176414, 2025326056, 2659215061), (0.3206, 0.2938, 0.3857), 1_915_199),
    "Helios": ((39994296320, 30715109125, 7288334702), (0.5128, 0.3938, 0.0934), 21_666_039),
}


@pytest.mark.parametrize("name", ACME)
def test_shares_by_state_are_those_of_published_traces(name: str) -> None:
    sums, shares, gpu_hours = ACME[name]
    result = state_shares(
        pl.DataFrame(
            {
                "subject": name,
                "ending": [COMPLETE, CANCEL, FAIL],
                "gpu_s": [float(each) for each in sums],
                "n": [1, 1, 1],
            }
        )
    )
    assert result["ending"].to_list() == [COMPLETE, CANCEL, FAIL]
    assert [round(share, 4) for share in result["share"]] == list(shares)
    assert round(result["of_gpu_s"][0] / HOUR) == gpu_hours


def test_what_still_runs_has_no_share_of_what_ended() -> None:
    result = state_shares(
        pl.DataFrame(
            {"subject": "c", "ending": [OPEN, COMPLETE, FAIL, FAIL], "gpu_s": [9.0, 3.0, 0.5, 0.5], "n": [1] * 4}
        )
    )
    assert result.select("ending", "gpu_s", "share", "n").rows() == [
        (COMPLETE, 3.0, 0.75, 1),
        (FAIL, 1.0, 0.25, 2),
        (OPEN, 9.0, None, 1),
    ]


def test_every_final_state_ends_somewhere() -> None:
    states = [
        "COMPLETED",
        "CANCELLED",
        "TIMEOUT",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REQUEUED",
        "RUNNING",
        "NEW",
    ]
    result = pl.DataFrame({"state": states}).select(ending("state")).to_series().to_list()
    assert result == [COMPLETE, CANCEL, FAIL, FAIL, FAIL, PREEMPT, PREEMPT, OPEN, FAIL]


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_idle_time_is_observed_and_at_most_all_unobserved_too() -> None:
    result = hours(flags(spent("1", idle_s=2 * HOUR, unused_s=HOUR, unseen_s=4 * HOUR), spent("2")))
    assert result["idle"] == (2, 6, 1)
    assert result["unused_gpus"] == (1, 5, 1)


def test_never_stepped_needs_nearly_all_of_an_attempt_observed() -> None:
    table = flags(
        spent("seen", worked_s=0.0),
        spent("nearly", worked_s=0.0, unseen_s=1.6 * HOUR),
        spent("unseen", worked_s=0.0, unseen_s=1.7 * HOUR),
        spent("stepped", worked_s=1.0),
    )
    assert hours(table)["never_stepped"] == (32, 48, 2)


def test_never_stepped_is_unknown_for_running_and_earlier_starts() -> None:
    result = hours(flags(spent("1", -1, 2, worked_s=0.0), spent("2", 0, None, worked_s=0.0), until=50))
    assert result["never_stepped"] == (0, 0, 0)


def loop(ends: list[tuple[float, str]], **more: object) -> list[Row]:
    """Attempts an hour apart, of so many hours each, in these states."""
    return [
        spent(str(number), 1 + number, 1 + number + lasted, gpus=1, state=state, **more)
        for number, (lasted, state) in enumerate(ends)
    ]


FAST = (0.1, "FAILED")


@pytest.mark.parametrize(
    ("ends", "caught"),
    [
        ([FAST] * 3, 3),
        ([FAST] * 2, 0),
        ([FAST, FAST, (0.5, "FAILED"), FAST, FAST], 0),
        ([FAST, FAST, (0.1, "COMPLETED"), FAST], 0),
        ([FAST] * 3 + [(0.5, "COMPLETED")] + [FAST] * 2, 3),
        ([(0.1, "OUT_OF_MEMORY"), (0.1, "NODE_FAIL"), FAST, FAST], 4),
        ([(0.1, "CANCELLED")] * 5, 0),
        ([(1 / 6, "FAILED")] * 3, 3),
    ],
)
def test_three_short_failures_in_a_row_are_a_loop(ends: list[tuple[float, str]], caught: int) -> None:
    """Short: within ten minutes."""
    assert hours(flags(*loop(ends)))["failed_at_once"][2] == caught


def test_loop_is_of_one_user_and_name_within_a_day() -> None:
    assert hours(flags(*loop([FAST] * 2), *loop([FAST] * 2, user="bob")))["failed_at_once"][2] == 0
    assert hours(flags(*loop([FAST] * 2), *loop([FAST] * 2, name="other")))["failed_at_once"][2] == 0
    apart = [
        spent("a", 0, 0.1, state="FAILED"),
        spent("b", 1, 1.1, state="FAILED"),
        spent("c", 26, 26.1, state="FAILED"),
    ]
    assert hours(flags(*apart))["failed_at_once"][2] == 0


def test_the_last_attempt_of_several_is_not_short_of_limit() -> None:
    table = flags(
        spent("a", 0, 3, run_id="r", attempt_no=1, state="NODE_FAIL"),
        spent("b", 3, 3.5, run_id="r", attempt_no=2),
        spent("alone", 0, 0.5, attempt_no=1),
        spent("of no run", 0, 0.5, attempt_no=None),
    )
    assert hours(table)["short_of_limit"] == (8, 8, 2)


def test_limits_are_judged_by_completed_and_timed_out_only() -> None:
    table = flags(
        spent("short", 0, 0.5),
        spent("timely", 0, 3),
        spent("late", 0, 4, state="TIMEOUT"),
        spent("broken", 0, 0.5, state="NODE_FAIL"),
        spent("open", 0, None),
        spent("unlimited", 0, 0.5, time_limit_s=None),
    )
    assert hours(table)["short_of_limit"] == (4, 4, 1)
    result = time_limits(table).row(0, named=True)
    assert (result["n_limited"], result["used_median"]) == (3, 0.75)
    assert result["not_run_gpu_s"] / HOUR == 8 * (3.5 + 1)


def test_use_of_limits_is_of_first_attempts_alone() -> None:
    table = flags(
        spent("a", 0, 3, run_id="r", attempt_no=1, state="NODE_FAIL"),
        spent("b", 3, 3.5, run_id="r", attempt_no=2),
        spent("alone", 0, 3, attempt_no=1),
    )
    result = time_limits(table).row(0, named=True)
    assert (result["n_limited"], result["used_median"], result["used_p25"], result["used_p75"]) == (1, 0.75, 0.75, 0.75)
    assert result["not_run_gpu_s"] / HOUR == 8 * (3.5 + 1)  # the scheduler planned around both


def test_use_of_limits_is_null_without_a_first_attempt() -> None:
    result = time_limits(flags(spent("b", 3, 3.5, run_id="r", attempt_no=2))).row(0, named=True)
    assert (result["n_limited"], result["used_median"]) == (0, None)


def test_partition_maximum_is_the_largest_limit_of_several() -> None:
    requested = [spent(str(hours), time_limit_s=hours * HOUR) for hours in (4, 4, 4, 9, 9)]
    table = rows(SPENDING, *requested, spent("b", partition="dev", time_limit_s=8 * HOUR))
    assert maxima(table).rows() == []
    more = pl.concat([table, rows(SPENDING, spent("c", time_limit_s=9 * HOUR))])
    assert maxima(more).rows() == [("c", "main", 9 * HOUR)]


def test_early_ends_at_the_maximum_are_counted_separately() -> None:
    result = hours(flags(*(spent(str(each), 0, 0.5) for each in range(3)), spent("own", 0, 0.5, time_limit_s=3 * HOUR)))
    assert result["short_of_limit"] == (16, 16, 4)
    assert result["at_maximum"] == (12, 12, 3)


# --- laws ------------------------------------------------------------------------------------------------------------


@st.composite
def attempts_of_anybody(draw: st.DrawFn) -> list[Row]:
    result: list[Row] = []
    for number in range(draw(st.integers(0, 12))):
        started = draw(st.integers(0, 30))
        lasted = draw(st.sampled_from([0.1, 0.5, 3.0]))
        row: dict[str, Any] = dict(spent(str(number), started, started + lasted))
        parts = [draw(st.floats(0, 1)) for _ in range(3)]
        total = sum(parts) or 1.0
        idle, unseen, worked = (part / total * row["allocated_s"] for part in parts)
        result.append(
            row
            | {
                "idle_s": idle,
                "unused_s": idle / 2,
                "unseen_s": unseen,
                "worked_s": draw(st.sampled_from([0.0, worked])),
            }
            | {"state": draw(st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"]))}
            | {
                "user": draw(st.sampled_from(["alice", "bob", None])),
                "partition": draw(st.sampled_from(["main", None])),
            }
        )
    return result


@settings(max_examples=40, deadline=None)
@given(attempts_of_anybody(), st.sampled_from(["user", "account", "partition", "run_id"]))
def test_users_accounts_partitions_and_runs_sum_to_the_cluster(result: list[Row], by: str) -> None:
    table = flags(*result)
    whole, parts = waste(table), waste(table, by)
    for name in ("gpu_s", "high_gpu_s", "allocated_gpu_s", "n", "n_attempts"):
        added = parts.group_by("kind").agg(pl.col(name).sum()).sort("kind")[name].to_list()
        assert whole.sort("kind")[name].to_list() == pytest.approx(added)


@settings(max_examples=40, deadline=None)
@given(attempts_of_anybody())
def test_observed_waste_is_at_most_possible_and_that_allocated(result: list[Row]) -> None:
    for row in waste(flags(*result), "user").to_dicts():
        assert -1e-6 <= row["gpu_s"] <= row["high_gpu_s"] + 1e-6
        assert row["high_gpu_s"] <= row["allocated_gpu_s"] + 1e-6
        assert 0 <= row["share"] <= row["share_high"] + 1e-12 <= 1 + 1e-9
    assert set(waste(flags(*result))["kind"]) == (set(KINDS) if result else set())


@settings(max_examples=25, deadline=None)
@given(attempts_of_anybody(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(result: list[Row], chance: Any) -> None:
    mixed = list(result)
    chance.shuffle(mixed)
    here, there = waste(flags(*result), "user"), waste(flags(*mixed), "user")
    exact = ["subject", "kind", "n", "n_attempts"]
    assert here.select(exact).equals(there.select(exact))
    assert here["gpu_s"].to_list() == pytest.approx(there["gpu_s"].to_list())


@settings(max_examples=60, deadline=None)
@given(attempts_of_anybody())
def test_loops_agree_with_walking_through_each_persons_attempts(result: list[Row]) -> None:
    walked, people = 0, {row["user"] for row in result}
    for person in people:
        streak: list[Row] = []
        mine = sorted(
            (row for row in result if row["user"] == person), key=lambda row: (row["started_at"], row["job_id"])
        )
        for row in [*mine, None]:
            fast = row is not None and row["state"] == "FAILED" and _lasted(row["started_at"], row["ended_at"]) <= 600
            near = row is not None and streak and _lasted(streak[-1]["ended_at"], row["started_at"]) <= 86_400
            if not (fast and (near or not streak)):
                walked += len(streak) if len(streak) >= 3 else 0
                streak = []
            if fast and row is not None:
                streak.append(row)
    assert flags(*result)["loop"].sum() == walked


def _lasted(begin: Any, end: Any) -> float:
    return float((end - begin).total_seconds())
