"""Checkpoint interval of runs, compared with the one that would lose least, and the cost of the difference.

Two losses pull against each other: each save that blocks training takes its time, and each failure throws away what was
trained since the last one. With failures that are exponential with mean M (in scheduled time), t of training between
saves and w of blocking for each, the share of time that is lost is exactly

    1 - (t/M) / (exp((t + w)/M) - 1)

which is least at `t = M (1 + W(-exp(-1 - w/M)))`, W being Lambert's function. Young's and Daly's forms approximate that
for short saves; they are given with it, as is the one for the best availability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames, theory
from metrics.empty_inputs import cached_if_empty
from metrics.ettr.ettr import IMPUTED_CHECKPOINT_S
from metrics.exact import exact_mean, exact_sum
from metrics.lazy_scipy import special
from metrics.metric import Metric
from metrics.numeric import finite_column
from metrics.units import DAY_S

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.statistics import FloatArray

_US: Final = 1_000_000
_RUN = ["cluster", "run_id"]
_SESSION = ["cluster", "run_id", "scheduler", "job_id"]


@dataclass(frozen=True)
class Rate:
    """Failures per GPU-day of a cluster and their 95 % interval; None without exposure, 0 without failures."""

    value: float | None
    low: float | None
    high: float | None


# --- theory ----------------------------------------------------------------------------------------------------------


def loss_share(interval_s: FloatArray, write_s: FloatArray, mttf_s: FloatArray) -> FloatArray:
    """Share of time (0-1) expected to be lost to saves and to work done again; restarting itself is not in it.

    `1 - (t/M) / (exp((t + w)/M) - 1)`: 1 less the exact expected ETTR (tests/metrics/oracles/theory.py) without
    restart and queue. Without failures (M infinite) `w / (t + w)`; nan where anything is.

    >>> hour = np.array([3600.0])
    >>> float(loss_share(hour, np.array([60.0]), np.array([86400.0])).round(4)[0])
    0.0371
    >>> float(loss_share(hour, np.array([60.0]), np.array([np.inf])).round(4)[0])
    0.0164
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        failing = 1 - (interval_s / mttf_s) / np.expm1((interval_s + write_s) / mttf_s)
        return np.where(np.isinf(mttf_s), write_s / (interval_s + write_s), failing)


def best_interval_s(write_s: FloatArray, mttf_s: FloatArray) -> FloatArray:
    """Training time between saves that loses least: `M (1 + W(-exp(-1 - w/M)))`, the zero of the loss's derivative.

    0 for saves that do not block; infinite without failures.

    A save of 10 s and of 5 min at an MTTF of 185.58 min, in minutes (Daly's form gives 7.754 and 39.810):

    >>> (best_interval_s(np.array([10.0, 300.0]), np.array([185.58 * 60] * 2)) / 60).round(3).tolist()
    [7.754, 39.812]
    """
    with np.errstate(invalid="ignore"):
        inner = -np.exp(-1 - write_s / mttf_s)
        intervals = mttf_s * (1 + special.lambertw(inner).real)  # type: ignore[call-overload]  # its stubs have no array
    return np.where(np.isinf(mttf_s) & (write_s >= 0), np.where(write_s > 0, np.inf, 0.0), intervals)


# --- what was logged --------------------------------------------------------------------------------------------------


@cached_if_empty("events")
def logged_saves(
    events: pl.DataFrame, sessions: pl.DataFrame, executed: pl.DataFrame, *, since: datetime, until: datetime
) -> pl.DataFrame:
    """Each run's checkpoints in a window, by its logs.

    Args:
        events: `frames.RUN_EVENTS`.
        sessions: as `metrics.runs.steps.with_runs` returns it; only usable ones count.
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        since: window from; saves that began in the window count.
        until: window to.

    Returns:
        `cluster`, `run_id` (the run, not the log's name), `n_checkpoints`, `interval_s` (median training time from one
        save to the next, or from a process's first step to its first save), `n_intervals`, `write_s` (mean time that a
        save blocked training, 0 for those that did not block; null where no save logged its end).
    """
    low, high = frames.instant(since), frames.instant(until)
    saves = events.filter((pl.col("kind") == "checkpoint_save") & (pl.col("ts") < high))
    blocks = pl.col("blocking").fill_null(value=True)
    took = frames.seconds(pl.col("ended_at") - pl.col("ts")).clip(0)
    before = pl.col("trained_s").shift(1).over("session").fill_null(0.0)
    timed = _trained_before(saves, sessions, executed).with_columns(
        between_s=pl.col("trained_s") - before, blocked_s=pl.when(blocks).then(took).otherwise(0.0)
    )
    positive = pl.col("between_s").filter(pl.col("between_s") > 0)
    return (
        timed.filter(pl.col("ts") >= low)
        .group_by("cluster", pl.col("run").alias("run_id"))
        .agg(
            n_checkpoints=pl.len().cast(pl.Int64),
            interval_s=positive.median(),
            n_intervals=positive.len().cast(pl.Int64),
            write_s=exact_mean(pl.col("blocked_s")),
        )
        .sort(_RUN)
    )


def _trained_before(saves: pl.DataFrame, sessions: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """Saves of usable sessions with `session`, `run` and `trained_s`: training time of the session until then."""
    begun = sessions.select(*_SESSION, "session", "run", "usable", _at=pl.col("started_at")).sort("_at", "session")
    placed = (
        saves.sort("ts")
        .join_asof(begun, left_on="ts", right_on="_at", by=_SESSION, strategy="backward", check_sortedness=False)
        .filter(pl.col("usable").fill_null(value=False))
        .with_columns(at=pl.col("ts").dt.epoch("us"))
        .sort("at")
    )
    trained = pl.col("wall_s").cum_sum().over("session") - pl.col("wall_s")
    # The same in any order of rows: of executions that begin at once the shorter one comes first.
    ordered = executed.sort("session", "begin", "wall_s")
    steps = ordered.select("session", "begin", "wall_s", before_s=trained).sort("begin", "before_s")
    within = pl.min_horizontal((pl.col("at") - pl.col("begin")) / _US, "wall_s")
    return (
        placed.join_asof(
            steps, left_on="at", right_on="begin", by="session", strategy="backward", check_sortedness=False
        )
        .with_columns(trained_s=pl.col("before_s") + within)
        .sort("session", "at")
    )


@cached_if_empty("executed")
def restart_overheads(executed: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Mean time of each run from an attempt's start to its first step: `cluster`, `run_id`, `restart_s`.

    Args:
        executed: as `metrics.runs.steps.executions_of_steps` returns it.
        attempts: `frames.ATTEMPTS`.
    """
    key = list(frames.ATTEMPT_KEY)
    first = executed.group_by(*key, pl.col("run").alias("run_id")).agg(pl.col("begin").min())
    started = attempts.select(*key, pl.col("started_at").dt.epoch("us").alias("started"))
    took = ((pl.col("begin") - pl.col("started")) / _US).clip(0)
    return first.join(started, on=key).group_by(_RUN).agg(restart_s=exact_mean(took))


@cached_if_empty("joined")
def held_time(attempts: pl.DataFrame, joined: pl.DataFrame, *, since: datetime, until: datetime) -> pl.DataFrame:
    """GPU-seconds that each run held in a window: `cluster`, `run_id`, `held_gpu_s` (> 0), `n_attempts`.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        since: window from.
        until: window to; attempts that still run hold up to here.
    """
    low, high = frames.instant(since), frames.instant(until)
    over = pl.min_horizontal(pl.col("ended_at").fill_null(high), high)
    held = frames.seconds(over - pl.max_horizontal("started_at", low)) * pl.col("milli_gpus") / 1000
    return (
        attempts.filter(pl.col("started_at").is_not_null() & (pl.col("milli_gpus") > 0))
        .with_columns(held_gpu_s=held)
        .filter(pl.col("held_gpu_s") > 0)
        .join(joined.select(*frames.ATTEMPT_KEY, "run_id", "attempt_no"), on=list(frames.ATTEMPT_KEY))
        .group_by(_RUN)
        .agg(exact_sum(pl.col("held_gpu_s")), n_attempts=pl.col("attempt_no").n_unique().cast(pl.Int64))
    )


# --- advice -----------------------------------------------------------------------------------------------------------


@cached_if_empty("runs")
def checkpoint_advice(runs: pl.DataFrame, rate: Rate) -> pl.DataFrame:
    """Each run's checkpoint interval, the one that would lose least, and what the change would win.

    Args:
        runs: `cluster`, `run_id`, `n_gpus` (float), `held_gpu_s`, and, null where not logged, `n_checkpoints`,
            `interval_s`, `write_s`, `restart_s`.
        rate: how often the cluster's infrastructure interrupts a GPU; that of a run is taken to grow with its GPUs.

    Returns:
        `runs` with `mttf_s`, `optimal_s` and `..._low_s`, `..._high_s` of both (the rate's interval; null: no limit, or
        unknown), `loss_share` and `optimal_loss_share`, `loss_low`, `loss_high` (at both ends), `young_s`, `daly_s`,
        `availability_s` (all as training time, the save itself left out), `gain_gpu_s` and `gain_low_gpu_s`,
        `gain_high_gpu_s` (what saving every `optimal_s` would have won, at the rate and at both ends of it; a change
        that may as well lose has a low end below 0), `assumed_loss_share` (of runs without checkpoints: at one an hour,
        as Meta assumed), `advice` and `note`. The largest gain comes first.
    """
    gpus = _floats(runs, "n_gpus")
    mttf, mttf_low, mttf_high = (_mttf_s(each, gpus) for each in (rate.value, rate.high, rate.low))
    every, write = _floats(runs, "interval_s"), _floats(runs, "write_s")
    restart = np.nan_to_num(_floats(runs, "restart_s"))
    blocks = np.where(write > 0, write, np.nan)
    best, best_low, best_high = (best_interval_s(blocks, each) for each in (mttf, mttf_low, mttf_high))
    loss = {each: loss_share(every, write, m) for each, m in (("", mttf), ("_high", mttf_low), ("_low", mttf_high))}
    gains = np.stack([_gain(runs, best, m) for m in (mttf, mttf_low, mttf_high)])
    hourly = np.full(len(gpus), IMPUTED_CHECKPOINT_S)
    columns = {
        "mttf_s": mttf,
        "mttf_low_s": mttf_low,
        "mttf_high_s": mttf_high,
        "optimal_s": best,
        "optimal_low_s": best_low,
        "optimal_high_s": best_high,
        "loss_share": loss[""],
        "loss_low": loss["_low"],
        "loss_high": loss["_high"],
        "optimal_loss_share": loss_share(best, blocks, mttf),
        "gain_gpu_s": gains[0],
        "gain_low_gpu_s": gains.min(axis=0),
        "gain_high_gpu_s": gains.max(axis=0),
        "assumed_loss_share": np.where(np.isnan(every), loss_share(hourly, np.zeros(len(gpus)), mttf), np.nan),
        **_approximations(blocks, mttf, restart),
    }
    advised = runs.with_columns(finite_column(name, values) for name, values in columns.items())
    return _worded(advised).sort("gain_gpu_s", "held_gpu_s", "run_id", descending=[True, True, False], nulls_last=True)


def _mttf_s(per_gpu_day: float | None, gpus: FloatArray) -> FloatArray:
    """Mean time to failure at each size; infinite at rate zero, nan where the rate is unknown."""
    with np.errstate(divide="ignore"):
        return np.full(len(gpus), np.nan) if per_gpu_day is None else DAY_S / (per_gpu_day * gpus)


def _gain(runs: pl.DataFrame, best: FloatArray, mttf: FloatArray) -> FloatArray:
    """GPU-seconds that the interval `best` would have won: restarts take their part of the time either way."""
    every, write = _floats(runs, "interval_s"), _floats(runs, "write_s")
    restart = np.nan_to_num(_floats(runs, "restart_s"))
    with_best = np.where(np.isfinite(best), loss_share(best, write, mttf), np.nan)  # never to save is no advice
    less = loss_share(every, write, mttf) - with_best
    return _floats(runs, "held_gpu_s") * np.exp(-restart / mttf) * less


def _approximations(write: FloatArray, mttf: FloatArray, restart: FloatArray) -> dict[str, FloatArray]:
    """Young's, Daly's and the availability-optimal interval as training time; nan where unknown or without limit."""
    intervals = {name: np.full(len(write), np.nan) for name in ("young_s", "daly_s", "availability_s")}
    for row in np.flatnonzero(np.isfinite(write) & np.isfinite(mttf)):
        w, m = float(write[row]), float(mttf[row])
        intervals["young_s"][row] = theory.young_interval_s(w, m)
        intervals["daly_s"][row] = theory.daly_interval_s(w, m)
        intervals["availability_s"][row] = theory.availability_interval_s(w, m, float(restart[row])) - w
    return intervals


def _worded(advised: pl.DataFrame) -> pl.DataFrame:
    """With the advice and its caveats."""
    every, low, high = pl.col("interval_s"), pl.col("optimal_low_s"), pl.col("optimal_high_s")
    none = pl.col("n_checkpoints").fill_null(0) == 0
    percents = pl.col("assumed_loss_share") * 100
    hourly = pl.when(percents < 0.05).then(pl.lit("< 0.1")).otherwise(percents.round(1).cast(pl.String))
    return advised.with_columns(
        n_checkpoints=pl.col("n_checkpoints").fill_null(0),
        advice=pl.when(every.is_null() | pl.col("write_s").is_null())
        .then(pl.lit("cannot tell"))
        .when(pl.col("write_s") <= 0)
        .then(pl.lit("save as often as storage takes it"))
        .when(low.is_null())
        .then(pl.lit("cannot tell"))
        .when(every < low)
        .then(pl.lit("save less often"))
        .when(every > high)
        .then(pl.lit("save more often"))
        .otherwise(pl.lit("no case for a change")),
        note=pl.when(none & hourly.is_not_null())
        .then(
            pl.format("cannot tell: no checkpoints logged. Assumed one an hour: {} % lost to work done again", hourly)
        )
        .when(none)
        .then(pl.lit("cannot tell: no checkpoints logged, and no failure to estimate a rate from"))
        .when(every.is_null())
        .then(pl.lit("cannot tell: no training steps logged between checkpoints"))
        .when(pl.col("write_s").is_null())
        .then(pl.lit("cannot tell: the log does not record when a save was over"))
        .when(pl.col("write_s") <= 0)
        .then(pl.lit("saving does not block training, so only storage limits how often"))
        .when(pl.col("mttf_low_s").is_null())
        .then(pl.lit("cannot tell: no attempt held GPUs, so the failure rate is unknown"))
        .when(pl.col("optimal_s").is_null())
        .then(pl.lit("no failure yet: only the least interval is known"))
        .when((every >= low) & (high.is_null() | (every <= high)))
        .then(pl.lit("within the range that the failure rate's interval leaves open")),
    )


def _floats(table: pl.DataFrame, name: str) -> FloatArray:
    return table[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="checkpoint_interval",
        unit="s",
        summary="Median training time from one checkpoint to the next, against the one that would lose least.",
        formula=(
            "median of the time of training steps between saves in one process; best: M (1 + W(-exp(-1 - w/M))), which "
            "minimises the exact loss below, M the MTTF at the run's size, w the time a save blocks training; Young's, "
            "Daly's and availability-optimal beside it"
        ),
        query="run_events",
        function=checkpoint_advice,
        interval="the best interval at both ends of the MTTF's exact Poisson interval (95 %)",
        source="our definitions 4.2; Young 1974; Daly 2006; Saxena et al., arXiv 2410.18124",
    ),
    Metric(
        name="checkpoint_loss",
        unit="ratio",
        summary="Share of time expected to be lost to saving checkpoints and to work done again after failures.",
        formula=(
            "1 - (t/M) / (exp((t + w)/M) - 1): t training time between checkpoints, w time a save blocks training, M "
            "the "
            "cluster's pooled infrastructure MTTF over the run's GPUs (assumes 1/N)"
        ),
        query="run_events",
        function=loss_share,
        interval="the loss at both ends of the MTTF's exact Poisson interval (95 %)",
        source="our definitions 1.5",
    ),
)
