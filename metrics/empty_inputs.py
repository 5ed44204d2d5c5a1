"""Results of no rows: most clusters have no run logs or no telemetry, and steps over none cost as much.

Planning a step of polars takes a tenth of a millisecond, and a computation takes thousands of them. The
result of a function for no rows depends only on the columns of its arguments, so it is computed once.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")


def cached_if_empty(name: str) -> Callable[[Callable[P, pl.DataFrame]], Callable[P, pl.DataFrame]]:
    """Cache the result of a function of frames for an argument without rows, of which it makes no row.

    Args:
        name: the argument that decides. Whatever the others are, without its rows there are none.

    Raises:
        ValueError: when the function is called: it made rows of none.

    >>> @cached_if_empty("left")
    ... def both(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    ...     return left.join(right, on="key")
    >>> none, some = pl.DataFrame(schema={"key": pl.Int64, "a": pl.String}), pl.DataFrame({"key": [1], "b": [2.0]})
    >>> both(none, some).columns
    ['key', 'a', 'b']
    """

    def decorate(function: Callable[P, pl.DataFrame]) -> Callable[P, pl.DataFrame]:
        position = list(inspect.signature(function).parameters).index(name)
        results: dict[tuple[object, ...], pl.DataFrame] = {}

        @functools.wraps(function)
        def cached(*args: P.args, **kwargs: P.kwargs) -> pl.DataFrame:
            decisive = args[position] if position < len(args) else kwargs[name]
            if not isinstance(decisive, pl.DataFrame) or not decisive.is_empty():
                return function(*args, **kwargs)
            key = (*map(_columns, args), *((each, _columns(value)) for each, value in sorted(kwargs.items())))
            if key not in results:
                results[key] = _without_rows(function(*args, **kwargs), function.__name__)
            return results[key]

        return cached

    return decorate


def _columns(value: object) -> object:
    """Part of an argument that decides about columns: a frame's, and names. Numbers and times decide about rows."""
    if isinstance(value, pl.DataFrame):
        return tuple(value.schema.items())
    return tuple(value) if isinstance(value, list) else value if isinstance(value, (str, bool, tuple)) else None


def _without_rows(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    if not frame.is_empty():
        raise ValueError(f"{name} made {frame.height} rows of none")
    return frame
