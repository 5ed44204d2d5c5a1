"""Test of the 1/N law (failures grow as the GPUs do), before an MTTF is quoted at another size.

A job of N GPUs fails at the rate exp(a + b log N); b = 1 is the law behind MTTF = 1/(N r_f). The model is a Poisson
regression of failures on log N with job-days as offset. Sizes enter as they are, not in buckets: all attempts of one
size share one rate, so their sums are sufficient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from metrics.lazy_scipy import special
from metrics.metric import Metric
from metrics.numeric import log_sum_exp, root
from metrics.statistics import from_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from metrics.statistics import FloatArray

HALF_WIDTH = 0.25
"""The widest that half of b's interval may be for an extrapolation without a caveat."""

STEEPEST = 50.0
"""Beyond this |b| a slope is taken as unknown: no rate grows with the fiftieth power of a size."""


@dataclass(frozen=True)
class SizeLaw:
    """Growth of a job's failure rate with its GPUs: rate = exp(a + b log N), per day.

    Attributes:
        b: the slope; 1 is the 1/N law. None where the data do not determine it.
        b_low: profile-likelihood interval, 95 %, widened by phi; None where it is open.
        b_high: its other end.
        p_value: of the likelihood-ratio test of b = 1.
        a: log of the rate of a job of one GPU, per day.
        phi: overdispersion that was allowed for; 1 for none.
        n_failures: failures that it rests on.
        n_sizes: different job sizes with exposure.
        smallest: smallest job with exposure, in GPUs.
        largest: the largest.
        variances: of a, of b, and their covariance; phi is in them.
    """

    b: float | None
    b_low: float | None
    b_high: float | None
    p_value: float | None
    a: float | None
    phi: float
    n_failures: int
    n_sizes: int
    smallest: float | None
    largest: float | None
    variances: tuple[float, float, float] | None = None

    @property
    def holds(self) -> bool:
        """Whether an extrapolation needs no caveat: b's interval includes 1 and is narrow."""
        return _holds(self.b_low, self.b_high)

    @property
    def words(self) -> str:
        """The caveat of an extrapolated MTTF."""
        return caveat(self.b, self.b_low, self.b_high)

    def mttf_d(self, gpus: float) -> tuple[float | None, float | None, float | None]:
        """MTTF of a job of that size by the fitted slope, in days, with its 95 % Wald interval.

        None where it is unknown: the ends, too, beyond the sizes seen if b's interval is open.
        """
        if self.b is None or self.a is None or self.variances is None:
            return None, None, None
        x = math.log(gpus)
        of_a, of_b, both = self.variances
        log_mttf = -(self.a + self.b * x)
        spread = float(special.ndtri(0.975)) * math.sqrt(max(of_a + x * x * of_b + 2 * x * both, 0.0))
        if self._is_open and not self._is_within_observed(gpus):
            return from_log(log_mttf), None, None
        return from_log(log_mttf), from_log(log_mttf - spread), from_log(log_mttf + spread)

    @property
    def _is_open(self) -> bool:
        return self.b_low is None or self.b_high is None

    def _is_within_observed(self, gpus: float) -> bool:
        return self.smallest is not None and self.largest is not None and self.smallest <= gpus <= self.largest


CONTRADICTED: Final = "assumes 1/N, which these failures contradict"
"""Caveat of an MTTF that is extrapolated against the evidence: the interval of b excludes 1."""


def caveat(b: float | None, b_low: float | None, b_high: float | None, *, slope: bool = True) -> str:
    """Evidence for the 1/N law, for a reader of an extrapolated MTTF.

    Args:
        b: the fitted slope; None where the data do not determine it.
        b_low: lower end of its 95 % interval; None where it is open.
        b_high: upper end.
        slope: whether the text gives b and its interval.

    >>> caveat(1.02, 0.9, 1.14), caveat(1.02, 0.9, 1.14, slope=False), caveat(None, None, None)
    ('1/N tested: b 1.02, 95 % 0.90 to 1.14', '1/N tested', 'assumes 1/N: the data cannot test it')
    """
    if b is None:
        return "assumes 1/N: the data cannot test it"
    if b_low is not None and b_high is not None and not b_low <= 1 <= b_high:
        verdict = CONTRADICTED
    else:
        verdict = "1/N tested" if _holds(b_low, b_high) else "assumes 1/N"
    ends = (f"{end:.2f}" if end is not None else "?" for end in (b_low, b_high))
    return f"{verdict}: b {b:.2f}, 95 % {' to '.join(ends)}" if slope else verdict


def _holds(b_low: float | None, b_high: float | None) -> bool:
    if b_low is None or b_high is None:
        return False
    return b_low <= 1 <= b_high and (b_high - b_low) / 2 < HALF_WIDTH


def size_law(gpus: FloatArray, failures: FloatArray, job_days: FloatArray, *, phi: float = 1.0) -> SizeLaw:
    """Fit rate = exp(a + b log N) to failures by job size.

    Given the number of failures K, how they fall on the sizes is multinomial with shares T_N N^b / sum(T N^b), so b has
    a likelihood of its own: `l(b) = b sum(k log N) - K log sum(T N^b)`, the profile of the Poisson likelihood over a.
    It is concave: b is where the mean log N of the failures is the one expected, and the interval is where
    `2 (l(b) - l)` is above `-3.84 phi` (McCullagh and Nelder, Generalized Linear Models, 1989, sections 6.4.2, 9.2.4).

    Args:
        gpus: job sizes; each may come several times.
        failures: failures at each size.
        job_days: exposure at each size; sizes without any are left out.
        phi: overdispersion to allow for, see `metrics.statistics.overdispersion`.

    Ten failures in as many job-days at 1 GPU as at 100, all but one at 100: b = log(9) / log(100).

    >>> law = size_law(np.array([1.0, 100.0]), np.array([1.0, 9.0]), np.array([50.0, 50.0]))
    >>> round(law.b, 4), law.holds
    (0.4771, False)
    """
    exposed = job_days > 0
    sizes, k, days = gpus[exposed], failures[exposed], job_days[exposed]
    total, n_sizes = float(k.sum()), len(np.unique(sizes))
    smallest, largest = (float(sizes.min()), float(sizes.max())) if n_sizes else (None, None)
    unknown = SizeLaw(None, None, None, None, None, phi, round(total), n_sizes, smallest, largest)
    if n_sizes < 2 or total == 0:
        return unknown
    x, log_days = np.log(sizes), np.log(days)
    mean = float((k * x).sum() / total)

    def score(b: float) -> float:
        return mean - _moments(b, x, log_days)[0]

    def log_likelihood(b: float) -> float:
        return total * (b * mean - log_sum_exp(log_days + b * x))

    ends = float(x.min()), float(x.max())
    if math.isclose(mean, ends[0]) or math.isclose(mean, ends[1]) or not score(-STEEPEST) > 0 > score(STEEPEST):
        return unknown  # all failures at the smallest or at the largest size: no slope is steep enough
    b = root(score, -STEEPEST, STEEPEST)
    best = log_likelihood(b)
    enough = phi * float(special.chdtri(1, 0.05)) / 2

    def beyond(other: float) -> float:
        return best - log_likelihood(other) - enough

    centre, variance = _moments(b, x, log_days)
    of_b = phi / (total * variance)
    return SizeLaw(
        b,
        _crossing(beyond, -STEEPEST, b),
        _crossing(beyond, STEEPEST, b),
        float(special.chdtrc(1, 2 * max(best - log_likelihood(1.0), 0.0) / phi)),
        math.log(total) - log_sum_exp(log_days + b * x),
        phi,
        round(total),
        n_sizes,
        smallest,
        largest,
        (phi / total + centre**2 * of_b, of_b, -centre * of_b),
    )


def _moments(b: float, x: FloatArray, log_days: FloatArray) -> tuple[float, float]:
    """Mean and variance of log N over the failures that a slope expects."""
    logs = log_days + b * x
    shares = np.exp(logs - log_sum_exp(logs))
    mean = float((shares * x).sum())
    return mean, float((shares * (x - mean) ** 2).sum())


def _crossing(beyond: Callable[[float], float], far: float, near: float) -> float | None:
    """Point where the likelihood has fallen far enough, between one inside the interval and one far out."""
    return root(beyond, far, near) if beyond(far) > 0 else None


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="size_law",
        unit="ratio",
        summary="Power of a job's GPUs that its failure rate grows with; 1 is the 1/N law.",
        formula="b of log rate = a + b log GPUs, Poisson regression of interrupted attempts with job-days as offset",
        query="exposures",
        function=size_law,
        interval=(
            "profile likelihood, 95 %, widened by phi; extrapolated without a caveat only if it includes 1 and half "
            "of it "
            "is below 0.25"
        ),
        source="our definitions 7.1; McCullagh and Nelder 1989, chapters 6 and 9",
    ),
)
