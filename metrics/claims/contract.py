"""Terms of a contract applied to a verdict: the outcome by its rule, the error budget, and credits.

A verdict reports what the data show. A contract may read the same measurement otherwise: by its value alone, or by its
worse end, so that unobserved time counts against whoever must prove. The rule is a term of the contract, not a
measurement, and the report prints both.

The error budget is that of service-level objectives (Beyer et al. 2018, The Site Reliability Workbook, chapter 2): what
a target allows to be lost, and how much of it is spent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metrics.claims.claim import Claim, Judged
    from metrics.statistics import Direction

Rule = Literal["verdict", "value", "worse_end"]
Result = Literal["met", "missed", "undecided"]

_OF_VERDICT: dict[str, Result] = {"supported": "met", "refuted": "missed", "undetermined": "undecided"}


@dataclass(frozen=True)
class CreditStep:
    """A step of a credit table.

    Attributes:
        beyond: a number that is worse than this earns the credit.
        percent: of the fee.
    """

    beyond: float
    percent: float


@dataclass(frozen=True)
class Outcome:
    """A claim under a contract.

    Attributes:
        rule: how the contract reads the measurement.
        result: met, missed or undecided.
        better: the number of the most that the rule leaves possible, in the provider's favour; None: unknown.
        worse: the number of the least; the same as `better` where the rule names one number.
        credit_least: percent of the fee that is due in any case.
        credit_most: percent of the fee that may be due; None where the number is unknown.
    """

    rule: Rule
    result: Result
    better: float | None
    worse: float | None
    credit_least: float = 0.0
    credit_most: float | None = 0.0


def outcome(judged: Judged, rule: Rule, steps: Sequence[CreditStep] = ()) -> Outcome:
    """The outcome of a claim under a contract.

    Args:
        judged: the claim and its measurement.
        rule: `verdict`: met if supported, missed if refuted. `value`: the value is compared with the target.
            `worse_end`: the lower end of an `at_least`, the upper end of an `at_most`: who provides must prove.
        steps: of the credit table, in any order.

    A delivered claim is undecided where the data do not cover the whole period.

    >>> from metrics.claims.claim import Claim, Judged, Measurement
    >>> claim = Claim("g", "goodput_allocated", "96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
    >>> judged = Judged(claim, Measurement(value=0.97, low=0.94, high=0.98), "undetermined")
    >>> [outcome(judged, rule, [CreditStep(0.96, 5.0)]).result for rule in ("verdict", "value", "worse_end")]
    ['undecided', 'met', 'missed']
    >>> outcome(judged, "verdict", [CreditStep(0.96, 5.0), CreditStep(0.95, 10.0)]).credit_most
    10.0
    """
    claim = judged.claim
    better, worse = _numbers(judged, rule)
    result = _OF_VERDICT[judged.verdict] if rule == "verdict" else _compared(claim, worse)
    if judged.share < 1 and claim.kind == "delivered":
        return Outcome(rule, "undecided", better, worse, 0.0, _percent(claim.direction, worse, steps))
    if result == "met":
        return Outcome(rule, result, better, worse)
    least = _percent(claim.direction, better, steps) or 0.0
    return Outcome(rule, result, better, worse, least, _percent(claim.direction, worse, steps))


def _numbers(judged: Judged, rule: Rule) -> tuple[float | None, float | None]:
    """Value that the rule compares, read in favour of the provider and against."""
    measured = judged.measured
    if rule == "value":
        return measured.value, measured.value
    ends = (measured.high, measured.low)
    better, worse = ends if judged.claim.direction == "at_least" else ends[::-1]
    return (worse, worse) if rule == "worse_end" else (better, worse)


def _compared(claim: Claim, number: float | None) -> Result:
    if number is None:
        return "undecided"
    return "missed" if _is_worse(claim.direction, number, claim.target) else "met"


def _is_worse(direction: Direction, number: float, limit: float) -> bool:
    return number < limit if direction == "at_least" else number > limit


def _percent(direction: Direction, number: float | None, steps: Sequence[CreditStep]) -> float | None:
    """The credit of a number: the most of the steps that it is beyond; None where the number is unknown."""
    if number is None:
        return None if steps else 0.0
    return max((each.percent for each in steps if _is_worse(direction, number, each.beyond)), default=0.0)


@dataclass(frozen=True)
class Budget:
    """An error budget: what the target allows to be lost in the period, and what was.

    Attributes:
        unit: `gpu_s` (GPU-seconds) or `interruptions`.
        allowed: by the target, for the period's own denominator.
        spent: by the value; None where it is unknown.
        spent_low: at least.
        spent_high: at most; None: no limit is known.
    """

    unit: Literal["gpu_s", "interruptions"]
    allowed: float
    spent: float | None
    spent_low: float
    spent_high: float | None


def budget(judged: Judged, *, of_gpu_time: bool) -> Budget | None:
    """The error budget of a claim; None where its metric has none, or nothing was measured.

    A ratio that is to be at least t allows (1 - t) of its denominator; an MTTF of t days allows one interruption for
    each t days of exposure of a job of the claimed size.

    Args:
        judged: the claim and its measurement.
        of_gpu_time: whether the metric's numerator and denominator are GPU-seconds: only then what a ratio lacks to 1
            is GPU-time that was lost.

    >>> from metrics.claims.claim import Claim, Judged, Measurement
    >>> claim = Claim("g", "goodput_allocated", "96 %", "at least 0.96", "delivered", 0.96, "at_least", "ratio")
    >>> judged = Judged(claim, Measurement(0.97, 0.95, 0.98, denominator=1000.0), "undetermined")
    >>> made = budget(judged, of_gpu_time=True)
    >>> [round(each, 9) for each in (made.allowed, made.spent_low, made.spent, made.spent_high)]
    [40.0, 20.0, 30.0, 50.0]
    """
    claim, measured = judged.claim, judged.measured
    if claim.direction != "at_least" or measured.denominator is None:
        return None
    if claim.metric == "mttf" and measured.numerator is not None:
        spent = measured.denominator
        return Budget("interruptions", measured.numerator / claim.target, spent, spent, spent)
    if claim.unit != "ratio" or not of_gpu_time or measured.low is None:
        return None
    whole = measured.denominator
    high = measured.high if measured.high is not None and math.isfinite(measured.high) else 1.0
    spent_s = None if measured.value is None else (1 - measured.value) * whole
    return Budget("gpu_s", (1 - claim.target) * whole, spent_s, (1 - high) * whole, (1 - measured.low) * whole)
