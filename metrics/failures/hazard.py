"""Interruptions by age: survival, competing causes and Weibull fits by job size.

The age of an attempt is how long it has run. One that already ran when the window opened enters at its age then; one
that still runs when it closes is censored there. Where another cause ends an attempt first, Kaplan-Meier takes it as
censored; the cumulative incidence by cause, given with it, does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from metrics import frames
from metrics.failures.exposure import INFRASTRUCTURE, UNPLANNED, Histories, SizeRange, exposure
from metrics.failures.survival import (
    CENSORED,
    Curve,
    Spells,
    at_age,
    cumulative_incidence,
    kaplan_meier,
    median,
    weibull,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import numpy.typing as npt

    from metrics.statistics import FloatArray

CAUSES = {"infrastructure": 1, "user": 2, "preemption": 3, "completed": 4, "other": 5}
"""Causes that end attempts. `user` are failures; `other` are cancellations, time limits, planned requeues and ends of
states that have none. An attempt that accounting never closed (RUNAWAY) is censored where it was last known to run."""

KINDS = {"infrastructure": (1,), "unplanned": (1, 2)}
"""Causes that count as an interruption, as in `metrics.failures.rates`."""

AGES = {"1h": 3600.0, "24h": 86_400.0, "7d": 604_800.0}
"""Ages at which the share not interrupted is given."""

_MIXED = "; sizes are mixed, and larger jobs fail more and run longer: read it by size"

MOST_POINTS = 200
"""A curve has no more points than that: of a longer one every n-th step, the last one always."""

SUMMARY: frames.Schema = {
    "class": pl.String(),
    "size": pl.String(),
    "n_attempts": pl.Int64(),
    "n_entered_late": pl.Int64(),
    "n_failures": pl.Int64(),
    **{f"survival_{age}{end}": pl.Float64() for age in AGES for end in ("", "_low", "_high")},
    "median_s": pl.Float64(),
    "median_low_s": pl.Float64(),
    "median_high_s": pl.Float64(),
    "shape": pl.Float64(),
    "shape_low": pl.Float64(),
    "shape_high": pl.Float64(),
    "scale_s": pl.Float64(),
    "scale_low_s": pl.Float64(),
    "scale_high_s": pl.Float64(),
    "aic_weibull": pl.Float64(),
    "aic_exponential": pl.Float64(),
    "p_value": pl.Float64(),
    "note": pl.String(),
}

CURVES: frames.Schema = {
    "curve": pl.String(),
    "class": pl.String(),
    "size": pl.String(),
    "age_s": pl.Float64(),
    "at_risk": pl.Int64(),
    "n_failures": pl.Int64(),
    "value": pl.Float64(),
    "ci_low": pl.Float64(),
    "ci_high": pl.Float64(),
}


def hazards(past: Histories, since: datetime, until: datetime, sizes: Sequence[SizeRange]) -> pl.DataFrame:
    """Survival, its median, and a Weibull fit, by class of interruption and job size.

    Returns:
        SUMMARY. Survival at an age is null where no observed attempt was so old; `shape` where there are too few
        interruptions.
    """
    gpus, observed = spells(past, since, until)
    summaries = [
        _summary(kind, size, _of(observed, gpus, size), causes) for kind, causes in KINDS.items() for size in sizes
    ]
    return pl.DataFrame(summaries, schema=SUMMARY)


def hazard_curves(past: Histories, since: datetime, until: datetime, sizes: Sequence[SizeRange]) -> pl.DataFrame:
    """Kaplan-Meier of each class (`curve` survival), and cumulative incidence of each cause (`curve` incidence).

    Returns:
        CURVES; `n_failures` are since the point before.
    """
    gpus, observed = spells(past, since, until)
    points = [pl.DataFrame(schema=CURVES)]
    for size in sizes:
        inside = _of(observed, gpus, size)
        if len(inside.left):
            points += [_points("survival", kind, size, kaplan_meier(inside, causes)) for kind, causes in KINDS.items()]
            points += [
                _points("incidence", cause, size, cumulative_incidence(inside, code)) for cause, code in CAUSES.items()
            ]
    return pl.concat(points)


def spells(past: Histories, since: datetime, until: datetime) -> tuple[FloatArray, Spells]:
    """Job sizes, smallest first, and what was seen of each attempt in the window.

    Attempts that ended as they started were never at risk and are not among them.
    """
    ran = exposure(past.ran, since, until).sort("gpus", "execution")
    began = pl.col("started_at")
    ages = ran.select(entered=frames.seconds(pl.col("from_at") - began), left=frames.seconds(pl.col("to_at") - began))
    over = ran.select((pl.col("ended_at") <= until).fill_null(value=False)).to_series().to_numpy()
    cause = np.where(over, _causes(past)[ran["execution"].to_numpy()], CENSORED)
    return ran["gpus"].to_numpy(), Spells(ages["entered"].to_numpy(), ages["left"].to_numpy(), cause)


def _causes(past: Histories) -> npt.NDArray[np.int64]:
    """Cause of the end of each execution that ended, by its number."""
    by_state = (
        pl.when(pl.col("state") == "COMPLETED")
        .then(CAUSES["completed"])
        .when(pl.col("state") == "RUNAWAY")
        .then(CENSORED)
        .otherwise(CAUSES["other"])
    )
    cause_of = past.ran.select(by_state.cast(pl.Int64)).to_series().to_numpy().copy()
    interrupted = past.ended.select(
        "execution",
        cause=pl.when(INFRASTRUCTURE)
        .then(CAUSES["infrastructure"])
        .when(UNPLANNED)
        .then(CAUSES["user"])
        .when(pl.col("class") == "preemption")
        .then(CAUSES["preemption"])
        .otherwise(CAUSES["other"])
        .cast(pl.Int64),
    )
    cause_of[interrupted["execution"].to_numpy()] = interrupted["cause"].to_numpy()
    return cause_of


def _of(observed: Spells, gpus: FloatArray, size: SizeRange) -> Spells:
    """Spells of jobs of a size, by the age when last seen: each curve sorts them."""
    low, high = np.searchsorted(gpus, [size.low, size.high], side="right")
    order = low + np.argsort(observed.left[low:high], kind="stable")
    return Spells(observed.entered[order], observed.left[order], observed.cause[order])


def _summary(kind: str, size: SizeRange, observed: Spells, causes: Sequence[int]) -> dict[str, object]:
    curve, fitted = kaplan_meier(observed, causes), weibull(observed, causes)
    row: dict[str, object] = {
        "class": kind,
        "size": size.label,
        "n_attempts": len(observed.left),
        "n_entered_late": int((observed.entered > 0).sum()),
        "n_failures": int(np.isin(observed.cause, causes).sum()),
    }
    oldest = float(observed.left.max()) if len(observed.left) else 0.0
    for name, age in AGES.items():
        row |= _share(f"survival_{name}", curve, age) if oldest >= age else {}
    row |= dict(zip(("median_s", "median_low_s", "median_high_s"), median(curve), strict=True))
    if fitted is None:
        few = "too few interruptions to determine how they depend on age"
        return row | {"note": few if row["n_failures"] in {0, 1} else "no shape explains these interruptions best"}
    return row | {
        "shape": fitted.shape,
        "shape_low": fitted.shape_low,
        "shape_high": fitted.shape_high,
        "scale_s": fitted.scale_s,
        "scale_low_s": fitted.scale_low_s,
        "scale_high_s": fitted.scale_high_s,
        "aic_weibull": fitted.aic,
        "aic_exponential": fitted.aic_exponential,
        "p_value": fitted.p_value,
        "note": fitted.words + (_MIXED if size.per_gpu else ""),
    }


def _share(name: str, curve: Curve, age: float) -> dict[str, float | None]:
    value, low, high = at_age(curve, age) or (1.0, np.nan, np.nan)
    ends = (None if np.isnan(end) else end for end in (low, high))
    return dict(zip((name, f"{name}_low", f"{name}_high"), (value, *ends), strict=True))


def _points(what: str, kind: str, size: SizeRange, curve: Curve) -> pl.DataFrame:
    """A curve as rows, of no more than MOST_POINTS points."""
    n = len(curve.age)
    chosen = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int)) if n else np.zeros(0, dtype=int)
    events = np.diff(np.cumsum(curve.events)[chosen], prepend=0)
    rows = pl.DataFrame(
        {
            "age_s": curve.age[chosen],
            "at_risk": curve.at_risk[chosen],
            "n_failures": events,
            "value": curve.value[chosen],
            "ci_low": curve.low[chosen],
            "ci_high": curve.high[chosen],
        }
    ).with_columns(pl.col("value", "ci_low", "ci_high").fill_nan(None))
    return frames.conform(
        rows.with_columns(curve=pl.lit(what), size=pl.lit(size.label), **{"class": pl.lit(kind)}), CURVES
    )
