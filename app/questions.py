"""The questions of `trackside show`: one function each, from a reader and a window to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from app import advice, results
from app.asked import split_by
from app.health_questions import health
from app.node_questions import filesystems, network
from app.node_reasons import last_reasons
from app.run_questions import ettr, mfu, runs
from app.showing import Answer, Question
from app.telemetry_questions import gpu_utilisation
from metrics.restarts import restart_summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.results import Window
    from queries.warehouse import Reader

LEDGER_DIMENSIONS = ("cluster", "day", "node", "user", "account", "partition", "run")


def goodput(source: Reader, window: Window, question: Question) -> Answer:
    """Goodput, occupancy and availability."""
    dimension = split_by(question.by, LEDGER_DIMENSIONS, "cluster")
    return Answer(
        "Goodput",
        results.goodput_rows(source, window, dimension),
        {
            "subject": (dimension, "text"),
            "metric": ("metric", "text"),
            "value": ("value", "ratio"),
            "bound_low": ("at least", "ratio"),
            "bound_high": ("at most", "ratio"),
            "numerator": ("numerator GPU-h", "gpu_h"),
            "denominator": ("denominator GPU-h", "gpu_h"),
            "note": ("note", "text"),
        },
        metrics=("goodput_allocated", "goodput_capacity", "occupancy", "availability"),
        queries=("ledger_sums", "inventoried"),
        notes=("at least / at most: all unseen time counted unproductive / productive. Accounting alone does not see "
               "what allocated GPUs did: add telemetry or a run log to narrow the bounds.",),
        parameters={"dimension": dimension},
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )  # fmt: skip


def mttf(source: Reader, window: Window, question: Question) -> Answer:
    """Failure rates and MTTF."""
    split_by(question.by, ("size",), "size")
    per_gpu = pl.col("size").is_in(["pooled", "over 128"])
    rows = results.failure_rate_rows(source, window, claimed_gpus=question.at_gpus).with_columns(
        numerator=pl.when(per_gpu).then("exposure_gpu_days").otherwise("exposure_job_days"),
        denominator=pl.col("n_failures"),
    )
    pooled = rows.filter(
        (pl.col("size") == "pooled") & (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts")
    ).row(0, named=True)
    return Answer(
        "MTTF by job size",
        rows,
        {
            "class": ("class", "text"),
            "counted": ("counted", "text"),
            "size": ("GPUs", "text"),
            "n_failures": ("failures", "count"),
            "n_attempts": ("attempts", "count"),
            "exposure_gpu_days": ("GPU-days", "number"),
            "rate_per_gpu_day": ("per GPU-day", "number"),
            "mttf_d": ("MTTF d", "number"),
            "mttf_low_d": ("95 % from", "number"),
            "mttf_high_d": ("to", "number_or_open"),
            "note": ("note", "text"),
        },
        metrics=("mttf",),
        queries=("attempts", "interruptions"),
        notes=(_scaled(pooled, question.at_gpus),),
        worth_showing=(pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0),
        parts={
            "metric": "class",
            "counted": "counted",
            "subject": "size",
            "value": "mttf_d",
            "numerator": "numerator",
            "denominator": "denominator",
            "n": "n_attempts",
            "ci_low": "mttf_low_d",
            "ci_high": "mttf_high_d",
        },
        when_empty="No attempt held GPUs in this window.",
    )


def _scaled(pooled: dict[str, Any], gpus: float) -> str:
    """The pooled estimate for a job of a given size, said with its assumption."""
    if not pooled["exposure_gpu_days"]:
        return "No exposure yet: no attempt held GPUs in this window."
    low = pooled["mttf_low_d"] / gpus
    high = "no upper limit" if pooled["mttf_high_d"] is None else f"{pooled['mttf_high_d'] / gpus:.4g} d"
    value = "no failure yet" if pooled["mttf_d"] is None else f"{pooled['mttf_d'] / gpus:.4g} d"
    return (
        f"At {gpus:g} GPUs, pooled over all sizes (assumes that the rate grows with the number of GPUs): MTTF {value}, "
        f"95 % interval {low:.4g} d to {high}."
    )


def restarts(source: Reader, window: Window, question: Question) -> Answer:
    """Time to job restart: summed up by class and cause, or each."""
    rows = results.restart_rows(source, window)
    if split_by(question.by, ("cause", "event"), "cause") == "event":
        return Answer(
            "Restarts",
            rows,
            {
                "run_id": ("run", "text"),
                "attempt_no": ("attempt", "count"),
                "class": ("class", "text"),
                "cause": ("cause", "text"),
                "n_gpus": ("GPUs", "count"),
                "interrupted_at": ("interrupted", "time"),
                "restarted_at": ("restarted", "time"),
                "time_to_requeue_s": ("Slurm's hold", "seconds"),
                "queue_s": ("queue", "seconds"),
                "time_to_job_restart_s": ("to restart", "seconds"),
            },
            ("time_to_job_restart",),
            ("restarts",),
            when_empty=_NO_RESTARTS,
        )
    return Answer(
        "Time to job restart (end of the interrupted attempt to start of the next)",
        restart_summary(rows),
        {
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "n": ("n", "count"),
            "n_waiting": ("waiting", "count"),
            "median_s": ("median", "seconds"),
            "median_low_s": ("95 % from", "seconds"),
            "median_high_s": ("to", "seconds"),
            "p90_s": ("p90", "seconds"),
            "mean_s": ("mean", "seconds"),
            "hold_median_s": ("Slurm's hold", "seconds"),
            "queue_median_s": ("queue", "seconds"),
        },
        ("time_to_job_restart",),
        ("restarts",),
        notes=_still_waiting(rows),
        when_empty=_NO_RESTARTS,
        parts={
            "metric": "class",
            "subject": "cause",
            "value": "median_s",
            "n": "n",
            "n_waiting": "n_waiting",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
        },
    )


def _still_waiting(rows: pl.DataFrame) -> tuple[str, ...]:
    """A sample that leaves out what has not ended yet flatters; say so."""
    waiting = rows["time_to_job_restart_s"].null_count()
    if not waiting:
        return ()
    return (f"{waiting} restart(s) still wait and are in no statistic, so the true times are longer.",)


_NO_RESTARTS = "No interrupted run was restarted in this window."


def lost(source: Reader, window: Window, question: Question) -> Answer:
    """Where all GPU-time went."""
    dimension = split_by(question.by, (*LEDGER_DIMENSIONS, "cause"), "cause")
    subject = "cluster" if dimension == "cause" else dimension
    rows = results.lost_rows(source, window, subject)
    guess = results.lost_imputed_rows(source, window).row(0, named=True)
    shown = {} if subject == "cluster" else {"subject": (subject, "text")}
    return Answer(
        "Where the GPU-time went",
        rows,
        shown
        | {
            "state": ("state", "text"),
            "category": ("category", "text"),
            "cause": ("cause", "text"),
            "evidence": ("evidence", "text"),
            "gpu_hours": ("GPU-h", "number"),
            "share": ("share", "ratio"),
        },
        metrics=("lost_imputed",),
        queries=("ledger_sums", "interruptions"),
        notes=(
            f"Assumed, beside the ledger: {guess['n']} infrastructure interruptions cost "
            f"{guess['value'] / 3600:,.2f} GPU-h if half an hourly checkpoint interval was lost each time.",
        ),
        parameters={"dimension": subject},
        parts={
            "metric": "state",
            "subject": "category",
            "cause": "cause",
            "evidence": "evidence",
            "numerator_gpu_s": "gpu_seconds",
            "value": "share",
        },
        when_empty="No GPU-time in this window: is it within what `trackside status` says is covered?",
    )


def interruptions(source: Reader, window: Window, question: Question) -> Answer:
    """Attempts that ended otherwise than by completing, the newest first, each with what it cost."""
    split_by(question.by, ("event",), "event")
    return Answer(
        "Interruptions, the newest first",
        results.priced_interruptions(source, window).drop("milli_gpus"),
        {
            "ended_at": ("ended", "time"),
            "run_id": ("run", "text"),
            "attempt_no": ("attempt", "count"),
            "state": ("state", "text"),
            "class": ("class", "text"),
            "cause": ("cause", "text"),
            "node": ("node", "text"),
            "n_gpus": ("GPUs", "count"),
            "runtime_s": ("ran", "seconds"),
            "cost_gpu_s": ("cost GPU-h", "gpu_h"),
            "detail": ("evidence", "text"),
        },
        queries=("interruptions", "interruption_costs"),
        notes=("cost: GPU-time that the attempt lost or stood still, and the startup of the one that followed.",),
        when_empty="No attempt ended otherwise than by completing in this window.",
    )


def nodes(source: Reader, window: Window, question: Question) -> Answer:
    """Nodes: GPUs, where their time went, the interruptions they are to blame for, and why they were last out."""
    split_by(question.by, ("node",), "node")
    sums = results.ledger_sums(source, window, "node")
    hours = pl.col("gpu_seconds").cast(pl.Float64) / 3600
    parts = sums.group_by("cluster", pl.col("subject").alias("node")).agg(
        hours.sum().alias("gpu_hours"),
        *(hours.filter(pl.col("state") == state).sum().alias(f"{state}_gpu_hours") for state in _STATES),
        hours.filter(pl.col("category") == "stalled").sum().alias("stalled_gpu_hours"),
    )
    blamed = results.node_failures(source, window)
    available = (
        results.goodput_rows(source, window, "node")
        .filter(pl.col("metric") == "availability")
        .select("cluster", pl.col("subject").alias("node"), pl.col("value").alias("availability"))
    )
    newest = (
        source.query("nodes", cluster=window.cluster)
        .sort("valid_from")
        .group_by("cluster", "node")
        .agg((pl.col("milli_gpus").last() / 1000).alias("n_gpus"), pl.col("gpu_model").last())
    )
    rows = (
        parts.join(newest, on=["cluster", "node"], how="left")
        .join(blamed, on=["cluster", "node"], how="left")
        .join(available, on=["cluster", "node"], how="left")
        .join(last_reasons(source, window), on=["cluster", "node"], how="left")
        .with_columns(
            cost_gpu_s=pl.when(pl.col("interruptions").is_null()).then(0.0).otherwise("cost_gpu_s"),
            interruptions=pl.col("interruptions").fill_null(0),
            unpriced=pl.col("unpriced").fill_null(0),
        )
        .sort(
            pl.col("cost_gpu_s").fill_null(0.0),
            "interruptions",
            "unavailable_gpu_hours",
            "node",
            descending=[True, True, True, False],
        )
    )
    return Answer(
        "Nodes, those that cost most first",
        rows,
        {
            "node": ("node", "text"),
            "gpu_model": ("model", "text"),
            "n_gpus": ("GPUs", "count"),
            "interruptions": ("interruptions", "count"),
            "cause": ("mostly", "text"),
            "cost_gpu_s": ("they cost GPU-h", "gpu_h"),
            "unpriced": ("cost not seen", "count"),
            "availability": ("availability", "ratio"),
            "gpu_hours": ("GPU-h", "number"),
            "allocated_gpu_hours": ("allocated", "number"),
            "idle_gpu_hours": ("idle", "number"),
            "unavailable_gpu_hours": ("unavailable", "number"),
            "stalled_gpu_hours": ("stalled", "number"),
            "last_reason": ("last out of service", "text"),
            "driven_by": ("by", "text"),
        },
        metrics=("availability",),
        queries=("ledger_sums", "interruption_costs", "nodes", "node_states"),
        notes=_to_do(blamed),
        parameters={"dimension": "node"},
        parts={
            "subject": "node",
            "value": "availability",
            "unavailable_gpu_h": "unavailable_gpu_hours",
            "denominator_gpu_h": "gpu_hours",
            "n": "interruptions",
        },
        when_empty="No node with GPUs in this window.",
    )


def _to_do(blamed: pl.DataFrame) -> tuple[str, ...]:
    found = advice.drain(blamed)
    return () if found is None else (found[0], f"  {found[1]}")


_STATES = ("allocated", "idle", "unavailable")

QUESTIONS: dict[str, Callable[[Reader, Window, Question], Answer]] = {
    "goodput": goodput,
    "ettr": ettr,
    "mttf": mttf,
    "mfu": mfu,
    "restarts": restarts,
    "lost": lost,
    "interruptions": interruptions,
    "runs": runs,
    "nodes": nodes,
    "utilisation": gpu_utilisation,
    "filesystems": filesystems,
    "network": network,
    "health": health,
}
