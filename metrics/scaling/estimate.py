"""A ratio of sums over few units (runs, or blocks of steps), its standard error, and quotients of two such ratios."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metrics.lazy_scipy import special
from metrics.statistics import CONFIDENCE, Interval

if TYPE_CHECKING:
    from collections.abc import Sequence


class Estimate(NamedTuple):
    """A positive number with its relative standard error.

    Attributes:
        value: the number.
        error: its standard error over the value; None where fewer than two units are behind it.
        freedom: degrees of freedom of the error.
        n: units behind it.
        over: what the units are: `runs`, or `blocks of steps`.
    """

    value: float
    error: float | None
    freedom: float
    n: int
    over: str

    def interval(self, confidence: float = CONFIDENCE) -> Interval[float] | None:
        """The t interval of the logarithm; None without an error.

        >>> [round(end, 2) for end in estimate([9.0, 10.0, 11.0], [1.0, 1.0, 1.0], "runs").interval()]
        [7.8, 12.82]
        """
        if self.error is None:
            return None
        wide = float(special.stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        return Interval(self.value * math.exp(-wide), self.value * math.exp(wide)) if wide < _WIDEST else None


_WIDEST = 50.0
"""Half-width of a logarithm from which on an interval has no meaning."""


def estimate(tops: Sequence[float], bottoms: Sequence[float], over: str) -> Estimate | None:
    """The ratio of the sums, and its error from how the units differ (linearised: Cochran 1977, 6.4).

    Args:
        tops: of each unit, such as its tokens.
        bottoms: of each unit, such as its GPU-seconds; 1 each gives the mean of the tops.
        over: what the units are.

    Returns:
        None where the ratio is not above zero.
    """
    top, bottom = np.asarray(tops, dtype=np.float64), np.asarray(bottoms, dtype=np.float64)
    if not len(top) or not bottom.sum() > 0 or not top.sum() > 0:
        return None
    n, value = len(top), float(top.sum() / bottom.sum())
    if n < 2:
        return Estimate(value, None, 0.0, n, over)
    variance = float(np.sum((top - value * bottom) ** 2)) * n / (n - 1) / float(bottom.sum()) ** 2
    return Estimate(value, math.sqrt(variance) / value, n - 1.0, n, over)


def quotient(top: Estimate, bottom: Estimate, factor: float = 1.0) -> Estimate:
    """`factor * top / bottom` of independent estimates (delta method; degrees of freedom: Welch 1947, Satterthwaite).

    >>> few, many = estimate([10.0, 10.0], [1.0, 1.0], "runs"), estimate([9.0, 9.0], [1.0, 1.0], "runs")
    >>> quotient(many, few).value
    0.9
    """
    value = factor * top.value / bottom.value
    over = top.over if top.over == bottom.over else f"{top.over} and {bottom.over}"
    n = top.n + bottom.n
    if top.error is None or bottom.error is None:
        return Estimate(value, None, 0.0, n, over)
    variance = top.error**2 + bottom.error**2
    weights = top.error**4 / top.freedom + bottom.error**4 / bottom.freedom
    return Estimate(value, math.sqrt(variance), variance**2 / weights if weights > 0 else n - 2.0, n, over)
