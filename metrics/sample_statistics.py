"""Intervals of samples: of quantiles, and of ratios of sums over runs.

Ratios such as ETTR are sums over runs, so their intervals come from resampling whole runs. A quantile of restart times
gets an order-statistic interval.
"""

import math
from typing import NamedTuple

import numpy as np

from metrics.lazy_scipy import special
from metrics.statistics import CONFIDENCE, FloatArray, Interval

MIN_EFFECTIVE_NUMBER = 20
"""Below so many runs' worth of evidence a bootstrap interval is not to be trusted: show the runs."""

_RESAMPLED_AT_ONCE = 1_000_000
"""Cluster draws held in memory at a time by the bootstrap (8 MB an array)."""


# --- quantiles ---------------------------------------------------------------------------------------


class QuantileInterval(NamedTuple):
    """An interval of a quantile, with the coverage it really has."""

    low: float
    high: float
    coverage: float


def quantile_interval(values: FloatArray, q: float = 0.5, *, confidence: float = CONFIDENCE) -> QuantileInterval:
    """Interval of a quantile (the median by default) that assumes nothing about the distribution.

    Its ends are two of the values. With B ~ Binomial(n, q), the r-th and s-th smallest enclose the
    quantile with probability P(r <= B < s); r and s are the innermost that leave at most
    `(1 - confidence) / 2` on each side (David and Nagaraja, Order Statistics, 3rd ed., section 7.1).
    Where there are too few values for that, the end is infinite: a median at 95 % takes six.
    nan values are left out.

    >>> quantile_interval(np.array([81.0, 64.0, 90.0, 75.0, 70.0, 300.0]))
    QuantileInterval(low=64.0, high=300.0, coverage=0.96875)
    >>> quantile_interval(np.array([81.0, 64.0, 90.0]))
    QuantileInterval(low=-inf, high=inf, coverage=1.0)
    """
    usable = values[~np.isnan(values)]
    n = len(usable)
    below = special.bdtr(np.arange(n + 1), n, q)  # P(B <= 0), ..., P(B <= n)
    tail = (1 - confidence) / 2
    r, s = int(np.searchsorted(below, tail)), int(np.searchsorted(below, 1 - tail)) + 1
    ordered = np.concatenate([[-np.inf], np.sort(usable), [np.inf]])
    return QuantileInterval(float(ordered[r]), float(ordered[s]), float(below[s - 1] - (below[r - 1] if r else 0.0)))


# --- ratios ------------------------------------------------------------------------------------------


def effective_number(weights: FloatArray) -> float:
    """Number of equal weights that are worth as much as these: `(sum w)^2 / sum w^2` (Kish 1965).

    nan without any weight.

    >>> round(effective_number(np.array([1024.0, 64.0, 8.0])), 2)
    1.14
    """
    squares = float(np.sum(weights**2))
    return float(np.sum(weights)) ** 2 / squares if squares else math.nan


def bootstrap_ratio_interval(
    numerators: FloatArray,
    denominators: FloatArray,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = 2000,
    seed: int,
) -> Interval[float] | None:
    """Interval of a ratio of sums, from resampling whole runs (or days, for a cluster's goodput).

    BCa: percentiles of the resampled ratios, moved for bias and skewness (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, section 14.3). None where the runs weigh less than 20 equal
    ones, see :func:`effective_number` of the denominators: then the interval would promise more than it
    keeps, so print the runs. Even above that it promises a little much: a nominal 95 % held the truth in
    91 to 93 % of simulated sets of 30 to 40 runs, and in 94 % from 100 runs on. The same seed gives the
    same interval.

    Args:
        numerators: One sum per run, such as productive GPU-seconds.
        denominators: One sum per run, such as GPU-seconds of wall time; runs without any are left out.
        confidence: Two-sided level.
        resamples: Number of resampled ratios; 2000 or more.
        seed: Of the random numbers.

    >>> productive, wall = np.tile([95.0, 40.0, 80.0], 20), np.tile([100.0, 50.0, 100.0], 20)
    >>> interval = bootstrap_ratio_interval(productive, wall, seed=1)
    >>> interval.low < 215 / 250 < interval.high
    True
    >>> bootstrap_ratio_interval(productive[:9], wall[:9], seed=1) is None
    True
    """
    weighing = denominators > 0
    top, bottom = numerators[weighing], denominators[weighing]
    if not effective_number(bottom) >= MIN_EFFECTIVE_NUMBER:
        return None
    ratio = top.sum() / bottom.sum()
    leave_one_out = (top.sum() - top) / (bottom.sum() - bottom)
    resampled = _resampled_ratios(top, bottom, resamples, np.random.default_rng(seed))
    low, high = np.quantile(resampled, _bca_levels(ratio, leave_one_out, resampled, confidence))
    return Interval(float(low), float(high))


def _resampled_ratios(top: FloatArray, bottom: FloatArray, resamples: int, random: np.random.Generator) -> FloatArray:
    """Ratios of sums over as many clusters as there are, drawn with replacement."""
    n = len(top)
    at_once = max(1, _RESAMPLED_AT_ONCE // n)
    ratios = []
    for start in range(0, resamples, at_once):
        drawn = random.integers(n, size=(min(at_once, resamples - start), n))
        ratios.append(top[drawn].sum(axis=1) / bottom[drawn].sum(axis=1))
    return np.concatenate(ratios)


def _bca_levels(ratio: float, leave_one_out: FloatArray, resampled: FloatArray, confidence: float) -> FloatArray:
    """The two percentile levels of the BCa interval, between 0 and 1."""
    from statistics import NormalDist  # noqa: PLC0415 - most answers resample nothing, and scipy's takes far longer

    normal = NormalDist()
    below = np.sum(resampled < ratio) + np.sum(resampled == ratio) / 2
    bias = normal.inv_cdf((below + 0.5) / (len(resampled) + 1))  # finite even if all lie on one side
    pull = leave_one_out.mean() - leave_one_out
    spread = np.sum(pull**2) ** 1.5
    skew = np.sum(pull**3) / (6 * spread) if spread > 0 else 0.0
    tail = (1 - confidence) / 2
    shifted = [bias + normal.inv_cdf(each) for each in (tail, 1 - tail)]
    return np.array([normal.cdf(bias + each / (1 - skew * each)) for each in shifted])
