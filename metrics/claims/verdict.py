"""Verdicts on claims: supported, refuted or undetermined, and what evidence would still decide.

A *delivered* claim (what happened in a period) is judged by bounds: there is no sampling error, only time that we did
not see. A *capability* claim (a rate, an MTTF, what the process would do again) is judged by its interval, widened by
the bounds. The manual (Claims) has both rules and the least evidence that a claim needs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from metrics import sample_statistics, statistics
from metrics.claims.claim import Claim, Exclusion, Judged, Kind, Measurement, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metrics.statistics import Verdict

__all__ = ["Claim", "Exclusion", "Judged", "Kind", "Measurement", "Scope", "judge", "least_deciding_failures",
           "measure_median", "measure_mttf", "measure_ratio", "measure_ratio_capability"]  # fmt: skip

ONE_SIDED_P = 0.05
"""Level of the one-sided results that are shown with a verdict; verdicts themselves are two-sided."""

FACTOR_TWO = 10
"""Failures from which on the interval of an MTTF is about a factor of 2 to each side."""

MOST_TIMES = 1e4
"""More than so many times the exposure so far is not worth waiting for."""


def judge(claim: Claim, measured: Measurement) -> Judged:
    """Compare the ends with the target: bounds for a delivered claim, an interval for a capability.

    Which ends `measured` carries is up to the `measure_*` function, which depends on the claim's kind.

    >>> claim = Claim("g", "goodput_allocated", "up to 96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
    >>> judge(claim, Measurement(low=0.0, high=0.91)).verdict
    'refuted'
    >>> judge(claim, Measurement(low=0.2, high=0.99)).verdict
    'undetermined'
    """
    verdict = statistics.verdict_of_interval(measured.low, measured.high, claim.target, claim.direction)
    return Judged(claim, measured, verdict)


def _verdict(claim: Claim, low: float | None, high: float | None) -> Verdict:
    return judge(claim, Measurement(low=low, high=high)).verdict


# MTTF ------------------------------------------------------------------------------------------------------------


def measure_mttf(
    failures: int,
    exposure_gpu_days: float,
    claim: Claim,
    *,
    job_days: float | None = None,
    phi: float = 1.0,
    law: str = "assumes 1/N",
) -> Measurement:
    """MTTF of a job of the claim's size, in days, with what is still needed to decide either way.

    Delivered, it is what the period's exposure and failures give, without sampling error; without a failure it is at
    least the exposure. As a capability it has the exact Poisson interval, wider by `phi` where failures cluster.

    Args:
        failures: interruptions of the claim's class.
        exposure_gpu_days: what jobs of all sizes ran; scaled to the claim's size.
        claim: with `gpus`.
        job_days: what jobs of the claimed size ran, where the claim is on those alone; it is not scaled.
        phi: overdispersion to allow for (`metrics.statistics.overdispersion`); 1 for independent failures.
        law: what is assumed in scaling, in words.

    Raises:
        ValueError: the claim does not give a number of GPUs.
    """
    if claim.gpus is None:
        raise ValueError(f"the claim {claim.id!r} is on an MTTF and does not give its number of GPUs")
    exposure = exposure_gpu_days / claim.gpus if job_days is None else job_days
    if exposure <= 0:
        where = "attempts with GPUs" if job_days is None else f"jobs of about {claim.gpus:,.10g} GPUs"
        return Measurement(n=0, needed=f"{where}: there is no exposure yet", method="exact Poisson")
    value = exposure / failures if failures else None
    if claim.kind == "delivered":
        measured = _exactly(value, failures) if value is not None else _without_failure(exposure, claim)
        return replace(measured, numerator=exposure, denominator=float(failures))
    low, high = statistics.mttf_interval(float(failures), exposure, phi=phi)
    pooled = f"pooled over sizes ({law})" if job_days is None else "jobs of that size only"
    wider = f", phi {phi:.3g}: failures come in bursts" if phi > 1 else ""
    return Measurement(
        value,
        low,
        high,
        failures,
        None if _verdict(claim, low, high) != "undetermined" else _failures_needed(failures, exposure, claim, phi),
        f"exact Poisson, 95 %, {pooled}{wider}",
        numerator=exposure,
        denominator=float(failures),
        beside=_mttf_notes(failures, exposure, claim, phi),
    )


def _failures_needed(failures: int, exposure: float, claim: Claim, phi: float) -> str:
    """Failure-free days for one verdict, further failures for the other, and how long it takes at the rate so far."""
    days = statistics.exposure_needed(claim.target, failures / phi) * phi - exposure
    more = least_deciding_failures(exposure, claim.target, phi=phi) - failures
    free = f"{max(days, 0):.3g} more failure-free days of {claim.gpus:,.10g} GPUs would"
    further = f"{more} more failure{'s' if more != 1 else ''} in these {exposure:.3g} days would"
    if claim.direction == "at_least":
        needed = f"{free} support it, {further} refute it (at n = {failures + more})"
    else:
        needed = f"{further} support it (at n = {failures + more}), {free} refute it"
    on = _days_at_this_rate(failures, exposure, claim, phi)
    return needed if on is None else f"{needed}; at the rate so far {on:.3g} more days would decide"


def least_deciding_failures(exposure: float, target: float, *, phi: float = 1.0) -> int:
    """Fewest failures in an exposure that put the whole two-sided interval of the MTTF below a target.

    >>> least_deciding_failures(30.0, 3.66)
    15
    """
    low, high = 0, 1
    while statistics.mttf_interval(float(high), exposure, phi=phi).high >= target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        below = statistics.mttf_interval(float(middle), exposure, phi=phi).high < target
        low, high = (low, middle) if below else (middle, high)
    return high


def _days_at_this_rate(failures: int, exposure: float, claim: Claim, phi: float) -> float | None:
    """Further exposure at which failures as frequent as so far leave the target outside of the interval."""
    if failures == 0:
        return None

    def decided(times: float) -> bool:
        ends = statistics.mttf_interval(failures * times, exposure * times, phi=phi)
        return _verdict(claim, *ends) != "undetermined"

    low, high = 1.0, 2.0
    while not decided(high):
        low, high = high, 2 * high
        if high > MOST_TIMES:
            return None
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return (high - 1) * exposure


def _mttf_notes(failures: int, exposure: float, claim: Claim, phi: float) -> tuple[str, ...]:
    """One-sided results, labelled as such, and how wide the interval is bound to be."""
    expected = exposure / claim.target
    many = statistics.p_at_least(failures / phi, expected / phi)
    few = 1 - statistics.p_at_least(failures / phi + 1, expected / phi)
    against, for_ = (many, few) if claim.direction == "at_least" else (few, many)
    word = "refuted" if against <= ONE_SIDED_P else "supported" if for_ <= ONE_SIDED_P else "undetermined"
    least = statistics.mttf_lower_one_sided(failures / phi, exposure / phi)
    results = [
        f"one-sided, 5 %: {word} (p against it {_p(against)}, for it {_p(for_)}; {expected:.4g} failures expected, "
        f"{failures} seen); MTTF at least {least:.3g} d with one-sided 95 %"
    ]
    if failures < FACTOR_TWO:
        results.append(f"fewer than {FACTOR_TWO} failures: the interval is wider than a factor of 2")
    return tuple(results)


def _p(value: float) -> str:
    """A probability; one that no four digits show is below or above what they can.

    >>> _p(0.04037), _p(1e-9), _p(0.99999)
    ('0.0404', 'below 0.0001', 'above 0.9999')
    """
    if value < _LEAST_P:
        return f"below {_LEAST_P}"
    return f"above {1 - _LEAST_P}" if value > 1 - _LEAST_P else f"{value:.4f}"


_LEAST_P: Final = 0.0001


def _without_failure(exposure: float, claim: Claim) -> Measurement:
    """A delivered MTTF of a period without a failure: the first one may come at any time from now on."""
    more = f"{max(claim.target - exposure, 0):.3g} more failure-free days of {claim.gpus:,.10g} GPUs would"
    if claim.direction == "at_least":
        needed = f"{more} support it"
    else:
        needed = f"a failure: none occurred in {exposure:.3g} days of {claim.gpus:,.10g} GPUs; {more} refute it"
    return Measurement(None, exposure, math.inf, 0, needed, "the period's exposure: without a failure, the least")


# Medians ---------------------------------------------------------------------------------------------------------


def measure_median(values: list[float], claim: Claim, *, at_least: int) -> Measurement:
    """Median of durations; those that have not ended yet and are too long already come as infinity.

    Delivered, it is the period's own median. As a capability it has a distribution-free interval, and stays
    undetermined below `at_least` events.
    """
    import numpy as np  # noqa: PLC0415 - the command line imports this module before it needs arrays

    n = len(values)
    if n == 0 and claim.kind == "delivered":
        return Measurement(n=0, needed="an event: none occurred", method="the period's own value")
    if n == 0:
        return Measurement(n=0, needed=f"{at_least} more events (at least {at_least})", method="order statistics")
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    median = float(ordered[n // 2]) if n % 2 else float((ordered[n // 2 - 1] + ordered[n // 2]) / 2)
    if claim.kind == "delivered":
        return _exactly(median, n)
    value = median if math.isfinite(median) else None
    if n < at_least:
        return Measurement(
            value, None, None, n, f"{at_least - n} more events (at least {at_least})", "order statistics"
        )
    interval = sample_statistics.quantile_interval(ordered)
    low = interval.low if math.isfinite(interval.low) else None
    method = f"order statistics, {100 * interval.coverage:.1f} %"
    if _verdict(claim, low, interval.high) != "undetermined":
        return Measurement(value, low, interval.high, n, None, method)
    within = int(np.sum(ordered <= claim.target))
    return Measurement(value, low, interval.high, n, _events_needed(within, n), method)


def _events_needed(within: int, n: int) -> str:
    """Events until the median's interval leaves the target, if as many as so far lie within it.

    By the normal approximation of the binomial: half the share's distance from a half, against 0.98 / sqrt(n).
    """
    off = abs(within / n - 0.5)
    so_far = f"{within} of {n} were within the target so far"
    if off < _HALF_WIDTH / math.sqrt(MOST_TIMES):
        return f"an unknown number of further events: {so_far}, about half"
    return f"about {max(1, math.ceil((_HALF_WIDTH / off) ** 2) - n):,} more events like these: {so_far}"


_HALF_WIDTH = 0.98
"""Half the width of a 95 % interval of a share near one half, times the root of n."""


# Ratios ----------------------------------------------------------------------------------------------------------


def measure_ratio(  # noqa: PLR0917 - a ratio with its bounds, in the usual order
    claim: Claim, value: float | None, low: float, high: float, n: int | None, denominator_gpu_s: float
) -> Measurement:
    """A delivered ratio with its bounds, and of how many GPU-hours the evidence would decide."""
    needed = None
    if _verdict(claim, low, high) == "undetermined":
        needed = _evidence_needed(claim, low, high, denominator_gpu_s)
    return Measurement(value, low, high, n, needed, f"bounds: {_open_of(claim).bounds}")


class _Undecided(NamedTuple):
    """Open part within a ratio's bounds: the evidence that decides, what it may prove, and the bounds in words."""

    evidence: str
    proof: str
    bounds: str


_OPEN: Final[Mapping[str, _Undecided]] = {
    "availability": _Undecided(
        "node states", "in service", "all time of unknown node state out of service / in service"
    ),
    "occupancy": _Undecided(
        "the GPUs of attempts", "allocated", "all unknown GPUs of attempts unallocated / allocated"
    ),
}


def _open_of(claim: Claim) -> _Undecided:
    """Of most ratios it is what GPUs did that is open."""
    usual = _Undecided("telemetry or a run log", "productive", "all unobserved time unproductive / productive")
    return _OPEN.get(claim.metric, usual)


def _evidence_needed(claim: Claim, low: float, high: float, denominator_gpu_s: float) -> str:
    """The least GPU-hours that must turn out productive, or unproductive, of all that the bounds leave open."""
    evidence, proof, _ = _open_of(claim)
    hours = denominator_gpu_s / 3600
    above, below = max(claim.target - low, 0) * hours, max(high - claim.target, 0) * hours
    good, bad = ("support", "refute") if claim.direction == "at_least" else ("refute", "support")
    return (
        f"evidence ({evidence}) for at least {min(above, below):,.1f} of the {(high - low) * hours:,.1f} "
        f"GPU-hours that the bounds leave open: {above:,.1f} that prove {proof} would {good} it, "
        f"more than {below:,.1f} that do not would {bad} it"
    )


def measure_ratio_capability(
    claim: Claim, value: float | None, sums: list[tuple[float, float, float]], *, seed: int, what: str
) -> Measurement:
    """A ratio as capability: bootstrap interval over runs or days, widened by the bounds.

    Args:
        claim: what is judged.
        value: the ratio, if it is known.
        sums: of each run or day: numerator at least, numerator at most, denominator in GPU-seconds.
        seed: of the resampling.
        what: runs or days.

    Returns:
        The lower end of the interval of the low bound and the upper end of that of the high bound; neither where the
        effective number of runs or days is below 20.
    """
    import numpy as np  # noqa: PLC0415 - as above

    table = np.asarray(sums, dtype=np.float64).reshape(-1, 3)
    low = sample_statistics.bootstrap_ratio_interval(table[:, 0], table[:, 2], seed=seed) if len(table) else None
    high = sample_statistics.bootstrap_ratio_interval(table[:, 1], table[:, 2], seed=seed) if len(table) else None
    n = len(table)
    if low is None or high is None:
        worth = sample_statistics.effective_number(table[:, 2]) if n else 0.0
        more = math.ceil(sample_statistics.MIN_EFFECTIVE_NUMBER - worth)
        needed = (
            f"at least {more} more {what} of usual size for an interval: {n} {what} weigh as {worth:.3g} equal ones, "
            f"{sample_statistics.MIN_EFFECTIVE_NUMBER} are needed"
        )
        return Measurement(value, None, None, n, needed, f"bootstrap over {what}")
    ends = (low.low, high.high)
    short: str | None = None
    if _verdict(claim, *ends) == "undetermined":
        bottom = float(table[:, 2].sum())
        middle = (float(table[:, 0].sum()) / bottom, float(table[:, 1].sum()) / bottom)
        short = _sample_needed(claim, ends, middle, n, what, bottom)
    return Measurement(value, *ends, n, short, f"BCa bootstrap over {what}, 95 %, widened by bounds")


def _sample_needed(  # noqa: PLR0917 - what an interval is made of
    claim: Claim, ends: tuple[float, float], middle: tuple[float, float], n: int, what: str, bottom_gpu_s: float
) -> str:
    """More runs or days where the bounds are on one side of the target, else evidence for what was not seen.

    An interval's half-width shrinks with the root of the number of runs.
    """
    low, high = middle
    if low < claim.target <= high and low < high:
        return f"{_evidence_needed(claim, low, high, bottom_gpu_s)} (as a value; the interval needs {what}, too)"
    width, off = (low - ends[0], low - claim.target) if low >= claim.target else (ends[1] - high, claim.target - high)
    if off <= 0 or (width / off) ** 2 > MOST_TIMES:
        return f"an unknown number of further {what}: the value is the target"
    return f"about {max(1, math.ceil(n * ((width / off) ** 2 - 1))):,} more {what} like these {n:,}"


def _exactly(value: float, n: int) -> Measurement:
    finite = value if math.isfinite(value) else None
    return Measurement(finite, value, value, n, None, "the period's own value: no sampling error")
