"""The list of runs: find one, open it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import dash_mantine_components as dmc  # type: ignore[import-untyped]  # it ships no types
import polars as pl
from dash import html

from app.explorer import components
from app.explorer.page import Data, Page
from app.results.stored import stored_rows
from app.show.answer import Question
from app.show.questions.runs.runs import runs as runs_answer

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader

FILTERS = ("user", "account", "partition", "state")
"""Columns that can be narrowed to one value."""

Wanted: TypeAlias = "tuple[tuple[str, str], ...]"
"""What a run has to match: `text` in its id, name or user, and a value of each of `FILTERS`; empty: any."""


@dataclass(frozen=True)
class Listed:
    """What the page shows of a window's runs.

    Attributes:
        rows: of `trackside show runs` that match: the first `components.ROWS_SHOWN`.
        matching: how many runs match.
        total: how many runs there are.
        choices: the values of each of `FILTERS`.
    """

    rows: pl.DataFrame
    matching: int
    total: int
    choices: dict[str, frozenset[str]]


def gather(source: Reader, window: Window, wanted: Wanted) -> Listed:
    """The runs of a window that match: those of all the data as they are stored, those of another window computed."""
    whole = source.query("computed", cluster=window.cluster).select("since", "until").rows()
    if whole == [(window.since, window.until)] and stored_rows(source, window, ()) is not None:
        return _stored(source, window, wanted)
    return listed(runs_answer(source, window, Question()).rows, wanted)


def _stored(source: Reader, window: Window, wanted: Wanted) -> Listed:
    rows = source.query("listed_runs", **window.parameters, **dict(wanted), most=components.ROWS_SHOWN)
    values = source.query("run_choices", **window.parameters)
    choices = {name: frozenset(values.filter(pl.col("name") == name)["value"].drop_nulls()) for name in FILTERS}
    total = sum(values.filter(pl.col("name") == FILTERS[0])["runs"].to_list())
    return Listed(rows.drop("matching"), rows["matching"][0] if rows.height else 0, total, choices)


def listed(rows: pl.DataFrame, wanted: Wanted) -> Listed:
    """The rows of `trackside show runs` that match."""
    values, shown = dict(wanted), rows
    if text := values.pop("text"):
        matches = [
            pl.col(name).fill_null("").str.to_lowercase().str.contains(text, literal=True)
            for name in ("run_id", "name", "user")
        ]
        shown = shown.filter(pl.any_horizontal(matches))
    for name, value in values.items():
        if value:
            shown = shown.filter(pl.col(name) == value)
    choices = {name: frozenset(map(str, rows[name].drop_nulls().unique())) for name in FILTERS}
    return Listed(shown.head(components.ROWS_SHOWN), shown.height, rows.height, choices)


def wanted_by(view: View) -> Wanted:
    """What the address asks for."""
    return (("text", view.get("q").lower()), *((name, view.get(name)) for name in FILTERS))


def layout(result: Listed, view: View) -> Component:
    """The page."""
    linked = result.rows.with_columns(
        href=pl.col("run_id").map_elements(lambda run: view.link("/run", id=run), return_dtype=pl.String)
    )
    search = dmc.TextInput(
        id={"type": "filter", "name": "q"},
        value=view.get("q"),
        placeholder="run, name or user",
        label="Search",
        debounce=400,
        size="sm",
        leftSection=components.icon("search"),
    )
    choices = [
        dmc.Select(
            id={"type": "filter", "name": name},
            label=name.capitalize(),
            data=sorted(result.choices[name] | ({view.get(name)} - {""})),
            value=view.get(name) or None,
            clearable=True,
            searchable=True,
            placeholder="any",
            size="sm",
        )
        for name in FILTERS
    ]
    return html.Div(
        [
            html.H1("Runs"),
            html.Div([search, *choices], className="filters"),
            components.panel(
                f"{result.matching:,} of {result.total:,} runs"
                if result.matching != result.total
                else f"{result.total:,} runs",
                components.grid(
                    linked,
                    [
                        components.column("run_id", "Run", "run", href="href", flex=3, minWidth=135),
                        components.column("name", "Name", flex=3, minWidth=105),
                        components.column("user", "User", flex=1, minWidth=75),
                        components.column("state", "State", flex=1, minWidth=108),
                        components.column("n_gpus", "GPUs", "count", width=70, minWidth=66),
                        components.column("n_attempts", "Attempts", "count", width=94, minWidth=94),
                        components.column("started_at", "Started (UTC)", "time", width=140, minWidth=140),
                        components.column("ended_at", "Ended (UTC)", "time", width=140, minWidth=140),
                        components.column("allocated", "GPU-h", "gpu_h", width=92, minWidth=92),
                        components.column("ettr_low", "ETTR at least", "ratio", width=88, minWidth=84),
                        components.column("ettr_high", "at most", "ratio", width=84, minWidth=80),
                    ],
                    name="runs",
                    total=result.matching,
                    height=640,
                    empty="No run matches. Clear a filter, or take a longer period.",
                ),
                note="Joined from the scheduler's attempts; click a run to see where its time went.",
                right=components.export_button("runs"),
            ),
        ],
        className="page",
    )


def _gather(data: Data, view: View) -> Listed:
    return data.answers.ask(gather, view.window, wanted_by(view))


PAGE = Page("/runs", "Runs", "runs", _gather, layout, position=20)
