"""Lasting change of a recipe's speed: the split of the days that differs most, beyond the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from metrics.lazy_scipy import special

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_DAYS: Final = 3
"""Fewest days on either side of a change."""

LEVEL: Final = 0.05
"""Chance of naming a change where there is none, over all splits together (Bonferroni)."""


class RateChange(NamedTuple):
    """A change of a series of rates.

    Attributes:
        at: index of the first value after the change.
        ratio: mean after it over mean before it.
        p: that a series without a change splits so, times the number of splits.
    """

    at: int
    ratio: float
    p: float


def change_of(rates: Sequence[float]) -> RateChange | None:
    """The change that the data show most clearly; None where none is beyond the noise, or there are too few days.

    Args:
        rates: of each day, above zero, in the order of time.

    >>> change_of([700.0, 702.0, 699.0, 701.0, 650.0, 652.0, 649.0]).at
    4
    >>> change_of([700.0, 702.0, 699.0, 701.0, 700.5, 699.0]) is None
    True

    Source: two-sample t test of the logarithms at each split, with the common variance; Bonferroni over the splits.
    """
    logs = np.log(np.asarray(rates, dtype=np.float64))
    n = len(logs)
    splits = range(LEAST_DAYS, n - LEAST_DAYS + 1)
    if not splits:
        return None
    best = min((_split(logs, at) for at in splits), key=lambda each: each.p)
    p = min(1.0, best.p * len(splits))
    return RateChange(best.at, best.ratio, p) if p < LEVEL else None


def _split(logs: np.ndarray[tuple[int], np.dtype[np.float64]], at: int) -> RateChange:
    """The difference at one split, with the p of its t test."""
    before, after = logs[:at], logs[at:]
    off = float(after.mean() - before.mean())
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    freedom = len(logs) - 2
    error = (squares / freedom * (1 / len(before) + 1 / len(after))) ** 0.5
    if error <= abs(off) * 1e-9:  # days without noise
        return RateChange(at, float(np.exp(off)), 0.0 if abs(off) > 1e-9 else 1.0)
    return RateChange(at, float(np.exp(off)), float(2 * special.stdtr(freedom, -abs(off) / error)))
