"""Numbers and times as the explorer writes them: the texts of `app.output`, with their units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.output import display

if TYPE_CHECKING:
    from datetime import datetime

    from app.headlines import Headline

CANNOT_TELL = "cannot tell"
"""What stands where a number cannot be told: never a zero, never a blank."""

_DISPLAYED = {"ratio": "ratio", "s": "seconds", "d": "number"}
_PARTS: dict[str, tuple[str, str, str]] = {
    "goodput_allocated": ("gpu_h", "productive", "allocated GPU-h"),
    "goodput_capacity": ("gpu_h", "productive", "GPU-h there were"),
    "occupancy": ("gpu_h", "allocated", "GPU-h there were"),
    "availability": ("gpu_h", "in service", "GPU-h there were"),
    "ettr": ("gpu_h", "productive", "queued and scheduled GPU-h"),
    "mfu": ("flop", "model FLOP", "peak FLOP"),
    "mttf": ("number", "days run at that size", "interruptions"),
}


def measured(value: float | None, unit: str) -> str:
    """A number of a metric with its unit.

    >>> measured(0.923, "ratio"), measured(None, "ratio"), measured(3.66, "d"), measured(90.0, "s")
    ('92.3 %', 'cannot tell', '3.66 d', '1 min 30 s')
    """
    if value is None:
        return CANNOT_TELL
    return display(value, _DISPLAYED.get(unit, "number")) + (" d" if unit == "d" else "")


def headline_value(found: Headline) -> str:
    """The headline's number as it is shown everywhere in the explorer."""
    return measured(found.value, found.unit)


def bounds_text(found: Headline) -> str | None:
    """What a headline lies between, in words; None where it has no bounds, or they meet."""
    if found.bound_low is None or found.bound_high is None or found.bound_low == found.bound_high:
        return None
    return f"at least {measured(found.bound_low, found.unit)}, at most {measured(found.bound_high, found.unit)}"


def interval_text(found: Headline) -> str | None:
    """A headline's sampling interval in words; None where it has none."""
    if found.ci_low is None:
        return None
    high = "no upper limit" if found.ci_high is None else measured(found.ci_high, found.unit)
    return f"95 % interval {measured(found.ci_low, found.unit)} to {high}"


def fraction_text(found: Headline) -> str | None:
    """Numerator over denominator in words, or how many events are behind it."""
    parts = _PARTS.get(found.metric)
    if parts is not None and found.numerator is not None and found.denominator is not None:
        unit, top, bottom = parts
        return f"{amount(found.numerator, unit)} {top} / {amount(found.denominator, unit, whole=True)} {bottom}"
    return None if found.n is None else f"{found.n:,} restarts"


def amount(value: float | None, unit: str, *, whole: bool = False) -> str:
    """An amount without its unit's name; large ones carry no decimals that nobody reads.

    >>> amount(4_320_000.0, "gpu_h"), amount(360.0, "gpu_h"), amount(1.5e21, "flop"), amount(12.0, "number", whole=True)
    ('1,200', '0.10', '1.5e+21', '12')
    """
    if value is None:
        return "-"
    if unit == "flop":
        return f"{value:.3g}"
    number = value / 3600 if unit == "gpu_h" else value
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    if whole and number == int(number):
        return f"{number:,.0f}"
    if abs(number) >= 100:
        return f"{number:,.1f}"
    return f"{number:.2f}" if number else "0"


def hours(gpu_hours: float | None) -> str:
    """GPU-hours.

    >>> hours(12345.6), hours(0.5), hours(None)
    ('12,346', '0.50', '-')
    """
    return amount(gpu_hours, "number")


def share(value: float | None) -> str:
    """A share; what is there and would round to nothing says so.

    >>> share(0.123), share(0.0001), share(0.0), share(None)
    ('12.3 %', '< 0.1 %', '0.0 %', '-')
    """
    if value is not None and 0 < value < 0.0005:
        return "< 0.1 %"
    return display(value, "ratio")


def moment(value: datetime | None) -> str:
    """A time to the minute, in UTC (which the page says once)."""
    return "-" if value is None else value.strftime("%Y-%m-%d %H:%M")


def gpus(value: Any) -> str:  # noqa: ANN401 - decimal, float or None
    """A number of GPUs; fractions only where there are some.

    >>> gpus(1024.0), gpus(0.5)
    ('1,024', '0.5')
    """
    return display(value, "count")


def days(seconds: float) -> str:
    """The length of a window.

    >>> days(86400.0 * 61), days(3600.0)
    ('61 days', '1 h')
    """
    if seconds >= 2 * 86_400:
        length = seconds / 86_400
        return f"{length:.0f} days" if abs(length - round(length)) < 0.05 else f"{length:.1f} days"
    return display(seconds, "seconds")
