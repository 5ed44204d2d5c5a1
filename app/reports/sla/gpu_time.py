"""GPU-time in the SLA report: every GPU-second by category, whole and by day, to the last digit."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl

from app.results.goodput import goodput_rows, lost_rows
from app.results.nodes.capacity import nodes_by_accounting
from app.results.windows import ledger_sums
from dashboards.palette import SWATCHES, Swatch
from metrics import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from app.window import Window
    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader


def gpu_time(source: Reader, window: Window) -> dict[str, Any]:
    """Every GPU-second of the window by category, and whether they add up to capacity."""
    rows = lost_rows(source, window).to_dicts()
    capacity = source.query("capacity_in", **window.parameters).item()
    total = sum((row["gpu_seconds"] for row in rows), Decimal(0))
    return {
        "capacity_gpu_seconds": exact(capacity or Decimal(0)),
        "capacity_note": nodes_by_accounting(source, window),
        "ledger_gpu_seconds": exact(total),
        "sums_to_capacity": total == (capacity or Decimal(0)),
        "categories": [_category(each, rows) for each in SWATCHES],
    }


def _category(swatch: Swatch, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if row["category"] == swatch.name]
    seconds = sum((row["gpu_seconds"] for row in own), Decimal(0))
    return {
        "category": swatch.name,
        "state": swatch.state,
        "title": swatch.label,
        "gpu_seconds": exact(seconds),
        "gpu_hours": float(seconds) / 3600,
        "share": sum(row["share"] for row in own),
        "parts": [
            {
                "cause": row["cause"],
                "evidence": row["evidence"],
                "gpu_seconds": exact(row["gpu_seconds"]),
                "share": row["share"],
            }
            for row in own
        ],
    }


def exact(amount: Decimal) -> str:
    """A decimal number as text, with all its digits and no more.

    >>> exact(Decimal("7200.500000000")), exact(Decimal("7200.000000000")), exact(Decimal(0))
    ('7200.5', '7200', '0')
    """
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def daily(source: Reader, window: Window, claims: Sequence[Claim]) -> dict[str, Any]:
    """Day by day (UTC): where the GPU-time went, and the ratios of the objectives."""
    of_claims = (claim.metric for claim in claims if "day" in catalog.BY_NAME[claim.metric].by)
    metrics = dict.fromkeys(["goodput_allocated", *of_claims])
    ratios = goodput_rows(source, window, "day").sort("subject")
    sums = (
        ledger_sums(source, window, "day")
        .group_by("subject", "category")
        .agg(pl.col("gpu_seconds").sum())
        .sort("subject", "category")
    )
    days = sorted(set(sums["subject"]))
    by_day: dict[str, dict[str, str]] = {day: {} for day in days}
    for day, category, seconds in sums.iter_rows():
        by_day[day][category] = exact(seconds)
    by_metric = ratios.rename({"subject": "day"})
    return {
        "days": days,
        "gpu_seconds": [by_day[day] for day in days],
        "metrics": {
            metric: by_metric.filter(pl.col("metric") == metric)
            .select("day", "value", "bound_low", "bound_high", "numerator", "denominator")
            .to_dicts()
            for metric in metrics
        },
    }
