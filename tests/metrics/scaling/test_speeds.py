"""Speed of runs by recipe, GPUs and global batch."""

from __future__ import annotations

import polars as pl
import pytest

from metrics.scaling.speeds import rate, run_speeds
from tests.metrics.scaling.runs import steps_of


def test_speed_is_tokens_over_gpu_seconds() -> None:
    (row,) = run_speeds(steps_of("a", gpus=8.0, step_s=2.0)).iter_rows(named=True)
    assert (row["batch"], row["n_gpus"], row["n"], row["wall_s"]) == (64.0, 8.0, 3, 6.0)
    assert row["tokens"] / row["gpu_s"] == pytest.approx(64 * 1024 / 2 / 8)
    assert row["flop"] / row["peak_flop"] == pytest.approx(6e9 * 64 * 1024 / (8 * 989e12 * 2))
    assert row["label"] == "1B, seq 1024, H100 SXM, bf16"


def test_a_logged_global_batch_goes_before_the_tokens() -> None:
    (row,) = run_speeds(steps_of("a", gpus=8.0, step_s=2.0, global_batch=32.0)).iter_rows(named=True)
    assert row["batch"] == 32.0


def test_sizes_recipes_and_batches_are_apart() -> None:
    runs = [
        steps_of("a", gpus=8.0, step_s=2.0),
        steps_of("a", gpus=16.0, step_s=1.0),
        steps_of("b", gpus=8.0, step_s=2.0, batch=128.0),
        steps_of("c", gpus=8.0, step_s=2.0, layers=12),
        steps_of("d", gpus=8.0, step_s=2.0, recipe="named"),
    ]
    rows = run_speeds(pl.concat(runs))
    assert rows.select("run_id", "n_gpus").rows() == [
        *(("a", 8.0), ("b", 8.0), ("a", 16.0), ("c", 8.0), ("d", 8.0)),
    ]
    assert rows["label"].unique(maintain_order=True).to_list() == [
        *("1B, seq 1024, H100 SXM, bf16 #1", "1B, seq 1024, H100 SXM, bf16 #2"),
        "named, seq 1024, H100 SXM, bf16",
    ]
    assert rows["label"].n_unique() == 3


def test_steps_without_a_speed_are_left_out() -> None:
    steps = steps_of("a", gpus=8.0, step_s=2.0)
    broken = steps.with_columns(tokens=pl.Series([None, 65536.0, 65536.0]), n_gpus=pl.Series([8.0, None, 8.0]))
    assert run_speeds(broken)["n"].to_list() == [1]
    assert run_speeds(steps.clear()).is_empty()


def test_rates_vary_over_runs_or_over_blocks_of_one_run() -> None:
    two = run_speeds(pl.concat([steps_of("a", gpus=8.0, step_s=2.0), steps_of("b", gpus=8.0, step_s=2.2)]))
    over_runs = rate(two)
    assert over_runs is not None
    assert (over_runs.n, over_runs.over) == (2, "runs")
    assert over_runs.value == pytest.approx(2 * 64 * 1024 / (8 * 4.2))
    long = rate(run_speeds(steps_of("a", gpus=8.0, step_s=2.0, n=400)))
    assert long is not None
    assert (long.n, long.over) == (20, "blocks of steps")
    assert long.error == pytest.approx(0.0)
    short = rate(run_speeds(steps_of("a", gpus=8.0, step_s=2.0, n=361)))
    assert short is not None
    assert (short.n, short.interval()) == (1, None)
