"""The effect of a correction: verdicts and headline numbers that changed, moved GPU-time, interruptions, runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from app.adjudicate.resolve import computed_window
from app.claims import verify as verify_claims
from app.formatting import CANNOT_TELL, NOTHING
from app.results.goodput import lost_rows
from app.results.headline_text import headline_text
from app.results.headlines import headlines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.results.headlines import Headline
    from app.window import RowSource
    from metrics.claims.verdict import Claim, Judged


@dataclass(frozen=True)
class Figures:
    """Results a correction can change: verdicts, headlines, GPU-hours by category, interruptions by class, runs."""

    judged: tuple[Judged, ...]
    headlines: tuple[Headline, ...]
    gpu_hours: dict[str, float]
    interrupted: dict[str, int]
    runs: int


def read_figures(source: RowSource, cluster: str, claims: Sequence[Claim]) -> Figures:
    """The figures of all that a cluster's computation covers.

    Raises:
        UsageError: nothing has been computed for the cluster.
    """
    window = computed_window(source, cluster)
    lost = lost_rows(source, window).group_by("category").agg(pl.col("gpu_hours").sum())
    ends = source.query("interruptions", cluster=cluster, since=window.since, until=window.until)["class"]
    return Figures(
        tuple(verify_claims.verify(source, window, claims)),
        headlines(source, window),
        dict(lost.iter_rows()),
        dict(ends.value_counts().iter_rows()),
        source.query("run_attempts", cluster=cluster)["run_id"].n_unique(),
    )


def differences(before: Figures, after: Figures) -> list[str]:
    """The differences as lines: verdicts and their values first."""
    lines = []
    was = {each.claim.id: each for each in before.judged}
    for each in after.judged:
        old = was[each.claim.id]
        if old.verdict != each.verdict:
            lines.append(f"verdict {each.claim.id}: {old.verdict} -> {each.verdict} ({_span(old)} -> {_span(each)})")
        elif _numbers(old) != _numbers(each):
            lines.append(f"verdict {each.claim.id}: still {each.verdict} ({_span(old)} -> {_span(each)})")
    lines += _headlines(before.headlines, after.headlines)
    lines += [
        f"{category}: {old:,.1f} -> {new:,.1f} GPU-hours"
        for category, old, new in _changed(before.gpu_hours, after.gpu_hours)
        if abs(new - old) >= _LEAST_GPU_HOURS
    ]
    lines += [
        f"{kind} interruptions: {old:.0f} -> {new:.0f}"
        for kind, old, new in _changed(before.interrupted, after.interrupted)
    ]
    if before.runs != after.runs:
        lines.append(f"runs: {before.runs:,} -> {after.runs:,}")
    return lines


def _headlines(before: Sequence[Headline], after: Sequence[Headline]) -> list[str]:
    """Headline numbers that read otherwise: title, before, after."""
    was = {each.metric: headline_text(each) for each in before}
    reads = [(each.title, was.get(each.metric, NOTHING), headline_text(each)) for each in after]
    return [f"{title}: {old} -> {new}" for title, old, new in reads if old != new]


_LEAST_GPU_HOURS = 1e-6
"""A smaller difference is rounding."""


def _changed(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, float, float]]:
    names = sorted({*before, *after})
    both = [(name, float(before.get(name, 0)), float(after.get(name, 0))) for name in names]
    return [each for each in both if each[1] != each[2]]


def _numbers(each: Judged) -> tuple[float | int | None, ...]:
    measured = each.measured
    return measured.value, measured.low, measured.high, measured.n


def _span(each: Judged) -> str:
    """A measurement in a few characters, in the claim's unit."""
    measured = each.measured
    low, high = (NOTHING if end is None else f"{end:.4g}" for end in (measured.low, measured.high))
    value = CANNOT_TELL if measured.value is None else f"{measured.value:.4g}"
    unit = "" if each.claim.unit == "ratio" else f" {each.claim.unit}"
    n = "" if measured.n is None else f", n = {measured.n}"
    return f"{value} [{low}, {high}]{unit}{n}"
