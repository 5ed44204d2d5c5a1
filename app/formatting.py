"""Numbers and times as text: for the terminal, the explorer and reports."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

CANNOT_TELL = "cannot tell"
"""The text for an unknown number: never a zero, never a blank."""

NOTHING = "-"
"""The same in a cell of a table, and at an end of a range."""

_DISPLAYED = {"ratio": "ratio", "s": "seconds", "d": "number"}


def minute(value: datetime | None) -> str:
    """A time to the minute; whose clocks show it is stated where it is printed.

    >>> minute(datetime(2026, 10, 1, 8, 5, 30)), minute(None)
    ('2026-10-01 08:05', '-')
    """
    return NOTHING if value is None else value.strftime("%Y-%m-%d %H:%M")


def measured(value: float | None, unit: str, *, digits: int = 1, null: str = CANNOT_TELL, more: int = 0) -> str:
    """A number of a metric with its unit.

    Args:
        value: the number.
        unit: of the metric.
        digits: decimals of a percentage.
        null: the text for an unknown number.
        more: digits beyond the usual ones.

    >>> measured(0.923, "ratio"), measured(None, "ratio"), measured(3.66, "d"), measured(90.0, "s")
    ('92.3 %', 'cannot tell', '3.66 d', '1 min 30 s')
    >>> measured(0.9731, "ratio", digits=2), measured(None, "d", null=NOTHING)
    ('97.31 %', '-')
    >>> measured(0.9900001, "ratio", more=4), measured(3.66004, "d", more=3), measured(90.04, "s", more=2)
    ('99.00001 %', '3.66004 d', '90.04 s')
    """
    if value is None:
        return null
    kind = _DISPLAYED.get(unit, "number")
    if kind == "ratio":
        return percent(value, digits=digits + more)
    if more and math.isfinite(value):
        return f"{value:,.{_SIGNIFICANT + more}g} {unit if kind != 'number' or unit == 'd' else ''}".rstrip()
    return display(value, kind) + (" d" if unit == "d" else "")


_SIGNIFICANT: Final = 3
"""Digits of a number that are usual."""


def displayed(values: Iterable[Any], unit: str) -> list[str]:
    """The cells of a column; see `display`.

    >>> displayed([0.923, None], "ratio")
    ['92.3 %', '-']
    """
    return [display(value, unit) for value in values]


def display(value: Any, unit: str) -> str:  # noqa: ANN401, PLR0911 - any cell, one line per unit
    """A cell for people. Nothing known is a dash, never a zero.

    >>> display(0.923, "ratio"), display(None, "ratio"), display(3725.0, "seconds"), display(7200.0, "gpu_h")
    ('92.3 %', '-', '1 h 2 min', '2.00')
    >>> display(1.234e6, "amount"), display(2e12, "bytes"), display(0.0, "bytes_per_s"), display(0.0012, "latency")
    ('1.23 M', '2 TB', '0 B/s', '1.2 ms')
    >>> display([], "text"), display(["a", "b"], "text"), display("", "text")
    ('-', 'a, b', '-')
    >>> display(0.0004, "ratio"), display(0.0, "ratio"), display(0.00004, "ratio_2")
    ('< 0.1 %', '0 %', '< 0.01 %')
    >>> display(5.887e18, "number_or_open"), display(9.5e9, "number")
    ('5.9e+18', '9,500,000,000')
    >>> display(4.845e22, "flop"), display(3.7e-06, "number"), display(3.71e-250, "number"), display(True, "text")
    ('48.5 ZFLOP', '0.00000370', '3.7e-250', 'yes')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "no limit" if unit == "number_or_open" else NOTHING
    if unit in {"ratio", "ratio_2"}:
        return percent(float(value), digits=2 if unit == "ratio_2" else 1)
    if unit == "seconds":
        return duration(float(value))
    if unit == "gpu_h":
        return _number(float(value) / 3600)
    if unit in {"number", "number_or_open"}:
        return _number(float(value))
    if unit == "count":
        return f"{float(value):,.10g}"
    if unit in _PREFIXED:
        return _prefixed(float(value), _PREFIXED[unit])
    return _text(value)


def percent(value: float, *, digits: int = 1) -> str:
    """A ratio in per cent. A small ratio that would round to zero is shown as `<` the last digit; zero as `0 %`.

    >>> percent(math.nan)
    '-'
    >>> percent(0.9402), percent(0.0004), percent(0.0), percent(-0.0004), percent(0.5, digits=0)
    ('94.0 %', '< 0.1 %', '0 %', '> -0.1 %', '50 %')
    """
    if not math.isfinite(value):
        return NOTHING
    least = 10.0**-digits
    if value == 0:
        return "0 %"
    if abs(100 * value) >= least / 2:
        return f"{100 * value:.{digits}f} %"
    return f"< {least:.{digits}f} %" if value > 0 else f"> -{least:.{digits}f} %"


def _text(value: Any) -> str:  # noqa: ANN401 - any cell
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) if isinstance(value, list) else str(value)) or NOTHING


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) < _LEAST_DECIMAL or abs(value) >= MOST_PLAIN:
        return f"{value:.2g}"
    if abs(value) < _LEAST_PLAIN:
        return f"{value:.{2 - math.floor(math.log10(abs(value)))}f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"


_LEAST_PLAIN: Final = 1e-4
"""Below it a general format writes exponents, which people do not read."""

MOST_PLAIN: Final = 1e12
"""Limit above which plain digits are no longer readable: such numbers are as good as no limit."""

_LEAST_DECIMAL: Final = 1e-9
"""Limit below which the zeros of a decimal are no longer readable."""


def _prefixed(value: float, unit: str) -> str:
    """Three digits with a decimal prefix, as is usual for networks and filesystems. 999.9 is a thousand."""
    least = -2 if unit == "s" else 0
    power = min(max(math.floor(math.log10(abs(value) * 1.0005) / 3), least), _MOST) if value else 0
    return f"{value / 1000.0**power:.3g} {_PREFIXES[power + 2]}{unit}".rstrip()


_PREFIXED = {"amount": "", "bytes": "B", "bytes_per_s": "B/s", "latency": "s", "flop": "FLOP"}
_PREFIXES = ("\N{MICRO SIGN}", "m", "", "k", "M", "G", "T", "P", "E", "Z", "Y")
_MOST = 8


_STEPS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """A length of time by its two largest units.

    >>> duration(1012345), duration(3725), duration(86_399), duration(59.7), duration(0.25), duration(0)
    ('11 d 17 h', '1 h 2 min', '1 d', '1 min', '0.25 s', '0 s')
    """
    if not math.isfinite(seconds):
        return NOTHING
    if abs(seconds) < 10 and seconds != round(seconds):
        return f"{seconds:.2g} s"
    size = abs(seconds)
    least = next((step for larger, step in ((86_400, 3600), (3600, 60)) if size >= larger - step / 2), 1)
    whole = round(size / least) * least
    parts = []
    for length, name in _STEPS:
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count:,} {name}")
    return ("-" if seconds < 0 else "") + (" ".join(parts[:2]) or "0 s")
