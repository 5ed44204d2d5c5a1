"""ETTR, effective training time ratio: of the time a run wanted to train, the share in which it did.

    ETTR = productive / (queued + scheduled)

per run, from its first eligible moment to its last end, in GPU-seconds so that large runs weigh what they cost.
Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section II.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.goodput import KNOWN_ENOUGH, UNSEEN
from metrics.runs import ACROSS_JOBS, executions

if TYPE_CHECKING:
    from datetime import datetime

IMPUTED_CHECKPOINT_S = 3600.0
IMPUTED_RESTART_S = 300.0
"""What Meta assumed where nothing was logged: hourly checkpoints, five minutes to restart."""


def waits(attempts: pl.DataFrame, joined: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Times at which runs waited: before their first start, and between attempts.

    The first wait counts from the moment the job was eligible. A wait after a requeue counts from the end of the
    attempt before, the scheduler's own hold included: it is time that the failure cost. Where the next attempt is
    another job of the same run, nobody waited before that job was eligible: a run that its user takes up again
    after weeks has not queued for weeks. A job that was never eligible (its user holds it) does not wait.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        since: clip from.
        until: clip to, and the end of waits that still last.

    Returns:
        `cluster`, `run_id`, `initial` (before the first start), `milli_gpus` waited for, `wait_s` (> 0).
    """
    run = ["cluster", "run_id"]
    asked = pl.max_horizontal("milli_gpus", "req_milli_gpus").fill_null(0)
    wanted = attempts.with_columns(milli_gpus=asked)
    before = pl.col("ended_at").shift(1).over(run)
    asked_again = pl.coalesce("eligible_at", "submitted_at")
    ordered = executions(wanted, joined).with_columns(
        initial=pl.col("attempt_no") == 1,
        begin=pl.when(pl.col("joined_by").is_in(ACROSS_JOBS) & before.is_not_null())
        .then(pl.max_horizontal(before, asked_again))
        .otherwise(pl.coalesce(before, pl.col("eligible_at"))),
        end=pl.coalesce("started_at", "ended_at", pl.lit(until, dtype=frames.TIME)),
    )
    low = pl.max_horizontal("begin", pl.lit(since, dtype=frames.TIME))
    high = pl.min_horizontal("end", pl.lit(until, dtype=frames.TIME))
    wanted_to_run = pl.col("eligible_at").is_not_null() | pl.col("started_at").is_not_null()
    return (
        ordered.with_columns(wait_s=frames.seconds(high - low))
        .filter(wanted_to_run & pl.col("begin").is_not_null() & (pl.col("wait_s") > 0))
        .select(*run, "initial", "milli_gpus", "wait_s")
    )


def imputed(attempts: pl.DataFrame, joined: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Productive GPU-seconds of each run as Meta imputed them, where nothing was logged.

    Every attempt is taken to have lost the restart overhead at its start and half a checkpoint interval at its end,
    whatever ended it, so the estimate is meant to be low: `max(0, T - u0 - dt/2)`. What is left between is clipped to
    the window, so windows add up; an attempt that still runs has had no end yet, and a resize is neither an end nor a
    start. Kokolis et al., section IV.

    Returns:
        `cluster`, `run_id`, `imputed_gpu_s`.
    """
    starting = pl.when(pl.col("joined_by") == "resize").then(0.0).otherwise(IMPUTED_RESTART_S)
    redone = pl.when(pl.col("state") == "RESIZING").then(0.0).otherwise(IMPUTED_CHECKPOINT_S / 2)
    first = pl.col("started_at") + pl.duration(microseconds=(starting * 1e6).round())
    last = pl.col("ended_at") - pl.duration(microseconds=(redone * 1e6).round())
    low, high = pl.lit(since, dtype=frames.TIME), pl.lit(until, dtype=frames.TIME)
    kept = frames.seconds(pl.min_horizontal(pl.coalesce(last, high), high) - pl.max_horizontal(first, low))
    return (
        executions(attempts, joined)
        .filter(pl.col("started_at").is_not_null())
        .group_by("cluster", "run_id")
        .agg((pl.max_horizontal(kept, pl.lit(0.0)) * pl.col("milli_gpus") / 1000).sum().alias("imputed_gpu_s"))
    )


def ettr_by_run(
    waited: pl.DataFrame, sums: pl.DataFrame, imputed_gpu_s: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """ETTR of each run that has started, and held GPUs or waited for them in the window.

    Args:
        waited: as `waits` returns it.
        sums: `frames.LEDGER_SUMS` within the window whose `subject` is the run.
        imputed_gpu_s: as `imputed` returns it.
        runs: as `metrics.runs.runs` returns it.

    Returns:
        `cluster`, `run_id`, `n_attempts`, GPU-seconds `productive`, `unseen`, `allocated`, `queued_initial`,
        `queued_requeue`, `imputed_gpu_s`, and `ettr`, `ettr_low`, `ettr_high`, `ettr_imputed`. `ettr` is null where
        more than a tenth of the allocated time was not seen; the bounds count the unseen as unproductive / productive.
    """
    seen = _allocated_sums(sums)
    queued = waited.group_by("cluster", "run_id").agg(
        _gpu_s(pl.col("initial")).alias("queued_initial"), _gpu_s(~pl.col("initial")).alias("queued_requeue")
    )
    key = ["cluster", "run_id"]
    table = (
        runs.select(*key, "n_attempts", "milli_gpus", "started_at", "ended_at")
        .join(seen.rename({"subject": "run_id"}), on=key, how="left")
        .join(queued, on=key, how="left")
        .join(imputed_gpu_s, on=key, how="left")
        .with_columns(pl.col(_SUMMED).fill_null(0.0))
        .filter(pl.col("started_at").is_not_null())
    )
    return _ratios(table).filter(pl.col("wall_gpu_s") > 0).sort(*key)


def ettr_total(by_run: pl.DataFrame) -> pl.DataFrame:
    """The clusters' ETTR: a ratio of sums, so GPU-time weighted.

    Args:
        by_run: as `ettr_by_run` returns it, filtered to the runs that count.

    Returns:
        `cluster`, `n` (runs), the sums, and the same ratios as `ettr_by_run`.
    """
    summed = by_run.group_by("cluster").agg(pl.len().cast(pl.Int64).alias("n"), pl.col(_SUMMED).sum())
    return _ratios(summed).sort("cluster")


_SUMMED = [
    "productive",
    "unseen",
    "allocated",
    "queued_initial",
    "queued_requeue",
    "imputed_gpu_s",
    "by_log",
    "by_telemetry",
    "by_accounting",
    "by_assumed",
]


def _allocated_sums(sums: pl.DataFrame) -> pl.DataFrame:
    """What the ledger says of each subject's allocated GPU-seconds."""
    amount = pl.col("gpu_seconds")
    productive = (pl.col("category") == "productive") & (pl.col("evidence") != "assumed")
    return (
        sums.filter(pl.col("state") == "allocated")
        .group_by("cluster", "subject")
        .agg(
            amount.filter(productive).sum().cast(pl.Float64).alias("productive"),
            amount.filter(UNSEEN).sum().cast(pl.Float64).alias("unseen"),
            amount.sum().cast(pl.Float64).alias("allocated"),
            *(
                amount.filter(pl.col("evidence") == kind).sum().cast(pl.Float64).alias(f"by_{kind}")
                for kind in ("log", "telemetry", "accounting", "assumed")
            ),
        )
        .filter(pl.col("allocated") > 0)
    )


def _gpu_s(which: pl.Expr) -> pl.Expr:
    return (pl.col("wait_s") * pl.col("milli_gpus") / 1000).filter(which).sum()


def _ratios(table: pl.DataFrame) -> pl.DataFrame:
    wall = pl.col("allocated") + pl.col("queued_initial") + pl.col("queued_requeue")
    later = pl.col("allocated") + pl.col("queued_requeue")
    hidden = pl.when(pl.col("allocated") > 0).then(pl.col("unseen") / pl.col("allocated")).otherwise(0.0)
    known = 1 - hidden >= KNOWN_ENOUGH
    top, bottom = pl.col("productive"), pl.when(wall > 0).then(wall)
    after_start = pl.when(later > 0).then(later)
    return table.with_columns(
        wall_gpu_s=wall,
        ettr=pl.when(known).then(top / bottom),
        ettr_low=top / bottom,
        ettr_high=(top + pl.col("unseen")) / bottom,
        ettr_without_initial_queue=pl.when(known).then(top / after_start),
        ettr_without_initial_queue_low=top / after_start,
        ettr_without_initial_queue_high=(top + pl.col("unseen")) / after_start,
        ettr_imputed=pl.col("imputed_gpu_s") / bottom,
        unseen_share=hidden,
    )
