"""Use: GPU-time that users and accounts held, its trained, idle and lost parts, and how their attempts ended.

Numbers with definitions, about GPU-time and not about merit: who trains for long on many GPUs meets more failures of
hardware, which are given per GPU-day with their interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.metric import Metric
from metrics.statistics import rate_interval
from metrics.units import DAY_S
from metrics.waste.waste import CANCEL, COMPLETE, FAIL, OPEN, PREEMPT, ending

if TYPE_CHECKING:
    from datetime import datetime

UNKNOWN: Final = "(unknown)"


def use(
    flags: pl.DataFrame,
    interruptions: pl.DataFrame,
    dimension: str,
    *,
    since: datetime,
    until: datetime,
    of_all_gpu_s: float | None = None,
) -> pl.DataFrame:
    """Use of each user or account, and its reliability.

    Args:
        flags: attempts that held GPUs in the window, as `metrics.waste.waste.flagged` returns them.
        interruptions: `frames.INTERRUPTIONS` of the window.
        dimension: `user` or `account`.
        since: window from.
        until: window to.
        of_all_gpu_s: GPU-seconds that all held in the window, where `flags` may be those of some only.

    Returns:
        By `cluster` and `subject`, who held most first: `n_users` and `n_accounts` that are known (null: none is);
        `n_runs`, `n_attempts`; `gpu_s` and `share` of all that was allocated; `productive_s` and `productive_high_s`
        (all that was not seen counted so, too), `productive_share` and `productive_share_high`; `idle_s` and
        `idle_high_s` (standing still), `lost_s`; attempts that ended in the window, `n_ended`, and `n_completed`,
        `n_cancelled`, `n_failed`, `n_preempted` (or requeued) of them; `n_infrastructure` interruptions and `n_own` (of
        class user, without cancelled ones); `gpu_days`, `rate` of infrastructure interruptions per GPU-day with
        `rate_low` and `rate_high` (exact Poisson, 95 %).
    """
    key = list(frames.ATTEMPT_KEY)
    own = (pl.col("class") == "user") & (pl.col("cause") != "cancelled")
    classes = interruptions.group_by(key).agg(
        (pl.col("class") == "infrastructure").any().alias("_broken"), own.any().alias("_own")
    )
    ended = flags.with_columns(ending=pl.when(frames.ended_in(since, until)).then(ending("state")))
    rows = ended.join(classes, on=key, how="left").with_columns(
        subject=pl.col(dimension).fill_null(UNKNOWN), high=pl.col("productive_s") + pl.col("unseen_s")
    )
    held = exact_sum(pl.col("allocated_s"))

    def count(which: pl.Expr) -> pl.Expr:
        return which.fill_null(value=False).sum().cast(frames.COUNT)

    sums = rows.group_by("cluster", "subject").agg(
        _known("user").alias("n_users"),
        _known("account").alias("n_accounts"),
        pl.col("run_id").n_unique().cast(frames.COUNT).alias("n_runs"),
        pl.len().cast(frames.COUNT).alias("n_attempts"),
        held.alias("gpu_s"),
        exact_sum(pl.col("productive_s")).alias("productive_s"),
        exact_sum(pl.col("high")).alias("productive_high_s"),
        exact_sum(pl.col("idle")).alias("idle_s"),
        exact_sum(pl.col("idle_high")).alias("idle_high_s"),
        exact_sum(pl.col("lost_s")).alias("lost_s"),
        count(pl.col("ending") != OPEN).alias("n_ended"),
        count(pl.col("ending") == COMPLETE).alias("n_completed"),
        count(pl.col("ending") == CANCEL).alias("n_cancelled"),
        count(pl.col("ending") == FAIL).alias("n_failed"),
        count(pl.col("ending") == PREEMPT).alias("n_preempted"),
        count(pl.col("_broken")).alias("n_infrastructure"),
        count(pl.col("_own")).alias("n_own"),
    )
    gpu_s = pl.col("gpu_s")
    all_s = gpu_s.sum().over("cluster") if of_all_gpu_s is None else pl.lit(of_all_gpu_s, dtype=pl.Float64)
    shares = sums.with_columns(
        share=pl.when(all_s > 0).then(gpu_s / all_s),
        productive_share=pl.when(gpu_s > 0).then(pl.col("productive_s") / gpu_s),
        productive_share_high=pl.when(gpu_s > 0).then(pl.min_horizontal(pl.col("productive_high_s") / gpu_s, 1.0)),
        gpu_days=gpu_s / DAY_S,
    )
    return _rated(shares).sort("gpu_s", "subject", descending=[True, False])


def _known(name: str) -> pl.Expr:
    """How many different names there are; null where every one is unknown."""
    count = pl.col(name).drop_nulls().n_unique().cast(frames.COUNT)
    return pl.when(count > 0).then(count)


def _rated(rows: pl.DataFrame) -> pl.DataFrame:
    """With infrastructure interruptions per GPU-day and their interval; null where no GPU-time was held."""
    failures, exposure = (rows[name].to_numpy().astype(np.float64) for name in ("n_infrastructure", "gpu_days"))
    ran = exposure > 0
    low, high = rate_interval(failures, np.where(ran, exposure, 1.0))
    rate = failures / np.where(ran, exposure, 1.0)
    return rows.with_columns(
        pl.when(pl.Series(ran)).then(pl.Series(values)).alias(name)
        for name, values in (("rate", rate), ("rate_low", low), ("rate_high", high))
    )


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="interruptions_of_users",
        unit="1/gpu_d",
        summary="Infrastructure interruptions per GPU-day that a user or an account held.",
        formula="attempts that infrastructure interrupted in the window / GPU-days held in it",
        query="attempt_spending",
        function=use,
        interval="exact Poisson, 95 %",
        source="our definitions 7.1",
        show="people",
        better="lower",
    ),
)
