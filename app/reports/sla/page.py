"""The SLA report as one HTML page: no script, nothing loaded from anywhere, the same bytes for the same report."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import jinja2

from app.claims.printed import word_of
from app.formatting import display, measured
from app.reports.sla import charts, rates, words
from app.reports.sla.formats import (
    covered_percent,
    days_of,
    exact_seconds,
    harmless,
    known_trend,
    moment,
    parts_of,
    period_title,
)
from dashboards.palette import CLASS_COLOURS, EVIDENCE_COLOURS, ORDER, swatch
from metrics.catalog import METRICS

if TYPE_CHECKING:
    from markupsafe import Markup

    from app.reports.sla.document import Document

ICONS = {"supported": "\N{CHECK MARK}", "refuted": "\N{MULTIPLICATION X}", "undetermined": "?"}
"""Icons next to the words of verdicts."""


def render(document: Document) -> bytes:
    """The page of a report."""
    template = _environment().get_template("sla.html")
    document = harmless(document)
    return template.render(
        r=document,
        title=period_title(document["period"]["asked"]),
        icons=ICONS,
        titles={metric.name: metric.title for metric in METRICS},
        hatch=charts.HATCH,
        evidence_colours=EVIDENCE_COLOURS,
        class_colours=CLASS_COLOURS,
        days=days_of(document),
    ).encode()


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("app.reports.sla", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "amount": functools.partial(measured, digits=2),
        "cell": display,
        "moment": moment,
        "exact_seconds": exact_seconds,
        "percent": covered_percent,
    }
    made.globals |= {
        "range_of": _range_of,
        "category_bar": _category_bar,
        "evidence_bar": charts.evidence_bar,
        "daily_bars": _daily_bars,
        "daily_range": _daily_range,
        "burn_down": _burn_down,
        "trend": _trend,
        "known_trend": known_trend,
        "swatch": swatch,
        "parts_of": parts_of,
        "word_of": word_of,
        "rules": words.RULES,
        "status_in_words": words.status_in_words,
        "credits_in_words": words.credits_in_words,
        "credit_in_words": words.credit_in_words,
        "budget_in_words": words.budget_in_words,
        "leaves_out": words.leaves_out,
        "left_out_in_words": words.left_out_in_words,
        "rates": rates,
        "constant": words.constant,
        "incident_cost": words.incident_cost,
        "incident_gpu_hours": words.incident_gpu_hours,
    }
    return made


def _range_of(objective: Document) -> Markup:
    return charts.range_chart(
        unit=objective["unit"],
        target=objective["target"],
        direction=objective["direction"],
        value=objective["value"],
        low=objective["low"],
        high=objective["high"],
        unlimited=objective["no_upper_limit"],
        verdict=objective["verdict"],
        kind=objective["kind"],
    )


def _category_bar(gpu_time: Document) -> Markup:
    shares = {each["category"]: each["share"] for each in gpu_time["categories"]}
    return charts.category_bar([(name, shares[name]) for name in ORDER])


def _daily_bars(daily: Document, days: list[str]) -> Markup:
    by_day = dict(zip(daily["days"], daily["gpu_seconds"], strict=True))
    return charts.daily_bars(days, [_shares(by_day.get(day, {})) for day in days], ORDER)


def _shares(seconds: dict[str, str]) -> dict[str, float]:
    whole = sum(map(Decimal, seconds.values()))
    return {name: float(Decimal(amount) / whole) for name, amount in seconds.items()} if whole else {}


def _daily_range(rows: list[dict[str, Any]], days: list[str], target: float | None) -> Markup:
    values = {row["day"]: (row["value"], row["bound_low"], row["bound_high"]) for row in rows}
    return charts.daily_range(days, values, target)


def _trend(objective: Document, period: str) -> Markup:
    """The periods before and the report's own."""
    rows = [*known_trend(objective), {"period": period, **objective}]
    ends = [(row["value"], row["low"], math.inf if row["no_upper_limit"] else row["high"]) for row in rows]
    names = [row["period"].partition("T")[0] for row in rows]
    return charts.trend(names, ends, objective["target"], objective["unit"])


def _burn_down(budget: Document, days: list[str]) -> Markup:
    left = {row["day"]: charts.remaining(row, budget["allowed"]) for row in budget["by_day"]}
    return charts.burn_down(days, left)
