"""MFU by logs against tensor activity."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics import frames
from metrics.mfu.proxy import (
    ABOVE,
    BELOW,
    HOURS,
    MASKED,
    UNCLOCKED,
    compared,
    estimated,
    executed_share,
    fits,
    logged_hours,
)

T0 = datetime(2026, 10, 1, tzinfo=UTC)
HOUR0 = int(T0.timestamp()) // 3600
H100 = "NVIDIA H100 80GB HBM3"
KEY: dict[str, Any] = {"cluster": "c", "scheduler": "slurm", "job_id": "1", "submitted_at": T0}


def seen(*rows: dict[str, Any]) -> pl.DataFrame:
    """Hours of an attempt of 16 GPUs as telemetry tells them."""
    base = KEY | {"run_id": "r", "gpu_model": "h100", "held_gpus": 16.0, "seen_gpus": 16.0, "tensor_active": 0.5,
                  "sm_clock_hz": 1.83e9}  # fmt: skip
    return frames.conform(pl.DataFrame([base | {"hour": HOUR0 + place} | row for place, row in enumerate(rows)]), HOURS)


def step(begin_s: float, length_s: float, **changes: object) -> dict[str, Any]:
    """A step of 40 % MFU."""
    begin = (HOUR0 * 3600 + begin_s) * 1_000_000
    peak = 16 * 989e12 * length_s
    return KEY | {"run_id": "r", "gpu_model": H100, "peak_dtype": "bf16", "begin": int(begin), "wall_s": length_s,
                  "end": int(begin + length_s * 1e6), "reach": int(begin + length_s * 1e6), "n_gpus": 16.0,
                  "peak_flop": peak, "flop": 0.4 * peak, "flop_least": 0.36 * peak, **changes}  # fmt: skip


def steps(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema_overrides={"flop": pl.Float64, "submitted_at": frames.TIME})


def hours(*rows: tuple[float, float, float]) -> pl.DataFrame:
    """GPU-hours, HFU by telemetry, MFU by logs."""
    result = pl.DataFrame(rows, schema=["gpu_hours", "hfu_est", "mfu_log"], orient="row")
    return result.with_columns(cluster=pl.lit("c"), run_id=pl.lit("r"), gpu_model=pl.lit("H100 SXM"),
                              dtype=pl.lit("bf16"), clocked=pl.lit(value=True), mfu_least="mfu_log")  # fmt: skip


def test_activity_is_weighted_by_the_clock_of_the_peak() -> None:
    result = executed_share(seen({}, {"sm_clock_hz": 0.915e9}, {"sm_clock_hz": None}))
    assert result["hfu_est"].to_list() == pytest.approx([0.5, 0.25, 0.5])
    assert result["clocked"].to_list() == [True, True, False]
    assert set(result["gpu_model"]) == {"H100 SXM"}


def test_gpu_with_an_unknown_peak_clock_is_taken_to_run_at_it() -> None:
    result = executed_share(seen({"gpu_model": "NVIDIA B200"}, {"gpu_model": None}))
    assert result["hfu_est"].to_list() == [0.5, 0.5]
    assert result["clocked"].to_list() == [False, False]


def test_hours_of_too_few_observed_gpus_do_not_count() -> None:
    assert executed_share(seen({"seen_gpus": 14.0}, {"seen_gpus": 15.0}))["hour"].to_list() == [HOUR0 + 1]


def test_a_step_across_two_hours_counts_in_each_by_its_time() -> None:
    rows = [step(100 * n, 100.0) for n in range(35)] + [step(3500, 200.0, flop=1e18)]
    rows += [step(3700 + 100 * n, 100.0) for n in range(35)]
    result = logged_hours(steps(*rows)).sort("hour")
    assert result["hour"].to_list() == [HOUR0, HOUR0 + 1]
    whole = 0.4 * 16 * 989e12 * 3500
    assert result["flop"].to_list() == pytest.approx([whole + 0.5e18, whole + 0.5e18])
    assert result["stepped_s"].to_list() == pytest.approx([3600, 3600])


def test_an_hour_with_much_else_than_steps_is_left_out() -> None:
    evaluated = [step(100 * n, 100.0) for n in range(30)]
    assert logged_hours(steps(*evaluated)).is_empty()


def test_both_sides_meet_by_the_hour() -> None:
    logged = logged_hours(steps(*(step(100 * n, 100.0) for n in range(72))))
    row = compared(executed_share(seen({}, {}, {})), logged)
    assert row["hour"].to_list() == [HOUR0, HOUR0 + 1]
    assert row["mfu_log"].to_list() == pytest.approx([0.4, 0.4])
    assert row["mfu_least"].to_list() == pytest.approx([0.36, 0.36])
    assert row["gpu_hours"].to_list() == [16, 16]


def test_logs_of_fewer_gpus_than_held_count_over_those_held() -> None:
    logged = logged_hours(steps(*(step(100 * n, 100.0) for n in range(36))))
    assert compared(executed_share(seen({"held_gpus": 32.0, "seen_gpus": 32.0})), logged)["mfu_log"].item() == 0.2


def test_what_is_proportional_is_fitted_without_residual() -> None:
    rows = fits(hours(*((8.0, x, 0.8 * x) for x in (0.3, 0.4, 0.5, 0.6))))
    assert rows["run_id"].to_list() == ["", "r"]
    assert rows["slope"].to_list() == pytest.approx([0.8, 0.8])
    assert rows["residual"].to_list() == pytest.approx([0, 0], abs=1e-7)
    assert rows["n"].to_list() == [4, 4]
    assert rows["disagrees"].to_list() == [False, False]
    assert rows["note"].to_list() == [None, None]


def test_two_hours_are_no_fit() -> None:
    row = fits(hours((8.0, 0.5, 0.4), (8.0, 0.4, 0.3))).row(1, named=True)
    assert (row["slope"], row["residual"]) == (None, None)
    assert "no fit" in row["note"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(1, 1e4), st.floats(0.01, 1), st.floats(0.01, 1)), min_size=3, max_size=30))
def test_the_fit_is_the_one_of_plain_sums(rows: list[tuple[float, float, float]]) -> None:
    result = fits(hours(*rows)).row(1, named=True)
    slope = sum(w * x * y for w, x, y in rows) / sum(w * x * x for w, x, y in rows)
    left = math.sqrt(sum(w * (y - slope * x) ** 2 for w, x, y in rows) / sum(w for w, _, _ in rows))
    assert result["slope"] == pytest.approx(slope)
    assert result["residual"] == pytest.approx(left, abs=1e-7)
    assert result["gpu_hours"] == pytest.approx(sum(w for w, _, _ in rows))


@settings(deadline=None)
@given(st.floats(0.1, 0.9))
def test_half_the_tokens_are_half_the_slope(share: float) -> None:
    rows = [(8.0, 0.5, 0.4), (8.0, 0.6, 0.45), (16.0, 0.4, 0.35)]
    whole = fits(hours(*rows)).row(0, named=True)
    part = fits(hours(*((w, x, y * share) for w, x, y in rows))).row(0, named=True)
    assert part["slope"] == pytest.approx(whole["slope"] * share)
    assert part["residual"] == pytest.approx(whole["residual"] * share, abs=1e-7)


def test_logs_above_what_the_pipes_can_have_done_disagree() -> None:
    row = fits(hours(*[(8.0, 0.3, 0.4)] * 3)).row(1, named=True)
    assert row["disagrees"] is True
    assert row["note"] == ABOVE


def test_attention_that_kernels_skip_is_no_disagreement() -> None:
    rows = hours(*[(8.0, 0.35, 0.4)] * 3).with_columns(mfu_least=pl.lit(0.33))
    row = fits(rows).row(1, named=True)
    assert row["disagrees"] is False
    assert row["note"] == MASKED


def test_logs_far_below_the_pipes_disagree_unless_recomputed() -> None:
    below = fits(hours(*[(8.0, 0.45, 0.2)] * 3)).row(1, named=True)
    assert (below["disagrees"], below["note"]) == (True, BELOW)
    recomputed = fits(hours(*[(8.0, 0.4 * 4 / 3 * 1.1, 0.4)] * 3)).row(1, named=True)
    assert recomputed["disagrees"] is False


def test_fit_without_clocks_has_a_note() -> None:
    rows = hours(*[(8.0, 0.45, 0.4)] * 3).with_columns(clocked=pl.Series([True, False, True]))
    assert fits(rows)["note"].to_list() == [UNCLOCKED, UNCLOCKED]


def test_only_runs_without_logs_get_an_estimate() -> None:
    fitted = fits(hours(*((8.0, x, 0.8 * x) for x in (0.3, 0.4, 0.5))))
    other = {"job_id": "2", "run_id": "dark", "hour": HOUR0}
    both = executed_share(seen({}, other, other | {"hour": HOUR0 + 1, "tensor_active": 0.4}))
    logged = pl.DataFrame([KEY], schema_overrides={"submitted_at": frames.TIME})
    row = estimated(both, logged, fitted)
    assert row["run_id"].to_list() == ["dark"]
    assert row["value"].item() == pytest.approx(0.8 * 0.45)
    assert row["n"].item() == 2
    assert row["gpu_hours"].item() == 32
    assert row["dtype"].item() == "bf16"


def test_a_kind_of_gpu_without_a_fit_gets_no_estimate() -> None:
    fitted = fits(hours(*((8.0, x, 0.8 * x) for x in (0.3, 0.4, 0.5))))
    others = executed_share(seen({"job_id": "2", "gpu_model": "NVIDIA A100-SXM4-80GB"}))
    nobody = pl.DataFrame(schema={name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY})
    assert estimated(others, nobody, fitted).is_empty()


def test_nothing_is_no_error() -> None:
    none = executed_share(frames.empty(HOURS))
    logged = logged_hours(steps(step(0, 10.0)))
    result = fits(compared(none, logged))
    assert result.is_empty()
    nobody = pl.DataFrame(schema={name: frames.ATTEMPTS[name] for name in frames.ATTEMPT_KEY})
    assert estimated(none, nobody, result).is_empty()
