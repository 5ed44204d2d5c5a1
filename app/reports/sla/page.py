"""The SLA report as one HTML page: no script, nothing loaded from anywhere, the same bytes for the same report."""

from __future__ import annotations

import functools
import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import jinja2

from app.formatting import display, measured
from app.reports.sla import charts
from app.times import parse_period
from app.visible import visible
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


def harmless(value: Any) -> Any:  # noqa: ANN401 - a document is anything that JSON can hold
    """The same document with characters that hide, or turn the direction of writing, made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {harmless(key): harmless(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [harmless(each) for each in value]
    return value


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
    }
    return made


def period_title(text: str) -> str:
    """A period as people name it.

    >>> period_title("2026-10"), period_title("2026-W40"), period_title("2026-10-05"), period_title("2026-Q3")
    ('October 2026', 'Week 40 of 2026', '5 October 2026', 'Quarter 3 of 2026')
    """
    text = text.strip()
    since, until = parse_period(text)
    if ".." in text:
        return f"{since:%Y-%m-%d} to {until:%Y-%m-%d}"
    for letter, name in (("W", "Week"), ("Q", "Quarter")):
        if letter in text:
            return f"{name} {int(text.partition(letter)[2])} of {text[:4]}"
    return f"{since:%B %Y}" if len(text) == len("2026-10") else f"{since.day} {since:%B %Y}"


def moment(text: str) -> str:
    """A moment of the JSON form for the page, which states once that all times are UTC.

    >>> moment("2026-10-01T00:00:00Z")
    '2026-10-01 00:00:00'
    """
    return text.replace("T", " ").removesuffix("Z")


def exact_seconds(text: str) -> str:
    """GPU-seconds with all digits, in groups of three.

    >>> exact_seconds("1234567.5")
    '1,234,567.5'
    """
    return f"{Decimal(text):,f}"


def covered_percent(share: float) -> str:
    """A share that is printed as 100 % only if it is all, and as 0 % only if it is nothing.

    >>> covered_percent(1.0), covered_percent(0.99999), covered_percent(0.4514), covered_percent(0.0)
    ('100 %', '99.99 %', '45.14 %', '0 %')
    """
    if share in {0.0, 1.0}:
        return f"{share:.0%}".replace("%", " %")
    return f"{min(99.99, max(0.01, 100 * share)):.2f} %"


def parts_of(objective: Document) -> tuple[str, str]:
    """Numerator and denominator of an objective as text; dashes where there are none."""
    top, bottom, unit = objective["numerator"], objective["denominator"], objective["unit"]
    if objective["metric"] == "mttf" and top is not None:
        size = f" of {objective['gpus']:,.10g} GPUs" if objective["gpus"] else ""
        return f"{display(top, 'number')} days{size}", f"{bottom:,.0f} interruptions"
    if objective["metric"] == "mfu":
        return _flop(top), _flop(bottom)
    if unit == "ratio" and top is not None:
        return f"{display(top, 'gpu_h')} GPU-h", f"{display(bottom, 'gpu_h')} GPU-h"
    return "-", "-"


def _flop(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g} FLOP"


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


def days_of(document: Document) -> list[str]:
    """Every day that the period touches, also those without data."""
    since, until = (datetime.fromisoformat(document["period"][end]) for end in ("since", "until"))
    first: date = since.date()
    last: date = (until - timedelta(microseconds=1)).date()
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _daily_bars(daily: Document, days: list[str]) -> Markup:
    by_day = dict(zip(daily["days"], daily["gpu_seconds"], strict=True))
    return charts.daily_bars(days, [_shares(by_day.get(day, {})) for day in days], ORDER)


def _shares(seconds: dict[str, str]) -> dict[str, float]:
    whole = sum(map(Decimal, seconds.values()))
    return {name: float(Decimal(amount) / whole) for name, amount in seconds.items()} if whole else {}


def _daily_range(rows: list[dict[str, Any]], days: list[str], target: float | None) -> Markup:
    values = {row["day"]: (row["value"], row["bound_low"], row["bound_high"]) for row in rows}
    return charts.daily_range(days, values, target)


def known_trend(objective: Document) -> list[dict[str, Any]]:
    """The periods before, from the first one with data on."""
    rows: list[dict[str, Any]] = objective["trend"]
    first = next((number for number, row in enumerate(rows) if row["verdict"] is not None), len(rows))
    return rows[first:]


def _trend(objective: Document, asked: str) -> Markup:
    """The periods before and the report's own."""
    rows = [*known_trend(objective), {"period": asked, **objective}]
    ends = [(row["value"], row["low"], math.inf if row["no_upper_limit"] else row["high"]) for row in rows]
    names = [row["period"].partition("T")[0] for row in rows]
    return charts.trend(names, ends, objective["target"], objective["unit"])


def _burn_down(budget: Document, days: list[str]) -> Markup:
    remaining = {row["day"]: _remaining(row, budget["allowed"]) for row in budget["by_day"]}
    return charts.burn_down(days, remaining)


def _remaining(row: dict[str, Any], allowed: float) -> charts.Range:
    """What is left of a budget, as a share of it: by the value, at least, at most."""
    value, low, high = (
        None if row[name] is None or not allowed else 1 - row[name] / allowed
        for name in ("spent", "spent_high", "spent_low")
    )
    return value, low, high
