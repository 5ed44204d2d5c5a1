"""Published figures and their golden numbers, and ours over them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics import statistics, theory
from metrics.failures.published import REFERENCES, Reference, ratio_to_constant, ratio_to_count

BY_NAME = {each.name: each for each in REFERENCES}


def hours(name: str, gpus: float) -> float:
    return theory.mttf_d(BY_NAME[name].rate_per_gpu_day, gpus) * 24


@pytest.mark.parametrize(
    ("name", "gpus", "expected"),
    [
        ("Meta RSC-1", 1024, 28.846),
        ("Meta RSC-1", 16384, 1.8029),
        ("Meta RSC-1", 131072, 0.22536),
        ("Meta RSC-1", 100_000, 17.72 / 60),
        ("Meta RSC-2", 1024, 80.128),
        ("Meta RSC-2", 100_000, 49.23 / 60),
        ("CoreWeave benchmark", 1024, 87.85),
        ("CoreWeave benchmark", 256, 14.642 * 24),
        ("CoreWeave benchmark", 4096, 21.962),
        ("CoreWeave benchmark", 16384, 5.4906),
        ("Llama 3 405B", 16384, 3.0931),
        ("Meta, 1024 GPUs", 1024, 7.9),
        ("Meta, 8 GPUs", 8, 47.7 * 24),
    ],
)
def test_golden_mttf_of_a_reference(name: str, gpus: float, expected: float) -> None:
    assert hours(name, gpus) == pytest.approx(expected, rel=5e-4)


@pytest.mark.parametrize(
    ("name", "per_1000_node_days", "gpu_days"),
    [
        ("Meta RSC-1", 6.50, 1230.77),
        ("Meta RSC-2", 2.34, 3418.80),
        ("CoreWeave benchmark", 2.1343, 3748.25),
        ("Llama 3 405B", 3.7887, 2111.54),
        ("Meta, 1024 GPUs", 23.73, 337.1),
        ("Meta, 8 GPUs", 20.96, 381.6),
    ],
)
def test_golden_rate_of_a_reference(name: str, per_1000_node_days: float, gpu_days: float) -> None:
    result = BY_NAME[name]
    assert theory.failures_per_1000_node_days(result.rate_per_gpu_day) == pytest.approx(per_1000_node_days, rel=5e-4)
    assert result.gpu_days_per_failure == pytest.approx(gpu_days, rel=5e-4)


@pytest.mark.parametrize(
    ("against", "expected"),
    [("Meta, 1024 GPUs", 11.12), ("Meta RSC-1", 3.045), ("Meta RSC-2", 1.096), ("Llama 3 405B", 1.775)],
)
def test_golden_tenfold_claim_against_each_possible_figure(against: str, expected: float) -> None:
    ratio = BY_NAME["CoreWeave benchmark"].gpu_days_per_failure / BY_NAME[against].gpu_days_per_failure
    assert ratio == pytest.approx(expected, rel=5e-4)


def test_llama_3_by_its_count() -> None:
    llama = BY_NAME["Llama 3 405B"]
    assert llama.failures == 419
    assert llama.exposure_gpu_days == pytest.approx(54 * 16384)
    assert pytest.approx(7.7593, rel=1e-5) == 419 / 54
    assert pytest.approx(2.7811, rel=1e-4) == 54 * 24 / 466
    assert statistics.mttf_interval(419.0, 54 * 24.0) == pytest.approx((2.8106, 3.4120), rel=2e-5)


def test_only_llama_3_has_a_count_and_only_metas_rates_our_class() -> None:
    """Only Meta's fitted rates are defined as one of our classes is."""
    assert {each.name for each in REFERENCES if each.failures is not None} == {"Llama 3 405B"}
    assert {each.name for each in REFERENCES if each.like_with_like} == {"Meta RSC-1", "Meta RSC-2"}
    assert {each.kind for each in REFERENCES if each.like_with_like} == {"meta_rf"}


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda each: each.name)
def test_every_reference_has_a_source_and_a_note_of_differences(reference: Reference) -> None:
    assert reference.source
    assert len(reference.note) > 20


def test_a_rate_over_a_constant_is_its_exact_interval_divided() -> None:
    """3 failures in 30 days: 0.1 a day, from 0.02062 to 0.29224; over a constant of 0.05."""
    result = ratio_to_constant(3, 30.0, 0.05)
    assert result is not None
    assert (result.value, result.low, result.high) == pytest.approx((2, 0.4124, 5.8448), rel=1e-3)


def test_a_rate_over_a_count_is_the_exact_two_sample_interval() -> None:
    result = ratio_to_count(7, 100.0, 21, 150.0)
    share = stats.binomtest(7, 28).proportion_ci(0.95, method="exact")
    assert result is not None
    assert result.value == pytest.approx(0.5)
    assert (result.low, result.high) == pytest.approx([p / (1 - p) * 1.5 for p in (share.low, share.high)])


def test_known_count_gives_a_wider_interval_than_a_constant_rate() -> None:
    constant, counted = ratio_to_constant(20, 100.0, 0.2), ratio_to_count(20, 100.0, 20, 100.0)
    assert constant is not None
    assert counted is not None
    assert constant.high is not None
    assert counted.high is not None
    assert constant.low is not None
    assert counted.low is not None
    assert counted.low < constant.low < 1 < constant.high < counted.high


def test_ratio_is_null_without_exposure_and_0_without_failures() -> None:
    assert ratio_to_constant(0, 0.0, 0.1) is None
    assert ratio_to_count(0, 0.0, 5, 10.0) is None
    assert ratio_to_count(3, 10.0, 0, 10.0) is None
    result = ratio_to_constant(0, 30.0, 0.1)
    assert result is not None
    assert (result.value, result.low) == (0, 0)
    assert result.high == pytest.approx(3.6889 / 30 / 0.1, rel=1e-4)


@given(st.integers(1, 200), st.floats(1, 1e5), st.floats(1.1, 10))
def test_bursts_widen_a_ratio(failures: int, gpu_days: float, phi: float) -> None:
    plain, wide = (ratio_to_constant(failures, gpu_days, 0.01, phi=each) for each in (1.0, phi))
    assert plain is not None
    assert wide is not None
    assert math.isclose(plain.value, wide.value)
    assert (wide.low or 0) < (plain.low or 0)
    assert (plain.high or 0) < (wide.high or 0)
