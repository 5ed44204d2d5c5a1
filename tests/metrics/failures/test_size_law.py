"""Whether failures grow as the GPUs do, against a general-purpose maximiser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from metrics.failures.size_law import SizeLaw, size_law

if TYPE_CHECKING:
    from metrics.statistics import FloatArray

SIZES = np.array([8.0, 16.0, 64.0, 128.0, 512.0, 1024.0])
DAYS = np.array([1000.0, 500.0, 300.0, 100.0, 50.0, 30.0])


def minus_log_likelihood(a: float, b: float, gpus: FloatArray, failures: FloatArray, days: FloatArray) -> float:
    """Poisson, one size after the other."""
    total = 0.0
    for n, k, t in zip(gpus, failures, days, strict=True):
        expected = t * math.exp(a + b * math.log(n))
        total -= k * math.log(expected) - expected
    return total


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=6, max_size=6))
def test_the_fit_is_the_maximum_of_the_whole_poisson_likelihood(counts: list[int]) -> None:
    failures = np.array(counts, dtype=float)
    result = size_law(SIZES, failures, DAYS)
    assume(result.b is not None and sum(count > 0 for count in counts) > 1)
    assert result.a is not None
    assert result.b is not None

    def minus(p: FloatArray) -> float:
        return minus_log_likelihood(float(p[0]), float(p[1]), SIZES, failures, DAYS)

    best = optimize.minimize(minus, np.array([result.a, result.b]), method="Nelder-Mead")
    assert minus_log_likelihood(result.a, result.b, SIZES, failures, DAYS) <= best.fun + 1e-6


a_size = st.tuples(st.integers(1, 20_000), st.integers(0, 40), st.floats(1e-3, 1e5))


@given(st.lists(a_size, min_size=2, max_size=6), st.floats(1, 50), st.floats(1, 1e6))
@example([(8, 1, 1.0), (9, 1, 1.0)], 30.0, 1e6)  # an MTTF at 95 % that no float can hold
def test_no_slope_of_a_fine_grid_explains_the_failures_better(
    rows: list[tuple[int, int, float]], phi: float, at_gpus: float
) -> None:
    sizes, failures, days = np.array(rows, dtype=float).T
    law = size_law(sizes, failures, days, phi=phi)
    logs, k = np.log(sizes), failures.sum()
    slopes = np.linspace(-50, 50, 10_001)
    expected = special.logsumexp(np.log(days) + slopes[:, None] * logs, axis=1)
    profile = slopes * (failures @ logs) - k * expected
    if law.b is None:
        assert k == 0 or np.ptp(logs) == 0 or max(profile[0], profile[-1]) >= profile.max() - 1e-9
        return
    here = law.b * (failures @ logs) - k * special.logsumexp(np.log(days) + law.b * logs)
    assert here >= profile.max() - 1e-6
    inside = slopes[profile >= here - phi * 3.841459 / 2]
    assert (-50 if law.b_low is None else law.b_low) <= inside.min(initial=law.b) + 1e-6
    assert (50 if law.b_high is None else law.b_high) >= inside.max(initial=law.b) - 1e-6
    value, low, high = law.mttf_d(at_gpus)
    assert value is None or (low or 0) <= value <= (high or math.inf)


def test_open_slope_leaves_the_mttf_open_beyond_observed_sizes() -> None:
    law = size_law(np.array([8.0, 8.5]), np.array([1.0, 9.0]), np.array([1.0, 1.0]))
    assert law.b_low is not None
    assert law.b_high is None
    value, low, high = law.mttf_d(1024)
    assert value is not None
    assert (low, high) == (None, None)
    assert None not in law.mttf_d(8.5)


def test_interval_is_where_the_profile_has_fallen_by_1_92() -> None:
    """With phi, by phi times that."""
    failures = np.array([9.0, 8, 14, 9, 27, 24])

    def profile(b: float) -> float:
        result = optimize.minimize_scalar(lambda a: minus_log_likelihood(a, b, SIZES, failures, DAYS))
        return float(result.fun)

    for phi in (1.0, 2.5):
        law = size_law(SIZES, failures, DAYS, phi=phi)
        assert law.b is not None
        assert law.b_low is not None
        assert law.b_high is not None
        for end in (law.b_low, law.b_high):
            assert profile(end) - profile(law.b) == pytest.approx(phi * 3.841459 / 2, rel=1e-4)
        chi_squared = 2 * (profile(1.0) - profile(law.b)) / phi
        assert law.p_value == pytest.approx(stats.chi2.sf(chi_squared, 1), rel=1e-4)


def test_two_sizes_by_hand() -> None:
    """1 failure in 50 days at 1 GPU, 9 in 50 at 100: 9 = 100^b."""
    law = size_law(np.array([1.0, 100.0]), np.array([1.0, 9.0]), np.array([50.0, 50.0]))
    assert law.b == pytest.approx(math.log(9) / math.log(100))
    value, low, high = law.mttf_d(100)
    # Two rates fitted by two parameters: the logarithm of each has variance 1/k.
    spread = math.exp(1.959964 / 3)
    assert (value, low, high) == pytest.approx((50 / 9, 50 / 9 / spread, 50 / 9 * spread))


def test_failures_that_grow_exactly_as_the_gpus_do() -> None:
    law = size_law(SIZES, SIZES * DAYS / 1000, DAYS)
    assert law.b == pytest.approx(1)
    assert law.p_value == pytest.approx(1)
    assert law.mttf_d(4096)[0] == pytest.approx(1000 / 4096)


@pytest.mark.parametrize(
    ("failures", "holds", "says"),
    [
        (100, True, "1/N tested: b 1.00"),
        (3, False, "assumes 1/N: b 1.00"),  # nothing speaks against b = 1, and that is no evidence for it
    ],
)
def test_not_rejecting_the_law_is_no_evidence_for_it(failures: float, holds: bool, says: str) -> None:
    expected = SIZES * DAYS
    law = size_law(SIZES, expected * failures / expected.sum(), DAYS)
    assert law.p_value == pytest.approx(1)
    assert law.holds is holds
    assert law.words.startswith(says)


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [(0.8, 1.2, True), (0.8, 1.31, False), (1.01, 1.3, False), (0.6, 0.99, False), (None, 1.1, False),
     (0.75, 1.25, False), (0.751, 1.249, True)],
)  # fmt: skip
def test_law_holds_with_one_inside_and_half_width_under_0_25(
    low: float | None, high: float | None, holds: bool
) -> None:
    assert SizeLaw(1.0, low, high, 0.5, 0.0, 1.0, 10, 3, 1.0, 8.0).holds is holds


@pytest.mark.parametrize(
    ("gpus", "failures", "days"),
    [
        ([], [], []),
        ([8.0], [3.0], [10.0]),
        ([8.0, 8.0], [3.0, 1.0], [10.0, 5.0]),
        ([8.0, 16.0], [0.0, 0.0], [10.0, 5.0]),
        ([8.0, 16.0], [3.0, 0.0], [10.0, 5.0]),  # no slope is steep enough
        ([8.0, 16.0], [0.0, 3.0], [10.0, 5.0]),
        ([8.0, 16.0], [3.0, 2.0], [10.0, 0.0]),  # failures without exposure say nothing of a size
    ],
)
def test_untestable_law_is_reported(gpus: list[float], failures: list[float], days: list[float]) -> None:
    law = size_law(np.array(gpus), np.array(failures), np.array(days))
    assert (law.b, law.b_low, law.b_high, law.holds) == (None, None, None, False)
    assert law.mttf_d(8) == (None, None, None)
    assert law.words == "assumes 1/N: the data cannot test it"


def test_a_size_in_two_rows_is_one_size() -> None:
    split = size_law(np.array([8.0, 8, 64, 64]), np.array([1.0, 2, 3, 4]), np.array([5.0, 6, 7, 8]))
    whole = size_law(np.array([8.0, 64]), np.array([3.0, 7]), np.array([11.0, 15]))
    assert (split.b, split.b_low, split.n_sizes) == pytest.approx((whole.b, whole.b_low, 2))


def test_slope_interval_has_about_its_nominal_coverage() -> None:
    """400 counts from the law with about 60 failures: 95 % to within 2.5 standard errors of 1.1 points."""
    chance, rate = np.random.default_rng(5), SIZES * DAYS * 60 / (SIZES * DAYS).sum()
    laws = [size_law(SIZES, chance.poisson(rate).astype(float), DAYS) for _ in range(400)]
    covered = [(law.b_low or -math.inf) <= 1 <= (law.b_high or math.inf) for law in laws]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.028)
    assert special.ndtri(0.975) == pytest.approx(1.959964)
