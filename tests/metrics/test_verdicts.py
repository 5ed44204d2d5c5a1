"""Verdicts on claims (metric-definitions 5.4, 5.5, 9.8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from metrics.verdicts import Claim, Measurement, judge, measure_median, measure_mttf, measure_ratio

if TYPE_CHECKING:
    from metrics.statistics import Direction
    from metrics.verdicts import Kind


def claim(
    kind: Kind = "capability", target: float = 3.66, direction: Direction = "at_least", gpus: float | None = 1024
) -> Claim:
    return Claim("it", "m", "as quoted", "as read", kind, target, direction, "d", gpus)


THIRTY_DAYS = 30.0 * 1024
"""GPU-days of 30 days at 1024 GPUs, in which a claim of 3.66 d expects 8.197 failures."""


@pytest.mark.parametrize(
    ("failures", "verdict"),
    [(0, "supported"), (1, "supported"), (2, "supported"), (3, "undetermined"), (13, "undetermined"),
     (14, "undetermined"), (15, "refuted"), (91, "refuted")],
)  # fmt: skip
def test_golden_claim_of_an_mttf(failures: int, verdict: str) -> None:
    """Lower limits at k = 2 and 3: 60 / chi2(0.975, 6 or 8) = 4.152 and 3.422 days."""
    assert judge(claim(), measure_mttf(failures, THIRTY_DAYS, claim())).verdict == verdict


def test_an_mttf_is_measured_from_pooled_exposure_at_the_claimed_size() -> None:
    found = measure_mttf(3, THIRTY_DAYS, claim())
    assert [found.value, found.low, found.high] == pytest.approx([10, 3.4218, 48.491], rel=1e-4)
    assert found.n == 3
    halved = measure_mttf(3, THIRTY_DAYS, claim(gpus=2048))
    assert halved.value == pytest.approx(5)


@pytest.mark.parametrize(
    ("failures", "days", "needed"),
    [
        (0, 10.0, "3.5 more failure-free days of 1024 GPUs would support it"),  # 13.50 - 10
        (14, 30.0, "56 more failure-free days of 1024 GPUs would support it"),  # 3.66 x 46.979 / 2 - 30 = 55.97
        (0, 13.6, None),
    ],
)
def test_what_is_needed_to_support_an_mttf(failures: int, days: float, needed: str | None) -> None:
    assert measure_mttf(failures, days * 1024, claim()).needed == needed


def test_what_is_needed_does_decide() -> None:
    short, enough = 13.50, 13.51  # 5.5: 13.50 failure-free days, two-sided
    assert judge(claim(), measure_mttf(0, short * 1024, claim())).verdict == "undetermined"
    assert judge(claim(), measure_mttf(0, enough * 1024, claim())).verdict == "supported"


def test_without_exposure_an_mttf_is_undetermined() -> None:
    found = measure_mttf(0, 0.0, claim())
    assert (found.value, found.low, found.high) == (None, None, None)
    assert found.needed is not None
    assert judge(claim(), found).verdict == "undetermined"


def test_without_failure_an_mttf_has_no_value_and_no_upper_limit() -> None:
    found = measure_mttf(0, THIRTY_DAYS, claim())
    assert found.value is None
    assert found.low == pytest.approx(8.1326, rel=1e-4)
    assert found.high == math.inf


@pytest.mark.parametrize(
    ("days", "direction", "verdict", "needed"),
    [
        (1 / 86_400, "at_least", "undetermined", "3.66 more failure-free days of 1024 GPUs would support it"),
        (3.0, "at_least", "undetermined", "0.66 more failure-free days of 1024 GPUs would support it"),
        (3.66, "at_least", "supported", None),
        (3.0, "at_most", "undetermined", "a failure: there was none in 3 days of 1024 GPUs"),
        (3.67, "at_most", "refuted", None),
    ],
)
def test_a_delivered_mttf_without_a_failure_is_at_least_the_exposure(
    days: float, direction: Direction, verdict: str, needed: str | None
) -> None:
    delivered = claim("delivered", direction=direction)
    found = measure_mttf(0, days * 1024, delivered)
    assert (found.value, found.high, found.n) == (None, math.inf, 0)
    assert found.low == pytest.approx(days)
    assert judge(delivered, found).verdict == verdict
    assert needed is None or found.needed == needed


def test_a_delivered_mttf_with_failures_is_the_periods_own() -> None:
    delivered = claim("delivered")
    found = measure_mttf(8, THIRTY_DAYS, delivered)
    assert (found.value, found.low, found.high) == (3.75, 3.75, 3.75)
    assert judge(delivered, found).verdict == "supported"
    assert judge(delivered, measure_mttf(9, THIRTY_DAYS, delivered)).verdict == "refuted"


def test_an_mttf_of_no_size_is_not_measured() -> None:
    with pytest.raises(ValueError, match="does not say of how many GPUs"):
        measure_mttf(3, THIRTY_DAYS, claim(gpus=None))


def test_a_delivered_median_needs_one_event() -> None:
    delivered = claim("delivered", 90, "at_most", None)
    assert measure_median([], delivered, at_least=20).needed == "an event: there was none"
    assert judge(delivered, measure_median([60.0], delivered, at_least=20)).verdict == "supported"


def test_no_failure_free_days_support_a_claim_of_at_most() -> None:
    """More time without a failure can only refute that the MTTF is at most 0.33 d."""
    found = measure_mttf(91, THIRTY_DAYS, claim(target=0.33, direction="at_most"))
    assert judge(claim(target=0.33, direction="at_most"), found).verdict == "undetermined"
    assert "would support" not in (found.needed or "")


RESTART = claim(target=90, direction="at_most", gpus=None)


@pytest.mark.parametrize(("n", "verdict"), [(0, "undetermined"), (19, "undetermined"), (20, "supported")])
def test_a_median_of_fewer_than_20_events_is_undetermined(n: int, verdict: str) -> None:
    found = measure_median([60.0] * n, RESTART, at_least=20)
    assert judge(RESTART, found).verdict == verdict
    assert found.value == (60.0 if n else None)
    assert found.needed == (None if n == 20 else f"{20 - n} more events (at least 20)")


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ([60.0] * 20, "supported"),
        ([95.0] * 20, "refuted"),
        ([90.0] * 20, "supported"),  # the target itself is on the claimed side
        ([60.0] * 10 + [120.0] * 10, "undetermined"),
        # 20 values: the 6th and the 15th enclose the median with 95.9 %
        ([80.0] * 15 + [999.0] * 5, "supported"),
        ([80.0] * 14 + [999.0] * 6, "undetermined"),
        ([80.0] * 5 + [999.0] * 15, "refuted"),
    ],
)
def test_a_median_is_judged_by_its_order_statistics(times: list[float], verdict: str) -> None:
    assert judge(RESTART, measure_median(times, RESTART, at_least=20)).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "direction", "verdict"),
    [
        (0.962, 0.971, "at_least", "supported"),
        (0.96, 0.97, "at_least", "supported"),
        (0.94, 0.9599, "at_least", "refuted"),
        (0.94, 0.96, "at_least", "undetermined"),
        (0.0, 1.0, "at_least", "undetermined"),
        (None, None, "at_least", "undetermined"),
        (0.94, None, "at_least", "undetermined"),
        (0.94, 0.95, "at_most", "supported"),
        (0.97, 0.98, "at_most", "refuted"),
    ],
)
def test_a_delivered_claim_is_judged_by_its_bounds(
    low: float | None, high: float | None, direction: Direction, verdict: str
) -> None:
    delivered = claim("delivered", 0.96, direction, None)
    assert judge(delivered, Measurement(value=0.95, low=low, high=high)).verdict == verdict


def test_a_ratio_says_how_many_gpu_hours_would_decide() -> None:
    found = measure_ratio(None, 0.5, 0.99, 12, unseen_gpu_s=1234.5 * 3600)
    assert found.needed == "evidence (telemetry or a run log) for 1,234.5 GPU-hours"
    assert judge(claim("delivered", 0.96, gpus=None), found).verdict == "undetermined"
    assert measure_ratio(0.97, 0.97, 0.97, 12, unseen_gpu_s=0.0).needed is None
