"""What stragglers cost a job, and the score by which a rank is one, beside `metrics.ledger.straggling`."""

from __future__ import annotations

SCORE = 0.75
"""A rank straggles below this share of the fastest one's speed (NVIDIA resiliency extension)."""


def straggler_score(median_s: float, fastest_median_s: float) -> float:
    """Speed of a rank beside the fastest one, by the median times of a section; below `SCORE` it straggles.

    Raises:
        ValueError: times are above zero.

    >>> round(straggler_score(1 / 0.591, 1.0), 3)
    0.591
    """
    if not (median_s > 0 and fastest_median_s > 0):
        raise ValueError(f"medians of {median_s} and {fastest_median_s} s cannot be compared")
    return fastest_median_s / median_s


def waste(slowdown: float) -> float:
    """Share of the time that a job would not have needed, if it takes `slowdown` times as long as without stragglers.

    Raises:
        ValueError: no job is faster than without stragglers.

    >>> round(waste(1.1), 4)
    0.0909
    """
    if not slowdown >= 1:
        raise ValueError(f"a slowdown is at least 1, not {slowdown}")
    return 1 - 1 / slowdown
