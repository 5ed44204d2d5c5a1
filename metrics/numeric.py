"""Two functions of scipy without its cost, equal to them in every bit, and numbers as columns.

The two are a root of a function and log(sum(exp(x))). `scipy.optimize` takes longer to import than everything else that
a computation needs, and `scipy.special.logsumexp` spends nine tenths of its time on kinds of arrays that are not used
here. Both are called thousands of times a computation, on arrays of a few numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

    from metrics.statistics import FloatArray

_XTOL: Final = 2e-12
_RTOL: Final = 4 * float(np.finfo(float).eps)
_STEPS: Final = 100
"""The defaults of `scipy.optimize.brentq`."""


def finite_column(name: str, values: FloatArray) -> pl.Series:
    """Numbers as a column in which what is unknown (NaN) or without limit (infinite) is null.

    >>> finite_column("high", np.array([1.5, np.inf, np.nan])).to_list()
    [1.5, None, None]
    """
    known = np.where(np.isfinite(values), values, np.nan)
    return pl.Series(name, known, dtype=pl.Float64, nan_to_null=True)


def log_sum_exp(values: FloatArray) -> float:
    """The logarithm of the sum of exponentials of one row of numbers, without overflow.

    As `scipy.special.logsumexp`: the largest value is taken out of the sum first.

    >>> log_sum_exp(np.array([1000.0, 1000.0])) == 1000 + math.log(2)
    True
    """
    top = values.max()
    at_top = values == top
    n_top = int(np.count_nonzero(at_top))
    rest = np.exp(np.where(at_top, -np.inf, values) - top).sum()
    return float(np.log1p(rest / n_top) + np.log(n_top) + top)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Root of a continuous function between two points at which its signs differ.

    Brent's method (Algorithms for Minimization without Derivatives, 1973, chapter 4), step for step as
    `scipy.optimize.brentq`.

    Args:
        function: the function.
        low: one end.
        high: the other end.

    Raises:
        ValueError: the function has the same sign at both ends.

    >>> root(lambda x: x * x - 2, 0.0, 2.0)
    1.4142135623731364
    """
    before, at = low, high
    f_before, f_at = function(before), function(at)
    if f_before == 0 or f_at == 0:
        return before if f_before == 0 else at
    if _negative(f_before) == _negative(f_at):
        raise ValueError(f"the function has the same sign at {low} and {high}")
    other = f_other = step_before = step = 0.0
    for _ in range(_STEPS):
        if f_before != 0 and f_at != 0 and _negative(f_before) != _negative(f_at):
            other, f_other = before, f_before
            step_before = step = at - before
        if abs(f_other) < abs(f_at):
            before, at, other = at, other, at
            f_before, f_at, f_other = f_at, f_other, f_at
        least, half = (_XTOL + _RTOL * abs(at)) / 2, (other - at) / 2
        if f_at == 0 or abs(half) < least:
            return at
        trial = math.inf
        if abs(step_before) > least and abs(f_at) < abs(f_before):
            trial = _interpolated(before, at, other, (f_before, f_at, f_other))
        if 2 * abs(trial) < min(abs(step_before), 3 * abs(half) - least):
            step_before, step = step, trial
        else:
            step_before = step = half
        before, f_before = at, f_at
        at += step if abs(step) > least else math.copysign(least, half)
        f_at = function(at)
    return at


def _interpolated(before: float, at: float, other: float, values: tuple[float, float, float]) -> float:
    """The step to the zero of a line through two points, or of a curve through three; infinite where there is none."""
    f_before, f_at, f_other = values
    if before == other:
        return _over(-f_at * (at - before), f_at - f_before)
    slope_before = (f_before - f_at) / (before - at)
    slope_other = (f_other - f_at) / (other - at)
    above = -f_at * (f_other * slope_other - f_before * slope_before)
    return _over(above, slope_other * slope_before * (f_other - f_before))


def _over(above: float, below: float) -> float:
    return above / below if below else math.inf


def _negative(value: float) -> bool:
    return math.copysign(1.0, value) < 0
