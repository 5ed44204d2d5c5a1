"""The question of `trackside show` about failure rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from app import results
from app.asked import split_by
from app.showing import Answer, Question

if TYPE_CHECKING:
    from app.results import Window
    from queries.warehouse import Reader


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
