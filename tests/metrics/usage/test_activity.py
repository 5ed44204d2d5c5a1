"""GPU-seconds by accounting: jobstats before Slurm, parts of attempts, and what is unknown."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from metrics import frames
from metrics.usage.activity import GPU_USE, bounds, gpu_use, never_busy
from metrics.usage.recorded import JOBSTATS, RECORDED, SLURM, of_held
from tests.metrics.usage.test_recorded import KEY

Row = dict[str, Any]

MEANS: Row = {"source": JOBSTATS, "gpu_util_sum": 180.0, "gpu_util_s": 360.0, "gpu_held_s": 400.0, "n_gpus": 4,
              "n_unused_gpus": 1}  # fmt: skip
SAMPLES: Row = {"source": SLURM, "gpu_util_max": 150.0, "gpu_busy_most_s": 100.0, "gpu_held_s": 400.0}


def table(*rows: Row) -> pl.DataFrame:
    return frames.conform(pl.DataFrame([{**KEY, **row} for row in rows], infer_schema_length=None), RECORDED)


def allocated(seconds: float) -> pl.DataFrame:
    return pl.DataFrame([{**KEY, "allocated_s": seconds}]).cast({"submitted_at": frames.TIME})


def use(*rows: Row, seconds: float = 200.0) -> list[Row]:
    return gpu_use(table(*rows), allocated(seconds)).to_dicts()


def test_means_of_jobstats_come_before_samples_of_slurm() -> None:
    (row,) = use(SAMPLES, MEANS)
    assert row["evidence"] == JOBSTATS
    assert (row["observed_s"], row["gpu_util_s"], row["gpu_util_sum"]) == pytest.approx((180.0, 180.0, 90.0))
    assert (row["idle_s"], row["judged_s"], row["busy_most_s"]) == (45.0, 180.0, None)


def test_samples_of_slurm_give_a_bound_alone() -> None:
    (row,) = use(SAMPLES)
    assert (row["evidence"], row["busy_most_s"], row["bounded_s"]) == (SLURM, 50.0, 200.0)
    assert {row[name] for name in ("observed_s", "idle_s", "gpu_util_s", "gpu_util_sum")} == {None}
    (unbounded,) = use({**SAMPLES, "gpu_busy_most_s": None})
    assert (unbounded["busy_most_s"], unbounded["bounded_s"]) == (None, None)


def test_attempts_without_gpus_or_records_are_left_out() -> None:
    assert use(MEANS, seconds=0.0) == []
    assert use({"source": SLURM, "cpu_s": 4.0}, {"source": JOBSTATS, "gpu_util_s": None}) == []
    assert gpu_use(table(MEANS), allocated(9.0)).schema == pl.Schema(GPU_USE)


def test_a_record_covers_no_more_than_was_allocated() -> None:
    (row,) = use({**MEANS, "gpu_util_s": 900.0, "gpu_util_sum": 450.0})
    assert (row["observed_s"], row["gpu_util_sum"]) == (200.0, 100.0)


def test_never_busy_is_bounded_by_time_without_a_kernel() -> None:
    (row,) = never_busy(gpu_use(table(MEANS), allocated(200.0)), allocated(200.0)).to_dicts()
    assert (row["gpu_s"], row["high_gpu_s"], row["allocated_gpu_s"]) == pytest.approx((45.0, 110.0, 200.0))
    assert (row["share"], row["share_high"], row["n"], row["n_attempts"]) == pytest.approx((0.225, 0.55, 1, 1))
    assert never_busy(gpu_use(table(SAMPLES), allocated(200.0)), allocated(200.0)).is_empty()


def test_bounds_add_up_and_are_unknown_without_any() -> None:
    rows = pl.DataFrame({"who": ["a", "a", "b"], "busy_most_s": [50.0, None, None], "bounded_s": [200.0, None, None]})
    parts = {row["who"]: row for row in bounds(rows, ["who"]).iter_rows(named=True)}
    assert (parts["a"]["busy_most"], parts["b"]["busy_most"], parts["b"]["bounded_s"]) == (0.25, None, None)


def test_use_of_held_takes_one_source_of_each_attempt() -> None:
    rows = table(
        {"source": JOBSTATS, "cpu_s": 30.0, "cpu_held_s": 100.0, "cpu_share": 0.3, "memory_share": 0.5},
        {"source": SLURM, "cpu_s": 90.0, "cpu_held_s": 100.0, "cpu_share": 0.9, "memory_share": 0.9},
        {"job_id": "8", "source": SLURM, "cpu_s": 50.0, "cpu_held_s": 300.0, "cpu_share": 1 / 6, "memory_share": 0.1},
    )
    assert of_held(rows).row(0) == pytest.approx((2, 0.2, 0.3))
    assert of_held(rows.clear()).row(0) == (0, None, None)
