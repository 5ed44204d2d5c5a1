"""What users used, against a slow twin."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import frames
from metrics.people.use import use
from metrics.waste.waste import SPENDING, flagged

SINCE, UNTIL = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC)
BEGUN, OVER = datetime(2026, 9, 2, tzinfo=UTC), datetime(2026, 9, 3, tzinfo=UTC)

attempts = st.lists(
    st.fixed_dictionaries(
        {
            "user": st.sampled_from(("ann", "bob", None)),
            "account": st.sampled_from(("a", "b")),
            "run_id": st.sampled_from(("r1", "r2")),
            "state": st.sampled_from(("COMPLETED", "FAILED", "NODE_FAIL", "CANCELLED", "PREEMPTED", "RUNNING")),
            "productive_s": st.integers(0, 9).map(float),
            "lost_s": st.integers(0, 9).map(float),
            "idle_s": st.integers(0, 9).map(float),
            "unseen_s": st.integers(0, 9).map(float),
            "class": st.sampled_from(("infrastructure", "user", None)),
            "cause": st.sampled_from(("failed", "cancelled")),
        }
    ),
    min_size=1,
    max_size=10,
)


def frame(rows: list[dict[str, Any]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    key = {"cluster": "c", "scheduler": "slurm", "submitted_at": SINCE}
    spent = [
        row
        | key
        | {
            "job_id": str(number),
            "allocated_s": sum(row[name] for name in ("productive_s", "lost_s", "idle_s", "unseen_s")),
            "worked_s": row["productive_s"] + row["lost_s"],
            "unused_s": 0.0,
            "started_at": BEGUN,
            "ended_at": None if row["state"] == "RUNNING" else OVER,
        }
        for number, row in enumerate(rows)
    ]
    broken = [each | {"job_id": str(number)} for number, each in enumerate(spent) if each["class"] is not None]
    spending = frames.conform(pl.DataFrame(spent, infer_schema_length=None), SPENDING)
    return spending, frames.conform(pl.DataFrame(broken or None, infer_schema_length=None), frames.INTERRUPTIONS)


@pytest.mark.slow
@given(attempts, st.sampled_from(("user", "account")))
def test_use_is_that_of_the_slow_twin(rows: list[dict[str, Any]], dimension: str) -> None:
    spending, interruptions = frame(rows)
    found = use(flagged(spending, since=SINCE, until=UNTIL), interruptions, dimension, since=SINCE, until=UNTIL)
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    known: dict[str, set[str]] = defaultdict(set)
    runs: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        subject = row[dimension] or "(unknown)"
        one = sums[subject]
        runs[subject].add(row["run_id"])
        known[subject] |= {row["user"]} - {None}
        for name in ("productive_s", "lost_s", "idle_s"):
            one[name] += row[name]
        one["gpu_s"] += row["productive_s"] + row["lost_s"] + row["idle_s"] + row["unseen_s"]
        one["productive_high_s"] += row["productive_s"] + row["unseen_s"]
        one["n_attempts"] += 1
        one["n_completed"] += row["state"] == "COMPLETED"
        one["n_failed"] += row["state"] in {"FAILED", "NODE_FAIL"}
        one["n_cancelled"] += row["state"] == "CANCELLED"
        one["n_preempted"] += row["state"] == "PREEMPTED"
        one["n_ended"] += row["state"] != "RUNNING"
        one["n_infrastructure"] += row["class"] == "infrastructure"
        one["n_own"] += row["class"] == "user" and row["cause"] == "failed"
    assert sorted(found["subject"]) == sorted(sums)
    for row in found.iter_rows(named=True):
        assert {name: row[name] for name in sums[row["subject"]]} == pytest.approx(dict(sums[row["subject"]]))
        assert row["n_runs"] == len(runs[row["subject"]])
        assert row["n_users"] == (len(known[row["subject"]]) or None)
    total = sum(one["gpu_s"] for one in sums.values())
    assert found["share"].sum() == (pytest.approx(1) if total else 0)


@pytest.mark.parametrize(("since", "until", "failed"), [(SINCE, OVER, 1), (OVER, UNTIL, 0)])
def test_an_end_counts_in_the_window_that_it_ends(since: datetime, until: datetime, failed: int) -> None:
    """As its interruption does: what failed at the window's end would else be of the job itself and no failure."""
    whose = {"user": "ann", "account": "a", "run_id": "r", "class": "user", "cause": "failed", "state": "FAILED"}
    spending, _ = frame([whose | dict.fromkeys(("productive_s", "lost_s", "idle_s", "unseen_s"), 9.0)])
    row = use(flagged(spending, since=since, until=until), frames.empty(frames.INTERRUPTIONS), "user",
              since=since, until=until).row(0, named=True)  # fmt: skip
    assert (row["n_ended"], row["n_failed"]) == (failed, failed)


def test_use_gives_the_rate_with_its_exact_interval() -> None:
    whose = {"user": "ann", "account": "a", "run_id": "r", "class": "infrastructure", "cause": "node_fail"}
    spent = {"productive_s": 10 * 86_400.0, "lost_s": 0.0, "idle_s": 0.0, "unseen_s": 0.0}
    rows: list[dict[str, Any]] = [{"state": "NODE_FAIL"} | whose | spent] * 3
    spending, interruptions = frame(rows)
    row = use(flagged(spending, since=SINCE, until=UNTIL), interruptions, "user", since=SINCE, until=UNTIL).row(
        0, named=True
    )
    assert (row["gpu_days"], row["n_infrastructure"], row["rate"]) == (30, 3, pytest.approx(0.1))
    assert (1 / row["rate_high"], 1 / row["rate_low"]) == (
        pytest.approx(3.4218, rel=1e-3),
        pytest.approx(48.491, rel=1e-3),
    )
