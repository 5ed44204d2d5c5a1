"""Confidence interval of the ETTR of the observed runs, by resampling whole runs.

The losses of a run are correlated (its node, its code, its size), so runs are what is drawn, never their hours.
Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from metrics.ettr.ettr import FORMS
from metrics.sample_statistics import MIN_EFFECTIVE_NUMBER, bootstrap_ratio_interval, effective_number

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_DRAWN = 1_000
"""Most units to draw from. More runs are put into this many random groups: the interval is as wide (groups vary as much
less as there are fewer of them), and a million runs take no longer than a thousand."""


class RunsInterval(NamedTuple):
    """An interval over runs, or why there is none."""

    low: float | None
    high: float | None
    method: str


def interval_over_runs(by_run: pl.DataFrame, form: str, *, weighted: bool, seed: int) -> RunsInterval:
    """95 % interval of a form of the ETTR over all runs.

    Args:
        by_run: as `metrics.ettr.ettr.ettr_by_run` returns it, of one cluster; the order of its rows changes nothing.
        form: one of `metrics.ettr.ettr.FORMS`.
        weighted: of the ratio of sums; else of the mean of the runs' ratios.
        seed: of the resampling.

    Returns:
        The BCa interval, if the runs weigh as much as 20 equal ones.
    """
    top, bottom = FORMS[form]
    # Of some forty columns three: a sort copies each.
    halves = by_run.select("run_id", top=top, bottom=bottom).filter(pl.col("bottom") > 0).sort("run_id")
    numerators, denominators = halves["top"].to_numpy(), halves["bottom"].to_numpy()
    if not weighted:
        numerators, denominators = numerators / denominators, np.ones(len(denominators))
    effective = effective_number(denominators) if len(denominators) else 0.0
    if effective < MIN_EFFECTIVE_NUMBER:
        reason = f"too few runs for an interval: they weigh as much as {effective:.1f} equal ones of at least"
        return RunsInterval(None, None, f"{reason} {MIN_EFFECTIVE_NUMBER:g}")
    drawn = (_grouped(numerators, seed), _grouped(denominators, seed))
    interval = bootstrap_ratio_interval(*drawn, seed=seed)
    if interval is None:  # the groups weigh less than the runs do
        interval = bootstrap_ratio_interval(numerators, denominators, seed=seed)
    low, high = (None, None) if interval is None else (float(interval.low), float(interval.high))
    return RunsInterval(low, high, f"BCa bootstrap over {len(numerators):,} whole runs, 95 %")


def _grouped(values: npt.NDArray[np.float64], seed: int) -> npt.NDArray[np.float64]:
    """Sums over random groups of equal size, where there are too many values to draw from."""
    if len(values) <= MOST_DRAWN:
        return values
    places = np.random.default_rng(seed).permutation(len(values)) % MOST_DRAWN
    return np.bincount(places, weights=values, minlength=MOST_DRAWN).astype(np.float64)
