"""ETTR, effective training time ratio: of the time a run was queued or scheduled, the share in which it trained.

    ETTR = productive / (queued + scheduled)

per run, from its first eligible moment to its last end, in GPU-seconds so that large runs weigh what they cost.
Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", section II. Its first
version does not count blocking checkpoint writes as unproductive, its second does; both are here, and `ettr` is the
second. Runs without any training are left out of the clusters' ETTR: `runs_of_other_work`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from metrics import frames, unknown
from metrics.categories import EVIDENCE_KINDS
from metrics.exact import exact_mean, exact_sum
from metrics.goodput.goodput import BESIDE_IDLE, KNOWN_ENOUGH, PRODUCTIVE, SURE, UNSEEN
from metrics.joins import anti_join, inner_join, semi_join
from metrics.metric import BOUNDS, UNSEEN_BOUNDS, Claimable, ExportedFamily, Metric, Parts
from metrics.runs.runs import ACROSS_JOBS, as_executions, by_id
from metrics.sorting import sort_by

if TYPE_CHECKING:
    from datetime import datetime

IMPUTED_CHECKPOINT_S = 3600.0
IMPUTED_RESTART_S = 300.0
"""Meta's assumptions where nothing was logged: hourly checkpoints, five minutes to restart."""

FORMS = {
    "ettr": (pl.col("productive"), pl.col("wall_gpu_s")),
    "ettr_without_initial_queue": (pl.col("productive"), pl.col("after_start_gpu_s")),
    "ettr_with_checkpoint_writes": (pl.col("productive") + pl.col("checkpoint"), pl.col("wall_gpu_s")),
}
"""Numerator and denominator of each form of the measured ETTR."""

_RUN = ["cluster", "run_id"]


def ordered(attempts: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """The executions of runs in their order, heterogeneous components put together.

    Args:
        attempts: `frames.ATTEMPTS`; only the columns that are used here are needed.
        joined: `frames.RUN_ATTEMPTS`.

    Returns:
        `cluster`, `run_id`, `attempt_no`, `joined_by`, `state`, `submitted_at`, `eligible_at`, `started_at`,
        `ended_at`, `milli_gpus`, `requested_milli_gpus` (held or requested, whichever is more; null: unknown),
        `suspended_s`; sorted by run and number.
    """
    place = ["cluster", "run_id", "attempt_no"]
    requested = pl.max_horizontal("milli_gpus", "req_milli_gpus")
    times = ["submitted_at", "eligible_at", "started_at", "ended_at"]
    selected = attempts.select(
        *frames.ATTEMPT_KEY[:3], *times, "state", "milli_gpus", "suspended_s", requested_milli_gpus=requested
    )  # of all columns these: there are millions of rows
    rows = inner_join(selected, joined, on=frames.ATTEMPT_KEY).sort(*place, *by_id())
    columns = [*place, "joined_by", "state", *times, "milli_gpus", "requested_milli_gpus", "suspended_s"]
    return as_executions(rows.select(columns), unknown.total("requested_milli_gpus"), pl.col("suspended_s").max())


def runs_of_other_work(others: pl.DataFrame, joined: pl.DataFrame) -> pl.DataFrame:
    """Runs without any training: every attempt of them is other work. One that trains makes it a training run.

    Args:
        others: as `metrics.ledger.ledger.other_work` returns it.
        joined: `frames.RUN_ATTEMPTS`.

    Returns:
        `cluster`, `run_id`: each run once.
    """
    key = frames.ATTEMPT_KEY
    found = semi_join(joined, others, on=key).select(_RUN).unique()
    training = anti_join(semi_join(joined, found, on=_RUN), others, on=key)
    return anti_join(found, training, on=_RUN)


def wait_intervals(executed: pl.DataFrame, until: datetime) -> pl.DataFrame:
    """Waits of runs: before their first start, and between attempts.

    The first wait counts from the moment the job was eligible. A wait after a requeue counts from the end of the
    attempt before, the scheduler's own hold included: it is time that the failure cost. Where the next attempt is
    another job of the same run, no job waited before that one was eligible: a run that its user takes up again
    after weeks has not queued for weeks. A job that was never eligible (its user holds it) does not wait.

    Args:
        executed: as `ordered` returns it.
        until: end of waits that still last.

    Returns:
        `cluster`, `run_id`, `attempt_no`, `initial` (before the first start), `milli_gpus` waited for, `started_at`,
        `ended_at` of the wait.
    """
    same_run = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in _RUN)
    before = pl.when(same_run).then(pl.col("ended_at").shift(1))
    requested_again = pl.coalesce("eligible_at", "submitted_at")
    was_eligible = pl.col("eligible_at").is_not_null() | pl.col("started_at").is_not_null()
    begin = (
        pl.when(pl.col("joined_by").is_in(ACROSS_JOBS) & before.is_not_null())
        .then(pl.max_horizontal(before, requested_again))
        .otherwise(pl.coalesce(before, pl.col("eligible_at")))
    )
    return (
        executed.select(
            *_RUN,
            "attempt_no",
            initial=pl.col("attempt_no") == 1,
            milli_gpus="requested_milli_gpus",
            started_at=pl.when(was_eligible).then(begin),
            ended_at=pl.coalesce("started_at", "ended_at", frames.instant(until)),
        )
        .filter(pl.col("started_at") < pl.col("ended_at"))
        .select(*_RUN, "attempt_no", "initial", "milli_gpus", "started_at", "ended_at")
    )


def clipped(intervals: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Intervals with `started_at` and `ended_at` within the window; those outside it go."""
    low = pl.max_horizontal("started_at", frames.instant(since))
    high = pl.min_horizontal("ended_at", frames.instant(until))
    return intervals.with_columns(started_at=low, ended_at=high).filter(pl.col("started_at") < pl.col("ended_at"))


def waits(attempts: pl.DataFrame, joined: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Time that runs waited within a window: `wait_intervals`, clipped.

    Returns:
        `cluster`, `run_id`, `initial` (before the first start), `milli_gpus` waited for, `wait_s` (> 0).
    """
    return waited(wait_intervals(ordered(attempts, joined), until), since, until)


def waited(intervals: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """As `waits`, of intervals that `wait_intervals` returned."""
    return clipped(intervals, since, until).select(
        *_RUN, "initial", "milli_gpus", wait_s=frames.seconds(pl.col("ended_at") - pl.col("started_at"))
    )


def imputed(attempts: pl.DataFrame, joined: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Productive GPU-seconds of each run as Meta imputed them: see `imputed_in`."""
    return imputed_in(ordered(attempts, joined), since, until)


def imputed_in(executed: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Productive GPU-seconds of each run as Meta imputed them, where nothing was logged.

    Every attempt is taken to have lost the restart overhead at its start and half a checkpoint interval at its end,
    whatever ended it, so the estimate is meant to be low: `max(0, T - u0 - dt/2)`. The time left between is clipped to
    the window, so windows add up; an attempt that still runs has had no end yet, and a resize is neither an end nor a
    start. Suspended time trains nothing; like in the ledger it is taken to lie at the attempt's end. Kokolis et al.,
    section IV.

    Args:
        executed: as `ordered` returns it.
        since: clip from.
        until: clip to.

    Returns:
        `cluster`, `run_id`, `imputed_gpu_s`.
    """
    starting = pl.when(pl.col("joined_by") == "resize").then(0.0).otherwise(IMPUTED_RESTART_S)
    redone = pl.when(pl.col("state") == "RESIZING").then(0.0).otherwise(IMPUTED_CHECKPOINT_S / 2)
    first = pl.col("started_at") + pl.duration(microseconds=(starting * 1e6).round())
    unproductive = pl.col("suspended_s").fill_null(0) + redone
    last = pl.col("ended_at") - pl.duration(microseconds=(unproductive * 1e6).round())
    low, high = frames.instant(since), frames.instant(until)
    trained = frames.seconds(pl.min_horizontal(pl.coalesce(last, high), high) - pl.max_horizontal(first, low))
    return (
        executed.filter(pl.col("started_at").is_not_null())
        .group_by(_RUN)
        .agg(exact_sum(pl.max_horizontal(trained, pl.lit(0.0)) * pl.col("milli_gpus") / 1000).alias("imputed_gpu_s"))
    )


def ettr_by_run(
    waited: pl.DataFrame, sums: pl.DataFrame, imputed_gpu_s: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """ETTR of each run that has started, and held GPUs or waited for them in the window.

    Args:
        waited: as `waits` returns it.
        sums: `frames.LEDGER_SUMS` within the window whose `subject` is the run.
        imputed_gpu_s: as `imputed` returns it.
        runs: as `metrics.runs.runs.runs` returns it.

    Returns:
        `cluster`, `run_id`, `n_attempts`, GPU-seconds `productive`, `productive_sure` (nothing can take it back),
        `checkpoint`, `startup`, `unseen`, `beside_idle` (active beside an idle GPU), `allocated`, `queued_initial`,
        `queued_requeue`, `imputed_gpu_s`, `wall_gpu_s`, `after_start_gpu_s`, and each of `FORMS` with `_low` and
        `_high`, and `ettr_imputed`. A form is null where more than a tenth of the allocated time was not seen; the
        bounds count the unseen and `beside_idle` as unproductive / productive, and the low one what is provisional as
        unproductive, too.
    """
    allocated = _allocated_sums(sums)
    queued = waited.group_by(_RUN).agg(
        _gpu_s(pl.col("initial")).alias("queued_initial"), _gpu_s(~pl.col("initial")).alias("queued_requeue")
    )
    table = (
        runs.select(*_RUN, "n_attempts", "milli_gpus", "started_at", "ended_at")
        .filter(pl.col("started_at").is_not_null())
        .join(allocated.rename({"subject": "run_id"}), on=_RUN, how="left")
        .join(queued, on=_RUN, how="left")
        .join(imputed_gpu_s, on=_RUN, how="left")
        .with_columns(pl.col(SUMMED).fill_null(0.0))
    )
    return sort_by(with_ratios(table).filter(pl.col("wall_gpu_s") > 0), _RUN)


def ettr_total(by_run: pl.DataFrame) -> pl.DataFrame:
    """The clusters' ETTR: ratios of sums, so GPU-time weighted; and the mean of the runs' own ratios in addition.

    Args:
        by_run: as `ettr_by_run` returns it, filtered to the runs that count.

    Returns:
        `cluster`, `n` (runs), the sums, the same ratios as `ettr_by_run`, and for each of `FORMS` `_runs` (runs that
        have time below the line), `_mean`, `_mean_low`, `_mean_high`: every run has one vote. The mean is null where
        on average more than a tenth of the runs' allocated time was not seen.
    """
    means = []
    hidden = exact_mean(pl.col("unseen_share"))
    for name, (top, bottom) in FORMS.items():
        own = pl.when(bottom > 0).then(top / bottom)
        means += [
            own.count().cast(pl.Int64).alias(f"{name}_runs"),
            pl.when(1 - hidden >= KNOWN_ENOUGH).then(exact_mean(own)).alias(f"{name}_mean"),
            exact_mean(pl.col(f"{name}_low")).alias(f"{name}_mean_low"),
            exact_mean(pl.col(f"{name}_high")).alias(f"{name}_mean_high"),
        ]
    added = [exact_sum(pl.col(name)).alias(name) for name in SUMMED]
    summed = by_run.group_by("cluster").agg(
        pl.len().cast(pl.Int64).alias("n"), *added, *means, hidden.alias("unseen_share_mean")
    )
    return with_ratios(summed).sort("cluster")


SUMMED = [
    "productive",
    "productive_sure",
    "checkpoint",
    "startup",
    "unseen",
    "beside_idle",
    "allocated",
    "queued_initial",
    "queued_requeue",
    "imputed_gpu_s",
    "by_log",
    "by_telemetry",
    "by_accounting",
    "by_assumed",
]
"""GPU-seconds of runs that add up to those of all of them."""


def _allocated_sums(sums: pl.DataFrame) -> pl.DataFrame:
    """Each subject's allocated GPU-seconds by the ledger."""
    amount = pl.col("gpu_seconds")  # decimals: the sums are exact, in any order
    observed = pl.col("evidence") != "assumed"
    parts = {
        "productive": PRODUCTIVE,
        "productive_sure": PRODUCTIVE & SURE,
        "checkpoint": (pl.col("category") == "checkpoint") & observed,
        "startup": (pl.col("category") == "startup") & observed,
        "unseen": UNSEEN,
        "beside_idle": BESIDE_IDLE,
        "allocated": pl.lit(value=True),
        **{f"by_{kind}": pl.col("evidence") == kind for kind in EVIDENCE_KINDS},
    }
    # All rows at once, and then sums: a filter within each of a million groups takes four times as long.
    of_parts = {name: pl.when(which).then(amount).otherwise(0) for name, which in parts.items()}
    return (
        sums.filter(pl.col("state") == "allocated")
        .select("cluster", "subject", **of_parts)
        .group_by("cluster", "subject")
        .agg(pl.col(*parts).sum())
        .filter(pl.col("allocated") > 0)
        .with_columns(pl.exclude("cluster", "subject").cast(pl.Float64))
    )


def _gpu_s(which: pl.Expr) -> pl.Expr:
    return exact_sum((pl.col("wait_s") * pl.col("milli_gpus") / 1000).filter(which))


def with_ratios(table: pl.DataFrame) -> pl.DataFrame:
    """Each form of the ratio with its bounds, and the time below the line, from the sums.

    Args:
        table: `SUMMED`, and any others.

    Returns:
        These with `wall_gpu_s`, `after_start_gpu_s`, `unseen_share`, each of `FORMS` with `_low` and `_high`, and
        `ettr_imputed`.
    """
    hidden = pl.when(pl.col("allocated") > 0).then(pl.col("unseen") / pl.col("allocated")).otherwise(0.0)
    observed = 1 - hidden >= KNOWN_ENOUGH
    whole = table.with_columns(
        wall_gpu_s=pl.col("allocated") + pl.col("queued_initial") + pl.col("queued_requeue"),
        after_start_gpu_s=pl.col("allocated") + pl.col("queued_requeue"),
        unseen_share=hidden,
    )
    ratios = []
    taken_back = pl.col("productive") - pl.col("productive_sure")
    for name, (top, below) in FORMS.items():
        bottom = pl.when(below > 0).then(below)
        ratios += [
            pl.when(observed).then(top / bottom).alias(name),
            ((top - taken_back) / bottom).alias(f"{name}_low"),
            ((top + pl.col("unseen") + pl.col("beside_idle")) / bottom).alias(f"{name}_high"),
        ]
    imputed_share = pl.col("imputed_gpu_s") / pl.when(pl.col("wall_gpu_s") > 0).then(pl.col("wall_gpu_s"))
    return whole.with_columns(*ratios, imputed_share.alias("ettr_imputed"))


# Published metrics --------------------------------------------------------------------------------------------------

_OVER_RUNS = f"{BOUNDS}; BCa bootstrap over whole runs, 95 %, if they weigh as much as 20 equal ones"
_MEAN = "each run has one vote, so small runs rule it: shown beside the GPU-time weighted ratio"

METRICS = (
    Metric(
        name="ettr",
        unit="ratio",
        exported=ExportedFamily(
            "ettr_ratio",
            f"Share of the time that runs were queued or scheduled in which they trained; {UNSEEN_BOUNDS}.",
        ),
        claim=Claimable("run_ratio", of="runs", fields=("min_run_hours",)),
        title="ETTR",
        show="ettr",
        parts=Parts("gpu_h", "productive", "queued and scheduled GPU-h"),
        judged=True,
        headline=2,
        summary="Of the time that runs were queued or scheduled, the share in which they trained; queueing counts.",
        formula=(
            "productive GPU-seconds / (queued + scheduled) GPU-seconds of the runs that have started by the end of the "
            "data, initial queue included; checkpoint writes that block training are unproductive (Meta v2); runs of "
            "which every attempt is other work (config: rules.other_work) are left out"
        ),
        query="ledger_sums",
        function=ettr_by_run,
        interval=_OVER_RUNS,
        source="Kokolis et al. (HPCA 2025) section II: ETTR = R / (Q + R + U)",
    ),
    Metric(
        name="ettr_without_initial_queue",
        unit="ratio",
        parts=Parts("gpu_h", "productive", "queued (after the first start) and scheduled GPU-h"),
        claim=Claimable("run_ratio", of="runs", fields=("min_run_hours",)),
        title="ETTR (without the first queue)",
        show="ettr",
        summary="ETTR from the first start on.",
        formula="productive GPU-seconds / (queued after the first start + scheduled) GPU-seconds of the runs",
        query="ledger_sums",
        function=ettr_by_run,
        interval=_OVER_RUNS,
        source="as ettr, without the wait before the first start",
    ),
    Metric(
        name="ettr_with_checkpoint_writes",
        unit="ratio",
        parts=Parts("gpu_h", "productive or writing checkpoints", "queued and scheduled GPU-h"),
        summary="ETTR with checkpoint writes counted as productive, as the first version of the paper does.",
        formula=(
            "(productive + checkpoint) GPU-seconds / (queued + scheduled) GPU-seconds of the runs, initial queue "
            "included"
        ),
        query="ledger_sums",
        function=ettr_by_run,
        interval=_OVER_RUNS,
        source="Kokolis et al., arXiv 2410.21680v1 section II: catch-up and restarts alone are unproductive",
    ),
    Metric(
        name="ettr_mean_of_runs",
        unit="ratio",
        summary="Mean of the runs' own ETTR.",
        formula="sum over runs of the run's ettr / runs",
        query="ledger_sums",
        function=ettr_total,
        interval=_OVER_RUNS,
        source=f"Trackside's own: {_MEAN}",
    ),
    Metric(
        name="ettr_without_initial_queue_mean_of_runs",
        unit="ratio",
        summary="Mean of the runs' own ETTR from their first start on.",
        formula="sum over runs of the run's ettr_without_initial_queue / runs",
        query="ledger_sums",
        function=ettr_total,
        interval=_OVER_RUNS,
        source=f"Trackside's own: {_MEAN}",
    ),
    Metric(
        name="ettr_with_checkpoint_writes_mean_of_runs",
        unit="ratio",
        summary="Mean of the runs' own ETTR with checkpoint writes counted as productive.",
        formula="sum over runs of the run's ettr_with_checkpoint_writes / runs",
        query="ledger_sums",
        function=ettr_total,
        interval=_OVER_RUNS,
        source=f"Trackside's own: {_MEAN}",
    ),
    Metric(
        name="ettr_imputed",
        unit="ratio",
        parts=Parts("gpu_h", "productive (assumed)", "queued and scheduled GPU-h"),
        summary="ETTR as Meta imputes it where nothing is logged: an assumption, not a measurement.",
        formula="sum of max(0, T - suspended - 5 min - 30 min) x GPUs over attempts / (queued + scheduled) GPU-seconds",
        query="attempts",
        function=imputed,
        interval="none: assumed",
        source="Kokolis et al. (HPCA 2025) section IV: dt = 60 min, u0 = 5 min for every attempt",
    ),
)
