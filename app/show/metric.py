"""`trackside show METRIC`: the result rows of any published metric that has some."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from app.results.registry import results
from app.show.answer import Answer
from app.show.selection import split_by
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.results.registry import ResultRows
    from app.show.answer import Question
    from app.window import Window
    from queries.warehouse import Reader

_DISPLAYED = {"ratio": "ratio", "s": "seconds", "gpu_s": "gpu_h"}
_UNITS = {"gpu_s": "GPU-h", "d": "days", "1/gpu_d": "per GPU-day"}


def questions() -> dict[str, Callable[[Reader, Window, Question], Answer]]:
    """A question for every metric with result rows, by the metric's name."""
    return {name: partial(metric, name, rows) for name, rows in results().items()}


def metric(name: str, result_rows: ResultRows, source: Reader, window: Window, question: Question) -> Answer:
    """One metric: its value, what it is a fraction of, its bounds and interval."""
    entry = BY_NAME[name]
    dimension = split_by(question.by, ("cluster", *entry.by), "cluster")
    rows = result_rows(source, window, dimension) if entry.by else result_rows(source, window)
    kind, unit = _DISPLAYED.get(entry.unit, "number"), _UNITS.get(entry.unit)
    named = {"subject": dimension, "value": f"value ({unit})" if unit else "value"}
    shown = {"bound_low": "at least", "bound_high": "at most", "ci_low": "95 % from", "ci_high": "95 % to"}
    return Answer(
        entry.title,
        rows.filter(pl.col("metric") == name),
        {
            "subject": (named["subject"], "text"),
            "value": (named["value"], kind),
            **{column: (heading, kind) for column, heading in shown.items()},
            "numerator": ("numerator", "amount"),
            "denominator": ("denominator", "amount"),
            "n": ("n", "count"),
            "note": ("note", "text"),
        },
        metrics=(name,),
        queries=(entry.query,),
        notes=(entry.summary,),
        parameters={"dimension": dimension},
        when_empty="Nothing in this window to compute it from.",
    )
