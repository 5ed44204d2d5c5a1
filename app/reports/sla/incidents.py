"""Interruptions by infrastructure and failure rates in the SLA report."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import polars as pl

from app.results.failures.failure_rates import failure_rate_rows, published_rows
from app.results.failures.interruptions import interruption_costs, restart_rows
from app.times import iso

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader


INCIDENTS_SHOWN = 40
"""Interruptions that are listed; the others are counted."""


def incidents(source: Reader, window: Window) -> dict[str, Any]:
    """Interruptions by infrastructure, those of most GPUs first."""
    period = window.parameters
    everything = source.query("interruptions", **period)
    which = ["run_id", "attempt_no"]
    restarted = restart_rows(source, window).select(*which, "restarted_at", "time_to_job_restart_s")
    costs = interruption_costs(source, window, "infrastructure").select(*which, "cost_gpu_s")
    people = source.query("runs", **period).select("run_id", "user", "account")
    interrupted = (
        everything.filter(pl.col("class") == "infrastructure")
        .join(restarted, on=which, how="left")
        .join(costs, on=which, how="left")
        .join(people, on="run_id", how="left")
        .sort("n_gpus", "ended_at", "job_id", "submitted_at", descending=[True, False, False, False], nulls_last=True)
    )
    classes = Counter(everything["class"])
    rest = interrupted.slice(INCIDENTS_SHOWN)
    return {
        "n": interrupted.height,
        "n_incidents": interrupted["incident"].n_unique() if interrupted.height else 0,
        "cost_gpu_hours": math.fsum(interrupted["cost_gpu_s"].drop_nulls()) / 3600,
        "n_without_cost": interrupted["cost_gpu_s"].null_count(),
        "shown": [_incident(row) for row in interrupted.head(INCIDENTS_SHOWN).iter_rows(named=True)],
        "not_shown": {"n": rest.height, "gpus": float(rest["n_gpus"].sum() or 0)},
        "by_cause": dict(sorted(Counter(interrupted["cause"]).items(), key=lambda each: (-each[1], each[0]))),
        "interruptions_by_class": dict(sorted(classes.items(), key=lambda each: (-each[1], each[0]))),
    }


def _incident(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "ended_at": iso(row["ended_at"]),
        "run_id": row["run_id"],
        "attempt_no": row["attempt_no"],
        "user": row["user"],
        "account": row["account"],
        "state": row["state"],
        "cause": row["cause"],
        "node": row["node"],
        "n_gpus": None if row["n_gpus"] is None else float(row["n_gpus"]),
        "runtime_s": row["runtime_s"],
        "incident": row["incident"],
        "evidence": row["evidence"],
        "detail": row["detail"],
        "restarted_at": None if row["restarted_at"] is None else iso(row["restarted_at"]),
        "time_to_job_restart_s": row["time_to_job_restart_s"],
        "cost_gpu_hours": None if row["cost_gpu_s"] is None else row["cost_gpu_s"] / 3600,
    }


_RATE = ("class", "counted", "size", "n_failures", "n_attempts", "n_censored", "exposure_gpu_days",
         "rate_per_gpu_day", "phi", "phi_p", "rate_low", "rate_high", "mttf_d", "mttf_low_d", "mttf_high_d",
         "note")  # fmt: skip


def failure_rates(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Failures per GPU-day and MTTF, with exact 95 % intervals, by class and size."""
    rates = failure_rate_rows(source, window).filter((pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0))
    return rates.select(_RATE).to_dicts()


_PUBLISHED = ("reference", "like_with_like", "class", "size", "n_failures", "exposure_gpu_days", "rate_per_gpu_day",
              "reference_failures", "reference_gpu_days", "reference_rate_per_gpu_day", "rate_ratio", "ci_low",
              "ci_high", "ci_method", "p_value", "note", "source")  # fmt: skip


def published_rates(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Our failure rates over what others published, each with its source; no other cluster of the warehouse."""
    return published_rows(source, window).select(_PUBLISHED).to_dicts()
