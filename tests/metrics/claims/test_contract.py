"""Outcomes, credits and error budgets of a contract, against a slow reading of the same rules."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.claims.claim import Claim, Judged, Measurement
from metrics.claims.contract import CreditStep, budget, outcome
from metrics.claims.verdict import judge

SHARE = st.floats(0, 1)


def claim(direction: str = "at_least", target: float = 0.96, kind: str = "delivered", **more: object) -> Claim:
    unit = "d" if more.get("metric") == "mttf" else "ratio"
    named: dict[str, Any] = {
        "metric": "availability",
        "direction": direction,
        "target": target,
        "kind": kind,
        "unit": unit,
    }
    return Claim(**{"id": "c", "quoted": "q", "read_as": "r", **named, **more})


@given(
    st.lists(SHARE, min_size=3, max_size=3),
    SHARE,
    st.sampled_from(["at_least", "at_most"]),
    st.lists(st.tuples(SHARE, st.floats(0.5, 40)), max_size=4),
)
def test_credits_and_results_are_those_of_every_possible_number(
    numbers: list[float], target: float, direction: str, table: list[tuple[float, float]]
) -> None:
    low, value, high = sorted(numbers)
    judged = judge(claim(direction, target), Measurement(value, low, high))
    steps = [CreditStep(*step) for step in table]

    def meets(number: float) -> bool:
        return number >= target if direction == "at_least" else number <= target

    def credit(number: float) -> float:
        worse = [p for at, p in table if (number < at if direction == "at_least" else number > at)]
        return max(worse, default=0.0)

    possible = {"verdict": (low, high), "value": (value,), "worse_end": (low if direction == "at_least" else high,)}
    for rule, those in possible.items():
        made = outcome(judged, rule, steps)  # type: ignore[arg-type]  # one of its texts
        met = {meets(number) for number in those}
        assert made.result == ("undecided" if len(met) > 1 else "met" if met.pop() else "missed")
        if made.result == "met":
            assert (made.credit_least, made.credit_most) == (0.0, 0.0)
        else:
            assert (made.credit_least, made.credit_most) == (min(map(credit, those)), max(map(credit, those)))


@pytest.mark.parametrize("rule", ["verdict", "value", "worse_end"])
def test_nothing_measured_is_undecided_and_may_earn_all(rule: str) -> None:
    made = outcome(judge(claim(), Measurement()), rule, [CreditStep(0.96, 5.0)])  # type: ignore[arg-type]  # one of its texts
    assert (made.result, made.credit_least, made.credit_most) == ("undecided", 0.0, None)


def test_a_part_of_the_period_decides_nothing_delivered() -> None:
    measured = Measurement(0.99, 0.98, 1.0)
    part = Judged(claim(), measured, "supported", share=0.5)
    assert outcome(part, "value", [CreditStep(0.96, 5.0)]).result == "undecided"
    assert outcome(Judged(claim(kind="capability"), measured, "supported", share=0.5), "value").result == "met"


@given(st.lists(SHARE, min_size=3, max_size=3), st.floats(0.01, 1), st.floats(1, 1e9))
def test_budget_is_spent_by_what_the_ratio_lacks(numbers: list[float], target: float, whole: float) -> None:
    low, value, high = sorted(numbers)
    made = budget(judge(claim(target=target), Measurement(value, low, high, denominator=whole)), of_gpu_time=True)
    assert made is not None
    assert made.spent_low <= (made.spent or 0.0) <= (made.spent_high or 0.0)
    exceeded = (made.spent or 0.0) > made.allowed
    if not math.isclose(value, target, abs_tol=1e-9):
        assert exceeded == (value < target)


def test_budget_of_an_mttf_counts_interruptions() -> None:
    measured = Measurement(3.0, 2.0, 4.0, 10, numerator=30.0, denominator=10.0)
    judged = judge(claim(target=3.0, metric="mttf", gpus=1024.0), measured)
    made = budget(judged, of_gpu_time=False)
    assert made is not None
    assert (made.unit, made.allowed, made.spent, made.spent_low, made.spent_high) == ("interruptions", 10, 10, 10, 10)


def test_no_budget_where_nothing_is_lost_as_gpu_time() -> None:
    assert budget(judge(claim(), Measurement()), of_gpu_time=True) is None
    measured = Measurement(0.5, 0.4, 0.6, denominator=1e18)
    assert budget(judge(claim(metric="mfu"), measured), of_gpu_time=False) is None
    assert budget(judge(claim("at_most"), measured), of_gpu_time=True) is None
