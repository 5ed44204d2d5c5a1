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
    flop_convention: str | None = None


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
    """Compare the ends with the target: bounds for a delivered claim, an interval for a capability.

    Which ends `measured` carries is up to the `measure_*` function, which looks at the claim's kind.

    >>> claim = Claim("g", "goodput_allocated", "up to 96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
    >>> judge(claim, Measurement(low=0.0, high=0.91)).verdict
    'refuted'
    >>> judge(claim, Measurement(low=0.2, high=0.99)).verdict
    'undetermined'
    """
    decide = statistics.verdict_of_bounds if claim.kind == "delivered" else statistics.verdict_of_interval
    return Judged(claim, measured, decide(measured.low, measured.high, claim.target, claim.direction))


def measure_mttf(failures: int, exposure_gpu_days: float, claim: Claim) -> Measurement:
    """MTTF of a job of the claim's size from pooled exposure, in days, with what is still needed to decide.

    Delivered, it is what the period's exposure and failures give, without sampling error; without a failure it is at
    least the exposure. As a capability it has the exact Poisson interval.

    Raises:
        ValueError: the claim does not say of how many GPUs.
    """
    if claim.gpus is None:
        raise ValueError(f"the claim {claim.id!r} is on an MTTF and does not say of how many GPUs")
    gpus = claim.gpus
    exposure = exposure_gpu_days / gpus
    if exposure <= 0:
        return Measurement(needed="attempts with GPUs: there is no exposure yet", method="exact Poisson")
    value = exposure / failures if failures else None
    if claim.kind == "delivered":
        return _exactly(value, failures) if value is not None else _without_failure(exposure, claim, gpus)
    low, high = statistics.mttf_interval(float(failures), exposure)
    more = statistics.exposure_needed(claim.target, float(failures)) - exposure
    helps = claim.direction == "at_least" and more > 0
    needed = f"{more:.3g} more failure-free days of {gpus:g} GPUs would support it" if helps else None
    return Measurement(value, low, high, failures, needed, "exact Poisson, 95 %, pooled over sizes (assumes 1/N)")


def _without_failure(exposure: float, claim: Claim, gpus: float) -> Measurement:
    """A delivered MTTF of a period without a failure: the first one may come at any time from now on."""
    if claim.direction == "at_least":
        needed = f"{max(claim.target - exposure, 0):.3g} more failure-free days of {gpus:g} GPUs would support it"
    else:
        needed = f"a failure: there was none in {exposure:.3g} days of {gpus:g} GPUs"
    return Measurement(None, exposure, math.inf, 0, needed, "the period's exposure: without a failure, the least")


def measure_median(values: list[float], claim: Claim, *, at_least: int) -> Measurement:
    """Median of durations; those that have not ended yet and are too long already come as infinity.

    Delivered, it is the period's own median. As a capability it has a distribution-free interval, and stays
    undetermined below `at_least` events.
    """
    import numpy as np  # noqa: PLC0415 - the command line imports this module before it needs arrays

    n = len(values)
    if n == 0 and claim.kind == "delivered":
        return Measurement(n=0, needed="an event: there was none", method="the period's own value")
    if n == 0:
        return Measurement(n=0, needed=f"{at_least} more events (at least {at_least})", method="order statistics")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    median = float(ordered[n // 2]) if n % 2 else float((ordered[n // 2 - 1] + ordered[n // 2]) / 2)
    if claim.kind == "delivered":
        return _exactly(median, n)
    told = median if math.isfinite(median) else None
    if n < at_least:
        return Measurement(told, None, None, n, f"{at_least - n} more events (at least {at_least})", "order statistics")
    found = statistics.quantile_interval(ordered)
    low = found.low if math.isfinite(found.low) else None
    return Measurement(told, low, found.high, n, None, f"order statistics, {found.coverage:.1%}")


def measure_ratio(
    value: float | None, low: float | None, high: float | None, n: int | None, unseen_gpu_s: float
) -> Measurement:
    """A delivered ratio with its bounds, and the GPU-hours whose evidence would narrow them."""
    hours = unseen_gpu_s / 3600
    needed = f"evidence (telemetry or a run log) for {hours:,.1f} GPU-hours" if hours > 0 else None
    return Measurement(value, low, high, n, needed, "bounds: all unseen time unproductive / productive")


def measure_ratio_capability(
    value: float | None, sums: list[tuple[float, float, float]], *, seed: int, what: str
) -> Measurement:
    """A ratio as capability: bootstrap interval over runs or days, widened by the bounds.

    Args:
        value: the ratio, if it can be told.
        sums: of each run or day: numerator at least, numerator at most, denominator.
        seed: of the resampling.
        what: runs or days.

    Returns:
        The lower end of the interval of the low bound and the upper end of that of the high bound; neither where the
        effective number of runs or days is below 20 (metric-definitions 7.3).
    """
    import numpy as np  # noqa: PLC0415 - as above

    table = np.asarray(sums, dtype=np.float64).reshape(-1, 3)
    low = statistics.bootstrap_ratio_interval(table[:, 0], table[:, 2], seed=seed) if len(table) else None
    high = statistics.bootstrap_ratio_interval(table[:, 1], table[:, 2], seed=seed) if len(table) else None
    n = len(table)
    if low is None or high is None:
        needed = f"at least {statistics.MIN_EFFECTIVE_NUMBER} effective {what} for an interval"
        return Measurement(value, None, None, n, needed, f"bootstrap over {what}")
    needed = "evidence (telemetry or a run log) for the time that was not seen, or more " + what
    return Measurement(value, low.low, high.high, n, needed, f"BCa bootstrap over {what}, 95 %, widened by bounds")


def _exactly(value: float, n: int) -> Measurement:
    told = value if math.isfinite(value) else None
    return Measurement(told, value, value, n, None, "the period's own value: no sampling error")
