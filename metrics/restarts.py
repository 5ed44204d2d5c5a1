"""How long runs take to get going again: from the end of an interrupted attempt to the start of the next.

The headline "about 90 s to job restart" has no published definition. What accounting can always measure is t2 to t4:
End of the interrupted attempt to Start of the next, made of Slurm's own hold after a requeue (t2 to t3, Eligible) and
waiting for nodes (t3 to t4). Detection before it, and loading and catching up after it, need logs.
"""

from __future__ import annotations

import math

import polars as pl

from metrics import frames, statistics
from metrics.runs import by_id, executions


def restarts(attempts: pl.DataFrame, joined: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interruption that a next attempt of the same run followed, or is waiting to follow.

    Interruptions after which a run simply ended are no restarts. `restarted_at` and the times after it are null
    while the next attempt waits (the observation is censored, not zero); so is `time_to_requeue_s` while it is held.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        interruptions: `frames.INTERRUPTIONS`.

    Returns:
        `frames.RESTARTS`; seconds.
    """
    following = executions(attempts, joined).select(
        "cluster",
        "run_id",
        (pl.col("attempt_no") - 1).alias("attempt_no"),
        pl.col("eligible_at").alias("next_eligible_at"),
        pl.col("started_at").alias("restarted_at"),
        (pl.col("ended_at").is_not_null() & pl.col("started_at").is_null()).alias("given_up"),
    )
    leaders = interruptions.sort(by_id()).unique(["cluster", "run_id", "attempt_no"], keep="first")
    found = leaders.join(following, on=["cluster", "run_id", "attempt_no"]).filter(~pl.col("given_up"))
    eligible = pl.col("next_eligible_at")
    held_until = pl.when(eligible.is_not_null()).then(pl.max_horizontal(eligible, "ended_at"))
    return frames.conform(
        found.with_columns(
            in_allocation=pl.lit(value=False),
            interrupted_at=pl.col("ended_at"),
            eligible_at=pl.col("next_eligible_at"),
            time_to_requeue_s=frames.seconds(held_until - pl.col("ended_at")),
            queue_s=frames.seconds(pl.col("restarted_at") - held_until),
            time_to_job_restart_s=frames.seconds(pl.col("restarted_at") - pl.col("ended_at")),
        ),
        frames.RESTARTS,
    ).sort("cluster", "interrupted_at", "job_id")


def restart_summary(restarted: pl.DataFrame) -> pl.DataFrame:
    """Median, 90th percentile and mean of the time to job restart, per class and cause, and over all of a class.

    The mean is shown beside the median because restart times are skewed: published medians of minutes go with means
    of more than half an hour. Restarts that still wait are counted, and are in no statistic.

    Args:
        restarted: `frames.RESTARTS` of one cluster.

    Returns:
        `class`, `cause` ("all" for the class's total), `n`, `n_waiting`, `median_s`, `median_low_s`, `median_high_s`
        (95 %, order statistics; null where there are too few), `p90_s`, `mean_s`, `hold_median_s`, `queue_median_s`.
    """
    total = restarted.with_columns(cause=pl.lit("all"))
    groups = pl.concat([total, restarted]).partition_by("class", "cause", as_dict=True, maintain_order=True)
    found = [{"class": key[0], "cause": key[1]} | _summary(group) for key, group in groups.items()]
    return pl.DataFrame(found, schema=_SUMMARY).sort(
        "class", pl.col("cause") != "all", "n", "cause", descending=[False, False, True, False]
    )


_SUMMARY: frames.Schema = {
    "class": frames.TEXT,
    "cause": frames.TEXT,
    "n": frames.COUNT,
    "n_waiting": frames.COUNT,
    "median_s": frames.NUMBER,
    "median_low_s": frames.NUMBER,
    "median_high_s": frames.NUMBER,
    "p90_s": frames.NUMBER,
    "mean_s": frames.NUMBER,
    "hold_median_s": frames.NUMBER,
    "queue_median_s": frames.NUMBER,
}


def _summary(group: pl.DataFrame) -> dict[str, object]:
    done = group.filter(pl.col("time_to_job_restart_s").is_not_null())
    times = done["time_to_job_restart_s"]
    interval = statistics.quantile_interval(times.to_numpy())
    return {
        "n": done.height,
        "n_waiting": group.height - done.height,
        "median_s": times.median(),
        "median_low_s": interval.low if math.isfinite(interval.low) else None,
        "median_high_s": interval.high if math.isfinite(interval.high) else None,
        "p90_s": times.quantile(0.9, "linear"),
        "mean_s": times.mean(),
        "hold_median_s": done["time_to_requeue_s"].median(),
        "queue_median_s": done["queue_s"].median(),
    }
