"""Join of events at the same place at nearly the same time, for frames that are too large to pair row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

_US = 1_000_000


def nearby(
    many: pl.DataFrame, few: pl.DataFrame, *, of: str, at: str, by: Sequence[str], before_s: float, after_s: float
) -> pl.DataFrame:
    """Pairs of rows of one place, the one at most so long before or after the other.

    Time is cut into slots as long as the window. A row of `few` can only be near rows of two slots that
    follow each other, so both sides are joined by place and slot, and what is too far is dropped: the work grows
    with the rows and the matching pairs, not with all pairs of a place.

    Args:
        many: the larger frame, with a time `of` and the columns `by`.
        few: the smaller frame, with a time `at` and the columns `by`; other columns have names of their own.
        of: column of `many`.
        at: column of `few`, of another name.
        by: the place.
        before_s: longest time that `at` may lie before `of`, in seconds.
        after_s: longest time that `at` may lie after `of`, in seconds.

    Returns:
        The columns of both; pairs with `-before_s <= at - of <= after_s`, in no order. Rows without a time have none.
    """
    low, high = round(before_s * _US), round(after_s * _US)
    moment, other = pl.col(of).dt.epoch("us"), pl.col(at).dt.epoch("us")
    return (
        _in_slot(many, of, low + high)
        .join(_in_slots(few, at, high, low + high), on=[*by, "_slot"])
        .filter((other - moment >= -low) & (other - moment <= high))
        .drop("_slot")
    )


def prefiltered(
    many: pl.DataFrame, few: pl.DataFrame, *, of: str, at: str, before_s: float, after_s: float
) -> pl.DataFrame:
    """The rows of `many` that `nearby` may pair, wherever they were: few of them, where `few` are few.

    Arguments are those of `nearby`.
    """
    low, high = round(before_s * _US), round(after_s * _US)
    slots = _in_slots(few, at, high, low + high).select("_slot").unique()
    return _in_slot(many, of, low + high).join(slots, on="_slot", how="semi", maintain_order="left").drop("_slot")


def _in_slot(many: pl.DataFrame, of: str, width: int) -> pl.DataFrame:
    """Rows that have a time, with the slot that it lies in."""
    slot = pl.col(of).dt.epoch("us").floordiv(max(width, 1))
    return many.filter(pl.col(of).is_not_null()).with_columns(_slot=slot)


def _in_slots(few: pl.DataFrame, at: str, high: int, width: int) -> pl.DataFrame:
    """Rows that have a time, once for each of the two slots that rows near it lie in."""
    first = (pl.col(at).dt.epoch("us") - high).floordiv(max(width, 1))
    return few.filter(pl.col(at).is_not_null()).with_columns(_slot=pl.concat_list(first, first + 1)).explode("_slot")
