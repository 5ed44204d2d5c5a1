"""Estimates over few units: worked by hand."""

from __future__ import annotations

import math

import pytest

from metrics.scaling.estimate import estimate, quotient


def test_mean_of_three_times_has_the_t_interval_of_its_logarithm() -> None:
    times = [121.89, 121.09, 120.85]
    result = estimate(times, [1.0, 1.0, 1.0], "runs")
    assert result is not None
    mean = sum(times) / 3
    spread = math.sqrt(sum((each - mean) ** 2 for each in times) / 2 / 3) / mean
    interval = result.interval()
    assert interval is not None
    assert result.value == pytest.approx(mean)
    assert result.error == pytest.approx(spread)
    t_of_two = 4.302653  # 97.5 % of Student's t with two degrees of freedom
    assert interval.high == pytest.approx(mean * math.exp(t_of_two * spread), rel=1e-6)
    assert interval.low * interval.high == pytest.approx(mean**2)


def test_one_unit_has_a_value_and_no_interval() -> None:
    result = estimate([12.0], [4.0], "runs")
    assert result is not None
    assert (result.value, result.error, result.interval()) == (3.0, None, None)


@pytest.mark.parametrize(("tops", "bottoms"), [([], []), ([0.0, 0.0], [1.0, 1.0]), ([1.0], [0.0])])
def test_what_has_no_ratio_has_no_estimate(tops: list[float], bottoms: list[float]) -> None:
    assert estimate(tops, bottoms, "runs") is None


def test_quotient_has_the_degrees_of_freedom_of_welch() -> None:
    top, bottom = estimate([9.0, 10.0, 11.0], [1.0] * 3, "runs"), estimate([20.0, 20.1, 19.9], [1.0] * 3, "runs")
    assert top is not None
    assert bottom is not None
    assert top.error is not None
    assert bottom.error is not None
    result = quotient(top, bottom, 2.0)
    assert result.value == pytest.approx(1.0)
    assert result.error == pytest.approx(math.hypot(top.error, bottom.error))
    assert result.freedom == pytest.approx(
        (top.error**2 + bottom.error**2) ** 2 / ((top.error**4 + bottom.error**4) / 2)
    )
    assert (result.n, result.over) == (6, "runs")


def test_a_quotient_with_a_single_unit_has_no_interval() -> None:
    one, several = estimate([3.0], [1.0], "runs"), estimate([2.0, 3.0], [1.0, 1.0], "blocks of steps")
    assert one is not None
    assert several is not None
    result = quotient(one, several)
    assert result.interval() is None
    assert result.over == "runs and blocks of steps"
