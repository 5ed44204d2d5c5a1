"""Restart time of runs: from the end of an interrupted attempt to the start of the next.

The headline "about 90 s to job restart" has no published definition. Accounting can always measure t2 to t4:
End of the interrupted attempt to Start of the next, made of Slurm's own hold after a requeue (t2 to t3, Eligible) and
waiting for nodes (t3 to t4). Detection before it, and loading and catching up after it: `metrics.restarts.stages`.
"""

from __future__ import annotations

import math

import polars as pl

from metrics import frames, sample_statistics, unknown
from metrics.metric import Claimable, Metric
from metrics.runs.runs import by_id, executions

_RUN = ("cluster", "run_id", "attempt_no")


def restarts(attempts: pl.DataFrame, joined: pl.DataFrame, interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interruption that a next attempt of the same run followed, or is waiting to follow.

    Interruptions after which a run simply ended are no restarts. `restarted_at` and the times after it are null
    while the next attempt waits (the observation is censored, not zero); so is `time_to_requeue_s` while it is held.
    Restarts in place end no attempt, so they are none of these rows and `in_allocation` is false in every one: see
    `metrics.restarts.stages.in_place_restarts`.

    Args:
        attempts: `frames.ATTEMPTS`.
        joined: `frames.RUN_ATTEMPTS`.
        interruptions: `frames.INTERRUPTIONS`.

    Returns:
        `frames.RESTARTS`; seconds.
    """
    broken = once(interruptions)
    after = broken.select("cluster", "run_id", pl.col("attempt_no") + 1)
    following = executions(attempts, joined.join(after, on=_RUN, how="semi")).select(
        "cluster",
        "run_id",
        (pl.col("attempt_no") - 1).alias("attempt_no"),
        pl.col("eligible_at").alias("next_eligible_at"),
        pl.col("started_at").alias("restarted_at"),
        (pl.col("ended_at").is_not_null() & pl.col("started_at").is_null()).alias("never_started"),
    )
    pairs = broken.join(following, on=_RUN).filter(~pl.col("never_started"))
    eligible = pl.col("next_eligible_at")
    held_until = pl.when(eligible.is_not_null()).then(pl.max_horizontal(eligible, "ended_at"))
    return frames.conform(
        pairs.with_columns(
            in_allocation=pl.lit(value=False),
            interrupted_at=pl.col("ended_at"),
            eligible_at=pl.col("next_eligible_at"),
            time_to_requeue_s=frames.seconds(held_until - pl.col("ended_at")),
            queue_s=frames.seconds(pl.col("restarted_at") - held_until),
            # Attempts that a person joined may turn out to overlap once late rows come: that is no time to restart.
            time_to_job_restart_s=frames.seconds(
                pl.when(pl.col("restarted_at") >= pl.col("ended_at")).then(pl.col("restarted_at") - pl.col("ended_at"))
            ),
        ),
        frames.RESTARTS,
    ).sort("cluster", "interrupted_at", "job_id")


def once(interruptions: pl.DataFrame) -> pl.DataFrame:
    """One row per interrupted attempt of a run: the components of a heterogeneous job are interrupted once, together.

    The component that represents all is one that infrastructure ended, else one that was not cancelled (Slurm cancels
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
        .with_columns(unknown.total("milli_gpus").over(_RUN), pl.col("n_nodes").sum().over(_RUN))
        .unique(_RUN, keep="first", maintain_order=True)
    )


STAGES = (
    ("time_to_detect_s", "detect"),
    ("time_to_terminate_s", "terminate"),
    ("time_to_requeue_s", "requeue hold"),
    ("queue_s", "queue"),
    ("time_to_job_restart_s", "job restart"),
    ("launch_s", "launch"),
    ("load_s", "load"),
    ("warm_up_s", "warm-up"),
    ("time_to_first_step_s", "first step"),
    ("time_to_recover_s", "recover"),
)
"""Columns of `frames.RESTARTS` and what each is called; those of sums follow their parts."""


def restart_stages(restarted: pl.DataFrame) -> pl.DataFrame:
    """Every stage of restarts that is known, per class and cause, and over all of a class.

    Restarts within an allocation are never mixed with the others. Each stage is known of other restarts than the next
    (some only logs record, some only accounting), so each has its own `n`, and medians do not add up.

    Args:
        restarted: `frames.RESTARTS` of one cluster.

    Returns:
        `in_allocation`, `class`, `cause` ("all" for the class's total), `stage`, `n` (restarts of which it is known),
        `n_restarts`, `median_s`, `median_low_s`, `median_high_s` (95 %, order statistics; null where there are too
        few), `p90_s`, `mean_s`. Stages without data have no row.
    """
    rows = [
        key | {"stage": name, "n": values.len(), "n_restarts": group.height} | _statistics(values)
        for key, group in _groups(restarted)
        for column, name in STAGES
        if (values := group[column].drop_nulls()).len()
    ]
    return pl.DataFrame(rows, schema=_STAGES)


def restart_summary(restarted: pl.DataFrame) -> pl.DataFrame:
    """Median, 90th percentile and mean of the time to job restart, per class and cause, and over all of a class.

    The mean is shown beside the median because restart times are skewed: published medians of minutes go with means
    of more than half an hour. Restarts that still wait are counted, and are in no statistic. Restarts within an
    allocation are never mixed with the others.

    Args:
        restarted: `frames.RESTARTS` of one cluster.

    Returns:
        `in_allocation`, `class`, `cause` ("all" for the class's total), `n`, `n_waiting`, `median_s`, `median_low_s`,
        `median_high_s` (95 %, order statistics; null where there are too few), `p90_s`, `mean_s`, and medians of parts
        and wholes where they are known: `hold_median_s`, `queue_median_s`, `detect_median_s`, `first_step_median_s`,
        `recover_median_s`.
    """
    rows = [key | _summary(group) for key, group in _groups(restarted)]
    return pl.DataFrame(rows, schema=_SUMMARY)


def _groups(restarted: pl.DataFrame) -> list[tuple[dict[str, object], pl.DataFrame]]:
    """Restarts by class and by cause: the total of a class before its causes, those of most restarts first."""
    classed = restarted.with_columns(pl.col("in_allocation").fill_null(value=False))
    total = classed.with_columns(cause=pl.lit("all"))
    names = ["in_allocation", "class", "cause"]
    parts = pl.concat([total, classed]).partition_by(names, as_dict=True, maintain_order=True)

    def order(key: tuple[object, ...]) -> tuple[object, ...]:
        done = parts[key]["time_to_job_restart_s"].count()
        return (key[0], key[1], key[2] != "all", -done, key[2])

    return [(dict(zip(names, key, strict=True)), parts[key]) for key in sorted(parts, key=order)]


_KEYS: frames.Schema = {"in_allocation": frames.FLAG, "class": frames.TEXT, "cause": frames.TEXT}
_STATISTICS: frames.Schema = {
    "median_s": frames.NUMBER,
    "median_low_s": frames.NUMBER,
    "median_high_s": frames.NUMBER,
    "p90_s": frames.NUMBER,
    "mean_s": frames.NUMBER,
}
_MEDIANS = {
    "hold_median_s": "time_to_requeue_s",
    "queue_median_s": "queue_s",
    "detect_median_s": "time_to_detect_s",
    "first_step_median_s": "time_to_first_step_s",
    "recover_median_s": "time_to_recover_s",
}
_STAGES: frames.Schema = _KEYS | {"stage": frames.TEXT, "n": frames.COUNT, "n_restarts": frames.COUNT} | _STATISTICS
_SUMMARY: frames.Schema = (
    _KEYS | {"n": frames.COUNT, "n_waiting": frames.COUNT} | _STATISTICS | dict.fromkeys(_MEDIANS, frames.NUMBER)
)


def _summary(group: pl.DataFrame) -> dict[str, object]:
    done = group.filter(pl.col("time_to_job_restart_s").is_not_null())
    medians = {name: done[column].median() for name, column in _MEDIANS.items()}
    counts = {"n": done.height, "n_waiting": group.height - done.height}
    return counts | _statistics(done["time_to_job_restart_s"]) | medians


def _statistics(times: pl.Series) -> dict[str, object]:
    interval = sample_statistics.quantile_interval(times.to_numpy())
    return {
        "median_s": times.median(),
        "median_low_s": interval.low if math.isfinite(interval.low) else None,
        "median_high_s": interval.high if math.isfinite(interval.high) else None,
        "p90_s": times.quantile(0.9, "linear"),
        "mean_s": times.mean(),
    }


# Published metrics --------------------------------------------------------------------------------------------------

_MEDIAN = "order statistics of the median, at least 95 %"


def _stage(name: str, summary: str, formula: str) -> Metric:
    """A stage of a restart: each has the statistics that `time_to_job_restart` has, over the restarts that have it."""
    return Metric(
        name=name,
        unit="s",
        summary=summary,
        formula=f"{formula}; median, p90 and mean of the restarts of which it is known",
        query="restarts",
        function=restart_stages,
        interval=_MEDIAN,
        source="our definitions 4.3",
    )


METRICS = (
    Metric(
        name="time_to_job_restart",
        unit="s",
        claim=Claimable("restart_median", of="attempts", categories=False),
        title="Time to job restart (median)",
        show="restarts",
        better="lower",
        judged=True,
        headline=5,
        summary="From the end of an interrupted attempt to the start of the next one of the run.",
        formula="Start of the next attempt - End of the interrupted one (t2 to t4); median, p90 and mean",
        query="restarts",
        function=restart_summary,
        interval=_MEDIAN,
        source="our definitions 4.3 (the headline 'about 90 s' has no published definition)",
    ),
    _stage(
        "time_to_detect",
        "From the last good step to the first sign of the failure.",
        "first health event, node state, NCCL watchdog or end of the job - end of the last good step (t0 to t1)",
    ),
    _stage("time_to_terminate", "From the first sign of the failure to the end of the attempt.", "t1 to t2"),
    _stage("time_to_requeue", "Slurm's own hold after a requeue.", "next attempt eligible - End (t2 to t3)"),
    _stage("restart_queue", "Waiting for nodes after an interruption.", "Start - eligible (t3 to t4)"),
    _stage("restart_launch", "From the next attempt's start to its first log line.", "t4 to t5"),
    _stage("restart_load", "From the first log line to the end of the checkpoint load.", "t5 to t6"),
    _stage("restart_warm_up", "From the loaded checkpoint (or first log line) to the first step.", "t6 to t7"),
    _stage("time_to_first_step", "From the last good step to the first one after the restart.", "t0 to t7"),
    _stage("time_to_recover", "From the last good step until the run is where it had been.", "t0 to t8, catch-up too"),
)
