"""`trackside show METRIC`: the result rows of any published metric that has some."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.results.registry import results
from app.show.answer import Answer
from app.show.selection import split_by
from app.show.sentences import bounded, gpu_hours, lasted, percent
from app.terminal.columns import neat
from ingest.counted import counted
from metrics.catalog import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.results.registry import ResultRows
    from app.show.answer import Question
    from app.window import Window
    from metrics.metric import Metric
    from queries.warehouse import Reader

_DISPLAYED: Final = {"ratio": "ratio", "s": "seconds", "gpu_s": "gpu_h"}
_UNITS: Final = {"gpu_s": "GPU-h", "d": "days", "1/gpu_d": "per GPU-day"}


def questions() -> dict[str, Callable[[Reader, Window, Question], Answer]]:
    """A question for every metric with result rows, by the metric's name."""
    return {name: partial(metric, name, rows) for name, rows in results().items()}


def metric(name: str, result_rows: ResultRows, source: Reader, window: Window, question: Question) -> Answer:
    """One metric: its value, what it is a fraction of, its bounds and interval."""
    entry = BY_NAME[name]
    dimension = split_by(question.by, ("cluster", *entry.by), "cluster")
    rows = result_rows(source, window, dimension) if entry.by else result_rows(source, window)
    rows = rows.filter(pl.col("metric") == name)
    kind, unit = _DISPLAYED.get(entry.unit, "number"), _UNITS.get(entry.unit)
    ends = {"bound_low": "at least", "bound_high": "at most", "ci_low": "95 % from", "ci_high": "to"}
    return Answer(
        entry.title,
        rows,
        {
            "subject": (dimension, "text"),
            "value": (f"value ({unit})" if unit else "value", kind),
            **{column: (heading, kind) for column, heading in ends.items()},
            **_of_parts(entry),
            "n": ("n", "count"),
            "note": ("note", "text"),
        },
        metrics=(name,),
        queries=(entry.query,),
        notes=(entry.summary,),
        parameters={"dimension": dimension},
        when_empty=_when_empty(entry),
        headline=headline(entry, rows, dimension),
    )


def _of_parts(entry: Metric) -> dict[str, tuple[str, str]]:
    """The columns of what is above and below the line."""
    if entry.parts is None:
        return {"numerator": ("numerator", "amount"), "denominator": ("denominator", "amount")}
    unit = " GPU-h" if entry.parts.unit == "gpu_h" else ""
    return {part: (f"{part}{unit}", entry.parts.unit) for part in ("numerator", "denominator")}


def _when_empty(entry: Metric) -> str:
    """What to do where there is no row, at the question that has the metric among its numbers."""
    where = f" The question that explains what it needs: trackside show {entry.show}" if entry.show else ""
    return f"{entry.title}: nothing in this window to compute it from.{where}"


def headline(entry: Metric, rows: pl.DataFrame, dimension: str) -> str:
    """The value in a sentence, with its bounds or its interval; of several subjects the least and the most."""
    if rows.height == 1:
        return f"{entry.title}: {_valued(entry, rows.row(0, named=True))}."
    known = rows.filter(pl.col("value").is_not_null()).sort("value", "subject").to_dicts()
    if not known:
        return f"{entry.title}: cannot tell for any {dimension}." if rows.height else ""
    if known[0]["value"] == known[-1]["value"]:
        each = " for each" if len(known) > 1 else ""
        return f"{entry.title} of {counted(len(known), dimension)}: {_amount(entry, known[0]['value'])}{each}."
    least, most = (f"{row['subject']} with {_amount(entry, row['value'])}" for row in (known[0], known[-1]))
    return f"{entry.title} of {counted(len(known), dimension)}: least for {least}, most for {most}."


def _valued(entry: Metric, row: Mapping[str, Any]) -> str:
    value, low, high, ci_low, ci_high = (row[name] for name in ("value", "bound_low", "bound_high", *_INTERVAL))
    if value is None and low is None:
        return f"cannot tell ({row['note'].removeprefix('cannot tell: ')})" if row["note"] else "cannot tell"
    if entry.unit == "ratio":
        text = bounded(value, low, high)
    elif value is None:
        text = f"{_amount(entry, low)} to {_or_open(entry, high)}"
    else:
        text = _amount(entry, value)
    if ci_low is None:
        return text
    return f"{text}, 95 % interval {_amount(entry, ci_low)} to {_or_open(entry, ci_high)}"


def _or_open(entry: Metric, value: float | None) -> str:
    return "no limit" if value is None else _amount(entry, value)


def _amount(entry: Metric, value: float) -> str:
    """A value with its unit."""
    if entry.unit == "ratio":
        return percent(value)
    if entry.unit == "gpu_s":
        return gpu_hours(value)
    if entry.unit == "s":
        return lasted(value)
    return f"{neat([value], 'number')[0]} {_UNITS.get(entry.unit, entry.unit)}".rstrip()


_INTERVAL: Final = ("ci_low", "ci_high")
