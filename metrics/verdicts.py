"""Verdicts on claims: supported, refuted or undetermined, and what evidence would still decide.

A *delivered* claim (what happened in a period) is judged by bounds: there is no sampling error, only time that we did
not see. A *capability* claim (a rate, an MTTF, what the process would do again) is judged by its interval.
Metric-definitions 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from metrics import statistics

if TYPE_CHECKING:
    from metrics.statistics import Direction, Verdict

Kind = Literal["delivered", "capability"]


@dataclass(frozen=True)
class Claim:
    """A claim as quoted, and as it is tested.

    `quoted` are the words used. `read_as` says what is tested instead, since words such as "up to 96 %" cannot be
    refuted as they stand.
    """

    id: str
    metric: str
    quoted: str
    read_as: str
    kind: Kind
    target: float
    direction: Direction
    unit: str
    gpus: float | None = None
    min_run_s: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """What the data say about a claim's metric; None where they say nothing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    needed: str | None = None
    method: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim with its measurement and verdict."""

    claim: Claim
    measured: Measurement
    verdict: Verdict


def judge(claim: Claim, measured: Measurement) -> Judged:
    """Compare the ends that count for this kind of claim with its target.

    >>> claim = Claim("g", "goodput_allocated", "up to 96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
    >>> judge(claim, Measurement(low=0.0, high=0.91)).verdict
    'refuted'
    >>> judge(claim, Measurement(low=0.2, high=0.99)).verdict
    'undetermined'
    """
    decide = statistics.verdict_of_bounds if claim.kind == "delivered" else statistics.verdict_of_interval
    return Judged(claim, measured, decide(measured.low, measured.high, claim.target, claim.direction))


def measure_mttf(failures: int, exposure_gpu_days: float, claim: Claim) -> Measurement:
    """MTTF of a job of the claim's size from pooled exposure, in days, with what is still needed to decide."""
    gpus = claim.gpus or 1.0
    exposure = exposure_gpu_days / gpus
    if exposure <= 0:
        return Measurement(needed="attempts with GPUs: there is no exposure yet", method="exact Poisson")
    low, high = statistics.mttf_interval(float(failures), exposure)
    value = exposure / failures if failures else None
    more = statistics.exposure_needed(claim.target, float(failures)) - exposure
    needed = f"{more:.3g} more failure-free days of {gpus:g} GPUs would support it" if more > 0 else None
    return Measurement(value, low, high, failures, needed, "exact Poisson, 95 %, pooled over sizes (assumes 1/N)")


def measure_median(values: list[float], *, at_least: int) -> Measurement:
    """Median with a distribution-free interval; undetermined below `at_least` events."""
    import numpy as np  # noqa: PLC0415 - the command line imports this module before it needs arrays

    n = len(values)
    median = float(np.median(values)) if values else None
    if n < at_least:
        return Measurement(
            median, None, None, n, f"{at_least - n} more events (at least {at_least})", "order statistics"
        )
    found = statistics.quantile_interval(np.asarray(values, dtype=np.float64))
    low = None if math.isinf(found.low) else found.low
    high = None if math.isinf(found.high) else found.high
    return Measurement(median, low, high, n, None, f"order statistics, {found.coverage:.1%}")


def measure_ratio(
    value: float | None, low: float | None, high: float | None, n: int | None, unseen_gpu_s: float
) -> Measurement:
    """A ratio with bounds, and the GPU-hours whose evidence would narrow them."""
    hours = unseen_gpu_s / 3600
    needed = f"evidence (telemetry or a run log) for {hours:,.1f} allocated GPU-hours" if hours > 0 else None
    return Measurement(value, low, high, n, needed, "bounds: all unseen time unproductive / productive")
