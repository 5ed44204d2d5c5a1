"""A function that makes no row where a frame has none caches its result for it, by columns and names."""

from __future__ import annotations

import polars as pl
import pytest

from metrics.empty_inputs import cached_if_empty

EMPTY = pl.DataFrame(schema={"key": pl.Int64, "of_left": pl.String})
RIGHT = pl.DataFrame({"key": [1, 2], "of_right": [0.5, 1.5]})
calls: list[str] = []


@cached_if_empty("left")
def both(left: pl.DataFrame, right: pl.DataFrame, *, called: str = "both") -> pl.DataFrame:
    calls.append(called)
    return left.join(right, on="key").with_columns(pl.lit(1).alias(called))


@cached_if_empty("rows")
def counted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(pl.len())


def test_none_is_made_once_for_the_same_columns_and_names() -> None:
    calls.clear()
    plain = both.__wrapped__  # type: ignore[attr-defined]  # of functools
    cached = cached_if_empty("left")(plain)
    first = cached(EMPTY, RIGHT)
    assert cached(right=RIGHT.head(1), left=EMPTY).equals(first)
    assert cached(EMPTY, RIGHT.head(0)).schema == first.schema == plain(EMPTY, RIGHT).schema
    assert calls.count("both") == 3  # by position, by name, and the function itself


def test_other_columns_or_other_names_make_other_frames() -> None:
    assert both(EMPTY, RIGHT.cast({"of_right": pl.String})).schema["of_right"] == pl.String
    assert both(EMPTY, RIGHT, called="another").columns[-1] == "another"
    assert both(EMPTY, RIGHT).columns[-1] == "both"


def test_a_frame_with_rows_is_computed_each_time() -> None:
    left = pl.DataFrame({"key": [2], "of_left": ["a"]})
    assert both(left, RIGHT).height == 1
    assert both(left, RIGHT.head(1)).height == 0


def test_rows_made_of_none_are_an_error_and_no_answer() -> None:
    with pytest.raises(ValueError, match="counted made 1 rows of none"):
        counted(EMPTY)
