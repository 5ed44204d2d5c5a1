"""The list of runs: find one, open it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dash_mantine_components as dmc  # type: ignore[import-untyped]  # it ships no types
import polars as pl
from dash import html

from app.explorer import components
from app.explorer.page import Data, Page
from app.show.answer import Question
from app.show.questions.runs import runs as runs_answer

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader

FILTERS = ("user", "account", "partition", "state")
"""Columns that can be narrowed to one value."""


def gather(source: Reader, window: Window) -> pl.DataFrame:
    """The rows of `trackside show runs`."""
    return runs_answer(source, window, Question()).rows


def narrowed(rows: pl.DataFrame, view: View) -> pl.DataFrame:
    """Rows that match the address: text in name or id, one user, account, partition or state."""
    shown = rows
    if text := view.get("q"):
        matches = [
            pl.col(name).fill_null("").str.to_lowercase().str.contains(text.lower(), literal=True)
            for name in ("run_id", "name", "user")
        ]
        shown = shown.filter(pl.any_horizontal(matches))
    for name in FILTERS:
        if value := view.get(name):
            shown = shown.filter(pl.col(name) == value)
    return shown


def layout(rows: pl.DataFrame, view: View) -> Component:
    """The page."""
    shown = narrowed(rows, view)
    linked = shown.head(components.ROWS_SHOWN).with_columns(
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
            data=sorted({str(value) for value in rows[name].drop_nulls().unique()} | ({view.get(name)} - {""})),
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
                f"{shown.height:,} of {rows.height:,} runs" if shown.height != rows.height else f"{rows.height:,} runs",
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
                    total=shown.height,
                    height=640,
                    empty="No run matches. Clear a filter, or take a longer period.",
                ),
                note="Joined from the scheduler's attempts; click a run to see where its time went.",
                right=components.export_button("runs"),
            ),
        ],
        className="page",
    )


def _gather(data: Data, view: View) -> pl.DataFrame:
    return data.answers.ask(gather, view.window)


PAGE = Page("/runs", "Runs", "runs", _gather, layout, position=20)
