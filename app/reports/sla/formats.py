"""How every form of the SLA report writes a period, a moment, a share and the parts of a number."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.formatting import display
from app.times import parse_period
from app.visible import visible

if TYPE_CHECKING:
    from app.reports.sla.document import Document


def harmless(value: Any) -> Any:  # noqa: ANN401 - a document is anything that JSON can hold
    """The same document with characters that hide, or turn the direction of writing, made visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {harmless(key): harmless(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [harmless(each) for each in value]
    return value


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


def days_of(document: Document) -> list[str]:
    """Every day that the period touches, also those without data."""
    since, until = (datetime.fromisoformat(document["period"][end]) for end in ("since", "until"))
    first: date = since.date()
    last: date = (until - timedelta(microseconds=1)).date()
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def known_trend(objective: Document) -> list[dict[str, Any]]:
    """The periods before, from the first one with data on."""
    rows: list[dict[str, Any]] = objective["trend"]
    first = next((number for number, row in enumerate(rows) if row["verdict"] is not None), len(rows))
    return rows[first:]
