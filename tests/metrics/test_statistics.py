"""Intervals and verdicts against published tables and first principles.

Expected values are typed from these or worked out by hand, never taken from running the code.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics import statistics
from metrics.statistics import Direction, Interval

CLAIM_D = 3.66

counts = st.integers(0, 2000).map(float)
exposures = st.floats(1e-3, 1e6)
confidences = st.floats(0.5, 0.999)


# --- failure counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "low", "high", "digits"),
    [
        (0, 8.1326, math.inf, 1e-5),
        (1, 5.3844, 1184.94, 1e-5),
        (3, 3.4218, 48.491, 2e-5),
        (91, 0.2685, 0.4095, 2e-4),
    ],
)
def test_mttf_interval_of_thirty_days(failures: float, low: float, high: float, digits: float) -> None:
    assert statistics.mttf_interval(failures, 30.0) == pytest.approx((low, high), rel=digits)


def test_mttf_interval_of_llama_3() -> None:
    assert statistics.mttf_interval(419.0, 54 * 24.0) == pytest.approx((2.8106, 3.4120), rel=2e-5)


@pytest.mark.parametrize(
    ("failures", "low", "high"),
    [(5, 0.43, 3.08), (10, 0.54, 2.09), (20, 0.65, 1.64), (30, 0.70, 1.48), (100, 0.82, 1.23), (400, 0.91, 1.11)],
)
def test_precision_bought_by_failures(failures: float, low: float, high: float) -> None:
    assert statistics.mttf_interval(failures, failures) == pytest.approx((low, high), abs=0.005)


def test_one_sided_lower_limit() -> None:
    assert statistics.mttf_lower_one_sided(0.0, 30.0) == pytest.approx(10.0142, rel=1e-5)
    assert statistics.mttf_lower_one_sided(0.0, 2.9957) == pytest.approx(1, rel=2e-5)


def test_one_sided_limit_is_the_end_of_a_wider_interval() -> None:
    assert statistics.mttf_lower_one_sided(7.0, 30.0) == statistics.mttf_interval(7.0, 30.0, confidence=0.90).low


@pytest.mark.parametrize("exposure", [0.0, -1.0, math.nan])
def test_no_exposure_is_no_evidence(exposure: float) -> None:
    for interval in (
        statistics.mttf_interval(0.0, exposure),
        statistics.rate_interval(0.0, exposure),
        statistics.jeffreys_rate_interval(0.0, exposure),
        statistics.rate_ratio_interval(1.0, exposure, 1.0, 30.0),
        statistics.rate_ratio_interval(1.0, 30.0, 1.0, exposure),
    ):
        assert np.isnan(interval).all()
        assert statistics.verdict_of_interval(*interval, CLAIM_D, "at_least") == "undetermined"
    assert math.isnan(statistics.mttf_lower_one_sided(0.0, exposure))


def test_arrays_give_arrays_with_the_values_of_floats() -> None:
    failures, exposure = np.array([0.0, 1.0, 3.0, 0.0]), np.array([30.0, 30.0, 30.0, 0.0])
    low, high = statistics.mttf_interval(failures, exposure)
    for i in range(4):
        alone = statistics.mttf_interval(float(failures[i]), float(exposure[i]))
        assert [type(end) for end in alone] == [float, float]
        assert (low[i], high[i]) == pytest.approx(alone, nan_ok=True)


@given(counts, exposures, confidences)
def test_intervals_hold_the_estimate(failures: float, exposure: float, confidence: float) -> None:
    low, high = statistics.rate_interval(failures, exposure, confidence=confidence)
    assert low <= failures / exposure <= high
    if failures:
        low, high = statistics.mttf_interval(failures, exposure, confidence=confidence)
        assert low <= exposure / failures <= high


@given(counts, exposures)
def test_rate_and_mttf_intervals_are_reciprocal(failures: float, exposure: float) -> None:
    rate, mttf = statistics.rate_interval(failures, exposure), statistics.mttf_interval(failures, exposure)
    assert rate.high * mttf.low == pytest.approx(1)
    assert rate.low == (0 if math.isinf(mttf.high) else pytest.approx(1 / mttf.high))


@given(counts, exposures, st.floats(1e-2, 1e3))
def test_scaling_the_exposure_scales_the_mttf(failures: float, exposure: float, factor: float) -> None:
    low, high = statistics.mttf_interval(failures, exposure)
    assert statistics.mttf_interval(failures, exposure * factor) == pytest.approx((low * factor, high * factor))


@given(counts, exposures)
def test_more_failures_never_lengthen_the_mttf(failures: float, exposure: float) -> None:
    before = statistics.mttf_interval(failures, exposure)
    after = statistics.mttf_interval(failures + 1, exposure)
    assert after.low < before.low
    assert after.high < before.high


@pytest.mark.parametrize("mean", [0.01, 0.1, 0.5, 1, 2, 3.6889, 5, 8.197, 20, 91, 419])
@pytest.mark.parametrize("confidence", [0.80, 0.95, 0.99])
def test_exact_interval_has_at_least_its_nominal_coverage(mean: float, confidence: float) -> None:
    failures = np.arange(0.0, mean + 20 * math.sqrt(mean) + 50)
    low, high = statistics.rate_interval(failures, np.ones_like(failures), confidence=confidence)
    covering = (low <= mean) & (mean <= high)
    assert stats.poisson.pmf(failures[covering], mean).sum() >= confidence


def test_mttf_interval_covers_the_truth_in_95_of_100_windows() -> None:
    """Summed over all counts, for true rates from one failure in a hundred windows to a hundred in one."""
    failures = np.arange(0.0, 400)
    low, high = statistics.mttf_interval(failures, np.full_like(failures, 30.0))
    for mean in np.geomspace(0.01, 100, 801):
        covering = (low <= 30 / mean) & (30 / mean <= high)
        assert stats.poisson.pmf(failures[covering], mean).sum() >= 0.95


@given(counts, exposures)
def test_jeffreys_interval_is_inside_the_exact_one(failures: float, exposure: float) -> None:
    exact = statistics.rate_interval(failures, exposure)
    low, high = statistics.jeffreys_rate_interval(failures, exposure)
    assert exact.low <= low < high < exact.high


def test_jeffreys_coverage_is_close_to_its_level_on_average() -> None:
    means = np.linspace(2, 40, 400)
    failures = np.arange(0.0, 150)
    low, high = statistics.jeffreys_rate_interval(failures, np.ones_like(failures))
    covering = (low[:, None] <= means) & (means <= high[:, None])
    coverage = (covering * stats.poisson.pmf(failures[:, None], means)).sum(axis=0)
    assert coverage.mean() == pytest.approx(0.95, abs=0.01)


# --- ratio of two rates -------------------------------------------------------------------------------


def test_rate_ratio_matches_clopper_pearson() -> None:
    """7 failures in 100 days against 21 in 150: the share of the first, 7 of 28, as odds, times 1.5."""
    share = stats.binomtest(7, 28).proportion_ci(0.95, method="exact")
    expected = [p / (1 - p) * 1.5 for p in (share.low, share.high)]
    assert statistics.rate_ratio_interval(7.0, 100.0, 21.0, 150.0) == pytest.approx(expected)


@given(counts, exposures, counts, exposures)
def test_rate_ratio_inverts_when_the_two_swap(k_1: float, t_1: float, k_2: float, t_2: float) -> None:
    low, high = statistics.rate_ratio_interval(k_1, t_1, k_2, t_2)
    swapped = statistics.rate_ratio_interval(k_2, t_2, k_1, t_1)
    assert swapped.low == (0 if math.isinf(high) else pytest.approx(1 / high))
    assert swapped.high == (math.inf if low == 0 else pytest.approx(1 / low))
    assert low < high


@given(counts.filter(bool), exposures, counts.filter(bool), exposures)
def test_rate_ratio_interval_holds_the_estimate(k_1: float, t_1: float, k_2: float, t_2: float) -> None:
    low, high = statistics.rate_ratio_interval(k_1, t_1, k_2, t_2)
    assert low < (k_1 / t_1) / (k_2 / t_2) < high


def test_rate_ratio_without_failures_is_undefined() -> None:
    assert statistics.rate_ratio_interval(0.0, 30.0, 0.0, 30.0) == (0, math.inf)


@pytest.mark.parametrize(
    ("counts_", "p"),
    [
        ((14, 30.0, 5, 30.0), 0.063568115),  # scipy.stats.binomtest(14, 19, 0.5)
        ((7, 100.0, 21, 150.0), 0.123959314),  # binomtest(7, 28, 0.4)
        ((0, 30.0, 6, 30.0), 2 / 2**6),
        ((3, 10.0, 0, 90.0), 0.001),
        ((210, 884_736.0, 419, 884_736.0), 5.708878e-17),
        ((0, 30.0, 0, 30.0), 1.0),
        ((10, 1.0, 10, 1.0), 1.0),
    ],
)
def test_the_p_value_of_two_rates_is_as_published(counts_: tuple[int, float, int, float], p: float) -> None:
    assert statistics.two_rates_p(*counts_) == pytest.approx(p, rel=1e-6)


@given(st.integers(0, 400), exposures, st.integers(0, 400), exposures)
def test_the_p_value_of_two_rates_is_the_binomial_tests(k_1: int, t_1: float, k_2: int, t_2: float) -> None:
    result = statistics.two_rates_p(k_1, t_1, k_2, t_2)
    expected = stats.binomtest(k_1, k_1 + k_2, t_1 / (t_1 + t_2)).pvalue if k_1 + k_2 else 1.0
    assert result == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert statistics.two_rates_p(k_2, t_2, k_1, t_1) == pytest.approx(result, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("exposure", [0.0, -1.0])
def test_two_rates_without_exposure_are_refused(exposure: float) -> None:
    with pytest.raises(ValueError, match="no two rates"):
        statistics.two_rates_p(1, exposure, 1, 30.0)


# --- evidence for a claim -----------------------------------------------------------------------------


def test_exposure_needed_without_failures() -> None:
    """Section 5.5: 13.50 failure-free days, 10.97 one-sided (that is 2.9957 times the target)."""
    assert statistics.exposure_needed(CLAIM_D, 0.0) == pytest.approx(13.50, rel=1e-3)
    assert statistics.exposure_needed(CLAIM_D, 0.0, confidence=0.90) == pytest.approx(10.97, rel=1e-3)
    assert statistics.exposure_needed(1.0, 0.0) == pytest.approx(3.6889, rel=1e-5)


@given(st.floats(1e-2, 1e3), counts, confidences)
def test_exposure_needed_puts_the_lower_limit_at_the_target(target: float, failures: float, confidence: float) -> None:
    exposure = statistics.exposure_needed(target, failures, confidence=confidence)
    assert statistics.mttf_interval(failures, exposure, confidence=confidence).low == pytest.approx(target)


def test_ten_failures_give_the_mttf_within_a_factor_of_two() -> None:
    """Section 5.5, "or k >= 10 for a factor-2 interval": 0.54 to 2.09."""
    low, high = statistics.mttf_interval(10.0, 10.0)
    assert low > 1 / 2
    assert high == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("failures", "p_value", "verdict"),
    [(13, 0.0737, "undetermined"), (14, 0.0404, "undetermined"), (15, 0.0208, "refuted")],
)
def test_claim_of_3_66_days_after_thirty_days(failures: float, p_value: float, verdict: str) -> None:
    expected_failures = 30 / CLAIM_D
    assert expected_failures == pytest.approx(8.197, rel=1e-4)
    assert statistics.p_at_least(failures, expected_failures) == pytest.approx(p_value, abs=5e-5)
    interval = statistics.mttf_interval(failures, 30.0)
    assert statistics.verdict_of_interval(*interval, CLAIM_D, "at_least") == verdict


def test_claim_of_3_66_days_needs_13_50_days_without_failure() -> None:
    for exposure, verdict in ((13.4, "undetermined"), (13.6, "supported")):
        interval = statistics.mttf_interval(0.0, exposure)
        assert statistics.verdict_of_interval(*interval, CLAIM_D, "at_least") == verdict


@given(st.integers(0, 200), st.floats(0, 200))
def test_p_at_least_is_the_poisson_tail(failures: int, expected: float) -> None:
    tail = stats.poisson.sf(failures - 1, expected)
    assert statistics.p_at_least(float(failures), expected) == pytest.approx(tail, abs=1e-12)


# --- overdispersion -----------------------------------------------------------------------------------


def test_overdispersion_by_hand() -> None:
    """6 failures over 1, 2 and 3 exposed days expect 1, 2 and 3; 4, 1, 1 give 9/1 + 1/2 + 4/3 over 2."""
    result = statistics.overdispersion(np.array([4.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0]))
    assert result.phi == pytest.approx((9 + 1 / 2 + 4 / 3) / 2)
    variance = 2 * 2 + (6 / 1 + 6 / 2 + 6 / 3 - 9 - 6 + 2) / 6
    assert result.p_value == pytest.approx(stats.chi2.sf(2 * result.phi * 4 / variance, 8 / variance))
    assert result.divisor == result.phi
    many = statistics.overdispersion(np.array([1.004e9, 1.001e9, 1.001e9]), np.ones(3))
    assert many.p_value == pytest.approx(math.exp(-many.phi))  # chi-squared with 2 degrees of freedom


def test_phi_variance_is_that_over_all_ways_failures_can_fall() -> None:
    """3 failures over days of exposure 1, 2 and 5: every outcome with its multinomial probability."""
    exposure, degrees = np.array([1.0, 2.0, 5.0]), 2
    outcomes = [np.array([a, b, 3 - a - b], dtype=float) for a in range(4) for b in range(4 - a)]
    chance = np.array([stats.multinomial.pmf(each, 3, exposure / 8) for each in outcomes])
    values = np.array([statistics.overdispersion(each, exposure).phi for each in outcomes]) * degrees
    mean = float((chance * values).sum())
    variance = float((chance * (values - mean) ** 2).sum())
    assert mean == pytest.approx(degrees)
    assert variance == pytest.approx(2 * degrees + (8 / 1 + 8 / 2 + 8 / 5 - 9 - 6 + 2) / 3)


def test_one_failure_is_no_burst() -> None:
    """Not even on a day with hardly any exposure."""
    result = statistics.overdispersion(np.array([0.0, 0.0, 1.0]), np.array([100.0, 100.0, 0.01]))
    assert math.isnan(result.phi)
    assert result.divisor == 1


def test_few_failures_on_unlike_exposure_are_rarely_clustered() -> None:
    """5 failures a quarter: the level is 5 %, and with so few failures it is kept roughly, on the safe side."""
    chance = np.random.default_rng(8)
    exposure = chance.lognormal(0, 1.5, 90)
    counts = chance.multinomial(5, exposure / exposure.sum(), size=2000).astype(float)
    phi, p_value = statistics.overdispersions(counts, np.tile(exposure, (2000, 1)))
    assert 0.01 < np.mean(p_value < 0.05) < 0.08
    plain = stats.chi2.sf(phi * 89, 89) < 0.05
    assert np.mean(plain) > 0.1  # what the chi-squared of equal, full days would say


def test_many_series_are_what_each_is_alone() -> None:
    chance = np.random.default_rng(2)
    counts, exposure = chance.poisson(0.7, (20, 12)).astype(float), chance.uniform(0, 2, (20, 12))
    exposure[exposure < 0.3] = 0
    phi, p_value = statistics.overdispersions(counts, exposure)
    alone = [statistics.overdispersion(k, t) for k, t in zip(counts, exposure, strict=True)]
    assert phi.tolist() == pytest.approx([each.phi for each in alone], nan_ok=True)
    assert p_value.tolist() == pytest.approx([each.p_value for each in alone], nan_ok=True)
    assert statistics.divisors(phi, p_value).tolist() == pytest.approx([each.divisor for each in alone])


def _bursts(chance: np.random.Generator) -> tuple[float, float, float]:
    """Failures, days and divisor of a year in which failures come four at a time."""
    daily = 4 * chance.poisson(0.1, 365).astype(float)
    return float(daily.sum()), 365.0, statistics.overdispersion(daily, np.ones(365)).divisor


def test_interval_of_bursts_has_its_coverage_only_with_phi() -> None:
    """0.4 failures a day by design, in 600 years: 95 % is known to 0.9 points."""
    chance = np.random.default_rng(21)
    years = [_bursts(chance) for _ in range(600)]
    allowed = [statistics.rate_interval(k, t, phi=phi) for k, t, phi in years]
    plain = [statistics.rate_interval(k, t) for k, t, _ in years]
    assert np.mean([each.low <= 0.4 <= each.high for each in allowed]) > 0.93
    assert np.mean([each.low <= 0.4 <= each.high for each in plain]) < 0.75


def test_days_without_exposure_do_not_count() -> None:
    failures, exposure = np.array([4.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])
    with_idle = statistics.overdispersion(np.append(failures, 0.0), np.append(exposure, 0.0))
    assert with_idle == statistics.overdispersion(failures, exposure)


@pytest.mark.parametrize("failures", [[], [3.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
def test_overdispersion_unknown_changes_nothing(failures: list[float]) -> None:
    result = statistics.overdispersion(np.array(failures), np.ones(len(failures)))
    assert math.isnan(result.phi)
    assert result.divisor == 1


def test_independent_failures_are_seldom_called_clustered() -> None:
    random = np.random.default_rng(3)
    daily = random.poisson(0.3, size=(2000, 30)).astype(float)
    called = [statistics.overdispersion(days, np.ones(30)).divisor > 1 for days in daily]
    assert np.mean(called) == pytest.approx(0.05, abs=0.02)


@given(counts.filter(bool), exposures, st.floats(1.1, 20))
def test_clustered_failures_widen_the_interval_of_one_estimate(failures: float, exposure: float, phi: float) -> None:
    plain = statistics.mttf_interval(failures, exposure)
    adjusted = statistics.mttf_interval(failures, exposure, phi=phi)
    assert adjusted.low < plain.low < exposure / failures < plain.high < adjusted.high
    assert adjusted == pytest.approx(statistics.mttf_interval(failures / phi, exposure / phi))


# --- verdicts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most"),
    [
        (5.0, 6.0, "supported", "refuted"),
        (4.0, 6.0, "supported", "undetermined"),  # the target itself is on the claimed side
        (3.0, 5.0, "undetermined", "undetermined"),
        (3.0, 4.0, "undetermined", "supported"),
        (2.0, 3.0, "refuted", "supported"),
        (4.0, 4.0, "supported", "supported"),
        (8.0, math.inf, "supported", "refuted"),
        (0.0, math.inf, "undetermined", "undetermined"),
        (None, 3.0, "undetermined", "undetermined"),
        (5.0, None, "undetermined", "undetermined"),
        (math.nan, math.nan, "undetermined", "undetermined"),
    ],
)
def test_verdicts_on_a_target_of_four(low: float | None, high: float | None, at_least: str, at_most: str) -> None:
    assert statistics.verdict_of_interval(low, high, 4.0, "at_least") == at_least
    assert statistics.verdict_of_interval(low, high, 4.0, "at_most") == at_most


def test_a_claim_without_a_target_is_undetermined() -> None:
    assert statistics.verdict_of_interval(5.0, 6.0, math.nan, "at_least") == "undetermined"


@given(st.floats(-10, 10), st.floats(0, 10), st.floats(-10, 20), st.sampled_from(["at_least", "at_most"]))
def test_no_value_in_a_supporting_interval_would_refute(
    low: float, width: float, target: float, direction: Direction
) -> None:
    interval = Interval(low, low + width)
    whole = statistics.verdict_of_interval(*interval, target, direction)
    ends = {statistics.verdict_of_interval(end, end, target, direction) for end in interval}
    assert "undetermined" not in ends  # a value known exactly always decides
    assert ends == ({whole} if whole != "undetermined" else {"supported", "refuted"})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_adjusted_p_values_are_those_of_scipy(p_values: list[float]) -> None:
    assert statistics.adjusted(np.array(p_values)) == pytest.approx(
        stats.false_discovery_control(p_values, method="bh")
    )
