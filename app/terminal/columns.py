"""A table's columns as text: one number of decimals in a column, or of digits over a wide range; units people read."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from app.formatting import MOST_PLAIN, display, displayed, duration
from app.visible import escapes

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST: Final = 200
"""Characters of a cell that a pipe shows."""

_CONTROLS: Final = escapes()
_PER_HOUR: Final = 3600.0
_OF_ONE_SIZE: Final = {"gpu_h": _PER_HOUR, "number": 1.0, "number_or_open": 1.0, "flop": 1.0}
"""Units whose cells have one number of decimals, with what a value is divided by."""

_EACH_OWN: Final = ("number", "number_or_open")
"""Of these, whose cells are no parts of one amount, each has three digits where the column has a wide range."""

_WIDE: Final = 100.0
"""The range of a column, largest over smallest, from which on one number of decimals does not suit all."""

_PREFIXES: Final = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")


def full(values: Sequence[Any], unit: str) -> list[str]:
    """Cells of pipes and files: each as exact as it is displayed anywhere."""
    return [safe(cell) for cell in displayed(values, unit)]


def neat(values: Sequence[Any], unit: str) -> list[str]:
    """Cells of a terminal.

    >>> neat([23063.731, 1.2, 0.004, None], "number"), neat([0.00267, 0.0102], "number"), neat([3, 4.0], "number")
    (['23,064', '1.20', '0.00400', '-'], ['0.0027', '0.0102'], ['3', '4'])
    >>> neat([5.887e18, 553.0], "number_or_open")
    ['5.9e+18', '553']
    >>> neat([1e-9, 99.96, 2.0], "number"), neat([36_000_000.0, 1.0], "gpu_h")
    (['< 0.000001', '100', '2.00'], ['10,000', '< 1'])
    >>> neat([1012345.0, 12_771.0, 59.6, None], "seconds")
    ['11 d 17 h', '3 h 33 min', '1 min', '-']
    """
    if unit in _OF_ONE_SIZE:
        return _numbers(values, unit)
    if unit == "seconds":
        return [display(value, unit) if value is None else duration(float(value)) for value in values]
    if unit == "time":
        return _moments(values)
    return [safe(cell, None) for cell in displayed(values, unit)]


def safe(text: str, longest: int | None = LONGEST) -> str:
    """Text that leaves the terminal as it is: users name their jobs, and names may hold escape sequences.

    Args:
        text: in one line or several.
        longest: characters that are kept; None: all.
    """
    shown = text.replace("\n", "\N{SYMBOL FOR NEWLINE}").translate(_CONTROLS)
    return shown if longest is None or len(shown) <= longest else f"{shown[:longest]}..."


def _numbers(values: Sequence[Any], unit: str) -> list[str]:
    """Numbers with one number of decimals; one that would read as nothing shows that it is not."""
    scale = _OF_ONE_SIZE[unit]
    numbers = [None if value is None else float(value) / scale for value in values]
    finite = [abs(value) for value in numbers if value is not None and math.isfinite(value)]
    prefix = _prefix(finite) if unit == "flop" else 0
    divisor = 1000.0**prefix
    digits = decimals([value / divisor for value in finite], fine=unit != "gpu_h")
    each_own = unit in _EACH_OWN and _is_wide(finite)
    ending = f" {_PREFIXES[prefix]}FLOP" if unit == "flop" else ""
    return [
        display(None if value is None else math.inf, unit)
        if value is None or not math.isfinite(value)
        else _rounded(value / divisor, _own_decimals(value) if each_own else digits) + ending
        for value in numbers
    ]


def _is_wide(sizes: list[float]) -> bool:
    """Whether the decimals that suit the largest would leave the smallest less than two digits."""
    largest = max(sizes, default=0.0)
    return largest >= 1 and largest >= _WIDE * min((size for size in sizes if size), default=largest)


def _own_decimals(value: float) -> int:
    """Decimals for three digits of a number, up to six."""
    power = math.floor(math.log10(float(f"{abs(value):.2e}"))) if value else 0
    return min(max(2 - power, 0), 6)


def _prefix(sizes: list[float]) -> int:
    """The decimal prefix that suits the largest."""
    largest = max(sizes, default=0.0)
    return min(max(math.floor(math.log10(largest) / 3), 0), len(_PREFIXES) - 1) if largest else 0


def decimals(sizes: Sequence[float], *, fine: bool = True) -> int:
    """How many decimals numbers of these sizes need: enough for three digits of the largest.

    Args:
        sizes: absolute values.
        fine: where all are below one: two digits of the smallest as well, if these are no more than six decimals.

    >>> decimals([23063.7, 1.2]), decimals([640.2, 3.1]), decimals([5.25]), decimals([3.0, 4.0]), decimals([])
    (0, 1, 2, 0, 0)
    >>> decimals([0.0102, 0.00031]), decimals([0.5, 0.0001], fine=False)
    (5, 2)
    """
    largest = max(sizes, default=0.0)
    if all(size == round(size) for size in sizes):
        return 0
    if largest >= 1 or not fine:
        return 0 if largest >= 1000 else 1 if largest >= 100 else 2
    least = min(size for size in sizes if size)
    return min(6, max(2 - math.floor(math.log10(largest)), 1 - math.floor(math.log10(least))))


def _rounded(value: float, digits: int) -> str:
    if not value:
        return "0"
    if abs(value) >= MOST_PLAIN:
        return f"{value:.2g}"
    text = f"{value:,.{digits}f}"
    if not float(text.replace(",", "")):
        return f"< {10.0**-digits:.{digits}f}" if value > 0 else f"> -{10.0**-digits:.{digits}f}"
    return text


def _moments(values: Sequence[Any]) -> list[str]:
    """Times to the minute, or to the second where minutes do not distinguish them."""
    texts = full(values, "time")
    minutes = [
        value.strftime("%Y-%m-%d %H:%M") if isinstance(value, datetime) else text
        for value, text in zip(values, texts, strict=True)
    ]
    return minutes if len(set(minutes)) == len(set(texts)) else texts
