"""Interruption rates of attempts: events over exposure, for every size of job, with exact intervals.

Every attempt gives exposure, however it ended: running, cancelled and completed attempts are censored, not left out.
With k events in exposure T the maximum-likelihood MTTF is T/k, which is also the right-censored exponential estimate.
Attempts that ran when the window opened give exposure from there on only: they are truncated on the left.
Two counts, both named: `attempts` (interrupted jobs: what a job of that size experiences) and `incidents`
(interruptions on one node within 15 minutes merged: what the hardware does; the fleet's rate counts these).

A window is cut out of `Histories`, which hold what all windows share. Sums are taken once per job size, of which there
are few, and every range of sizes is added up from these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from metrics import frames, statistics
from metrics.failures.exposure import (
    INFRASTRUCTURE,
    META_RF,
    OVER_128,
    POOLED,
    UNPLANNED,
    Histories,
    Risk,
    SizeRange,
    day_of,
    histories,
    risk_in,
)
from metrics.failures.size_law import size_law
from metrics.metric import Claimable, Metric
from metrics.numeric import finite_column

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from metrics.failures.size_law import SizeLaw
    from metrics.statistics import FloatArray


CLASSES = {"infrastructure": INFRASTRUCTURE, "unplanned": UNPLANNED, "meta_rf": META_RF}
"""Definitions of a failure. `meta_rf` is for attempts of over 128 GPUs only."""


def failure_rates(
    attempts: pl.DataFrame,
    interruptions: pl.DataFrame,
    since: datetime,
    until: datetime,
    sizes: Sequence[SizeRange],
) -> pl.DataFrame:
    """Events, exposure, rate and MTTF of one cluster in a window, per class, way of counting and size.

    Args:
        attempts: `frames.ATTEMPTS` of one cluster.
        interruptions: `frames.INTERRUPTIONS` of it.
        since: window from.
        until: window to; running attempts give exposure up to here.
        sizes: job sizes to report.

    Returns:
        See `rates_in`.
    """
    return rates_in(histories(attempts, interruptions), since, until, sizes)


def rates_in(past: Histories, since: datetime, until: datetime, sizes: Sequence[SizeRange]) -> pl.DataFrame:
    """Events, exposure, rate and MTTF in a window, per class, way of counting and size.

    Returns:
        `RATES`: the columns of the table `failure_rates` but `cluster`. Rates are per GPU-day. `mttf_d` is in days: of
        one job of that size for a bucket, of one GPU for `pooled` and `over 128` (divide by a job's GPUs). Without
        exposure every estimate is null; `mttf_high_d` is null where there is no upper limit (no failure yet). `phi` and
        `phi_p` are of the counts per UTC day with GPU-days as offset; where p < 0.05 the intervals are of k/phi in
        T/phi.
        `b` with its interval is the slope of the size law, of `pooled` and `over 128`; the note has the consequence.

    Incidents are counted within each size and window, so they do not add up over sizes or windows where one incident
    strikes several. Exact Poisson intervals: Garwood 1936, see `metrics.statistics`.
    """
    risk = risk_in(past, since, until)
    within = past.ended.filter(frames.ended_in(since, until))
    cells: list[dict[str, object]] = []
    daily: list[tuple[FloatArray, FloatArray]] = []
    for kind, events in CLASSES.items():
        struck = _events(within.filter(events), risk)
        of_kind = [size for size in sizes if kind != "meta_rf" or size == OVER_128]
        laws = {size: _law_cells(_law(struck, risk, size)) for size in of_kind if size.per_gpu}
        for counted in ("attempts", "incidents"):
            for size in of_kind:
                if kind != "meta_rf" or counted == "attempts":
                    row, days = _counts(struck, risk, size, merged=counted == "incidents")
                    cells.append(row | {"class": kind, "counted": counted} | laws.get(size, {}))
                    daily.append((days, risk.days_of(size)))
    table = _with_estimates(cells, daily, risk.daily.shape[1])
    return table.with_columns(window_from=frames.instant(since), window_until=frames.instant(until))


def law_in(past: Histories, since: datetime, until: datetime, kind: str) -> SizeLaw:
    """Growth of the rate of a class of failures with a job's GPUs, from the attempts that ran in a window."""
    risk = risk_in(past, since, until)
    within = past.ended.filter(frames.ended_in(since, until) & CLASSES[kind])
    return _law(_events(within, risk), risk, _all_of(kind))


def rates_by_cause(past: Histories, since: datetime, until: datetime) -> pl.DataFrame:
    """Attempts interrupted in a window by class and cause, in the exposure of all attempts, the most frequent first.

    Returns:
        The columns of `rates_in` for the size `pooled`, with `cause` and `share` (of all interruptions listed); `class`
        is that of the interruption. Endings that are no failure, such as cancellations, are not listed.
    """
    risk = risk_in(past, since, until)
    within = past.ended.filter(frames.ended_in(since, until) & UNPLANNED)
    cells: list[dict[str, object]] = []
    daily: list[tuple[FloatArray, FloatArray]] = []
    causes: list[str | None] = []
    for (kind, cause), ended in within.group_by("class", "cause", maintain_order=True):
        row, days = _counts(_events(ended.sort("gpus", "ended_at", "execution"), risk), risk, POOLED, merged=False)
        cells.append(row | {"class": kind, "counted": "attempts", "note": _OF_ONE})
        daily.append((days, risk.days_of(POOLED)))
        causes.append(None if cause is None else str(cause))
    table = _with_estimates(cells, daily, risk.daily.shape[1]).drop(*_OF_A_WINDOW)
    return table.with_columns(
        cause=pl.Series(causes, dtype=pl.String), share=pl.col("n_failures") / pl.col("n_failures").sum()
    ).sort("n_failures", "class", "cause", descending=[True, False, False])


def rates_by(past: Histories, since: datetime, until: datetime, label: str) -> pl.DataFrame:
    """Failure rates over all sizes by user or partition of the attempts, those with the most exposure first.

    Returns:
        The columns of `rates_in` for the size `pooled`, with the label.
    """
    parts = past.ran.partition_by(label, as_dict=True)
    cells = []
    for (value,), ran in parts.items():
        ended = past.ended.join(ran.select("execution"), on="execution", how="semi", maintain_order="left")
        rates = rates_in(Histories(ran, ended), since, until, [POOLED])
        cells.append(rates.select(pl.lit(value, dtype=pl.String).alias(label), pl.all()))
    empty = rates_in(past, since, until, []).select(pl.lit(None, dtype=pl.String).alias(label), pl.all())
    together = pl.concat([empty, *cells]).filter((pl.col("n_attempts") > 0) | (pl.col("n_failures") > 0))
    return together.sort("exposure_gpu_days", label, descending=[True, False], maintain_order=True)


def _all_of(kind: str) -> SizeRange:
    """The sizes that a class is defined for."""
    return OVER_128 if kind == "meta_rf" else POOLED


# --- what struck -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Events:
    """Interrupted executions by size, smallest first: of each its size, incident, day, and whether it was exposed."""

    gpus: FloatArray
    incident: npt.NDArray[np.uint32]
    day: npt.NDArray[np.int64]
    exposed: npt.NDArray[np.bool_]


def _events(ended: pl.DataFrame, risk: Risk) -> _Events:
    day, _ = day_of(ended["ended_at"], risk.first_day_us, ending=True)
    return _Events(
        ended["gpus"].to_numpy(),
        ended["once"].to_numpy(),
        np.clip(day, 0, risk.daily.shape[1] - 1),
        risk.exposed[ended["execution"].to_numpy()],
    )


def _law(struck: _Events, risk: Risk, size: SizeRange) -> SizeLaw:
    """The 1/N law over all sizes of a range, with the overdispersion of all of them together."""
    rows = risk.rows(size)
    inside = struck.exposed & (struck.gpus > size.low) & (struck.gpus <= size.high)
    failures = np.bincount(np.searchsorted(risk.gpus, struck.gpus[inside]), minlength=len(risk.gpus)).astype(float)
    daily = np.bincount(struck.day[inside], minlength=risk.daily.shape[1]).astype(float)
    phi = statistics.overdispersion(daily, risk.days_of(size)).divisor
    return size_law(risk.gpus[rows], failures[rows], risk.job_days[rows], phi=phi)


_OF_ONE = "MTTF of one GPU: divide by a job's GPUs"


def _law_cells(law: SizeLaw) -> dict[str, object]:
    return {"note": f"{_OF_ONE} ({law.words})", "b": law.b, "b_low": law.b_low, "b_high": law.b_high}


RATES: frames.Schema = {
    "class": frames.TEXT,
    "counted": frames.TEXT,
    "size": frames.TEXT,
    "gpus_low": frames.NUMBER,
    "gpus_high": frames.NUMBER,
    "n_failures": frames.COUNT,
    "n_attempts": frames.COUNT,
    "n_censored": frames.COUNT,
    "exposure_gpu_days": frames.NUMBER,
    "exposure_node_days": frames.NUMBER,
    "exposure_job_days": frames.NUMBER,
    "note": frames.TEXT,
    "rate_per_gpu_day": frames.NUMBER,
    "mttf_d": frames.NUMBER,
    "rate_low": frames.NUMBER,
    "rate_high": frames.NUMBER,
    "jeffreys_low": frames.NUMBER,
    "jeffreys_high": frames.NUMBER,
    "mttf_low_d": frames.NUMBER,
    "mttf_high_d": frames.NUMBER,
    "phi": frames.NUMBER,
    "phi_p": frames.NUMBER,
    "window_from": frames.TIME,
    "window_until": frames.TIME,
    "b": frames.NUMBER,
    "b_low": frames.NUMBER,
    "b_high": frames.NUMBER,
}
"""Columns of the table `failure_rates` but `cluster`, in the order in which they are printed."""

_OF_A_WINDOW = ("window_from", "window_until", "b", "b_low", "b_high")
"""Columns that rates by cause do not have."""


def _counts(struck: _Events, risk: Risk, size: SizeRange, *, merged: bool) -> tuple[dict[str, object], FloatArray]:
    """Events and exposure of one range of sizes, and its events by day; merged, those of one incident count once."""
    rows = risk.rows(size)
    low, high = np.searchsorted(struck.gpus, [size.low, size.high], side="right")
    days, exposed = struck.day[low:high], struck.exposed[low:high]
    if merged:
        earliest = np.argsort(days, kind="stable")
        _, first = np.unique(struck.incident[low:high][earliest], return_index=True)
        days = days[earliest][first]
    n_attempts = int(risk.n_attempts[rows].sum())
    row: dict[str, object] = {
        "size": size.label,
        "gpus_low": size.low,
        "gpus_high": None if math.isinf(size.high) else size.high,
        "per_gpu": size.per_gpu,
        "n_failures": len(days),
        "n_attempts": n_attempts,
        "n_censored": n_attempts - int(exposed.sum()),
        "exposure_gpu_days": float(risk.gpu_days[rows].sum()),
        "exposure_node_days": float(risk.node_days[rows].sum()),
        "exposure_job_days": float(risk.job_days[rows].sum()),
    }
    return row, np.bincount(days, minlength=risk.daily.shape[1]).astype(float)


# --- estimates ---------------------------------------------------------------------------------------


def _with_estimates(
    cells: list[dict[str, object]], daily: list[tuple[FloatArray, FloatArray]], n_days: int
) -> pl.DataFrame:
    """Rows of `RATES` out of counts and exposures, without a window."""
    table = pl.DataFrame(cells, schema=RATES | {"per_gpu": frames.FLAG})
    failures = table["n_failures"].cast(pl.Float64).to_numpy()
    gpu_days = table["exposure_gpu_days"].to_numpy()
    own_days = np.where(table["per_gpu"].to_numpy(), gpu_days, table["exposure_job_days"].to_numpy())
    counts, exposures = (np.array([each[i] for each in daily]).reshape(len(daily), n_days) for i in (0, 1))
    phi, phi_p = statistics.overdispersions(counts, exposures)
    divisor = statistics.divisors(phi, phi_p)
    exact = statistics.rate_interval(failures, gpu_days, phi=divisor)
    jeffreys = statistics.jeffreys_rate_interval(failures, gpu_days, phi=divisor)
    mttf = statistics.mttf_interval(failures, own_days, phi=divisor)
    estimates = {
        "rate_low": exact.low,
        "rate_high": exact.high,
        "jeffreys_low": jeffreys.low,
        "jeffreys_high": jeffreys.high,
        "mttf_low_d": mttf.low,
        "mttf_high_d": mttf.high,
        "phi": phi,
        "phi_p": phi_p,
    }
    events = pl.col("n_failures")
    own = pl.when("per_gpu").then(pl.col("exposure_gpu_days")).otherwise(pl.col("exposure_job_days"))
    return table.with_columns(
        rate_per_gpu_day=pl.when(pl.col("exposure_gpu_days") > 0).then(events / pl.col("exposure_gpu_days")),
        mttf_d=pl.when((events > 0) & (own > 0)).then(own / events),
        **{name: finite_column(name, values) for name, values in estimates.items()},
    ).drop("per_gpu")


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="mttf",
        unit="d",
        claim=Claimable(
            "mttf",
            of="attempts",
            fields=("gpus", "failure_class", "population"),
            required=("gpus",),
            categories=False,
        ),
        title="MTTF",
        show="mttf",
        judged=True,
        headline=4,
        summary="Mean time to failure of a job, by size and pooled.",
        formula=(
            "exposure of all attempts, censored ones included / interruptions of the class; exposure is the time that "
            "they "
            "ran in the window, without suspended time, which is taken to lie at their ends"
        ),
        query="exposures",
        function=failure_rates,
        interval="exact Poisson, 95 %, of k/phi in T/phi where failures cluster; Jeffreys as well for the rate",
        source="Kokolis et al. (HPCA 2025) section III; Garwood 1936",
    ),
    Metric(
        name="failure_rate",
        unit="1/gpu_d",
        summary="Failures per GPU-day, by class, way of counting and job size.",
        formula=(
            "interruptions of the class (attempts), or of different incidents / GPU-days that all attempts ran in the "
            "window, suspended time left out"
        ),
        query="exposures",
        function=rates_in,
        interval="exact Poisson, 95 %, of k/phi in T/phi where failures cluster; Jeffreys beside it",
        source="Kokolis et al. (HPCA 2025) section III; Garwood 1936; Brown, Cai and DasGupta 2003",
    ),
    Metric(
        name="failure_phi",
        unit="ratio",
        summary="How much more the daily counts of failures vary than chance would have them.",
        formula="Pearson's chi-squared of the counts per UTC day with GPU-days as offset / (days with exposure - 1)",
        query="exposures",
        function=statistics.overdispersion,
        interval="none; p from chi-squared, below 0.05 intervals of the rate are of k/phi in T/phi",
        source="McCullagh and Nelder 1989, section 6.2.3",
    ),
)
