"""The ideal step of Google's goodput library, and its step time deviation."""

from __future__ import annotations

from typing import Literal

import numpy as np

from metrics.goodput.job import ANOMALOUS_MADS, MIN_STEP_S, Floats

DEVIATION_STEPS = 100
"""The latest steps that a step deviation is of."""

BASELINE_STEPS = 1_000
"""The steps before those that cumulative deviations are compared with."""


def ideal_step_s(times: Floats, *, min_s: float = MIN_STEP_S) -> float | None:
    """Length of a step when nothing disturbs it: the mean of those that are not anomalous, in seconds.

    Mean of the times of at least `min_s` that are at most median + 3 MAD (the plain median absolute deviation, without
    the factor 1.4826). None where there is none.

    >>> ideal_step_s(np.array([10, 10.2, 9.8, 10.1, 9.9, 30, 0.5]))
    10.0
    """
    real = times[times >= min_s]
    if not len(real):
        return None
    median = np.median(real)
    limit = median + ANOMALOUS_MADS * np.median(np.abs(real - median))
    return float(real[real <= limit].mean())


def step_deviation(
    times: Floats, *, mode: Literal["interval", "cumulative"] = "interval", min_s: float = MIN_STEP_S
) -> float | None:
    """How far the latest steps are from the ideal one, in seconds; None where there is no step.

    With fewer than 100 steps the mean of all deviations; else the 90th percentile (linear) of those of the last 100.
    In `cumulative` mode, with 1100 or more, that percentile less the median of the 1000 before: what has become worse.

    >>> round(step_deviation(np.array([10.0, 10.0, 10.0, 13.0])), 2)  # the ideal is 10
    0.75
    """
    ideal = ideal_step_s(times, min_s=min_s)
    if ideal is None:
        return None
    off = np.abs(times - ideal)
    if len(off) < DEVIATION_STEPS:
        return float(off.mean())
    latest = float(np.percentile(off[-DEVIATION_STEPS:], 90))
    if mode == "interval" or len(off) < DEVIATION_STEPS + BASELINE_STEPS:
        return latest
    return latest - float(np.median(off[-DEVIATION_STEPS - BASELINE_STEPS : -DEVIATION_STEPS]))
