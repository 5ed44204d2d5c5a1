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

_RUN = ("cluster", "run_id", "attempt_no")


def restarts(attempts: pl.DataFrame, joined: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interruption that a next attempt of the same run followed, or is waiting to follow.

    Interruptions after which a run simply ended are no restarts. `restarted_at` and the times after it are null
    while the next attempt waits (the observation is censored, not zero); so is `time_to_requeue_s` while it is held.
    Restarts in place end no attempt, so they are none of these rows and `in_allocation` is false in every one; what
    they took has the cause `restart_in_place` in the ledger.

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
    found = once(interruptions).join(following, on=_RUN).filter(~pl.col("given_up"))
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


def once(interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interrupted attempt of a run: the components of a heterogeneous job are interrupted once, together.

    The component that stands for all is one that infrastructure ended, else one that was not cancelled (Slurm cancels
    the others of a failed one); of these one whose node is known, best by an event and not only because it had no
    other; then the leading one. GPUs and nodes are added up. The named query `interruptions` does the same.

    Args:
        interruptions: `frames.INTERRUPTIONS`.

    Returns:
        `frames.INTERRUPTIONS`.
    """
    rank = (
        pl.when(pl.col("class") == "infrastructure").then(0).when(pl.col("cause") == "cancelled").then(2).otherwise(1)
    )
    no_event = pl.col("detail").eq_missing(pl.format("state {}", "state"))
    return (
        interruptions.sort(rank, pl.col("node").is_null(), no_event, *by_id(), "submitted_at", nulls_last=True)
        .with_columns(pl.col("milli_gpus", "n_nodes").sum().over(_RUN))
        .unique(_RUN, keep="first", maintain_order=True)
    )


def with_log_times(
    restarted: pl.DataFrame,
    joined: pl.DataFrame,
    executed: pl.DataFrame,
    sessions: pl.DataFrame,
    events: pl.DataFrame,
) -> pl.DataFrame:
    """Add what only logs know: launch, load, warm-up, time to first step and to recovery.

    t0 is the end of the interrupted attempt's last step, t5 the first log line of the next attempt, t6 the end of its
    checkpoint load, t7 the end of its first step, and t8 the end of the step that the interrupted attempt had last
    finished (or of the one after it), when the run gets there again. What was not logged stays null. Of several
    programs that log in one job only the first counts: the steps of an evaluator are not the run's.

    Args:
        restarted: `frames.RESTARTS`.
        joined: `frames.RUN_ATTEMPTS`.
        executed: as `metrics.steplog.executions_of_steps` returns it.
        sessions: as `metrics.steplog.with_runs` returns it; only usable ones count.
        events: `frames.RUN_EVENTS`.

    Returns:
        `frames.RESTARTS`; seconds.

    Source: metric-definitions 4.3.
    """
    own = pl.col("stream") == ""
    executed, sessions = executed.filter(own), sessions.filter(own)
    facts = _attempt_facts(joined, executed, sessions, events)
    run = list(_RUN)
    broken = facts.select(*run, pl.col("last_end").alias("t0"), "last_step")
    following = facts.select(
        "cluster", "run_id", (pl.col("attempt_no") - 1).alias("attempt_no"), "t5", "t6", pl.col("first_end").alias("t7")
    )
    named = restarted.drop("launch_s", "load_s", "warm_up_s", "time_to_first_step_s", "time_to_recover_s")
    timed = named.join(broken, on=run, how="left").join(following, on=run, how="left")
    ready = pl.coalesce("t6", "t5")
    recovered = _recovered(timed.select(*run, "t0", "last_step"), executed)
    start = pl.col("restarted_at").dt.epoch("us")
    return frames.conform(
        timed.join(recovered, on=run, how="left").with_columns(
            launch_s=(pl.col("t5") - start) / 1e6,
            load_s=(pl.col("t6") - pl.col("t5")) / 1e6,
            warm_up_s=(pl.col("t7") - ready) / 1e6,
            time_to_first_step_s=(pl.col("t7") - pl.col("t0")) / 1e6,
            time_to_recover_s=(pl.col("t8") - pl.col("t0")) / 1e6,
        ),
        frames.RESTARTS,
    )


def _attempt_facts(
    joined: pl.DataFrame, executed: pl.DataFrame, sessions: pl.DataFrame, events: pl.DataFrame
) -> pl.DataFrame:
    """Per logged attempt of a run: first log line, end of the checkpoint load, first and last step's end (us)."""
    key = list(frames.ATTEMPT_KEY)
    usable = sessions.filter("usable")
    head = usable.group_by(key).agg(pl.col("started_at").min().dt.epoch("us").alias("t5"))
    steps = (
        executed.sort("begin")
        .group_by(key)
        .agg(
            pl.col("begin").first().alias("first_begin"),
            pl.col("end").first().alias("first_end"),
            pl.col("end").last().alias("last_end"),
            pl.col("step").last().alias("last_step"),
        )
    )
    loads = (
        events.filter((pl.col("kind") == "checkpoint_load") & pl.col("ended_at").is_not_null())
        .join(
            usable.select(
                "cluster", "run_id", "scheduler", "job_id", "submitted_at", _from="started_at", _to="ended_at"
            ),
            on=["cluster", "run_id", "scheduler", "job_id"],
        )
        .filter((pl.col("ts") >= pl.col("_from")) & (pl.col("ts") <= pl.col("_to")))
        .join(steps.select(*key, "first_begin"), on=key)
        .with_columns(t6=pl.col("ended_at").dt.epoch("us"))
        .filter(pl.col("t6") <= pl.col("first_begin"))
        .group_by(key)
        .agg(pl.col("t6").max())
    )
    found = head.join(steps, on=key, how="left").join(loads, on=key, how="left")
    return (
        joined.join(found, on=key)
        .sort("cluster", "run_id", "attempt_no", "t5")
        .unique(_RUN, keep="first", maintain_order=True)
    )


def _recovered(broken: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """When each interrupted run was back where it had been (`t8`): that step again, or the one after it."""
    run = list(_RUN)
    steps = executed.select("cluster", pl.col("run").alias("run_id"), "step", "end")
    again = pl.concat([steps, steps.with_columns(pl.col("step") - 1)])
    return (
        broken.drop_nulls(["t0", "last_step"])
        .join(again, left_on=["cluster", "run_id", "last_step"], right_on=["cluster", "run_id", "step"])
        .filter(pl.col("end") > pl.col("t0"))
        .group_by(run)
        .agg(pl.col("end").min().alias("t8"))
    )


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
