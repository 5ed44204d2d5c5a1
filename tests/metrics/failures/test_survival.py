"""Survival by age against published tables, hand calculation and a slow twin."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics.failures import survival
from metrics.failures.survival import Spells, at_age, cumulative_incidence, kaplan_meier, median, weibull
from tests.metrics.failures import slow_survival

if TYPE_CHECKING:
    from tests.metrics.failures.slow_survival import Spell


def intervals(rows: list[Spell]) -> Spells:
    columns = np.array(rows, dtype=float).reshape(-1, 3).T
    return Spells(columns[0], columns[1], columns[2].astype(np.int64))


def from_start(*left: float, censored: tuple[float, ...] = ()) -> list[Spell]:
    return [(0.0, each, 1) for each in left] + [(0.0, each, 0) for each in censored]


REMISSIONS = from_start(
    6, 6, 6, 7, 10, 13, 16, 22, 23, censored=(6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35)
)  # fmt: skip
"""Weeks of remission with 6-MP (Freireich et al. 1963), the example of every textbook."""


# --- Kaplan-Meier ------------------------------------------------------------------------------------


def test_the_textbook_table_of_remissions() -> None:
    """Klein and Moeschberger, Survival Analysis, table 4.1: estimates and Greenwood standard errors."""
    result = kaplan_meier(intervals(REMISSIONS), [1])
    assert result.age.tolist() == [6, 7, 10, 13, 16, 22, 23]
    assert result.at_risk.tolist() == [21, 17, 15, 12, 11, 7, 6]
    assert result.events.tolist() == [3, 1, 1, 1, 1, 1, 1]
    assert result.value == pytest.approx([0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448], abs=5e-4)
    errors = [math.sqrt(variance) for _, _, variance in slow_survival.survival(REMISSIONS, [1])]
    assert errors == pytest.approx([0.076, 0.087, 0.096, 0.107, 0.114, 0.128, 0.135], abs=5e-4)


def test_a_log_log_interval_by_hand() -> None:
    """At 6: S 6/7, Greenwood's sum 3/(21 x 18); the ends are S to the power exp(+-1.96 sqrt(1/126) / |log S|)."""
    result = kaplan_meier(intervals(REMISSIONS), [1])
    width = math.exp(1.959964 * math.sqrt(3 / (21 * 18)) / abs(math.log(6 / 7)))
    assert at_age(result, 6.5) == pytest.approx((6 / 7, (6 / 7) ** width, (6 / 7) ** (1 / width)))


def test_the_median_is_where_the_curve_falls_to_a_half() -> None:
    result = kaplan_meier(intervals(REMISSIONS), [1])
    assert median(result) == (23, 13, None)  # the upper end stays above 1/2: not known
    assert median(kaplan_meier(intervals(from_start(censored=(1, 2))), [1])) == (None, None, None)


def test_curve_is_unknown_before_the_first_event_and_then_holds() -> None:
    """After the last event, the last step holds."""
    result = kaplan_meier(intervals(REMISSIONS), [1])
    assert at_age(result, 5.9) is None
    assert at_age(result, 30.0) == at_age(result, 23.0)


def test_who_enters_late_is_at_risk_from_then_on_only() -> None:
    """Seen 0-2 (event), 1-3 (event), 2-4 (event): at 2 two are under observation, for the third enters just then."""
    result = kaplan_meier(intervals([(0, 2, 1), (1, 3, 1), (2, 4, 1), (0, 5, 0)]), [1])
    assert result.at_risk.tolist() == [3, 3, 2]
    assert result.value == pytest.approx([2 / 3, 4 / 9, 2 / 9])


def test_other_causes_censor() -> None:
    rows: list[Spell] = [(0, 1, 2), (0, 2, 1), (0, 3, 2), (0, 4, 1)]
    assert kaplan_meier(intervals(rows), [1]).value == pytest.approx([2 / 3, 0])
    assert kaplan_meier(intervals(rows), [1, 2]).value == pytest.approx([3 / 4, 1 / 2, 1 / 4, 0])


def test_with_all_or_none_interrupted_no_interval_results() -> None:
    result = kaplan_meier(intervals(from_start(1, 2)), [1])
    assert result.value.tolist() == [0.5, 0]
    assert np.isfinite(result.low).tolist() == [True, False]


histories = st.lists(
    st.tuples(st.integers(0, 8), st.integers(1, 8), st.integers(0, 3)).map(
        lambda row: (float(row[0]), float(row[0] + row[1]), row[2])
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(histories)
def test_survival_agrees_with_the_slow_twin(rows: list[Spell]) -> None:
    result = kaplan_meier(intervals(rows), [1, 2])
    expected = slow_survival.survival(rows, [1, 2])
    assert result.age.tolist() == [age for age, _, _ in expected]
    assert result.value == pytest.approx([value for _, value, _ in expected], abs=1e-12)
    for (_, value, variance), low, high in zip(expected, result.low, result.high, strict=True):
        if 0 < value < 1 and math.isfinite(variance):
            width = math.exp(1.959963985 * math.sqrt(variance) / value / abs(math.log(value)))
            assert (low, high) == pytest.approx((value**width, value ** (1 / width)))


@settings(max_examples=60, deadline=None)
@given(histories)
def test_incidence_agrees_with_the_slow_twin(rows: list[Spell]) -> None:
    result = cumulative_incidence(intervals(rows), 2)
    expected = slow_survival.incidence(rows, 2, [1, 2, 3])
    assert result.age.tolist() == [age for age, _, _ in expected]
    assert result.value == pytest.approx([value for _, value, _ in expected], abs=1e-12)
    for (_, value, variance), low, high in zip(expected, result.low, result.high, strict=True):
        if 0 < value < 1 - 1e-9 and math.isfinite(variance) and variance > 1e-12:
            rest = 1 - value
            width = math.exp(1.959963985 * math.sqrt(variance) / abs(rest * math.log(rest)))
            assert (low, high) == pytest.approx((1 - rest ** (1 / width), 1 - rest**width), rel=1e-6)


@settings(max_examples=30, deadline=None)
@given(histories)
def test_the_incidences_of_all_causes_and_survival_add_up_to_one(rows: list[Spell]) -> None:
    whole = kaplan_meier(intervals(rows), [1, 2, 3])
    causes = sum(cumulative_incidence(intervals(rows), cause).value for cause in (1, 2, 3))
    assert causes + whole.value == pytest.approx(np.ones(len(whole.age)))


def test_incidence_without_censoring_is_the_share_that_ended_so() -> None:
    rows: list[Spell] = [(0, 1, 1), (0, 2, 2), (0, 3, 1), (0, 4, 2)]
    result = cumulative_incidence(intervals(rows), 1)
    assert result.value == pytest.approx([1 / 4, 1 / 4, 1 / 2, 1 / 2])


def test_incidence_variance_without_censoring_is_binomial() -> None:
    """p (1 - p) / n, on the log-log scale: what the delta method must come to."""
    rows: list[Spell] = [(0, 1, 1), (0, 2, 2), (0, 3, 1), (0, 4, 2), (0, 5, 2)]
    result, share, rest = cumulative_incidence(intervals(rows), 1), 2 / 5, 3 / 5
    width = math.exp(1.959963985 * math.sqrt(share * rest / 5) / abs(rest * math.log(rest)))
    assert (result.age[2], result.value[2]) == pytest.approx((3, share))
    assert (result.low[2], result.high[2]) == pytest.approx((1 - rest ** (1 / width), 1 - rest**width))


# --- Weibull -----------------------------------------------------------------------------------------


def test_weibull_without_censoring_is_scipys() -> None:
    ages = np.random.default_rng(4).weibull(0.7, 60) * 3600
    shape, _, scale = stats.weibull_min.fit(ages, floc=0)
    result = weibull(Spells(np.zeros(60), ages, np.ones(60, dtype=np.int64)), [1])
    assert result is not None
    assert (result.shape, result.scale_s) == pytest.approx((shape, scale), rel=1e-3)


def test_likelihood_of_a_constant_hazard_is_failures_over_time() -> None:
    """Exponential: d log(d/T) - d is the highest log-likelihood; AIC has one parameter."""
    result = weibull(intervals(REMISSIONS), [1])
    assert result is not None
    total = sum(left for _, left, _ in REMISSIONS)
    assert total == 359
    assert result.aic_exponential == pytest.approx(2 - 2 * (9 * math.log(9 / 359) - 9))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.4, 2.5), st.booleans())
@example(seed=5776, shape=0.625, late=True)  # a shape of 0.05, a scale of 1e-21 s: the interval is open
@example(seed=5775, shape=0.625, late=True)  # the interval of the scale was beyond all numbers
@example(seed=5777, shape=0.5, late=True)
def test_weibull_is_where_the_slow_likelihood_is_highest(seed: int, shape: float, late: bool) -> None:
    chance = np.random.default_rng(seed)
    left = chance.weibull(shape, 40) * 100 + 1e-3
    entered = left * chance.uniform(0, 0.9, 40) * late
    cause = chance.integers(0, 2, 40)
    cause[:3] = 1
    rows = [(float(a), float(b), int(c)) for a, b, c in zip(entered, left, cause, strict=True)]
    result = weibull(intervals(rows), [1])
    best, at = slow_survival.weibull_best(rows, [1])
    if result is None:
        assert at == pytest.approx(0.02)  # no shape is low enough
        return
    assert result.scale_s is not None
    here = slow_survival.weibull_log_likelihood(rows, [1], result.shape, result.scale_s)
    assert best - 1e-6 <= here <= best + 1e-2  # the grid is fine, but a grid
    assert result.aic == pytest.approx(4 - 2 * here)
    assert result.aic_exponential >= result.aic - 2 - 1e-9  # one parameter more never fits worse
    assert_flat(rows, result.shape, result.scale_s)
    assert (result.shape_low is None) <= (result.scale_low_s is None)


def assert_flat(rows: list[Spell], shape: float, scale: float) -> None:
    """At a maximum the slow likelihood falls to all sides."""
    here = slow_survival.weibull_log_likelihood(rows, [1], shape, scale)
    for of_shape, of_hazard in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        k = shape * math.exp(1e-4 * of_shape)
        s = math.exp((math.log(scale) * shape + 1e-4 * of_hazard) / k)  # s^k is what the hazard depends on
        there = slow_survival.weibull_log_likelihood(rows, [1], k, s)
        assert there <= here + 1e-9


def test_interval_of_thousands_of_events_is_narrower_than_a_grid() -> None:
    ages = np.random.default_rng(3).weibull(1.3, 40_000)
    result = weibull(Spells(np.zeros(40_000), ages, np.ones(40_000, dtype=np.int64)), [1])
    assert result is not None
    assert result.shape_low is not None
    assert result.shape_high is not None
    assert 1.3 * 0.98 < result.shape_low < result.shape < result.shape_high < 1.3 * 1.02


def test_weibull_of_many_ages_hardly_changes_when_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(1)
    left, cause = dice.weibull(0.8, 3000) * 86_400, dice.integers(0, 2, 3000)
    exact = weibull(Spells(np.zeros(3000), left, cause), [1])
    monkeypatch.setattr(survival, "MOST_AGES", 100)
    rounded = weibull(Spells(np.zeros(3000), left, cause), [1])
    assert exact is not None
    assert rounded is not None
    ends = [(each.shape, each.shape_low, each.shape_high, each.scale_s) for each in (exact, rounded)]
    assert ends[1] == pytest.approx(ends[0], rel=1e-4)
    assert ends[1] != ends[0]


def test_shape_interval_is_where_the_likelihood_fell_by_1_92() -> None:
    result = weibull(intervals(REMISSIONS), [1])
    assert result is not None
    assert result.shape_low is not None
    assert result.shape_high is not None
    assert result.shape_low < result.shape < result.shape_high

    def best(shape: float) -> float:
        total = sum(left**shape for _, left, _ in REMISSIONS)
        return slow_survival.weibull_log_likelihood(REMISSIONS, [1], shape, (total / 9) ** (1 / shape))

    for end in (result.shape_low, result.shape_high):
        assert best(result.shape) - best(end) == pytest.approx(3.841459 / 2, rel=1e-4)


def test_scale_interval_comes_from_the_likelihoods_curvature() -> None:
    """Second differences of the slow likelihood in (shape, log scale), inverted."""
    result = weibull(intervals(REMISSIONS), [1])
    assert result is not None
    assert result.scale_s is not None
    assert result.scale_low_s is not None
    assert result.scale_high_s is not None
    k, u, h = result.shape, math.log(result.scale_s), 1e-4

    def value(a: float, b: float) -> float:
        return slow_survival.weibull_log_likelihood(REMISSIONS, [1], k + a * h, math.exp(u + b * h))

    of_k = (value(1, 0) - 2 * value(0, 0) + value(-1, 0)) / h**2
    of_u = (value(0, 1) - 2 * value(0, 0) + value(0, -1)) / h**2
    mixed = (value(1, 1) - value(1, -1) - value(-1, 1) + value(-1, -1)) / (4 * h**2)
    variance = np.linalg.inv(-np.array([[of_k, mixed], [mixed, of_u]]))[1, 1]
    expected = result.scale_s * math.exp(1.959964 * math.sqrt(variance))
    assert result.scale_high_s == pytest.approx(expected, rel=1e-3)
    assert result.scale_low_s * result.scale_high_s == pytest.approx(result.scale_s**2)


@pytest.mark.parametrize(
    ("shape", "says"), [(0.5, "infant mortality or crash loops"), (1.0, "no sign of memory"), (2.0, "wear")]
)
def test_what_a_shape_means_in_words(shape: float, says: str) -> None:
    ages = np.random.default_rng(1).weibull(shape, 300)
    result = weibull(Spells(np.zeros(300), ages, np.ones(300, dtype=np.int64)), [1])
    assert result is not None
    assert result.words.startswith(says)


def test_attempts_already_running_are_no_early_failures() -> None:
    """Memoryless attempts, cut by a window: taken as if they began with it, or as what they are, the shape is 1."""
    chance = np.random.default_rng(7)
    began, length = chance.uniform(-50, 50, 4000), chance.exponential(10, 4000)
    seen = (began + length > 0) & (began < 50)
    entered = np.maximum(-began, 0)[seen]
    left = np.minimum(length, 50 - began)[seen]
    cause = (length <= 50 - began)[seen].astype(np.int64)
    result = weibull(Spells(entered, left, cause), [1])
    assert result is not None
    assert result.shape_low is not None
    assert result.shape_high is not None
    assert result.shape_low < 1 < result.shape_high
    assert (result.scale_low_s or 0) < 10 < (result.scale_high_s or 0)


@pytest.mark.parametrize("rows", [[], from_start(3), from_start(censored=(1, 2)), from_start(5, 5)])
def test_with_fewer_than_two_ages_no_fit_results(rows: list[Spell]) -> None:
    assert weibull(intervals(rows), [1]) is None


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 1000))
def test_another_unit_of_time_changes_the_scale_only(seed: int, factor: float) -> None:
    ages = np.random.default_rng(seed).weibull(0.8, 30) + 1e-6
    ones = np.ones(30, dtype=np.int64)
    one = weibull(Spells(np.zeros(30), ages, ones), [1])
    other = weibull(Spells(np.zeros(30), ages * factor, ones), [1])
    assert one is not None
    assert other is not None
    assert one.scale_s is not None
    assert (other.shape, other.scale_s, other.p_value) == pytest.approx(
        (one.shape, one.scale_s * factor, one.p_value), rel=1e-3
    )


@pytest.mark.slow
def test_the_shape_intervals_have_about_their_nominal_coverage() -> None:
    """300 sets of 40 ages of shape 0.8, a third censored: 95 % to within 2.5 standard errors of 1.26 points."""
    chance = np.random.default_rng(11)
    covered = []
    for _ in range(300):
        ages, limit = chance.weibull(0.8, 40), chance.exponential(2.0, 40)
        result = weibull(Spells(np.zeros(40), np.minimum(ages, limit), (ages <= limit).astype(np.int64)), [1])
        assert result is not None
        covered.append((result.shape_low or 0) <= 0.8 <= (result.shape_high or math.inf))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.032)
