"""Failure rates of the SLA report as texts: our own, and beside published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.formatting import display, measured
from app.results.failures.rate_words import CLASSES, META, PER_GPU, SIZES

if TYPE_CHECKING:
    from app.reports.sla.document import Document

RATES_HEADER: Final = ("Class", "GPUs", "Failures", "Attempts", "GPU-days", "Per 1,000 GPU-days", "95 % interval",
                       "MTTF")  # fmt: skip
RATES_NOTE: Final = (
    "Exposure counts every attempt, also those still running or ended by their owners. MTTF of a size is of one job of "
    "that size; in a row “per GPU” it is of one GPU. Unplanned: infrastructure and failures of the users' own. "
    f"{META} Intervals: exact Poisson, 95 %. The JSON form has the other sizes, too."
)
PUBLISHED_HEADER: Final = ("Published", "Per 1,000 GPU-days", "Here", "Failures here", "Ratio (95 %)",
                           "What differs")  # fmt: skip
PUBLISHED_NOTE: Final = (
    "A ratio above 1: more failures per GPU-day here than published. Where the published count differs in kind from "
    "this one, the ratio means little; the last column names the difference. Rates without a count are constants: "
    "the interval then is of this cluster's count alone."
)


def rate_rows(r: Document) -> list[list[str]]:
    """Our failure rates: pooled ones, and infrastructure's by size of job."""
    return [
        [f"{_class(each)}, {each['counted']}", PER_GPU.get(each["size"], each["size"]),
         display(each["n_failures"], "count"), display(each["n_attempts"], "count"),
         display(each["exposure_gpu_days"], "number"),
         _thousands(each["rate_per_gpu_day"]), _interval(each),
         "-" if each["mttf_d"] is None else measured(each["mttf_d"], "d", digits=2)]
        for each in r["failure_rates"]
        if each["size"] == "pooled" or (each["class"] == "infrastructure" and each["counted"] == "attempts")
    ]  # fmt: skip


def _class(rate: Document) -> str:
    return CLASSES.get(rate["class"], str(rate["class"]))


def _jobs(rate: Document) -> str:
    """Of which jobs a rate is."""
    return "jobs of all sizes" if rate["size"] in SIZES else f"jobs of {rate['size']} GPUs"


def _interval(rate: Document) -> str:
    high = None if rate["rate_high"] is None else rate["rate_high"] * 1000
    return f"{_thousands(rate['rate_low'])} to {display(high, 'number_or_open')}"


def _thousands(rate: float | None) -> str:
    return display(None if rate is None else rate * 1000, "number")


def published_rows(r: Document) -> list[list[str]]:
    """Our rates beside published ones."""
    return [
        [f"{each['reference']} ({each['source']})", _thousands(each["reference_rate_per_gpu_day"]),
         _thousands(each["rate_per_gpu_day"]), f"{_class(each)}, {_jobs(each)}: {each['n_failures']:,}",
         _ratio(each), f"{'' if each['like_with_like'] else 'not like with like: '}{each['note']}"]
        for each in r["published_rates"]
    ]  # fmt: skip


def _ratio(each: Document) -> str:
    if each["rate_ratio"] is None:
        return "cannot tell: no exposure"
    low, high = display(each["ci_low"], "number"), display(each["ci_high"], "number_or_open")
    return f"{display(each['rate_ratio'], 'number')} ({low} to {high})"
