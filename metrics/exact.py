"""Sums of decimals that are the same to the last bit in any order of rows, on any number of threads.

A sum of floats depends on the order in which they are added, and rows come in the order in which threads finish. So
what is stored and compared is added up in whole units of its last decimal place.
"""

from __future__ import annotations

from typing import Final

import polars as pl

GPU_SECONDS: Final = 9
"""Decimal places of GPU-seconds, as the ledger has them: thousandths of GPUs times microseconds."""

FLOP: Final = 0
"""Decimal places of floating-point operations."""

_DIGITS: Final = 38


def exact_sum(values: pl.Expr, *, places: int = GPU_SECONDS) -> pl.Expr:
    """The sum of numbers as a float, each rounded to so many decimal places; 0 of none.

    Args:
        values: numbers or decimals; nulls and NaN do not count. No value counts for more than 37 digits.
        places: decimal places that count.
    """
    most = 10.0 ** (_DIGITS - 2 - places)
    finite = values.cast(pl.Float64).fill_nan(None).clip(-most, most)
    return finite.cast(pl.Decimal(_DIGITS, places)).sum().cast(pl.Float64)


def exact_mean(values: pl.Expr) -> pl.Expr:
    """The mean of numbers, each rounded as in `exact_sum`; null of none."""
    n = values.count()
    return pl.when(n > 0).then(exact_sum(values) / n)
