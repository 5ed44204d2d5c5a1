"""The first sentence of answers: numbers with their bounds in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app import formatting
from app.terminal.columns import decimals, neat

if TYPE_CHECKING:
    from collections.abc import Mapping

READ_THE_SAME: Final = 0.0005
"""Ends of a ratio that lie less apart than this are printed as one number."""


def percent(value: float | None, *, digits: int = 1) -> str:
    """A ratio.

    >>> percent(0.9402), percent(0.0004), percent(0.0), percent(None), percent(0.5, digits=0)
    ('94.0 %', '< 0.1 %', '0 %', 'an unknown share', '50 %')
    """
    return "an unknown share" if value is None else formatting.percent(value, digits=digits)


def bounded(value: float | None, low: float | None, high: float | None) -> str:
    """A ratio with what lies between its bounds, which is unobserved.

    >>> bounded(0.9402, 0.9386, 0.9541), bounded(None, 0.031, 0.872), bounded(0.5, 0.5, 0.5), bounded(0.4, None, None)
    ('94.0 % (1.5 % unobserved: 93.9 % to 95.4 %)', '3.1 % to 87.2 % (84.1 % unobserved)', '50.0 %', '40.0 %')
    """
    if low is None or high is None:
        return percent(value)
    if high - low < READ_THE_SAME:
        return percent(low if value is None else value)
    if value is None:
        return f"{percent(low)} to {percent(high)} ({percent(high - low)} unobserved)"
    return f"{percent(value)} ({percent(high - low)} unobserved: {percent(low)} to {percent(high)})"


def no_interval(method: str) -> str:
    """Why a number has no interval, by its `ci_method`.

    >>> no_interval("too few runs for an interval: they weigh as much as 3.2 equal ones of at least 20")
    'No interval: effective sample size 3.2, needs 20'
    """
    sizes = _FEW.search(method)
    return f"No interval: effective sample size {sizes[1]}, needs {sizes[2]}" if sizes else method


_FEW: Final = re.compile(r"as much as ([\d.]+) equal ones of at least (\d+)")


def gpu_hours(seconds: float) -> str:
    """GPU-seconds as GPU-hours.

    >>> gpu_hours(4_320_000.0), gpu_hours(360.0), gpu_hours(0.0)
    ('1,200 GPU-h', '0.10 GPU-h', '0 GPU-h')
    """
    hours = seconds / 3600
    return f"{hours:,.{decimals([abs(hours)], fine=False)}f} GPU-h"


def days(number: float) -> str:
    """A number of days with three digits.

    >>> days(0.61534), days(3.6604), days(630.12), days(2078.4), days(0.01534)
    ('0.615 d', '3.66 d', '630.1 d', '2,078 d', '0.0153 d')
    """
    return f"{neat([number], 'number')[0]} d"


def lasted(seconds: float | None) -> str:
    """A length of time.

    >>> lasted(64.0), lasted(None)
    ('1 min 4 s', 'an unknown time')
    """
    return "an unknown time" if seconds is None else formatting.duration(seconds)


def row_of(rows: pl.DataFrame, column: str, value: str) -> Mapping[str, Any] | None:
    """The first row with that value in a column, by column; None if there is none."""
    matching = rows.filter(pl.col(column) == value).head(1).to_dicts()
    return matching[0] if matching else None
