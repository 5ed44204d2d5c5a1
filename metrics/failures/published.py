"""Published failure statistics of others: rates, counts and quoted points, each with its source.

A reference with a count is compared by an exact two-sample interval; one without is a constant, and only our own count
is uncertain. Whether it was defined as ours is stated with it: most were not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from metrics import statistics, theory
from metrics.metric import Metric
from metrics.statistics import Interval


@dataclass(frozen=True, kw_only=True)
class Reference:
    """A published failure rate.

    Attributes:
        name: short, for tables.
        gpu_days_per_failure: GPU-days between two failures.
        kind: class of our failures that comes nearest to what was counted.
        size: job size at which it was measured; None: a rate over sizes.
        large: whether our jobs over 128 GPUs are compared with it, instead of all.
        failures: events behind it; None where none were published.
        like_with_like: whether `kind` is the published definition.
        note: what is different, and what to think of it.
        source: where it was published.
    """

    name: str
    gpu_days_per_failure: float
    kind: str
    size: float | None
    failures: int | None
    like_with_like: bool
    note: str
    source: str
    large: bool = False

    @property
    def rate_per_gpu_day(self) -> float:
        """Failures per GPU-day."""
        return 1 / self.gpu_days_per_failure

    @property
    def exposure_gpu_days(self) -> float | None:
        """GPU-days behind the count, if it has one."""
        return None if self.failures is None else self.failures * self.gpu_days_per_failure


_META = "Kokolis et al., HPCA 2025, arXiv 2410.21680"
_FITTED = (
    "fitted rate of jobs over 128 GPUs: NODE_FAIL, or FAILED with a critical health check; the paper does not say "
    "whether a requeued attempt counts, ours does not"
)
_QUOTED = (
    "a quoted point, not the paper's own rate: that gives {fit} at this size, so the curve behind this point must "
    "count more as failures"
)

LLAMA_3_FAILURES, LLAMA_3_DAYS, LLAMA_3_GPUS = 419, 54.0, 16384

REFERENCES = (
    Reference(
        name="Meta RSC-1",
        gpu_days_per_failure=1 / theory.failures_per_gpu_day(6.50),
        kind="meta_rf",
        size=None,
        failures=None,
        like_with_like=True,
        note=f"6.50 per 1000 8-GPU node-days, 16k A100; {_FITTED}",
        source=f"{_META}, section III",
        large=True,
    ),
    Reference(
        name="Meta RSC-2",
        gpu_days_per_failure=1 / theory.failures_per_gpu_day(2.34),
        kind="meta_rf",
        size=None,
        failures=None,
        like_with_like=True,
        note=f"2.34 per 1000 8-GPU node-days, 8k A100; {_FITTED}",
        source=f"{_META}, section III",
        large=True,
    ),
    Reference(
        name="Llama 3 405B",
        gpu_days_per_failure=LLAMA_3_DAYS * LLAMA_3_GPUS / LLAMA_3_FAILURES,
        kind="unplanned",
        size=None,
        failures=LLAMA_3_FAILURES,
        like_with_like=False,
        note="419 unexpected interruptions in 54 d on 16,384 H100, software and host maintenance among them; one job "
        "of one size, ours are all of over 128 GPUs",
        source="Llama Team, arXiv 2407.21783, section 3.3.4, Table 5",
        large=True,
    ),
    Reference(
        name="CoreWeave benchmark",
        gpu_days_per_failure=3748.25,
        kind="infrastructure",
        size=None,
        failures=None,
        like_with_like=False,
        note="3,748.25 GPU-days per failure (the 3.66 d at 1024 GPUs); window, jobs, failure classes and count are not "
        "published. Its factor of 10 is against Meta's quoted 7.9 h; against Meta's fitted rates it is 3.05 (RSC-1) or "
        "1.10 (RSC-2)",
        source="CoreWeave Training Benchmarks, August 2025",
    ),
    Reference(
        name="Meta, 8 GPUs",
        gpu_days_per_failure=47.7 * 8,
        kind="unplanned",
        size=8.0,
        failures=None,
        like_with_like=False,
        note=f"47.7 d; {_QUOTED.format(fit='153.8 d (RSC-1)')}",
        source=f"{_META}, MTTF by job size",
    ),
    Reference(
        name="Meta, 1024 GPUs",
        gpu_days_per_failure=7.9 / 24 * 1024,
        kind="unplanned",
        size=1024.0,
        failures=None,
        like_with_like=False,
        note=f"7.9 h; {_QUOTED.format(fit='28.8 h (RSC-1) or 80.1 h (RSC-2)')}",
        source=f"{_META}, MTTF by job size",
    ),
)
"""The published figures that people hold a cluster against."""


@dataclass(frozen=True)
class Ratio:
    """Our failure rate over another: below 1, ours fails less often."""

    value: float
    low: float | None
    high: float | None
    method: str


def ratio_to_constant(failures: int, gpu_days: float, other_rate: float, *, phi: float = 1.0) -> Ratio | None:
    """Our rate over a published one without a count: our exact interval divided by the constant; None if no exposure.

    Llama 3's own count against Meta's RSC-2, 2.34 per 1000 8-GPU node-days:

    >>> ratio = ratio_to_constant(419, 54.0 * 16384, 2.34 / 8000)
    >>> round(ratio.value, 3), round(ratio.low, 3), round(ratio.high, 3)
    (1.619, 1.468, 1.782)
    """
    if not gpu_days > 0:
        return None
    interval = statistics.rate_interval(float(failures), gpu_days, phi=phi)
    return _ratio(
        failures / gpu_days / other_rate,
        Interval(interval.low / other_rate, interval.high / other_rate),
        "exact Poisson over a constant, 95 %",
    )


def ratio_to_count(
    failures: int, gpu_days: float, other_failures: int, other_gpu_days: float, *, phi: float = 1.0, both: bool = False
) -> Ratio | None:
    """Our rate over another with a known count: exact two-sample interval; None if either has no exposure.

    `phi` divides our count and exposure, and theirs, too, where both were looked at. Where the other had no failure,
    the ratio has no value that could be written down, and None is the answer.

    Half of Llama 3's failures in as much exposure:

    >>> ratio = ratio_to_count(210, 54.0 * 16384, 419, 54.0 * 16384)
    >>> round(ratio.value, 3), ratio.low < 0.5012 < ratio.high
    (0.501, True)
    """
    if not (gpu_days > 0 and other_gpu_days > 0 and other_failures > 0):
        return None
    theirs = phi if both else 1.0
    interval = statistics.rate_ratio_interval(
        failures / phi, gpu_days / phi, other_failures / theirs, other_gpu_days / theirs
    )
    value = (failures / gpu_days) / (other_failures / other_gpu_days)
    return _ratio(value, interval, "exact two-sample (Clopper-Pearson), 95 %")


def p_of_counts(
    failures: int, gpu_days: float, other_failures: int, other_gpu_days: float, *, phi: float = 1.0, both: bool = False
) -> float | None:
    """Exact two-sided p-value of our rate and one with a known count being one; None if either has no exposure.

    It is given also where the other had no failure, and the ratio has no value. Counts that are divided by `phi` are
    rounded to whole ones.

    >>> p_of_counts(10, 100.0, 10, 100.0)
    1.0
    """
    if not (gpu_days > 0 and other_gpu_days > 0):
        return None
    theirs = phi if both else 1.0
    return statistics.two_rates_p(
        round(failures / phi), gpu_days / phi, round(other_failures / theirs), other_gpu_days / theirs
    )


def _ratio(value: float, interval: Interval[float], method: str) -> Ratio:
    return Ratio(value, interval.low, None if math.isinf(interval.high) else interval.high, method)


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="failure_rate_ratio",
        unit="ratio",
        summary="Failure rate of the cluster over a published one, or over another cluster's.",
        formula="failures per GPU-day of the class / failures per GPU-day of the reference",
        query="exposures",
        function=ratio_to_count,
        interval=(
            "exact two-sample (Clopper-Pearson) where the reference has a count, else the exact Poisson interval over "
            "a "
            "constant; 95 %, with phi"
        ),
        source="our definitions 7.1; Przyborowski and Wilenski 1940; p_value: conditional binomial test, two-sided",
    ),
)
