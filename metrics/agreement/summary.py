"""Disagreements of the two control planes in numbers, and the lags from cordon to drain and from repair to return."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.failures.survival import TIMES, times
from metrics.metric import Metric

SUMMARY: Final[frames.Schema] = {
    "subject": frames.TEXT,
    "n": frames.COUNT,
    "n_open": frames.COUNT,
    "n_slurm_wrong": frames.COUNT,
    "n_kubernetes_wrong": frames.COUNT,
    "median_s": frames.NUMBER,
    "p90_s": frames.NUMBER,
    "total_s": frames.NUMBER,
    "gpu_s": frames.NUMBER,
    "held_gpu_s": frames.NUMBER,
}
"""`total_s` counts what still lasts until both were last observed; `held_gpu_s` is null where some of it is unknown."""

LAGS: Final[frames.Schema] = {
    "lag": frames.TEXT,
    **TIMES,
    "longest_s": frames.NUMBER,
}

_FOLLOWED = pl.col("began_by") == "kubernetes", pl.col("ended_by").is_in(["slurm", "open"])
OF_LAG: Final = {
    "cordon to drain requested": ("cordoned", "ended_at"),
    "cordon to drained": ("cordoned", "settled_at"),
    "not ready to out of Slurm": ("not_ready", "ended_at"),
    "repair to return": ("out_of_slurm", "ended_at"),
}
"""Lags of Slurm behind Kubernetes: which kind of disagreement each is, and the column that ends it."""


def agreement_summary(intervals: pl.DataFrame, by: str) -> pl.DataFrame:
    """Disagreements by what they have in common.

    Args:
        intervals: `metrics.agreement.agreement.SYNC_INTERVALS`.
        by: its column to group by: kind, wrong, node or evidence. Lasting intervals are censored where last seen.

    Returns:
        `SUMMARY`, those that took most GPU-time first.
    """
    timed = intervals.with_columns(
        subject=pl.col(by).fill_null("unknown"),
        _still=pl.col("ended_by") == "open",
        _s=_seconds("ended_at"),
    )
    rows = [_row(str(key[0]), part) for key, part in timed.partition_by("subject", as_dict=True).items()]
    return pl.DataFrame(rows, schema=SUMMARY).sort("gpu_s", "subject", descending=[True, False])


def _row(subject: str, part: pl.DataFrame) -> dict[str, object]:
    took = _times(part)
    held = None if part["held_gpu_seconds"].has_nulls() else part.select(exact_sum(pl.col("held_gpu_seconds"))).item()
    return {
        "subject": subject,
        "n": took["n"],
        "n_open": took["n_open"],
        "n_slurm_wrong": (part["wrong"] == "slurm").sum(),
        "n_kubernetes_wrong": (part["wrong"] == "kubernetes").sum(),
        "median_s": took["median_s"],
        "p90_s": took["p90_s"],
        "total_s": part.select(exact_sum(pl.col("_s"))).item(),
        "gpu_s": part.select(exact_sum(pl.col("gpu_seconds"))).item(),
        "held_gpu_s": held,
    }


def sync_lags(intervals: pl.DataFrame) -> pl.DataFrame:
    """Time that Slurm took to follow Kubernetes, where Kubernetes changed first; those that still wait are censored.

    Args:
        intervals: `metrics.agreement.agreement.SYNC_INTERVALS`.

    Returns:
        `LAGS`, one row for each of `OF_LAG` that occurred.
    """
    first, after = _FOLLOWED
    rows = []
    for name, (kind, end) in OF_LAG.items():
        part = intervals.filter(first & after & (pl.col("kind") == kind))
        still = pl.col(end).is_null() | (pl.col("ended_by") == "open")
        timed = part.with_columns(_still=still, _s=_seconds(end))
        if timed.is_empty():
            continue
        rows.append({"lag": name, **_times(timed), "longest_s": timed["_s"].max()})
    return pl.DataFrame(rows, schema=LAGS)


def _seconds(end: str) -> pl.Expr:
    return (pl.coalesce(end, "ended_at") - pl.col("started_at")).dt.total_microseconds().clip(lower_bound=0) / 1e6


def _times(part: pl.DataFrame) -> dict[str, float | None]:
    return times(part["_s"].to_numpy().astype(np.float64), part["_still"].to_numpy())


METRICS = (
    Metric(
        name="disagreement",
        unit="gpu_s",
        title="Disagreement of Slurm and Kubernetes",
        show="agreement",
        better="lower",
        summary="GPU-time in which Slurm and Kubernetes had a node in different states.",
        formula="GPUs of the node x length of the interval, over intervals; an overlay, never added to the ledger",
        query="sync_intervals_in",
        function=agreement_summary,
        interval="none: a census of what both sides recorded",
        source="our definition: metrics.agreement.agreement",
    ),
    Metric(
        name="sync_lag",
        unit="s",
        title="Lag of Slurm behind Kubernetes",
        show="agreement",
        better="lower",
        summary="From a cordon to the drain, and from the repair to the return.",
        formula="moment at which Slurm followed - moment at which Kubernetes changed; median and p90 (Kaplan-Meier)",
        query="sync_intervals_in",
        function=sync_lags,
        interval="Brookmeyer and Crowley, 95 %",
        source="our definition: metrics.agreement.agreement",
    ),
)
