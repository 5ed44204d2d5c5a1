"""MFU over all the time that a run was allocated GPUs."""

from __future__ import annotations

import polars as pl
import pytest

from metrics import frames
from metrics.mfu.wall import allocated, run_mfu


def steps(*rows: tuple[str, float | None, float, float]) -> pl.DataFrame:
    """Run, model FLOP, GPUs, seconds; a GPU does 100 FLOP/s at best."""
    result = pl.DataFrame(rows, schema={"run_id": pl.String, "flop": pl.Float64, "n_gpus": pl.Float64,
                                       "wall_s": pl.Float64}, orient="row")  # fmt: skip
    return result.with_columns(cluster=pl.lit("c"), peak_flop=100 * pl.col("n_gpus") * pl.col("wall_s")).with_columns(
        mfu=pl.col("flop") / pl.col("peak_flop")
    )


def sums(*rows: tuple[str, str, str, float]) -> pl.DataFrame:
    """Run, state, evidence, GPU-seconds."""
    result = pl.DataFrame(rows, schema=["subject", "state", "evidence", "gpu_seconds"], orient="row")
    return frames.conform(result.with_columns(cluster=pl.lit("c")), frames.LEDGER_SUMS)


def test_run_mfu_is_step_mfu_times_the_share_of_time_in_steps() -> None:
    held = allocated(
        sums(("r", "allocated", "log", 100.0), ("r", "allocated", "log", 60.0), ("r", "queued", "log", 999.0))
    )
    row = run_mfu(steps(("r", 2000.0, 2, 20.0), ("r", 1000.0, 2, 20.0)), held).row(0, named=True)
    assert row["step_mfu"] == pytest.approx(3000 / 8000)
    assert row["step_share"] == pytest.approx(80 / 160)
    assert row["value"] == pytest.approx(3000 / 16000)
    assert row["value"] == pytest.approx(row["step_mfu"] * row["step_share"])
    assert row["bound_high"] == row["value"]  # all of the time is told by the log


def test_unlogged_time_may_have_been_as_good_as_the_steps() -> None:
    held = allocated(sums(("r", "allocated", "log", 100.0), ("r", "allocated", "accounting", 100.0)))
    row = run_mfu(steps(("r", 4000.0, 1, 100.0)), held).row(0, named=True)
    assert (row["value"], row["bound_high"]) == (pytest.approx(0.2), pytest.approx(0.4))


def test_run_whose_steps_log_no_flop_has_no_mfu() -> None:
    for held_s in (100.0, 0.0):  # 0: the log does not record the number of GPUs
        held = allocated(sums(("r", "allocated", "log", held_s)))
        row = run_mfu(steps(("r", None, 1, 100.0)), held).row(0, named=True)
        assert (row["value"], row["step_share"], row["n"]) == (None, None, 0)
