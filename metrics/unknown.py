"""Sums and maxima of numbers of which some may be unknown."""

from __future__ import annotations

import polars as pl


def all_or_null(column: str, whole: pl.Expr) -> pl.Expr:
    """A sum or maximum of a column, null where one of its values is: what is unknown in part is unknown as a whole."""
    return pl.when(pl.col(column).null_count() == 0).then(whole)


def total(column: str) -> pl.Expr:
    """The sum of a column in a group, null where one of its values is.

    >>> pl.DataFrame({"g": [1, 1, 2], "n": [8, None, 4]}).group_by("g").agg(total("n")).sort("g")["n"].to_list()
    [None, 4]
    """
    return all_or_null(column, pl.col(column).sum()).alias(column)


def known_sum(values: pl.Expr) -> pl.Expr:
    """The sum of the values that are known; null, and not 0, where none is.

    >>> rows = pl.DataFrame({"g": [1, 1, 2], "n": [8, None, None]})
    >>> rows.group_by("g").agg(known_sum(pl.col("n"))).sort("g")["n"].to_list()
    [8, None]
    """
    return pl.when(values.count() > 0).then(values.sum())
