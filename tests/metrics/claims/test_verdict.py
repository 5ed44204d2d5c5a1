"""Verdicts on claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics import statistics
from metrics.claims.verdict import (
    Claim,
    Exclusion,
    Measurement,
    Scope,
    judge,
    least_deciding_failures,
    measure_median,
    measure_mttf,
    measure_ratio,
    measure_ratio_capability,
)

if TYPE_CHECKING:
    from metrics.claims.verdict import Kind
    from metrics.statistics import Direction


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


def test_mttf_uses_pooled_exposure_scaled_to_the_claimed_size() -> None:
    result = measure_mttf(3, THIRTY_DAYS, claim())
    assert [result.value, result.low, result.high] == pytest.approx([10, 3.4218, 48.491], rel=1e-4)
    assert result.n == 3
    halved = measure_mttf(3, THIRTY_DAYS, claim(gpus=2048))
    assert halved.value == pytest.approx(5)


@pytest.mark.parametrize(
    ("failures", "days", "needed"),
    [
        (
            0,
            10.0,
            "3.5 more failure-free days of 1,024 GPUs would support it, "  # 13.50 - 10
            "7 more failures in these 10 days would refute it (at n = 7)",
        ),
        (
            14,
            30.0,
            "56 more failure-free days of 1,024 GPUs would support it, "  # 3.66 x 46.979 / 2 - 30 = 55.97
            "1 more failure in these 30 days would refute it (at n = 15); "
            "at the rate so far 7.03 more days would decide",
        ),
        (0, 13.6, None),
        (15, 30.0, None),
    ],
)
def test_what_is_needed_to_decide_on_an_mttf(failures: int, days: float, needed: str | None) -> None:
    assert measure_mttf(failures, days * 1024, claim()).needed == needed


def test_what_is_needed_does_decide() -> None:
    short, enough = 13.50, 13.51  # 5.5: 13.50 failure-free days, two-sided
    assert judge(claim(), measure_mttf(0, short * 1024, claim())).verdict == "undetermined"
    assert judge(claim(), measure_mttf(0, enough * 1024, claim())).verdict == "supported"


def test_without_exposure_an_mttf_is_undetermined() -> None:
    result = measure_mttf(0, 0.0, claim())
    assert (result.value, result.low, result.high) == (None, None, None)
    assert result.needed is not None
    assert judge(claim(), result).verdict == "undetermined"


def test_without_failure_an_mttf_has_no_value_and_no_upper_limit() -> None:
    result = measure_mttf(0, THIRTY_DAYS, claim())
    assert result.value is None
    assert result.low == pytest.approx(8.1326, rel=1e-4)
    assert result.high == math.inf


@pytest.mark.parametrize(
    ("days", "direction", "verdict", "needed"),
    [
        (1 / 86_400, "at_least", "undetermined", "3.66 more failure-free days of 1,024 GPUs would support it"),
        (3.0, "at_least", "undetermined", "0.66 more failure-free days of 1,024 GPUs would support it"),
        (3.66, "at_least", "supported", None),
        (
            3.0,
            "at_most",
            "undetermined",
            "a failure: none occurred in 3 days of 1,024 GPUs; "
            "0.66 more failure-free days of 1,024 GPUs would refute it",
        ),
        (3.67, "at_most", "refuted", None),
    ],
)
def test_delivered_mttf_without_failures_is_at_least_exposure(
    days: float, direction: Direction, verdict: str, needed: str | None
) -> None:
    delivered = claim("delivered", direction=direction)
    result = measure_mttf(0, days * 1024, delivered)
    assert (result.value, result.high, result.n) == (None, math.inf, 0)
    assert result.low == pytest.approx(days)
    assert judge(delivered, result).verdict == verdict
    assert needed is None or result.needed == needed


def test_a_delivered_mttf_with_failures_is_the_periods_own() -> None:
    delivered = claim("delivered")
    result = measure_mttf(8, THIRTY_DAYS, delivered)
    assert (result.value, result.low, result.high) == (3.75, 3.75, 3.75)
    assert judge(delivered, result).verdict == "supported"
    assert judge(delivered, measure_mttf(9, THIRTY_DAYS, delivered)).verdict == "refuted"


def test_an_mttf_of_no_size_is_not_measured() -> None:
    with pytest.raises(ValueError, match="does not give its number of GPUs"):
        measure_mttf(3, THIRTY_DAYS, claim(gpus=None))


def test_a_delivered_median_needs_one_event() -> None:
    delivered = claim("delivered", 90, "at_most", None)
    assert measure_median([], delivered, at_least=20).needed == "an event: none occurred"
    assert judge(delivered, measure_median([60.0], delivered, at_least=20)).verdict == "supported"


def test_no_failure_free_days_support_a_claim_of_at_most() -> None:
    """More time without a failure can only refute that the MTTF is at most 0.33 d."""
    low = claim(target=0.33, direction="at_most")
    result = measure_mttf(91, THIRTY_DAYS, low)
    assert judge(low, result).verdict == "undetermined"
    assert result.needed is not None
    support, refute = result.needed.split(" would support it (at n = 111), ")
    assert support == "20 more failures in these 30 days"
    assert refute.startswith("6.87 more failure-free days of 1,024 GPUs would refute it")
    assert judge(low, measure_mttf(110, THIRTY_DAYS, low)).verdict == "undetermined"
    assert judge(low, measure_mttf(111, THIRTY_DAYS, low)).verdict == "supported"


@pytest.mark.parametrize(
    ("failures", "word", "p"),
    [(13, "undetermined", "0.0737"), (14, "refuted", "0.0404"), (15, "refuted", "0.0208")],
)
def test_golden_one_sided_results_are_shown_and_labelled(failures: int, word: str, p: str) -> None:
    """9.8: one-sided at 5 % k = 14 refutes; the verdict, two-sided, is refuted from 15 on only."""
    beside = measure_mttf(failures, THIRTY_DAYS, claim()).beside
    assert beside[0].startswith(f"one-sided, 5 %: {word} (p against it {p}, ")
    assert "8.197 failures expected" in beside[0]


def test_one_sided_limit_without_failures_is_a_third_of_exposure() -> None:
    first, second = measure_mttf(0, THIRTY_DAYS, claim()).beside
    assert "one-sided, 5 %: supported" in first
    assert first.endswith("MTTF at least 10 d with one-sided 95 %")  # 10.0142
    assert second == "fewer than 10 failures: the interval is wider than a factor of 2"


@given(
    st.integers(0, 60), st.floats(0.5, 500.0), st.floats(0.05, 50.0), st.sampled_from(["at_least", "at_most"]),
    st.sampled_from([1.0, 1.7, 6.0]),
)  # fmt: skip
def test_verdict_needs_the_required_evidence_and_not_less(
    failures: int, days: float, target: float, direction: Direction, phi: float
) -> None:
    requested = claim(target=target, direction=direction)

    def verdict(k: int, exposure: float) -> str:
        return judge(requested, measure_mttf(k, exposure * 1024, requested, phi=phi)).verdict

    result = measure_mttf(failures, days * 1024, requested, phi=phi)
    if result.needed is None:
        assert verdict(failures, days) != "undetermined"
        return
    enough = least_deciding_failures(days, target, phi=phi)
    by_failures, by_days = ("refuted", "supported") if direction == "at_least" else ("supported", "refuted")
    assert verdict(enough, days) == by_failures
    assert verdict(enough - 1, days) == "undetermined"
    free = statistics.exposure_needed(target, failures / phi) * phi
    assert verdict(failures, free * 1.0001) == by_days
    assert verdict(failures, free * 0.9999) == "undetermined"


def test_failures_in_bursts_widen_the_interval_and_are_named() -> None:
    alone, bursts = measure_mttf(15, THIRTY_DAYS, claim()), measure_mttf(15, THIRTY_DAYS, claim(), phi=2.0)
    assert (alone.value, judge(claim(), alone).verdict) == (2.0, "refuted")
    assert (bursts.value, judge(claim(), bursts).verdict) == (2.0, "undetermined")
    assert "phi 2: failures come in bursts" in bursts.method


def test_an_mttf_of_jobs_of_one_size_is_of_their_own_days() -> None:
    result = measure_mttf(3, THIRTY_DAYS, claim(), job_days=12.0)
    assert (result.value, result.numerator, result.denominator) == (4.0, 12.0, 3.0)
    assert result.method == "exact Poisson, 95 %, jobs of that size only"
    none = measure_mttf(0, THIRTY_DAYS, claim(), job_days=0.0)
    assert none.needed == "jobs of about 1,024 GPUs: there is no exposure yet"


RESTART = claim(target=90, direction="at_most", gpus=None)


@pytest.mark.parametrize(("n", "verdict"), [(0, "undetermined"), (19, "undetermined"), (20, "supported")])
def test_a_median_of_fewer_than_20_events_is_undetermined(n: int, verdict: str) -> None:
    result = measure_median([60.0] * n, RESTART, at_least=20)
    assert judge(RESTART, result).verdict == verdict
    assert result.value == (60.0 if n else None)
    assert result.needed == (None if n == 20 else f"{20 - n} more events (at least 20)")


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


def ratio(target: float = 0.96, direction: Direction = "at_least", kind: Kind = "delivered") -> Claim:
    return claim(kind, target, direction, None)


def test_ratio_reports_the_gpu_hours_that_would_decide() -> None:
    """Of 1,000 GPU-hours 500 are known to be productive, 10 not to be: 460 more make 96 %, 30.0001 less do not."""
    result = measure_ratio(ratio(), None, 0.5, 0.99, 12, 1000 * 3600.0)
    assert result.needed == (
        "evidence (telemetry or a run log) for at least 30.0 of the 490.0 GPU-hours that the bounds leave open: 460.0 "
        "that prove productive would support it, more than 30.0 that do not would refute it"
    )
    assert judge(ratio(), result).verdict == "undetermined"
    below = measure_ratio(ratio(direction="at_most"), None, 0.5, 0.99, 12, 1000 * 3600.0)
    assert "460.0 that prove productive would refute it" in (below.needed or "")
    assert measure_ratio(ratio(), 0.97, 0.97, 0.97, 12, 3600.0).needed is None
    assert measure_ratio(ratio(), 0.9, 0.9, 0.95, 12, 3600.0).needed is None


@pytest.mark.parametrize(
    ("metric", "evidence", "proof"),
    [
        ("availability", "node states", "in service"),
        ("occupancy", "the GPUs of attempts", "allocated"),
        ("goodput_capacity", "telemetry or a run log", "productive"),
    ],
)
def test_what_would_decide_is_evidence_of_the_metric(metric: str, evidence: str, proof: str) -> None:
    """No run log shows whether an idle node was in service."""
    result = measure_ratio(replace(ratio(), metric=metric), None, 0.5, 0.99, 12, 1000 * 3600.0)
    assert (result.needed or "").startswith(f"evidence ({evidence}) for at least 30.0 of the 490.0 GPU-hours")
    assert f"460.0 that prove {proof} would support it" in (result.needed or "")


def test_a_probability_always_has_digits() -> None:
    result = measure_mttf(4, 30.0, claim(target=1e6))
    assert "p against it below 0.0001, for it above 0.9999" in result.beside[0]


@given(
    st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.01, 0.99), st.sampled_from(["at_least", "at_most"])
)  # fmt: skip
def test_the_required_gpu_hours_decide(one: float, other: float, target: float, direction: Direction) -> None:
    low, high = min(one, other), max(one, other)
    requested = ratio(target, direction)
    if judge(requested, measure_ratio(requested, None, low, high, 1, 3600.0)).verdict != "undetermined":
        assert measure_ratio(requested, None, low, high, 1, 3600.0).needed is None
        return
    above, below = target - low, high - target
    good = judge(requested, measure_ratio(requested, None, low + above * 1.0001 + 1e-12, high, 1, 3600.0)).verdict
    bad = judge(requested, measure_ratio(requested, None, low, high - below * 1.0001 - 1e-12, 1, 3600.0)).verdict
    assert {good, bad} == {"supported", "refuted"}
    assert good == ("supported" if direction == "at_least" else "refuted")


def test_capability_reports_the_days_its_interval_still_needs() -> None:
    """40 days of 0.95 and 0.99 by turns: 0.97, about +/- 0.006; for 0.9 they are enough, for 0.968 not nearly."""
    days = [(0.95, 0.95, 1.0), (0.99, 0.99, 1.0)] * 20
    sure = measure_ratio_capability(ratio(0.9, kind="capability"), 0.97, days, seed=1, what="days")
    assert (judge(ratio(0.9, kind="capability"), sure).verdict, sure.needed) == ("supported", None)
    near = ratio(0.968, kind="capability")
    short = measure_ratio_capability(near, 0.97, days, seed=1, what="days")
    assert judge(near, short).verdict == "undetermined"
    more = int((short.needed or "").split()[1].replace(",", ""))
    assert short.needed == f"about {more:,} more days like these 40"
    as_many = days * ((40 + more) // 40 + 1)
    assert judge(near, measure_ratio_capability(near, 0.97, as_many, seed=1, what="days")).verdict == "supported"
    a_third = days * max(1, (40 + more) // 120)
    assert judge(near, measure_ratio_capability(near, 0.97, a_third, seed=1, what="days")).verdict == "undetermined"


def test_capability_whose_bounds_enclose_the_target_needs_data() -> None:
    days = [(1800.0, 3564.0, 3600.0)] * 30
    result = measure_ratio_capability(ratio(0.9, kind="capability"), None, days, seed=1, what="days")
    assert (result.needed or "").startswith("evidence (telemetry or a run log) for at least 2.7 of the 14.7 GPU-hours")


def test_too_few_days_for_an_interval_name_the_missing_count() -> None:
    result = measure_ratio_capability(ratio(kind="capability"), 0.9, [(0.9, 0.9, 1.0)] * 12, seed=1, what="days")
    assert (result.low, result.high) == (None, None)
    assert (result.needed or "").startswith("at least 8 more days of usual size for an interval: 12 days weigh as 12")


def test_median_reports_the_events_that_would_decide() -> None:
    result = measure_median([60.0] * 14 + [120.0] * 10, RESTART, at_least=20)
    assert judge(RESTART, result).verdict == "undetermined"
    assert result.needed == "about 115 more events like these: 14 of 24 were within the target so far"
    as_many = measure_median([60.0] * 81 + [120.0] * 58, RESTART, at_least=20)
    assert judge(RESTART, as_many).verdict == "supported" or as_many.high == 120.0
    half = measure_median([60.0] * 12 + [120.0] * 12, RESTART, at_least=20)
    assert half.needed == "an unknown number of further events: 12 of 24 were within the target so far, about half"


def test_restrictions_of_a_claim_are_described_in_words() -> None:
    plain = claim()
    assert plain.narrowed is None
    scoped = replace(
        plain, metric="mttf", scope=Scope(user="ada", gpus_max=64), window="28d", population="bucket",
        exclusions=(Exclusion("agreed", category="other_work"),),
    )  # fmt: skip
    assert scoped.narrowed == "user ada, jobs of at most 64 GPUs, in 28d, with 1 exclusion, jobs of that size only"
