"""The power of the lemon test: an oracle of `metrics.failures.lemons.detectable_count`."""

from __future__ import annotations

from scipy import special


def power_of(factor: float, expected: float, flag_at: float) -> float:
    """Probability that a node that fails `factor` times as often as the others is flagged: P(Poisson(f m) >= c).

    That a second family of signals agrees is taken for granted.

    2.13 failures per 1000 node-days, 28 days, 128 nodes (flagged from 3 on) and 2,048 nodes (from 4 on):

    >>> mean = 28 * 2.13 / 1000
    >>> [round(power_of(factor, mean, 3), 2) for factor in (20, 50, 100)]
    [0.12, 0.57, 0.94]
    >>> [round(power_of(factor, mean, 4), 2) for factor in (20, 50, 100)]
    [0.03, 0.35, 0.85]
    """
    return float(special.gammainc(flag_at, factor * expected))
