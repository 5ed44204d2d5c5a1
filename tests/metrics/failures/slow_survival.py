"""Survival of attempts as one would work it out by hand: one age after the other, one attempt after the other."""

from __future__ import annotations

import math

Spell = tuple[float, float, int]
"""Age when first seen, age when last seen, and what ended it then (0: nothing)."""


def observed(spells: list[Spell], age: float) -> int:
    """How many are under observation just before an age."""
    return sum(entered < age <= left for entered, left, _ in spells)


def ended(spells: list[Spell], age: float, causes: list[int]) -> int:
    """How many these causes ended at an age."""
    return sum(left == age and cause in causes for _, left, cause in spells)


def survival(spells: list[Spell], causes: list[int]) -> list[tuple[float, float, float]]:
    """Age, Kaplan-Meier estimate and Greenwood's variance at each age at which these causes struck."""
    result: list[tuple[float, float, float]] = []
    alive, total = 1.0, 0.0
    for age in sorted({left for _, left, cause in spells if cause in causes}):
        n, d = observed(spells, age), ended(spells, age, causes)
        alive *= 1 - d / n
        total += d / (n * (n - d)) if n > d else math.inf
        result.append((age, alive, alive**2 * total if alive else math.nan))
    return result


def incidence(spells: list[Spell], cause: int, every: list[int]) -> list[tuple[float, float, float]]:
    """Age, Aalen-Johansen estimate and its delta-method variance at each age at which any cause struck."""
    ages = sorted({left for _, left, by in spells if by in every})
    alive, reached, steps, result = 1.0, 0.0, [], []
    for age in ages:
        n, d, own = observed(spells, age), ended(spells, age, every), ended(spells, age, [cause])
        reached += alive * own / n
        steps.append((alive, n, d, own, reached))
        alive *= 1 - d / n
        variance = 0.0
        for before, at_risk, all_ends, own_ends, then in steps:
            rest = reached - then
            variance += rest**2 * all_ends / (at_risk * (at_risk - all_ends)) if at_risk > all_ends else math.nan
            variance += before**2 * (at_risk - own_ends) * own_ends / at_risk**3
            variance -= 2 * rest * before * own_ends / at_risk**2
        result.append((age, reached, variance))
    return result


def weibull_log_likelihood(spells: list[Spell], causes: list[int], shape: float, scale: float) -> float:
    """Sum over attempts: the log hazard at the end if it was an event, less the hazard gathered while seen."""
    total = 0.0
    for entered, left, cause in spells:
        total -= (left / scale) ** shape - (entered / scale) ** shape
        if cause in causes:
            total += math.log(shape / scale) + (shape - 1) * math.log(left / scale)
    return total


def weibull_best(spells: list[Spell], causes: list[int]) -> tuple[float, float]:
    """The highest log-likelihood of all shapes on a fine grid from 0.02 to 50, and the shape; scales by calculus."""
    d = sum(cause in causes for _, _, cause in spells)
    result = []
    for step in range(2001):
        shape = 0.02 * 2500 ** (step / 2000)
        total = math.fsum(left**shape - entered**shape for entered, left, _ in spells)
        log_scale = math.log(total / d) / shape
        result.append((weibull_log_likelihood(spells, causes, shape, math.exp(log_scale)), shape))
    return max(result)
