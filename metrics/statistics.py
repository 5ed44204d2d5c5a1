"""Intervals and tests of counts, and verdicts: how much a number of failures can be trusted.

Failures are counts in an exposure (job-days at one size, or GPU-days pooled over sizes), so their
intervals are exact Poisson ones. Those of ratios and of quantiles are in `metrics.sample_statistics`. A claim
is read against the interval, and "undetermined" is an answer.

The count functions take floats or arrays: all floats give floats, all arrays of one shape give arrays.
Where there is no exposure there is no evidence, and the result is nan.
"""

import math
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from metrics.lazy_scipy import special

FloatArray: TypeAlias = npt.NDArray[np.float64]
Number = TypeVar("Number", float, FloatArray)
"""A float, or an array of them; what goes in comes out."""

Verdict: TypeAlias = Literal["supported", "refuted", "undetermined"]
Direction: TypeAlias = Literal["at_least", "at_most"]

CONFIDENCE = 0.95
OVERDISPERSION_P = 0.05
"""Failures are taken as clustered when the dispersion test falls below this."""


class Interval(NamedTuple, Generic[Number]):
    """The two ends of an interval; either may be infinite, and both are nan where there is no data."""

    low: Number
    high: Number


# --- failure counts ----------------------------------------------------------------------------------


def rate_interval(
    failures: Number, exposure: Number, *, confidence: float = CONFIDENCE, phi: float | FloatArray = 1.0
) -> Interval[Number]:
    """Exact two-sided interval of a failure rate, in failures per unit of exposure.

    `[chi2(a/2, 2k) / 2T, chi2(1 - a/2, 2k + 2) / 2T]`, from 0 when there was no failure. The estimate
    itself is `failures / exposure`. Coverage is at least `confidence` at every true rate
    (Garwood, Biometrika 1936).

    Args:
        failures: Number of failures k, censored attempts not among them.
        exposure: Time at risk T, of every attempt, however it ended.
        confidence: Two-sided level.
        phi: Overdispersion to allow for, see :func:`overdispersion`; divides k and T.

    >>> low, high = rate_interval(3.0, 30.0)
    >>> round(low, 5), round(high, 5)
    (0.02062, 0.29224)
    """
    exposure_ = _exposure(exposure) / phi
    low, high = _mean_count_limits(np.asarray(failures, dtype=float) / phi, confidence)
    return Interval(_like(low / exposure_, exposure), _like(high / exposure_, exposure))


def mttf_interval(
    failures: Number, exposure: Number, *, confidence: float = CONFIDENCE, phi: float | FloatArray = 1.0
) -> Interval[Number]:
    """Exact two-sided interval of a mean time to failure, in the unit of the exposure.

    `[2T / chi2(1 - a/2, 2k + 2), 2T / chi2(a/2, 2k)]`, up to infinity when there was no failure. The
    estimate itself is `exposure / failures`, which is also the right-censored exponential estimate:
    attempts that never failed count, so never average only those that did.

    Arguments and source as in :func:`rate_interval`, of which it is the reciprocal.

    >>> low, high = mttf_interval(3.0, 30.0)
    >>> round(low, 4), round(high, 3)
    (3.4218, 48.491)
    """
    exposure_ = _exposure(exposure) / phi
    low, high = _mean_count_limits(np.asarray(failures, dtype=float) / phi, confidence)
    with np.errstate(divide="ignore"):
        return Interval(_like(exposure_ / high, exposure), _like(exposure_ / low, exposure))


def mttf_lower_one_sided(failures: Number, exposure: Number, *, confidence: float = CONFIDENCE) -> Number:
    """Mean time to failure that is exceeded with one-sided `confidence`, in the unit of the exposure.

    `2T / chi2(confidence, 2k + 2)`; `T / 2.9957` without failures. To be shown with the two-sided
    interval and labelled one-sided; verdicts use the two-sided one.

    >>> round(mttf_lower_one_sided(0.0, 30.0), 4)
    10.0142
    """
    high = _gamma_quantile(np.asarray(failures, dtype=float) + 1, confidence)
    return _like(_exposure(exposure) / high, exposure)


def jeffreys_rate_interval(
    failures: Number, exposure: Number, *, confidence: float = CONFIDENCE, phi: float | FloatArray = 1.0
) -> Interval[Number]:
    """Jeffreys interval of a failure rate: equal tails of Gamma(k + 1/2, T); `phi` divides k and T.

    Shorter than the exact interval, with coverage near `confidence` on average instead of at least that
    everywhere. Good for ranking and display; verdicts use the exact one (Brown, Cai and DasGupta,
    Statistica Sinica 2003).

    >>> low, high = jeffreys_rate_interval(3.0, 30.0)
    >>> round(low, 4), round(high, 4)
    (0.0282, 0.2669)
    """
    shape = np.asarray(failures, dtype=float) / phi + 0.5
    tail = (1 - confidence) / 2
    exposure_ = _exposure(exposure) / phi
    low, high = (_gamma_quantile(shape, p) / exposure_ for p in (tail, 1 - tail))
    return Interval(_like(low, exposure), _like(high, exposure))


def rate_ratio_interval(
    failures_1: Number,
    exposure_1: Number,
    failures_2: Number,
    exposure_2: Number,
    *,
    confidence: float = CONFIDENCE,
) -> Interval[Number]:
    """Exact two-sided interval of the first failure rate over the second.

    Given the total, the first count is Binomial(k1 + k2, share of the first rate): Clopper-Pearson limits
    of that share, as odds, times T2 / T1 (Przyborowski and Wilenski, Biometrika 1940). From 0 when
    k1 = 0, up to infinity when k2 = 0. The ratio of MTTFs is the reciprocal: swap the two. A published
    rate without a count behind it is a constant: divide :func:`rate_interval` by it instead.

    >>> low, high = rate_ratio_interval(10.0, 100.0, 10.0, 100.0)
    >>> round(low, 3), round(high, 3)
    (0.374, 2.677)
    """
    k_1, k_2 = np.asarray(failures_1, dtype=float), np.asarray(failures_2, dtype=float)
    scale = _exposure(exposure_2) / _exposure(exposure_1)
    tail = (1 - confidence) / 2
    with np.errstate(divide="ignore"):
        low, high = _odds_low(k_1, k_2, tail) * scale, scale / _odds_low(k_2, k_1, tail)
    return Interval(_like(low, exposure_1), _like(high, exposure_1))


def two_rates_p(failures_1: int, exposure_1: float, failures_2: int, exposure_2: float) -> float:
    """Exact two-sided p-value of two failure rates being one, given their counts.

    Given the total, the first count is then Binomial(k1 + k2, T1 / (T1 + T2)): the probability of all counts that are
    no likelier than the one that came (Przyborowski and Wilenski, Biometrika 1940; as `binom.test` of R and
    `scipy.stats.binomtest`). It is 1 without failures. The interval of :func:`rate_ratio_interval` has equal tails, so
    near 0.05 the two may differ in whether 1 is within.

    Raises:
        ValueError: without exposure there is no rate.

    >>> round(two_rates_p(14, 30.0, 5, 30.0), 5)
    0.06357
    """
    if not (exposure_1 > 0 and exposure_2 > 0):
        raise ValueError(f"exposures of {exposure_1} and {exposure_2} are no two rates")
    n = failures_1 + failures_2
    share = exposure_1 / (exposure_1 + exposure_2)
    counts = np.arange(n + 1, dtype=float)
    log_ways = special.gammaln(n + 1) - special.gammaln(counts + 1) - special.gammaln(n - counts + 1)
    likelihood = np.exp(log_ways + special.xlogy(counts, share) + special.xlog1py(n - counts, -share))
    return float(min(1.0, math.fsum(likelihood[likelihood <= likelihood[failures_1] * _AS_LIKELY])))


_AS_LIKELY = 1 + 1e-7
"""Counts of the same likelihood are so, whatever their last digits."""


def exposure_needed(target_mttf: Number, failures: Number, *, confidence: float = CONFIDENCE) -> Number:
    """Exposure at which that many failures put the lower two-sided limit of the MTTF at the target.

    `target * chi2(1 - a/2, 2k + 2) / 2`, in the unit of the target: 3.6889 times the target without
    failures. Less the exposure so far, it is the evidence still needed if no further failure comes.

    A claim of 3.66 days needs 13.5 days without a failure:

    >>> round(exposure_needed(3.66, 0.0), 2)
    13.5
    """
    _, high = _mean_count_limits(np.asarray(failures, dtype=float), confidence)
    return _like(np.asarray(target_mttf, dtype=float) * high, target_mttf)


def p_at_least(failures: Number, expected: Number) -> Number:
    """Probability of that many failures or more where `expected` were to come: P(Poisson >= k).

    One-sided, and 1 at zero failures. Small means: more failures than the claim (or the rest of the
    cluster) would explain.

    A claim of 3.66 days against 14 failures in 30 days:

    >>> round(p_at_least(14.0, 30 / 3.66), 4)
    0.0404
    """
    k = np.asarray(failures, dtype=float)
    # P(Poisson(m) >= k) is the regularised lower incomplete gamma function at (k, m), for k > 0.
    return _like(np.where(k == 0, 1.0, special.gammainc(k, expected)), failures)


def adjusted(p_values: FloatArray) -> FloatArray:
    """Q values: the false discovery rate at which each would just be flagged; nan stays and does not count.

    Benjamini and Hochberg, J. R. Statist. Soc. B 57 (1995).

    >>> adjusted(np.array([0.01, 0.04, 0.03, np.nan])).round(4).tolist()
    [0.03, 0.04, 0.04, nan]
    """
    testable = np.flatnonzero(~np.isnan(p_values))
    order = testable[np.argsort(p_values[testable])]
    n = len(order)
    stepped = p_values[order] * n / np.arange(1, n + 1)
    corrected = np.full(len(p_values), np.nan)
    corrected[order] = np.minimum(np.minimum.accumulate(stepped[::-1])[::-1], 1.0)
    return corrected


def _mean_count_limits(failures: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Exact limits of the mean behind a Poisson count; chi2(p, 2k) / 2 is a gamma quantile of shape k."""
    tail = (1 - confidence) / 2
    low = np.where(failures == 0, 0.0, _gamma_quantile(failures, tail))
    return low, _gamma_quantile(failures + 1, 1 - tail)


def _gamma_quantile(shape: FloatArray, p: float) -> FloatArray:
    """Quantile of the gamma distribution with unit rate."""
    return np.asarray(special.gammaincinv(shape, p), dtype=float)


def _odds_low(k_1: FloatArray, k_2: FloatArray, tail: float) -> FloatArray:
    """Lower Clopper-Pearson limit of a binomial share, k1 of k1 + k2, as odds."""
    share = np.where(k_1 == 0, 0.0, np.asarray(special.betaincinv(k_1, k_2 + 1, tail), dtype=float))
    return np.asarray(share / (1 - share))


def _exposure(exposure: Number) -> FloatArray:
    """The exposure as an array, nan where there is none."""
    values = np.asarray(exposure, dtype=float)
    return np.where(values > 0, values, np.nan)


@overload
def _like(result: FloatArray, like: float) -> float: ...
@overload
def _like(result: FloatArray, like: FloatArray) -> FloatArray: ...
def _like(result: FloatArray, like: float | FloatArray) -> float | FloatArray:
    """The result as what came in: a float for a float, an array for an array."""
    return result if isinstance(like, np.ndarray) else float(result)


# --- numbers by their logarithm ------------------------------------------------------------------


def from_log(log: float) -> float | None:
    """The number of this logarithm; None where none is known or a float cannot hold it.

    >>> from_log(0.0), from_log(1e6), from_log(-1e6), from_log(math.nan)
    (1.0, None, None, None)
    """
    return math.exp(log) if abs(log) < 700 else None


# --- do failures cluster? ----------------------------------------------------------------------------


class Overdispersion(NamedTuple):
    """Overdispersion of daily failure counts: their variation relative to that of chance alone."""

    phi: float
    """Pearson chi-squared over its degrees of freedom: 1 for independent failures, nan if unknown."""
    p_value: float
    """Probability of a phi this large if failures were independent."""

    @property
    def divisor(self) -> float:
        """The `phi` to give to the interval functions: 1 unless the test rejects independence."""
        return self.phi if self.p_value < OVERDISPERSION_P else 1.0


def overdispersion(daily_failures: FloatArray, daily_exposure: FloatArray) -> Overdispersion:
    """Test of whether failures come in bursts: Pearson's phi of daily counts, with exposure as offset.

    `sum((k_d - m_d)^2 / m_d) / (D - 1)` over the D days with exposure, where `m_d` shares all failures
    out by exposure (McCullagh and Nelder, Generalized Linear Models, 1989, section 6.2.3). Where failures
    are few, or some days have little exposure, that statistic varies otherwise than chi-squared with D - 1
    degrees of freedom; so p is from the multiple of a chi-squared that has its exact mean, D - 1, and its
    exact variance given the failures, `2 (D - 1) + (sum(1/share) - D^2 - 2 D + 2) / k` (Haldane, Biometrika
    1937). nan with fewer than two days or two failures. Then, and while p >= 0.05, `divisor` is 1.

    Eight failures, evenly spread and in one burst:

    >>> days = np.ones(4)
    >>> overdispersion(np.array([2.0, 2.0, 2.0, 2.0]), days).phi
    0.0
    >>> burst = overdispersion(np.array([8.0, 0.0, 0.0, 0.0]), days)
    >>> burst.phi, burst.divisor
    (8.0, 8.0)
    >>> interval = mttf_interval(8.0, 4.0, phi=burst.divisor)
    >>> round(interval.low, 3), round(interval.high, 3)
    (0.09, 19.749)
    """
    phi, p_value = overdispersions(daily_failures[None, :], daily_exposure[None, :])
    return Overdispersion(float(phi[0]), float(p_value[0]))


def overdispersions(daily_failures: FloatArray, daily_exposure: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Phi and p of :func:`overdispersion` for many series at once: one row each, one column a day.

    >>> phi, p_value = overdispersions(np.array([[8.0, 0, 0, 0], [0, 0, 0, 0]]), np.ones((2, 4)))
    >>> phi
    array([ 8., nan])
    """
    at_risk = daily_exposure > 0
    failures, exposure = np.where(at_risk, daily_failures, 0.0), np.where(at_risk, daily_exposure, 0.0)
    k, days = failures.sum(axis=1), at_risk.sum(axis=1).astype(float)
    usable = (days >= 2) & (k >= 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = exposure / exposure.sum(axis=1)[:, None]
        expected = k[:, None] * share
        chi_squared = np.sum((failures - expected) ** 2 / expected, axis=1, where=at_risk)
        variance = 2 * (days - 1) + (np.sum(1 / share, axis=1, where=at_risk) - days**2 - 2 * days + 2) / k
        p_value = special.chdtrc(2 * (days - 1) ** 2 / variance, chi_squared * 2 * (days - 1) / variance)
        phi = chi_squared / (days - 1)
    return np.where(usable, phi, np.nan), np.where(usable, p_value, np.nan)


def divisors(phi: FloatArray, p_value: FloatArray) -> FloatArray:
    """The `phi` to give to the interval functions: 1 unless the test rejects independence.

    >>> divisors(np.array([8.0, 1.2, np.nan]), np.array([0.001, 0.3, np.nan]))
    array([8., 1., 1.])
    """
    return np.where(p_value < OVERDISPERSION_P, phi, 1.0)


# --- verdicts ----------------------------------------------------------------------------------------


def verdict_of_interval(low: float | None, high: float | None, target: float, direction: Direction) -> Verdict:
    """The verdict of an interval on a claim: a confidence interval, or the bounds of what was delivered.

    A capability claim ("the MTTF is at least 3.66 days") is judged by a confidence interval. A delivered one ("last
    month's goodput was at least 96 %") is about a census, without sampling error: its ends count all unobserved time as
    unproductive and as productive. Supported if the interval is entirely on the claimed side (the target itself is on
    it), refuted if entirely on the other, else undetermined: more exposure or evidence is needed. An infinite end is a
    value; a missing one (None or nan) leaves the claim undetermined.

    >>> verdict_of_interval(8.13, math.inf, 3.66, "at_least")
    'supported'
    >>> verdict_of_interval(0.27, 0.41, 3.66, "at_least")
    'refuted'
    >>> verdict_of_interval(None, None, 3.66, "at_least")
    'undetermined'
    """
    if low is None or high is None or math.isnan(low) or math.isnan(high) or math.isnan(target):
        return "undetermined"
    meets = {(end >= target) if direction == "at_least" else (end <= target) for end in (low, high)}
    if meets == {True}:
        return "supported"
    return "refuted" if meets == {False} else "undetermined"
