"""Chance of an interruption by an attempt's age: Kaplan-Meier, competing causes, Weibull.

An attempt is seen from the age at which it (or the window) began to the age at which it ended (or the window did):
truncated on the left, censored on the right. Ages are seconds of running. Plain arrays in and out, nothing of failures
in particular; `metrics.failures.hazard` applies it to them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from metrics import frames
from metrics.lazy_scipy import optimize, special
from metrics.metric import Metric
from metrics.statistics import from_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from metrics.statistics import FloatArray

CENSORED = 0
"""Code of a spell at whose end nothing happened. Causes are numbered from 1."""

Z_95 = 1.959963984540054
"""The normal quantile at 0.975."""

SHAPES = (0.02, 50.0)
"""Weibull shapes that are considered; a maximum at either end is none."""

MOST_AGES: Final = 10_000
"""Of more different ages a fit rounds each to a thousandth of itself: far less than what so many ages leave open."""

_STARTS = [float(x) for x in np.linspace(math.log(SHAPES[0]), math.log(SHAPES[1]), 40)]
"""Logarithms of the shapes between which maxima are searched."""


class Spells(NamedTuple):
    """Observed ages of attempts.

    Attributes:
        entered: age when first seen, seconds; 0 unless it ran before the window opened.
        left: age when last seen; above `entered`.
        cause: what ended it then: `CENSORED`, or the number of a cause.
    """

    entered: FloatArray
    left: FloatArray
    cause: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Curve:
    """A step function of age: its value from each age on, with its interval.

    Attributes:
        age: ages at which anything happened, ascending, seconds.
        at_risk: attempts seen just before each.
        events: events of the cause(s) at each.
        value: survival, or cumulative incidence, from then on.
        low: 95 % interval, log-log; nan where it has none (0 or 1 so far).
        high: its other end.
    """

    age: FloatArray
    at_risk: FloatArray
    events: FloatArray
    value: FloatArray
    low: FloatArray
    high: FloatArray


def kaplan_meier(spells: Spells, causes: Sequence[int]) -> Curve:
    """Share of attempts that none of these causes has ended by an age, had no other cause ended them before.

    `S(t) = prod(1 - d/Y)` over the ages up to t at which d of the Y attempts under observation ended so; other ends
    censor. An attempt is under observation from the age at which it was first seen (Kaplan and Meier 1958; Klein and
    Moeschberger, Survival Analysis, 2003, sections 4.2 and 4.6). Greenwood's variance, on the log-log scale.

    Where few were seen from the start, an early event among them weighs much; see `at_risk`.

    Of eleven, ended at 6, 6, 6, 7, 10 and 13, censored at 6, 9, 10, 11 and 17:

    >>> left = np.array([6, 6, 6, 7, 10, 13, 6, 9, 10, 11, 17.0])
    >>> cause = np.array([1] * 6 + [0] * 5)
    >>> kaplan_meier(Spells(np.zeros(11), left, cause), [1]).value.round(4)
    array([0.7273, 0.6234, 0.4987, 0.2494])
    """
    ages, at_risk, (events,) = _table(spells, [list(causes)])
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1 - events / at_risk, dtype=np.float64)
        greenwood = np.cumsum(events / (at_risk * (at_risk - events)))
        low, high = _log_log(survival, np.sqrt(greenwood) / np.abs(np.log(survival)))
    return Curve(ages, at_risk, events, survival, low, high)


def cumulative_incidence(spells: Spells, cause: int) -> Curve:
    """Share of attempts that a cause has ended by an age, while other causes end them, too.

    `F(t) = sum(S(t-) d/Y)` with S the survival of all causes together (Aalen and Johansen 1978); over all causes it
    adds up to 1 - S. Variance by the delta method (Marubini and Valsecchi, Analysing Survival Data, 1995, section
    10.2.2), interval on the log-log scale of 1 - F. Ages are those of any cause.
    """
    ages, at_risk, (every, events) = _table(spells, [[], [cause]])
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1 - every / at_risk, dtype=np.float64)
        before = np.concatenate([[1.0], survival[:-1]]) if len(survival) else survival
        incidence = np.cumsum(before * events / at_risk, dtype=np.float64)
        of_all = every / (at_risk * (at_risk - every))
        own = before**2 * (at_risk - events) * events / at_risk**3
        both = before * events / at_risk**2
        # (F(t) - F_j)^2 and F(t) - F_j, summed over j: running sums of their parts.
        variance = (
            incidence**2 * np.cumsum(of_all)
            - 2 * incidence * np.cumsum(of_all * incidence)
            + np.cumsum(of_all * incidence**2)
            + np.cumsum(own)
            - 2 * (incidence * np.cumsum(both) - np.cumsum(both * incidence))
        )
        rest = 1 - incidence
        low, high = _log_log(rest, np.sqrt(np.maximum(variance, 0)) / np.abs(rest * np.log(rest)))
    return Curve(ages, at_risk, events, incidence, 1 - high, 1 - low)


def _table(spells: Spells, causes_of: Sequence[Sequence[int]]) -> tuple[FloatArray, FloatArray, list[FloatArray]]:
    """Ages at which any of the causes struck, how many were under observation, and counts for each group of causes.

    No causes named means all of them. Under observation at an age are those that entered before it and had not left.
    """
    struck = [np.isin(spells.cause, each) if len(each) else spells.cause != CENSORED for each in causes_of]
    ages = np.unique(spells.left[np.logical_or.reduce(struck)])
    late, left = np.sort(spells.entered[spells.entered > 0]), np.sort(spells.left, kind="stable")
    entered = len(left) - len(late) + np.searchsorted(late, ages, side="left")
    at_risk = entered - np.searchsorted(left, ages, side="left")
    counts = [np.bincount(np.searchsorted(ages, spells.left[each]), minlength=len(ages)) for each in struck]
    return ages, at_risk.astype(float), [each.astype(float) for each in counts]


def _log_log(value: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Interval of a share on the log-log scale, which keeps it within 0 and 1."""
    usable = (value > 0) & (value < 1) & np.isfinite(spread)
    width = np.exp(Z_95 * np.where(usable, spread, np.nan))
    return value**width, value ** (1 / width)


def at_age(curve: Curve, age: float) -> tuple[float, float, float] | None:
    """Value and interval of a curve at an age; None where no spell under observation was so old."""
    i = int(np.searchsorted(curve.age, age, side="right")) - 1
    if i < 0:
        return None
    return float(curve.value[i]), float(curve.low[i]), float(curve.high[i])


def median(curve: Curve) -> tuple[float | None, float | None, float | None]:
    """Age by which half are interrupted, and its interval, as `quantile`."""
    return quantile(curve, 0.5)


def quantile(curve: Curve, q: float) -> tuple[float | None, float | None, float | None]:
    """Age by which a share `q` has ended, and its interval: where the curve and its ends fall to 1 - q.

    None where they do not: too few were seen that long (Brookmeyer and Crowley 1982).
    """

    def falls(values: FloatArray) -> float | None:
        below = np.flatnonzero(values <= 1 - q + _ROUNDING)
        return float(curve.age[below[0]]) if len(below) else None

    return falls(curve.value), falls(curve.low), falls(curve.high)


TIMES: Final[frames.Schema] = {
    "n": frames.COUNT,
    "n_open": frames.COUNT,
    "median_s": frames.NUMBER,
    "median_low_s": frames.NUMBER,
    "median_high_s": frames.NUMBER,
    "p90_s": frames.NUMBER,
}
"""Durations: their number, how many still last, the median with its interval, the 90th percentile."""


def times(took_s: FloatArray, is_open: npt.NDArray[np.bool_]) -> dict[str, float | None]:
    """`TIMES` of what took so many seconds; what still lasts is censored at the seconds so far."""
    curve = kaplan_meier(Spells(took_s * 0.0, took_s, np.where(is_open, CENSORED, 1)), [1])
    middle, low, high = quantile(curve, 0.5)
    numbers = (len(took_s), int(is_open.sum()), middle, low, high, quantile(curve, 0.9)[0])
    return dict(zip(TIMES, numbers, strict=True))


_ROUNDING = 1e-12
"""A curve that is a product of fractions may miss a value by its last digits."""


# --- Weibull -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weibull:
    """A Weibull hazard `(k/s) (t/s)^(k-1)`, and the constant one that it is compared with.

    Attributes:
        shape: k; below 1 the chance of an interruption falls with age, at 1 it does not change.
        shape_low: profile-likelihood interval, 95 %; None where it is open.
        shape_high: its other end.
        scale_s: s; by then 63 % are interrupted. None where it is no number that a float can hold.
        scale_low_s: Wald interval of its logarithm, 95 %; None where it is open, as with `shape_low`.
        scale_high_s: its other end.
        n_events: events that it rests on.
        aic: Akaike's criterion; the lower of the two is to be preferred.
        aic_exponential: of the constant hazard.
        p_value: of the likelihood-ratio test of a constant hazard.
    """

    shape: float
    shape_low: float | None
    shape_high: float | None
    scale_s: float | None
    scale_low_s: float | None
    scale_high_s: float | None
    n_events: int
    aic: float
    aic_exponential: float
    p_value: float

    @property
    def words(self) -> str:
        """The shape in words."""
        if self.p_value >= 0.05:
            return "no sign of memory: a constant chance of an interruption (shape 1) explains as much"
        if self.shape < 1:
            return "infant mortality or crash loops: the chance of an interruption falls with age"
        return "wear: the chance of an interruption rises with age"


class _Ages(NamedTuple):
    """Attempts by their ages, in units of the longest.

    Attributes:
        left: logarithm of the age when last seen, 0 or less.
        ratio: logarithm of the age when first seen over it, below 0; None if all were seen from the start.
        n: how often such an attempt comes.
    """

    left: FloatArray
    ratio: FloatArray | None
    n: FloatArray

    def sums(self, k: float) -> FloatArray:
        """`sum(left^k - entered^k)` and its first two derivatives by k, without cancellation where k is small."""
        logs, power = self.left, self.n * np.exp(k * self.left)
        if self.ratio is None:
            return np.array([power.sum(), power @ logs, power @ logs**2])
        entered, rest = np.exp(k * self.ratio), -np.expm1(k * self.ratio)  # (entered/left)^k, and 1 less it
        first = logs * rest - self.ratio * entered
        second = logs**2 * rest - (2 * logs + self.ratio) * self.ratio * entered
        return np.array([power @ rest, power @ first, power @ second])


class _Profile(NamedTuple):
    """Inputs of the likelihood.

    Attributes:
        ages: of attempts seen from the start, and of those that entered late.
        log_events: sum of the logarithms of the ages at the events, in the same unit.
        n_events: their number.
        unit: the longest age, seconds.
        known: `sums` by shape, each over all ages: maximum and interval are looked for among the same shapes.
    """

    ages: tuple[_Ages, _Ages]
    log_events: float
    n_events: int
    unit: float
    known: dict[float, tuple[float, float, float]]

    def sums(self, shape: float) -> tuple[float, float, float]:
        """A = sum(left^k - entered^k), and its first two derivatives by k."""
        if shape not in self.known:
            total, first, second = self.ages[0].sums(shape) + self.ages[1].sums(shape)
            self.known[shape] = float(total), float(first), float(second)
        return self.known[shape]

    def log_likelihood(self, shape: float) -> float:
        """At the scale that suits the shape best, but for a constant."""
        d = self.n_events
        return d * math.log(shape) - d * math.log(self.sums(shape)[0] / d) + (shape - 1) * self.log_events

    def slope(self, log_shape: float) -> float:
        """Derivative of the log-likelihood by the logarithm of the shape."""
        shape = math.exp(log_shape)
        total, first, _ = self.sums(shape)
        return self.n_events * (1 - shape * first / total) + shape * self.log_events


def weibull(spells: Spells, causes: Sequence[int]) -> Weibull | None:
    """Maximum-likelihood Weibull of the age at an interruption, other ends censored, entry truncated.

    With d events and `A(k) = sum(left^k - entered^k)` the scale is `(A/d)^(1/k)`, and
    `l(k) = d log k - d log(A/d) + (k - 1) sum(log t) - d` is left to maximise (Klein and Moeschberger 2003, sections
    3.5 and 12.2). None with fewer than two events, or where the likelihood has no maximum.

    Events at 1, 2, 3, 4 and 5, nothing censored:

    >>> fitted = weibull(Spells(np.zeros(5), np.arange(1.0, 6.0), np.ones(5, dtype=np.int64)), [1])
    >>> round(fitted.shape, 3), round(fitted.scale_s, 3)
    (2.294, 3.394)
    """
    struck = np.isin(spells.cause, list(causes))
    d = int(struck.sum())
    if d < 2:
        return None
    profile = _profile(spells, struck, d)
    shape = _best_shape(profile)
    if shape is None:
        return None
    top, flat = profile.log_likelihood(shape), profile.log_likelihood(1.0)
    low, high = _shape_interval(profile, shape)
    scale, *ends = _scales(profile, shape, is_open=low is None)
    # Constant that both likelihoods lack: -d for the exponent, and -d log(unit) since ages are in other units.
    constant = -d - d * math.log(profile.unit)
    return Weibull(
        shape=shape,
        shape_low=low,
        shape_high=high,
        scale_s=scale,
        scale_low_s=ends[0],
        scale_high_s=ends[1],
        n_events=d,
        aic=4 - 2 * (top + constant),
        aic_exponential=2 - 2 * (flat + constant),
        p_value=float(special.chdtrc(1, max(2 * (top - flat), 0.0))),
    )


def _best_shape(profile: _Profile) -> float | None:
    """The shape of the highest likelihood: the best of all maxima; None if it is higher still at either end.

    Late entries can give the profile more than one maximum, so every place where its slope turns from up to down is
    looked at.
    """
    slopes = [profile.slope(x) for x in _STARTS]
    turns = [(a, b) for (a, up), (b, down) in pairwise(zip(_STARTS, slopes, strict=True)) if up > 0 >= down]
    maxima = [math.exp(float(optimize.brentq(profile.slope, *turn, xtol=1e-12))) for turn in turns]
    best = max(maxima, key=profile.log_likelihood, default=None)
    if best is None or profile.log_likelihood(best) < max(profile.log_likelihood(end) for end in SHAPES):
        return None
    return best


def _shape_interval(profile: _Profile, best: float) -> tuple[float | None, float | None]:
    """The lowest and the highest shape that 95 % do not exclude; None where none is excluded at that end."""
    least = profile.log_likelihood(best) - float(special.chdtri(1, 0.05)) / 2

    def beyond(log_shape: float) -> float:
        return least - profile.log_likelihood(math.exp(log_shape))

    ways = sorted([*_STARTS, math.log(best)])
    return _crossing(beyond, ways), _crossing(beyond, ways[::-1])


def _profile(spells: Spells, struck: npt.NDArray[np.bool_], d: int) -> _Profile:
    unit = float(spells.left.max())
    late = spells.entered > 0
    fresh, fresh_n = np.unique(spells.left[~late], return_counts=True)
    if len(fresh) > MOST_AGES:
        fresh, fresh_n = _rounded(fresh, fresh_n)
    pairs, n = np.unique(spells.left[late] + 1j * spells.entered[late], return_counts=True)
    ages = (
        _Ages(np.log(fresh / unit), None, fresh_n.astype(float)),
        _Ages(np.log(pairs.real / unit), np.log(pairs.imag / pairs.real), n.astype(float)),
    )
    return _Profile(ages, float(np.log(spells.left[struck] / unit).sum()), d, unit, {})


def _rounded(ages: FloatArray, n: npt.NDArray[np.int64]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Ages to a thousandth of themselves, and how many there are of each."""
    steps, place = np.unique(np.round(np.log(ages) * 1024), return_inverse=True)
    return np.exp(steps / 1024), np.bincount(place, weights=n).astype(np.int64)


def _scales(profile: _Profile, shape: float, *, is_open: bool) -> tuple[float | None, float | None, float | None]:
    """The scale at the maximum and its interval; None where it is open, or beyond all numbers.

    If no shape is too low for the data, no scale is, either: the interval is open. Else it is of the logarithm, from
    the observed information.
    """
    total, first, second = profile.sums(shape)
    d, k = profile.n_events, shape
    u = math.log(total / d) / k
    of_scale = k * k * d
    of_shape = d / k**2 + d * (second / total - 2 * u * first / total + u * u)
    mixed = -k * d * (first / total - u)
    information = of_shape - mixed**2 / of_scale
    log_scale = u + math.log(profile.unit)
    if is_open or not information > 0:
        return from_log(log_scale), None, None
    spread = Z_95 * math.sqrt(of_shape / (of_scale * information))
    return from_log(log_scale), from_log(log_scale - spread), from_log(log_scale + spread)


def _crossing(beyond: Callable[[float], float], ways: Sequence[float]) -> float | None:
    """The first shape on the way at which the likelihood is high enough; None if it is from the beginning on."""
    if beyond(ways[0]) <= 0:
        return None
    inside = next(i for i, x in enumerate(ways) if beyond(x) <= 0)
    return math.exp(float(optimize.brentq(beyond, ways[inside - 1], ways[inside])))


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="survival",
        unit="ratio",
        summary="Share of attempts not interrupted by an age, were nothing else to end them.",
        formula=(
            "product over ages of 1 - interruptions / attempts under observation, entering late where the window cuts"
        ),
        query="exposures",
        function=kaplan_meier,
        interval="Greenwood on the log-log scale, 95 %",
        source="Kaplan and Meier 1958; Klein and Moeschberger 2003, section 4.6",
    ),
    Metric(
        name="cumulative_incidence",
        unit="ratio",
        summary="Share of attempts that a cause has ended by an age, in competition with all other causes.",
        formula="sum over ages of survival of all causes just before x ends by the cause / attempts under observation",
        query="exposures",
        function=cumulative_incidence,
        interval="delta method on the log-log scale, 95 %",
        source="Aalen and Johansen 1978; Marubini and Valsecchi 1995, section 10.2",
    ),
    Metric(
        name="hazard_shape",
        unit="ratio",
        summary=(
            "Weibull shape of the age at an interruption: below 1 infant mortality or crash loops, at 1 memoryless."
        ),
        formula=(
            "maximum likelihood with right censoring and left truncation; compared with a constant hazard by AIC and "
            "likelihood ratio"
        ),
        query="exposures",
        function=weibull,
        interval="profile likelihood, 95 %",
        source="our definitions 7.2; Klein and Moeschberger 2003, section 12.2",
    ),
)
