"""Filters of the address beyond cluster and period: which rows of an answer they keep, and their chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.explorer import wording
from dashboards import palette

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader

Narrowed = tuple[tuple[str, str], ...]
"""Filters with their values, in the order of `COLUMNS`."""

COLUMNS: Final = {
    "user": "user",
    "account": "account",
    "partition": "partition",
    "run": "run_id",
    "node": "node",
    "gpu_model": "gpu_model",
    "scheduler": "scheduler",
    "category": "category",
    "cause": "cause",
    "class": "class",
}
"""Filters by their name in the address: the column of an answer's rows that they are about."""

LABELS: Final = {"gpu_model": "GPU model"}
"""What a filter is called where its name is not a word."""

OF_RUNS: Final = ("user", "account", "partition", "gpu_model", "scheduler")
"""Filters that are facts of a run, or of one of its attempts: they narrow whatever has runs, too."""

CHOSEN_BETWEEN: Final = ("gpu_model", "scheduler")
"""Of these, what is offered only where there are two values or more."""


def label(name: str) -> str:
    """The name of a filter for people."""
    return LABELS.get(name, name.capitalize())


def value_label(name: str, value: str) -> str:
    """What a filter is set to, for people."""
    if name == "category":
        return palette.swatch(value).label
    return wording.in_words(value) if name in wording.NAMED else value


def choices(source: Reader, window: Window) -> dict[str, list[str]]:
    """Users, accounts and partitions that have runs in a window; GPU models and schedulers if there are several."""
    return offered(source.query("run_choices", **window.parameters), OF_RUNS)


def offered(rows: pl.DataFrame, names: tuple[str, ...]) -> dict[str, list[str]]:
    """What can be chosen of some filters, from the rows of the query `run_choices`."""
    values = {name: sorted(rows.filter(pl.col("name") == name)["value"].drop_nulls().to_list()) for name in names}
    return {name: each for name, each in values.items() if len(each) > 1 or name not in CHOSEN_BETWEEN}


def narrowed_by(view: View, names: tuple[str, ...]) -> Narrowed:
    """The filters of an address that a page takes."""
    return tuple((name, view.get(name)) for name in COLUMNS if name in names and view.get(name))


def narrow(
    source: Reader, window: Window, rows: pl.DataFrame, dimension: str, filters: Narrowed
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Rows that match all filters that they have columns for, and the other filters."""
    beside = []
    for name, value in filters:
        column = _column(rows, dimension, name)
        if column is not None:
            rows = rows.filter(pl.col(column).cast(pl.String) == value)
        elif name in OF_RUNS and (runs := _runs_in(rows, dimension)) is not None:
            rows = rows.filter(pl.col(runs).is_in(runs_of(source, window, {name: value}).implode()))
        else:
            beside.append(name)
    return rows, tuple(beside)


def runs_of(source: Reader, window: Window, values: Mapping[str, str]) -> pl.Series:
    """Ids of the runs with these values of `OF_RUNS` that had time in the window; one attempt has all its values."""
    parameters = dict.fromkeys(OF_RUNS, "") | dict(values)
    return source.query("run_ids_of", **window.parameters, **parameters)["run_id"]


def _runs_in(rows: pl.DataFrame, dimension: str) -> str | None:
    """The column with ids of runs."""
    if "run_id" in rows.columns:
        return "run_id"
    return "subject" if dimension == "run" and "subject" in rows.columns else None


def _column(rows: pl.DataFrame, dimension: str, name: str) -> str | None:
    column = COLUMNS[name]
    if column in rows.columns and rows.schema[column] == pl.String:
        return column
    return "subject" if dimension == name and "subject" in rows.columns else None
