"""How often attempts are interrupted: events over exposure, for every size of job, with exact intervals.

Every attempt gives exposure, however it ended: running, cancelled and completed attempts are censored, not left out.
With k events in exposure T the maximum-likelihood MTTF is T/k, which is also the right-censored exponential estimate.
Two counts, both named: `attempts` (interrupted jobs: what a job of that size experiences) and `incidents`
(interruptions on one node within 15 minutes merged: what the hardware does).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from metrics import frames, statistics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

DAY_S = 86_400.0

UNPLANNED = (pl.col("class") == "infrastructure") | ((pl.col("class") == "user") & (pl.col("cause") != "cancelled"))
"""Infrastructure and user failures. A cancellation is a decision, a time limit a plan, a preemption a policy."""


@dataclass(frozen=True)
class Size:
    """A range of job sizes in GPUs, (low, high]; `per_gpu` says whether its MTTF is of one GPU or of one job."""

    label: str
    low: float
    high: float
    per_gpu: bool = False


POOLED = Size("pooled", 0, math.inf, per_gpu=True)
OVER_128 = Size("over 128", 128, math.inf, per_gpu=True)
"""The jobs behind Meta's r_f (Kokolis et al., section III)."""


def buckets(largest: float) -> list[Size]:
    """Powers of two up to the largest job: (2^(k-1), 2^k] GPUs.

    >>> [size.label for size in buckets(10)]
    ['1', '2', '3-4', '5-8', '9-16']
    """
    top = max(0, math.ceil(math.log2(largest))) if largest > 0 else 0
    found = []
    for power in range(top + 1):
        low, high = (0 if power == 0 else 2 ** (power - 1)), 2**power
        found.append(Size(str(high) if high - low <= 1 else f"{low + 1}-{high}", low, high))
    return found


def around(gpus: float, *, tolerance: float = 0.0625) -> Size:
    """Sizes within +/-6.25 % of a claimed one.

    >>> around(1024).label
    '960-1088'
    """
    low, high = gpus * (1 - tolerance), gpus * (1 + tolerance)
    return Size(f"{low:.0f}-{high:.0f}", low - 1e-9, high)


def failure_rates(
    attempts: pl.DataFrame,
    interruptions: pl.DataFrame,
    since: datetime,
    until: datetime,
    sizes: Sequence[Size],
) -> pl.DataFrame:
    """Events, exposure, rate and MTTF of one cluster in a window, per class, way of counting and size.

    Args:
        attempts: `frames.ATTEMPTS` of one cluster.
        interruptions: `frames.INTERRUPTIONS` of it.
        since: window from.
        until: window to; running attempts give exposure up to here.
        sizes: job sizes to report.

    Returns:
        The columns of the table `failure_rates` but `cluster`. Rates are per GPU-day. `mttf_d` is in days: of one job
        of that size for a bucket, of one GPU for `pooled` and `over 128` (divide by a job's GPUs). Without exposure
        every estimate is null; `mttf_high_d` is null where there is no upper limit (no failure yet).

    Incidents are counted within each size and window, so they do not add up over sizes or windows where one incident
    strikes several. Exact Poisson intervals: Garwood 1936, see `metrics.statistics`.
    """
    ran = executed(attempts)
    exposed = exposure(ran, since, until)
    failed = _of_executions(interruptions, attempts, ran).filter(
        (pl.col("ended_at") >= since) & (pl.col("ended_at") < until)
    )
    infrastructure, unplanned = failed.filter(pl.col("class") == "infrastructure"), failed.filter(UNPLANNED)
    kinds = [
        ("infrastructure", "attempts", infrastructure, list(_EXECUTION)),
        ("infrastructure", "incidents", infrastructure, ["incident"]),
        ("unplanned", "attempts", unplanned, list(_EXECUTION)),
    ]
    found = [
        _counts(exposed, events, once, size) | {"class": kind, "counted": counted}
        for kind, counted, events, once in kinds
        for size in sizes
    ]
    table = pl.DataFrame(found, schema=_COUNTED)
    return _with_estimates(table).with_columns(
        window_from=pl.lit(since, dtype=frames.TIME), window_until=pl.lit(until, dtype=frames.TIME)
    )


_EXECUTION = ("cluster", "scheduler", "job", "submitted_at")


def _with_job(attempts: pl.DataFrame) -> pl.DataFrame:
    return attempts.with_columns(job=pl.coalesce("het_job_id", "job_id"))


def executed(attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts that held GPUs, as the jobs that people see: components of a heterogeneous job are one.

    Returns:
        One row per execution: `cluster`, `scheduler`, `job`, `submitted_at`, `gpus`, `nodes`, `started_at`, `ended_at`
        (null while it runs), `suspended_s`.
    """
    held = attempts.filter((pl.col("milli_gpus") > 0) & (pl.col("n_nodes") > 0) & pl.col("started_at").is_not_null())
    over = pl.col("ended_at").is_null().any()
    return (
        _with_job(held)
        .group_by(_EXECUTION, maintain_order=True)
        .agg(
            gpus=pl.col("milli_gpus").sum() / 1000,
            nodes=pl.col("n_nodes").sum().cast(pl.Float64),
            started_at=pl.col("started_at").min(),
            ended_at=pl.when(over).then(None).otherwise(pl.col("ended_at").max()),
            suspended_s=pl.col("suspended_s").max(),
        )
    )


def _of_executions(interruptions: pl.DataFrame, attempts: pl.DataFrame, ran: pl.DataFrame) -> pl.DataFrame:
    """Interruptions with the size of the whole execution that they ended."""
    jobs = _with_job(attempts).select(*frames.ATTEMPT_KEY, "job")
    sizes = ran.select(*_EXECUTION, "gpus")
    return interruptions.join(jobs, on=list(frames.ATTEMPT_KEY)).join(sizes, on=list(_EXECUTION))


def exposure(ran: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Executions that ran within the window, with how long they did.

    Suspended time is no exposure; like in the ledger it is taken to lie at the attempt's end. Of an attempt that still
    runs, nobody knows the end, so its suspended time counts until it has one.

    Returns:
        The rows of `ran` with `run_s` (> 0).
    """
    low, high = pl.lit(since, dtype=frames.TIME), pl.lit(until, dtype=frames.TIME)
    suspended = pl.duration(microseconds=pl.col("suspended_s").fill_null(0) * 1_000_000)
    ended = pl.min_horizontal(pl.coalesce(pl.col("ended_at") - suspended, high), high)
    run_s = frames.seconds(ended - pl.max_horizontal("started_at", low))
    return ran.with_columns(run_s=run_s).filter(pl.col("run_s") > 0)


_COUNTED: dict[str, pl.DataType] = {
    "class": pl.String(),
    "counted": pl.String(),
    "size": pl.String(),
    "gpus_low": pl.Float64(),
    "gpus_high": pl.Float64(),
    "per_gpu": pl.Boolean(),
    "n_failures": pl.Int64(),
    "n_attempts": pl.Int64(),
    "n_censored": pl.Int64(),
    "exposure_gpu_days": pl.Float64(),
    "exposure_node_days": pl.Float64(),
    "exposure_job_days": pl.Float64(),
}


def _counts(exposed: pl.DataFrame, events: pl.DataFrame, once: list[str], size: Size) -> dict[str, object]:
    """Events and exposure of one size; events that are equal in the columns `once` count once."""
    fits = (pl.col("gpus") > size.low) & (pl.col("gpus") <= size.high)
    inside, struck = exposed.filter(fits), events.filter(fits)
    days = pl.col("run_s") / DAY_S
    sums = inside.select(
        exposure_gpu_days=(days * pl.col("gpus")).sum(),
        exposure_node_days=(days * pl.col("nodes")).sum(),
        exposure_job_days=days.sum(),
    ).row(0, named=True)
    return sums | {
        "size": size.label,
        "gpus_low": size.low,
        "gpus_high": None if math.isinf(size.high) else size.high,
        "per_gpu": size.per_gpu,
        "n_failures": struck.select(once).n_unique() if struck.height else 0,
        "n_attempts": inside.height,
        "n_censored": inside.join(struck, on=list(_EXECUTION), how="anti").height,
    }


def _with_estimates(table: pl.DataFrame) -> pl.DataFrame:
    failures = table["n_failures"].cast(pl.Float64).to_numpy()
    gpu_days = table["exposure_gpu_days"].to_numpy()
    own_days = np.where(table["per_gpu"].to_numpy(), gpu_days, table["exposure_job_days"].to_numpy())
    exact = statistics.rate_interval(failures, gpu_days)
    jeffreys = statistics.jeffreys_rate_interval(failures, gpu_days)
    mttf = statistics.mttf_interval(failures, own_days)
    estimates = {
        "rate_low": exact.low,
        "rate_high": exact.high,
        "jeffreys_low": jeffreys.low,
        "jeffreys_high": jeffreys.high,
        "mttf_low_d": mttf.low,
        "mttf_high_d": mttf.high,
    }
    events = pl.col("n_failures")
    own = pl.when("per_gpu").then(pl.col("exposure_gpu_days")).otherwise(pl.col("exposure_job_days"))
    return table.with_columns(
        rate_per_gpu_day=pl.when(pl.col("exposure_gpu_days") > 0).then(events / pl.col("exposure_gpu_days")),
        mttf_d=pl.when((events > 0) & (own > 0)).then(own / events),
        note=pl.when("per_gpu").then(pl.lit("MTTF of one GPU: divide by a job's GPUs (assumes 1/N)")),
        **{name: _finite(name, values) for name, values in estimates.items()},
    ).drop("per_gpu")


def _finite(name: str, values: np.ndarray) -> pl.Series:
    """A column in which "not known" and "no upper limit" are null."""
    return pl.Series(name, values, dtype=pl.Float64).replace({math.inf: None, math.nan: None})
