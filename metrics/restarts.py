"""How long runs take to get going again: from the end of an interrupted attempt to the start of the next.

The headline "about 90 s to job restart" has no published definition. What accounting can always measure is t2 to t4:
End of the interrupted attempt to Start of the next, made of Slurm's own hold after a requeue (t2 to t3, Eligible) and
waiting for nodes (t3 to t4). Detection before it, and loading and catching up after it, need logs.
"""

from __future__ import annotations

import polars as pl

from metrics import frames
from metrics.runs import executions


def restarts(attempts: pl.DataFrame, joined: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interruption that a next attempt of the same run followed, or is waiting to follow.

    Interruptions after which a run simply ended are no restarts. `restarted_at` and the times after it are null
    while the next attempt waits (the observation is censored, not zero).

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
    leaders = interruptions.sort("job_id").unique(["cluster", "run_id", "attempt_no"], keep="first")
    found = leaders.join(following, on=["cluster", "run_id", "attempt_no"]).filter(~pl.col("given_up"))
    held_until = pl.max_horizontal("next_eligible_at", "ended_at")
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
