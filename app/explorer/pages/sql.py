"""The page SQL: one SELECT at a time on the published copy, in the sandbox of `trackside sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html, no_update

from app.access.guard import saw
from app.errors import UsageError
from app.explorer import components
from app.explorer.page import ExplorerPage
from app.explorer.pages import manual
from app.explorer.questions import heading
from ingest.counted import counted
from queries.errors import QueryError, WarehouseError
from queries.sandbox.run import SandboxLimits, user_sql

if TYPE_CHECKING:
    import polars as pl
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData

LIMITS = SandboxLimits(rows=1_000, seconds=20.0, memory_mb=500, result_mb=8, fixed=True)
"""What a SELECT of the page may use; `trackside sql` takes more."""

LONGEST = 20_000
"""Characters of a text that is run."""

EXAMPLE = "SELECT account, COUNT(*) AS attempts FROM attempts GROUP BY ALL ORDER BY attempts DESC"

OFF = (
    "sql: this page is off: other machines reach this server, and it does not identify their users. "
    "On the machine itself: trackside sql"
)


def _gather(data: PageData, _: View) -> None:
    if not data.allows_sql:
        raise UsageError(OFF)


def _layout(_: None, view: View) -> Component:
    text = view.get("q") or EXAMPLE
    return html.Div(
        [
            heading("SQL", "One SELECT on the published copy: read only, in a process without files and network."),
            components.panel(
                "Query",
                dmc.Textarea(
                    id="sql-text", value=text, minRows=5, autosize=True, className="sql-text",
                    **components.aria({"aria-label": "A SELECT"}),
                ),
                html.Div(
                    [
                        dmc.Button("Run", id="sql-run", color=components.FILLED, size="sm"),
                        html.Span(f"at most {LIMITS.seconds:.0f} s and {LIMITS.rows:,} rows", className="small"),
                        components.link("Tables and columns", manual.address("reference/dictionary")),
                    ],
                    className="pager",
                ),
            ),
            html.Div(id="sql-result", **components.aria({"aria-live": "polite"})),
        ],
        className="page",
    )  # fmt: skip


def answer(data: PageData, text: str) -> Component:
    """The rows of a SELECT, or why there are none."""
    saw("sql", text=text)
    if not data.allows_sql:
        return components.panel("Refused", html.P(OFF, className="error-text"))
    if len(text) > LONGEST:
        return components.panel(
            "Refused", html.P(f"The text is longer than {LONGEST:,} characters.", className="error-text")
        )
    try:
        rows, more = user_sql(data.answers.root, text, LIMITS)
    except (QueryError, WarehouseError) as error:
        return components.panel("No result", html.P(str(error), className="error-text"))
    note = f"The first {rows.height:,} rows; there are more." if more else f"{counted(rows.height, 'row')}."
    return components.panel("Result", _table(rows), note=note, right=components.export_button("sql"))


def _table(rows: pl.DataFrame) -> Component:
    named = rows.rename({name: f"c{number}" for number, name in enumerate(rows.columns)})
    columns = [
        components.column(
            f"c{number}",
            name,
            "time" if str(dtype).startswith("Datetime") else "text",
            flex=1,
            minWidth=120,
            **({"type": "rightAligned"} if dtype.is_numeric() else {}),  # as exact as they are
        )
        for number, (name, dtype) in enumerate(rows.schema.items())
    ]
    return components.grid(named, columns, name="sql", height=560, empty="No rows.")


def register(made: Dash, data: PageData) -> None:
    """Register the callback that runs a SELECT."""

    @made.callback(
        Output("sql-result", "children"),
        Input("sql-run", "n_clicks"),
        State("sql-text", "value"),
        prevent_initial_call=True,
    )
    def run(clicks: int | None, text: str | None) -> Any:
        return components.readable(answer(data, str(text or ""))) if clicks else no_update


PAGE = ExplorerPage("/sql", "SQL", "sql", _gather, _layout, position=70, group="Data", filters=False)
