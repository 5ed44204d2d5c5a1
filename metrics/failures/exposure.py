"""Inputs of a failure rate: the time that executions ran in a window, and how they were interrupted.

Every attempt gives exposure, however it ended. Those that ran when the window opened give it from there on only.
Sums are taken once per job size, of which there are few; every range of sizes is added up from these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.units import DAY_S, DAY_US
from metrics.unknown import total

if TYPE_CHECKING:
    from datetime import datetime

    from metrics.statistics import FloatArray


UNPLANNED = (pl.col("class") == "infrastructure") | ((pl.col("class") == "user") & (pl.col("cause") != "cancelled"))
"""Infrastructure and user failures. A cancellation is a decision, a time limit a plan, a preemption a policy."""

INFRASTRUCTURE = pl.col("class") == "infrastructure"

META_RF = (pl.col("state") == "NODE_FAIL") | ((pl.col("state") == "FAILED") & INFRASTRUCTURE)
"""Meta's r_f: NODE_FAIL, and FAILED with a critical health check (Kokolis et al., section III). A requeued attempt is
not among them: the paper leaves that open."""


@dataclass(frozen=True)
class SizeRange:
    """A range of job sizes in GPUs, (low, high]; `per_gpu`: its MTTF is of one GPU, not of one job."""

    label: str
    low: float
    high: float
    per_gpu: bool = False


POOLED = SizeRange("pooled", 0, math.inf, per_gpu=True)
OVER_128 = SizeRange("over 128", 128, math.inf, per_gpu=True)
"""The jobs behind Meta's r_f (Kokolis et al., section III). The class `meta_rf` is of these only."""


def buckets(largest: float) -> list[SizeRange]:
    """Powers of two up to the largest job: (2^(k-1), 2^k] GPUs.

    >>> [size.label for size in buckets(10)]
    ['1', '2', '3-4', '5-8', '9-16']
    """
    top = max(0, math.ceil(math.log2(largest))) if largest > 0 else 0
    sizes = []
    for power in range(top + 1):
        low, high = (0 if power == 0 else 2 ** (power - 1)), 2**power
        sizes.append(SizeRange(str(high) if high - low <= 1 else f"{low + 1}-{high}", low, high))
    return sizes


def around(gpus: float, *, tolerance: float = 0.0625) -> SizeRange:
    """Sizes within +/-6.25 % of a claimed one.

    >>> around(1024).label
    '960-1088'
    """
    low, high = gpus * (1 - tolerance), gpus * (1 + tolerance)
    return SizeRange(f"{low:.0f}-{high:.0f}", low - 1e-9, high)


@dataclass(frozen=True)
class Histories:
    """History of a cluster, from which windows are cut.

    Attributes:
        ran: executions, see `executed`.
        ended: their interruptions, one row each, smallest job first: `execution`, `gpus`, `class`, `cause`, `state`,
            `ended_at`, and `once`, a number that those of one incident share.
        risks: what was at risk in windows, found once each.
    """

    ran: pl.DataFrame
    ended: pl.DataFrame
    risks: dict[tuple[datetime, datetime], Risk] = field(default_factory=dict, compare=False, repr=False)


_EXECUTION = ("cluster", "scheduler", "job", "submitted_at")


def histories(attempts: pl.DataFrame, interruptions: pl.DataFrame) -> Histories:
    """Executions of one cluster and how they were interrupted.

    Args:
        attempts: columns of `frames.ATTEMPTS` that `executed` names.
        interruptions: columns of `frames.INTERRUPTIONS`: key, `ended_at`, `state`, `class`, `cause`, `incident`.
    """
    ran = executed(attempts)
    ended = (
        _of_jobs(interruptions, attempts)
        .join(ran.select(*_EXECUTION, "execution", "gpus"), on=list(_EXECUTION))
        # A heterogeneous job ended as the worst of its components did.
        .sort(pl.when(INFRASTRUCTURE).then(0).when(UNPLANNED).then(1).otherwise(2), "job_id")
        .unique("execution", keep="first", maintain_order=True)
        .sort("gpus", "ended_at", "execution")
    )
    # Only infrastructure has incidents; whatever else ended an attempt happened once. Numbers, since those are quick.
    incident = pl.when(INFRASTRUCTURE).then("incident").rank("dense").cast(pl.Int64)
    return Histories(
        ran,
        ended.select(
            "execution", "gpus", "class", "cause", "state", "ended_at",
            once=pl.coalesce(-incident, pl.col("execution").cast(pl.Int64)),
        ),
    )  # fmt: skip


def _of_jobs(interruptions: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Interruptions with the job that people see: of a heterogeneous job's component, the whole job."""
    key = list(frames.ATTEMPT_KEY)
    components = attempts.filter(pl.col("het_job_id").is_not_null()).select(*key, job="het_job_id")
    if components.is_empty():
        return interruptions.with_columns(job="job_id")
    with_job = interruptions.join(components, on=key, how="left")
    return with_job.with_columns(pl.coalesce("job", "job_id").alias("job"))


def executed(attempts: pl.DataFrame) -> pl.DataFrame:
    """Attempts that held GPUs, as the jobs that people see: components of a heterogeneous job are one.

    Those whose GPUs are unknown are left out, and so are their failures: both sides of a rate are of the others. Of a
    heterogeneous job one component's unknown GPUs make the whole's unknown.

    Args:
        attempts: of `frames.ATTEMPTS` the key, `het_job_id`, `started_at`, `ended_at`, `suspended_s`, `n_nodes`,
            `milli_gpus`, and `state`, `user` and `partition` where they are at hand.

    Returns:
        One row per execution: `execution` (its number here), `cluster`, `scheduler`, `job`, `submitted_at`, `gpus`,
        `nodes`, `started_at`, `ended_at` (null while it runs), `suspended_s`, and `state`, `user`, `partition`.
    """
    labels = [name for name in ("state", "user", "partition") if name in attempts.columns]
    held = attempts.filter(
        pl.col("milli_gpus").ne_missing(0) & (pl.col("n_nodes") > 0) & pl.col("started_at").is_not_null()
    ).select(
        *_EXECUTION[:2],
        pl.coalesce("het_job_id", "job_id").alias("job"),
        "submitted_at",
        pl.col("milli_gpus").cast(pl.Int64),
        pl.col("n_nodes").cast(pl.Float64).alias("nodes"),
        "started_at",
        "ended_at",
        "suspended_s",
        *labels,
        _het=pl.col("het_job_id").is_not_null(),
    )
    jobs = held.filter("_het").select(_EXECUTION).unique()
    if jobs.height:
        held = pl.concat(
            [held.join(jobs, on=list(_EXECUTION), how="anti", maintain_order="left"), _joined_components(held, jobs)]
        )
    sized = held.drop("_het").drop_nulls("milli_gpus")
    return sized.with_columns(gpus=pl.col("milli_gpus") / 1000).drop("milli_gpus").with_row_index("execution")


def _joined_components(held: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Heterogeneous jobs in one row each."""
    over = pl.col("ended_at").is_null().any()
    sums = [total("milli_gpus"), pl.col("nodes").sum(), pl.col("suspended_s").max()]
    times = [pl.col("started_at").min(), pl.when(over).then(None).otherwise(pl.col("ended_at").max()).alias("ended_at")]
    sizes = (
        held.join(jobs, on=list(_EXECUTION), how="semi", maintain_order="left")
        .group_by(_EXECUTION, maintain_order=True)
        .agg(*sums, *times, pl.exclude("milli_gpus", "nodes", "suspended_s", "started_at", "ended_at").first())
    )
    return sizes.select(held.columns)


def exposure(ran: pl.DataFrame, since: datetime, until: datetime) -> pl.DataFrame:
    """Executions that ran within the window, with how long they did.

    Suspended time is no exposure; like in the ledger it is taken to lie at the attempt's end. Of an attempt that still
    runs, the end is unknown, so its suspended time counts until it has one.

    Returns:
        The rows of `ran` with `from_at` and `to_at` (within the window) and `run_s` (> 0).
    """
    low, high = frames.instant(since), frames.instant(until)
    suspended = pl.duration(microseconds=pl.col("suspended_s").fill_null(0) * 1_000_000)
    ended = pl.min_horizontal(pl.coalesce(pl.col("ended_at") - suspended, high), high)
    overlaps = (pl.col("started_at") < high) & (pl.col("ended_at").is_null() | (pl.col("ended_at") > low))
    return (
        ran.filter(overlaps)
        .with_columns(from_at=pl.max_horizontal("started_at", low), to_at=ended)
        .with_columns(run_s=frames.seconds(pl.col("to_at") - pl.col("from_at")))
        .filter(pl.col("run_s") > 0)
    )


# --- what was at risk --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Risk:
    """Exposure in a window by distinct job size, smallest first.

    Attributes:
        gpus: the sizes.
        n_attempts: executions that ran, by size.
        gpu_days: GPU-days run, by size.
        node_days: node-days run, by size.
        job_days: days run, by size.
        daily: GPU-days by size (rows) and UTC day (columns).
        exposed: of every execution, whether it ran in the window.
        first_day_us: where the first of the days begins, in microseconds since 1970.
    """

    gpus: FloatArray
    n_attempts: FloatArray
    gpu_days: FloatArray
    node_days: FloatArray
    job_days: FloatArray
    daily: FloatArray
    exposed: npt.NDArray[np.bool_]
    first_day_us: int

    def rows(self, size: SizeRange) -> slice:
        """The distinct sizes that a range holds."""
        low, high = np.searchsorted(self.gpus, [size.low, size.high], side="right")
        return slice(int(low), int(high))

    def days_of(self, size: SizeRange) -> FloatArray:
        """GPU-days by day of a range of sizes; exactly zero on days when none ran."""
        return np.asarray(self.daily[self.rows(size)].sum(axis=0))


def risk_in(past: Histories, since: datetime, until: datetime) -> Risk:
    """Exposure in a window; computed once for a history."""
    if (since, until) not in past.risks:
        past.risks[since, until] = _risk_in(past, since, until)
    return past.risks[since, until]


def _risk_in(past: Histories, since: datetime, until: datetime) -> Risk:
    exposed = exposure(past.ran, since, until)
    ran_s = pl.col("run_s")
    sums = (
        exposed.group_by("gpus", maintain_order=True)
        .agg(
            n_attempts=pl.len().cast(pl.Float64),
            gpu_days=exact_sum(ran_s * pl.col("gpus")) / DAY_S,
            node_days=exact_sum(ran_s * pl.col("nodes")) / DAY_S,
            job_days=exact_sum(ran_s) / DAY_S,
        )
        .sort("gpus")
    )
    first, last = (pl.Series([moment], dtype=frames.TIME).to_physical()[0] for moment in (since, until))
    first_day_us = first // DAY_US * DAY_US
    n_days = max(1, -(-(last - first_day_us) // DAY_US))
    gpus = sums["gpus"].to_numpy()
    at_risk = np.zeros(_numbered(past.ran), dtype=bool)
    at_risk[exposed["execution"].to_numpy()] = True
    return Risk(
        gpus=gpus,
        n_attempts=sums["n_attempts"].to_numpy(),
        gpu_days=sums["gpu_days"].to_numpy(),
        node_days=sums["node_days"].to_numpy(),
        job_days=sums["job_days"].to_numpy(),
        daily=_daily(exposed, gpus, first_day_us, n_days),
        exposed=at_risk,
        first_day_us=first_day_us,
    )


def _numbered(ran: pl.DataFrame) -> int:
    """One more than the largest number of an execution; some of the cluster's may have been left out."""
    last = ran["execution"].max()
    return last + 1 if isinstance(last, int) else 0


def _daily(exposed: pl.DataFrame, gpus: FloatArray, first_day_us: int, n_days: int) -> FloatArray:
    """GPU-days by distinct size and day.

    The time after a moment on day i is the rest of that day and all of those after it; an attempt's time is what lies
    after its start less what lies after its end. So two sums per day, and one running sum over days, in whole
    microseconds: the same in any order of rows.
    """
    shape = (len(gpus), n_days)
    code = np.searchsorted(gpus, exposed["gpus"].to_numpy())
    total_us, running = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for name, sign in (("from_at", 1), ("to_at", -1)):
        day, since_us = day_of(exposed[name], first_day_us, ending=name == "to_at")
        cell = code * n_days + day
        today_us = np.zeros(total_us.size, dtype=np.int64)
        np.add.at(today_us, cell, DAY_US - since_us)
        began = np.bincount(cell, minlength=total_us.size).reshape(shape)
        total_us += sign * (today_us.reshape(shape) + (np.cumsum(began, axis=1) - began) * DAY_US)
        running += sign * np.cumsum(began, axis=1)
        if sign < 0:
            running += began  # what ends on a day ran on it
    return np.where(running > 0, total_us / DAY_US * gpus[:, None], 0.0)


def day_of(
    moments: pl.Series, first_day_us: int, *, ending: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number of the day and microseconds of it; what ends at midnight ends with the day before."""
    since = moments.to_physical().to_numpy() - first_day_us
    day = -(-since // DAY_US) - 1 if ending else since // DAY_US
    return day, since - day * DAY_US
