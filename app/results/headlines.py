"""The headline numbers of a cluster in a window: what `show`, the explorer, the report and the exporter open with.

Each is taken from the same functions of `app.results` that `show` uses, so it is one number wherever it is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.failures.failure_rates import failure_rate_rows
from app.results.failures.interruptions import restart_rows
from app.results.mfu import flop_convention, mfu_rows
from app.results.registry import results
from app.results.stored import stored_or
from app.results.windows import CLAIMED_GPUS
from metrics.catalog import BY_NAME, METRICS
from metrics.categories import EVIDENCE_KINDS
from metrics.failures.size_law import caveat
from metrics.restarts.restarts import restart_summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.window import RowSource, Window
    from metrics.catalog import Metric
    from metrics.claims.verdict import Claim


@dataclass(frozen=True)
class Headline:
    """One number with all that it needs to defend itself.

    Attributes:
        metric: name in `metrics.catalog`.
        title: for people.
        unit: ratio, d or s.
        value: the number; None: it is unknown.
        numerator: above the line.
        denominator: below it.
        n: events, runs or steps behind it.
        bound_low: all that was not seen counted unproductive.
        bound_high: all that was not seen counted productive.
        ci_low: lower end of the 95 % confidence interval.
        ci_high: upper end; None with a `ci_low` means no upper limit.
        evidence: shares of the denominator by kind: log, telemetry, accounting, assumed.
        note: the note on the number.
        show: the command that shows where it comes from.
        gpus: job size that it is scaled to; None where it is not.
        min_run_s: time that runs had GPUs for at least, to be in it.
        flop_convention: how FLOP are counted; None where none are.
    """

    metric: str
    title: str
    unit: str
    value: float | None = None
    numerator: float | None = None
    denominator: float | None = None
    n: int | None = None
    bound_low: float | None = None
    bound_high: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    evidence: tuple[tuple[str, float], ...] = ()
    note: str | None = None
    show: str = ""
    gpus: float | None = None
    min_run_s: float = 0.0
    flop_convention: str | None = None

    @property
    def definition(self) -> Metric:
        """Its entry in the catalog: formula, source, how uncertainty is given."""
        return BY_NAME[self.metric]


def headline_is_of(claim: Claim, headline: Headline) -> bool:
    """Whether a claim is about the very number of a headline: its target may be drawn beside no other.

    A claim that names no FLOP convention is about the configured one, as the headline is; one with a scope, a window,
    exclusions, or a way of counting failures of its own is about another number.
    """
    return (
        claim.metric == headline.metric
        and claim.narrowed is None
        and claim.gpus == headline.gpus
        and claim.min_run_s == headline.min_run_s
        and claim.flop_convention in {None, headline.flop_convention}
    )


def headlines(source: RowSource, window: Window, *, gpus: float = CLAIMED_GPUS) -> tuple[Headline, ...]:
    """The headline numbers, in the order in which people see them.

    Args:
        source: where rows are read from.
        window: cluster and time.
        gpus: job size that MTTF is scaled to.
    """
    return tuple(each for make in parts(source, window, gpus=gpus).values() for each in make())


def parts(
    source: RowSource, window: Window, *, gpus: float = CLAIMED_GPUS, exported: bool = False
) -> dict[str, Callable[[], tuple[Headline, ...]]]:
    """The headline numbers by what they are computed from: none of these needs another, so each may fail alone.

    Every metric whose entry has a `headline` is in one: by its function in `_MAKERS`, else by its result rows.

    Args:
        source: where rows are read from.
        window: cluster and time.
        gpus: job size that MTTF is scaled to.
        exported: only those of metrics that have a family of `/metrics`.

    Returns:
        By the question of `show` that they are in (the metric where that has several), in the order of the
        headline numbers.
    """
    rows = results()
    makers: dict[Callable[..., Any], str] = {}
    for metric in sorted(METRICS, key=lambda each: each.headline or 0):
        if metric.headline is None or (exported and metric.exported is None):
            continue
        maker = _MAKERS.get(metric.name) or rows[metric.name]
        makers.setdefault(maker, metric.name if metric.show in {"", *makers.values()} else metric.show)
    return {part: partial(_headlines_of, maker, source, window, gpus) for maker, part in makers.items()}


def _headlines_of(maker: Callable[..., Any], source: RowSource, window: Window, gpus: float) -> tuple[Headline, ...]:
    if maker in _MAKERS.values():
        return (maker(source, window, gpus),)
    metrics = sorted(name for name, function in results().items() if function is maker)
    return _ratios(stored_or(maker, source, window, metrics))


def _ratios(rows: pl.DataFrame) -> tuple[Headline, ...]:
    return tuple(_from_row(row) for row in rows.iter_rows(named=True) if BY_NAME[row["metric"]].headline is not None)


def _mfu(source: RowSource, window: Window) -> Headline:
    """MFU under the configured convention; without a value where no log has steps."""
    none = Headline("mfu", BY_NAME["mfu"].title, "ratio", note=_NO_LOGS, show="trackside show mfu")
    shown = next(iter(_ratios(stored_or(mfu_rows, source, window, ("mfu", "hfu")))), none)
    return replace(shown, flop_convention=flop_convention(source, window.cluster))


_NO_LOGS = "cannot tell: no run log with steps of a known job (trackside recorder --help)"


def mttf_at(source: RowSource, window: Window, gpus: float) -> Headline:
    """MTTF of a job of that size by the pooled rate (as if it grew with the number of GPUs), in days."""
    rates = failure_rate_rows(source, window, claimed_gpus=gpus)
    pooled = rates.filter(
        (pl.col("size") == "pooled") & (pl.col("class") == "infrastructure") & (pl.col("counted") == "attempts")
    ).row(0, named=True)
    exposed = bool(pooled["exposure_gpu_days"])
    return Headline(
        metric="mttf",
        title=f"{BY_NAME['mttf'].title} at {gpus:,.10g} GPUs",
        unit="d",
        value=_divided(pooled["mttf_d"], gpus),
        numerator=_divided(pooled["exposure_gpu_days"], gpus),
        denominator=float(pooled["n_failures"]),
        n=pooled["n_failures"],
        ci_low=_divided(pooled["mttf_low_d"], gpus) if exposed else None,
        ci_high=_divided(pooled["mttf_high_d"], gpus),
        evidence=(("accounting", 1.0),) if exposed else (),
        note=note_of_mttf(
            gpus,
            pooled["n_failures"],
            exposed=exposed,
            law=caveat(pooled["b"], pooled["b_low"], pooled["b_high"], slope=False),
        ),
        show=f"trackside show mttf --at {gpus:g}",
        gpus=gpus,
    )


def note_of_mttf(gpus: float, interruptions: int, *, exposed: bool, law: str) -> str:
    """What it rests on (`law`: what is known of 1/N), or why there is none."""
    if interruptions:
        return f"from jobs of all sizes, scaled to {gpus:,.10g} GPUs ({law})"
    return "infrastructure interrupted no attempt" if exposed else "no attempt is known to have held GPUs"


def restart_median(source: RowSource, window: Window) -> Headline:
    """Median time from the end of an attempt that infrastructure interrupted to the start of the next."""
    rows = restart_rows(source, window).filter(pl.col("class") == "infrastructure")
    waiting = rows["time_to_job_restart_s"].null_count()
    together = restart_summary(rows).filter(pl.col("cause") == "all")
    made = Headline(
        metric="time_to_job_restart",
        title=BY_NAME["time_to_job_restart"].title,
        unit="s",
        n=0,
        note=f"{waiting} still wait and are not in the median" if waiting else None,
        show="trackside show restarts",
    )
    if together.is_empty():
        return made
    row = together.row(0, named=True)
    numbers = {"value": row["median_s"], "n": row["n"], "ci_low": row["median_low_s"], "ci_high": row["median_high_s"]}
    return Headline(**{**made.__dict__, **numbers, "evidence": (("accounting", 1.0),)})


def _divided(value: float | None, divisor: float) -> float | None:
    return None if value is None else value / divisor


def _from_row(row: dict[str, Any]) -> Headline:
    return Headline(
        metric=row["metric"],
        title=BY_NAME[row["metric"]].title,
        unit=row["unit"],
        evidence=tuple((kind, share) for kind in EVIDENCE_KINDS if (share := row[f"evidence_{kind}"])),
        show=f"trackside show {BY_NAME[row['metric']].show or row['metric']}",
        **{name: row[name] for name in _SAME},
    )


_MAKERS: Final[dict[str, Callable[[RowSource, Window, float], Headline]]] = {
    "mfu": lambda source, window, _gpus: _mfu(source, window),
    "mttf": mttf_at,
    "time_to_job_restart": lambda source, window, _gpus: restart_median(source, window),
}
"""Headline numbers that are more than their result rows, or have none."""

_SAME = ("value", "numerator", "denominator", "n", "bound_low", "bound_high", "ci_low", "ci_high", "note")
