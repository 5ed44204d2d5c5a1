"""Which function gives the result rows of a metric: each registers itself with `@result`, under its metrics' names."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, TypeVar

import app.results

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    ResultRows = Callable[..., pl.DataFrame]

Rows = TypeVar("Rows", bound="Callable[..., Any]")
_RESULTS: dict[str, ResultRows] = {}
_IN_STANDARD_WINDOWS: set[Callable[..., Any]] = set()


def result(*names: str, in_standard_windows: bool = False) -> Callable[[Rows], Rows]:
    """Register the function below as the one that computes these metrics.

    It takes a source and a window, and what to split by as a third argument where the metric's entry has `by`; it
    returns rows of `metrics.frames.RESULT`.

    Args:
        names: of the metrics in its rows.
        in_standard_windows: whether `compute` stores its rows for every standard window.
    """

    def register(function: Rows) -> Rows:
        _RESULTS.update(dict.fromkeys(names, function))
        if in_standard_windows:
            _IN_STANDARD_WINDOWS.add(function)
        return function

    return register


def in_standard_windows(function: Callable[..., Any]) -> bool:
    """Whether `compute` stores the result rows of a function for every standard window."""
    return function in _IN_STANDARD_WINDOWS


def results() -> dict[str, ResultRows]:
    """The function of every metric that has result rows, from all modules below `app.results`."""
    for module in pkgutil.walk_packages(app.results.__path__, "app.results."):
        importlib.import_module(module.name)
    return dict(_RESULTS)
