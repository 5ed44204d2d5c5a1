"""What accounting records of attempts: the frames beside a plain twin, and what is unknown."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.usage.recorded import JOBSTATS, RECORDED, SLURM, STEPS, SUMMARIES, assign_steps, by_jobstats, by_slurm

SUBMITTED = datetime(2026, 11, 1, tzinfo=UTC)
KEY = {"cluster": "c", "scheduler": "slurm", "job_id": "7", "submitted_at": SUBMITTED}
HELD = {"held_s": 100.0, "held_nodes": 2, "held_cpus": 8, "held_gpus": 4.0, "held_bytes": 1000}

Row = dict[str, Any]


def of_steps(*rows: Row, **held: object) -> Row:
    table = pl.DataFrame([{**KEY, **HELD, "elapsed_s": 100.0, "n_tasks": 1, **held, **row} for row in rows])
    (row,) = by_slurm(frames.conform(table, STEPS)).to_dicts()
    return row


def of_nodes(*rows: Row) -> Row:
    table = pl.DataFrame([{**KEY, "held_s": 100.0, "held_gpus": 4.0, "run_s": 90.0, **row} for row in rows])
    (row,) = by_jobstats(frames.conform(table, SUMMARIES)).to_dicts()
    return row


def test_cpu_time_is_that_of_the_steps_over_what_was_held() -> None:
    row = of_steps({"step": "batch", "cpu_s": 40.0}, {"step": "0", "cpu_s": 200.0})
    assert (row["source"], row["cpu_s"], row["cpu_held_s"], row["cpu_share"]) == (SLURM, 240.0, 800.0, 0.3)
    assert of_steps({"step": "", "cpu_s": 250.0}, {"step": "0", "cpu_s": 200.0})["cpu_s"] == 250.0
    assert of_steps({"step": "", "cpu_s": 150.0}, {"step": "0", "cpu_s": 200.0})["cpu_s"] == 200.0


def test_lost_step_makes_cpu_time_a_least_but_not_extern() -> None:
    assert of_steps({"step": "batch"}, {"step": "extern", "cpu_s": 1.0})["n_lost_steps"] == 1
    assert of_steps({"step": "batch", "cpu_s": 1.0}, {"step": "extern"})["n_lost_steps"] == 0


@pytest.mark.parametrize("held", [{"held_s": 0.0}, {"held_s": None}, {"held_cpus": None}, {"held_cpus": 0}])
def test_without_what_was_held_there_is_no_share(held: Row) -> None:
    row = of_steps({"step": "0", "cpu_s": 200.0}, **held)
    assert (row["cpu_s"], row["cpu_held_s"], row["cpu_share"]) == (200.0, None, None)


def test_memory_is_the_largest_step_and_the_largest_task() -> None:
    row = of_steps(
        {"step": "batch", "max_rss_bytes": 50, "max_rss_node": "n1", "tasks_rss_bytes": 50},
        {"step": "0", "max_rss_bytes": 300, "max_rss_node": "n2", "tasks_rss_bytes": 800},
    )
    assert (row["used_bytes"], row["memory_share"]) == (800.0, 0.8)
    assert (row["node_used_bytes"], row["node_memory_share"]) == (300.0, 0.6)
    assert (row["worst_node"], row["worst_step"]) == ("n2", "0")


def test_gpu_samples_bound_the_busy_time_from_above() -> None:
    row = of_steps(
        {"step": "batch", "gpu_util_max": 0.0, "n_tasks": 1},
        {"step": "0", "gpu_util_max": 150.0, "n_tasks": 2, "elapsed_s": 50.0},
        {"step": "extern"},
    )
    assert (row["gpu_util_max"], row["gpu_busy_most_s"], row["gpu_held_s"]) == (150.0, 150.0, 400.0)
    assert row["gpu_util_s"] is None
    assert of_steps({"step": "0", "gpu_util_max": 900.0, "n_tasks": 9})["gpu_busy_most_s"] == 400.0


@pytest.mark.parametrize("step", [{"gpu_util_max": None}, {"n_tasks": None}, {"elapsed_s": None}])
def test_one_unmeasured_step_leaves_the_bound_unknown(step: Row) -> None:
    both = ({"step": "0", "gpu_util_max": 50.0}, {"step": "1", "gpu_util_max": 50.0, **step})
    assert of_steps(*both)["gpu_busy_most_s"] is None
    assert of_steps({"step": "extern", "gpu_util_max": 0.0})["gpu_busy_most_s"] is None


def test_nothing_recorded_is_nothing_known() -> None:
    row = of_steps({"step": "batch"}, {"step": "extern"})
    known = {name for name, value in row.items() if value is not None}
    assert known == {*KEY, "source", "n_lost_steps", "held_bytes", "node_held_bytes", "cpu_held_s", "gpu_held_s",
                     "worst_step"}  # fmt: skip
    assert by_slurm(frames.conform(pl.DataFrame(), STEPS)).schema == pl.Schema(RECORDED)
    assert by_jobstats(frames.conform(pl.DataFrame(), SUMMARIES)).schema == pl.Schema(RECORDED)


def test_energy_of_steps_beside_each_other_does_not_add_up() -> None:
    assert of_steps({"step": "batch", "energy_j": 700.0}, {"step": "extern", "energy_j": 720.0})["energy_j"] == 720.0
    assert of_steps({"step": "", "energy_j": 1500.0}, {"step": "0", "energy_j": 720.0})["energy_j"] == 720.0
    assert of_steps({"step": "", "energy_j": 1500.0})["energy_j"] == 1500.0


def test_jobstats_adds_up_nodes_that_have_both_numbers() -> None:
    row = of_nodes(
        {"node": "n1", "n_cpus": 4.0, "cpu_s": 90.0, "used_memory_bytes": 30.0, "memory_bytes": 100.0, "n_gpus": 2,
         "gpu_util_sum": 1.5, "n_unused_gpus": 0, "gpu_used_bytes": 5.0, "gpu_memory_bytes": 80.0},
        {"node": "n2", "n_cpus": 4.0, "cpu_s": None, "used_memory_bytes": 90.0, "memory_bytes": 100.0, "n_gpus": 2,
         "gpu_util_sum": 0.5, "n_unused_gpus": 1},
        {"node": "n3", "n_cpus": None, "cpu_s": 9.0, "used_memory_bytes": 90.0, "memory_bytes": 0.0, "n_gpus": 0},
    )  # fmt: skip
    assert (row["source"], row["cpu_s"], row["cpu_held_s"], row["cpu_share"]) == (JOBSTATS, 90.0, 360.0, 0.25)
    assert (row["used_bytes"], row["held_bytes"], row["memory_share"]) == (120.0, 200.0, 0.6)
    assert (row["worst_node"], row["node_memory_share"]) == ("n2", 0.9)
    assert (row["gpu_util_sum"], row["gpu_util_s"], row["n_gpus"], row["n_unused_gpus"]) == (180.0, 360.0, 4, 1)
    assert (row["gpu_held_s"], row["gpu_used_bytes"], row["gpu_memory_bytes"]) == (400.0, 5.0, 80.0)


def test_a_step_belongs_to_one_attempt_the_later_of_two() -> None:
    begun = SUBMITTED.replace(hour=2)
    rows = [
        {**KEY, **HELD, "step": "0", "started_at": begun, "held_from": SUBMITTED.replace(hour=hour), "cpu_s": 1.0,
         "submitted_at": SUBMITTED.replace(minute=hour)}
        for hour in (2, 1)
    ]  # fmt: skip
    other = {**rows[0], "step": "1", "held_from": None}
    steps = assign_steps(pl.DataFrame([*rows, other]))
    later = SUBMITTED.replace(minute=2)
    assert sorted(steps.select("step", "submitted_at").rows()) == [("0", later), ("1", later)]
    assert steps.schema == pl.Schema(STEPS)


# --- the plain twin --------------------------------------------------------------------------------------------------


def plainly(rows: list[Row]) -> Row:
    """`by_slurm` of one attempt, one number at a time."""
    first = rows[0]
    steps = [row for row in rows if row["step"]]
    real = [row for row in steps if row["step"] != "extern"]
    summed = [row["cpu_s"] for row in steps if row["cpu_s"] is not None]
    jobs = [row["cpu_s"] for row in rows if not row["step"] and row["cpu_s"] is not None]
    cpu = max([*jobs, *([sum(summed)] if summed else [])], default=None)
    sizes = [each for row in rows for each in (row["tasks_rss_bytes"], row["max_rss_bytes"]) if each is not None]
    held = first["held_s"] * first["held_cpus"]
    shares = [None if row["gpu_util_max"] is None else row["gpu_util_max"] / 100 * row["n_tasks"] * row["elapsed_s"]
              for row in real]  # fmt: skip
    gpus = first["held_s"] * first["held_gpus"]
    known = [share for share in shares if share is not None]
    return {
        "cpu_s": cpu,
        "cpu_share": None if cpu is None else cpu / held,
        "n_lost_steps": sum(row["cpu_s"] is None for row in real),
        "memory_share": max(sizes) / first["held_bytes"] if sizes else None,
        "gpu_busy_most_s": min(sum(known), gpus) if real and len(known) == len(shares) else None,
    }


def test_frames_equal_the_plain_twin() -> None:
    chance = random.Random(14)

    def maybe(value: float) -> float | None:
        return value if chance.random() < 0.8 else None

    for _ in range(60):
        names = ["", "batch", "extern", *map(str, range(chance.randint(0, 3)))]
        rows: list[Row] = [
            {**KEY, **HELD, "step": name, "elapsed_s": chance.uniform(1, 100), "n_tasks": chance.randint(1, 8),
             "cpu_s": maybe(chance.uniform(0, 500)), "max_rss_bytes": maybe(chance.randint(1, 900)),
             "max_rss_node": "n1", "tasks_rss_bytes": maybe(chance.randint(1, 2000)),
             "gpu_util_max": maybe(chance.randint(0, 800))}
            for name in chance.sample(names, chance.randint(1, len(names)))
        ]  # fmt: skip
        (row,) = by_slurm(frames.conform(pl.DataFrame(rows, infer_schema_length=None), STEPS)).to_dicts()
        expected = plainly(rows)
        assert {name: row[name] for name in expected} == pytest.approx(expected)
