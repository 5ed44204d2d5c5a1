"""Texts made of rows by Python, one by one, in the thread of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def texts_of(values: Iterable[T | None], made: Callable[[T], str]) -> pl.Series:
    """A text made of each value; null of null.

    Never a Python function within an expression (`map_elements`): polars calls it from threads of its pool, which then
    wait for Python's lock, while a thread that holds the lock, such as one in `Series.median`, may wait for the pool.
    A server whose pages are made at the same time would block for good.

    >>> texts_of(["a", None], str.upper).to_list()
    ['A', None]
    """
    return pl.Series([None if value is None else made(value) for value in values], dtype=pl.String)
