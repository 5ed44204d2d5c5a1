"""Time to a target: from the beginning of training to the target that the log records, or to a number of tokens."""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.metric import Claimable, Metric
from metrics.scaling.estimate import Estimate, estimate

TRAIN_START: Final = "mlperf_run_start"
TRAIN_STOP: Final = "mlperf_run_stop"
"""Kinds of a log's events between which lies the official time; the detail of the latter is the run's status."""

REACHED: Final = "success"
"""The status of a run that reached its target."""


def logged_times(events: pl.DataFrame) -> pl.DataFrame:
    """The official time of each run whose log records one.

    Args:
        events: `frames.RUN_EVENTS` with `detail`; `run_id` as the runs are joined.

    Returns:
        `cluster`, `run_id`, `status` (of its last stop; null where it never stopped), `seconds` (from the first start
        to the first successful stop; null where the target was not reached).
    """
    kind, ok = pl.col("kind"), pl.col("detail") == REACHED
    begun = pl.col("ts").filter(kind == TRAIN_START).min()
    reached = pl.col("ts").filter((kind == TRAIN_STOP) & ok.fill_null(value=False))
    after = reached.filter(reached > begun).min()
    return (
        events.filter(kind.is_in([TRAIN_START, TRAIN_STOP]))
        .sort("ts")
        .group_by("cluster", "run_id", maintain_order=True)
        .agg(
            status=pl.col("detail").filter(kind == TRAIN_STOP).last(),
            seconds=(after - begun).dt.total_microseconds() / 1e6,
        )
        .sort("cluster", "run_id")
    )


def token_times(steps: pl.DataFrame, tokens: float) -> pl.DataFrame:
    """The time of each run to its first `tokens` tokens that were kept, restarts and waiting in between included.

    Args:
        steps: kept steps of `metrics.runs.steps.executions_of_steps` with `run_id`: `begin` and `end` in microseconds.
        tokens: the target.

    Returns:
        `cluster`, `run_id`, `status`, `seconds`: as `logged_times`.
    """
    done = pl.col("tokens").fill_null(0.0).cum_sum() >= tokens
    return (
        steps.sort("cluster", "run_id", "begin")
        .group_by("cluster", "run_id", maintain_order=True)
        .agg(seconds=(pl.col("end").filter(done).first() - pl.col("begin").first()) / 1e6)
        .select(
            "cluster",
            "run_id",
            pl.when(pl.col("seconds").is_not_null()).then(pl.lit(REACHED)).alias("status"),
            "seconds",
        )
    )


def whole_runs(runs: pl.DataFrame) -> pl.DataFrame:
    """Runs that trained with one recipe on one number of GPUs from their first kept step to the last, a row each.

    Args:
        runs: `metrics.scaling.speeds.run_speeds`'s rows. Of a run whose batch grew the row of its last batch counts.
    """
    run = ["cluster", "run_id"]
    alone = (pl.col("n_gpus").n_unique().over(run) == 1) & (pl.col("label").n_unique().over(run) == 1)
    return runs.filter(alone).sort("first").unique(run, keep="last", maintain_order=True)


def timed(runs: pl.DataFrame) -> pl.DataFrame:
    """The whole runs that reached the target: of no others a time belongs to one size."""
    return whole_runs(runs).filter(pl.col("seconds").is_not_null())


def time_to_train(runs: pl.DataFrame) -> Estimate | None:
    """Mean time to the target of runs of one recipe and size, in seconds; None where none reached it.

    Args:
        runs: `metrics.scaling.speeds.run_speeds`'s rows with `seconds`; a benchmark's `time_factor` multiplies them.
    """
    times = (runs["seconds"] * runs["time_factor"].fill_null(1.0)).drop_nulls().to_list()
    return estimate(times, [1.0] * len(times), "runs")


def official_time(runs: pl.DataFrame, *, dropped: int = 1) -> Estimate | None:
    """The official result of runs of one benchmark and size, in seconds, by MLPerf's rule.

    It is the mean of their times without the fastest and the slowest; a run that missed the target counts as a slowest.

    Args:
        runs: a row a run, with `seconds` (null: it missed the target) and `time_factor`.
        dropped: how many runs are left out at either end.

    Returns:
        None where more runs missed the target than may be left out, or none remains: of fewer than three runs.
    """
    times = (runs["seconds"] * runs["time_factor"].fill_null(1.0)).drop_nulls().sort().to_list()
    missed = runs.height - len(times)
    counted = times[dropped : len(times) - dropped + missed]
    if missed > dropped or not counted:
        return None
    return Estimate(sum(counted) / len(counted), None, 0.0, runs.height, "runs")


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="time_to_train",
        unit="s",
        title="Time to train",
        summary="Time that runs of one recipe and number of GPUs took from the start of training to its target.",
        formula=(
            "mean over runs of (target reached - training began) x the time factor of the benchmark's rules; the "
            "official result of MLPerf: of the runs without the fastest and the slowest"
        ),
        query="run_events",
        function=time_to_train,
        interval="t interval of the logarithm over runs, 95 %",
        source=(
            "ours; official result: MLPerf Training rules, Benchmark Results: run_start to run_stop, fastest and "
            "slowest run dropped, scaled by the submission's factor"
        ),
        better="lower",
        show="scaling",
        claim=Claimable(
            "time_to_train",
            of="runs",
            fields=("gpus", "runs", "tokens", "score"),
            required=("gpus",),
            categories=False,
            exclusions=False,
        ),
    ),
)
