"""The callback that opens the drawer of a question, or of the number that was clicked."""

from __future__ import annotations

from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, html, no_update

from app import panics
from app.access.guard import saw
from app.errors import UsageError
from app.explorer import components
from app.explorer.answer_table import linked
from app.explorer.drawers import answer_drawer
from app.explorer.filters import NothingYetError
from app.explorer.page import Addresses, pages
from app.explorer.questions import answer_of
from app.visible import visible
from queries.errors import WarehouseError

GRID = "ask-"
"""How the name of a question's table begins."""


def register(made: Dash, explorer: Addresses) -> None:
    """Register the callback."""

    @made.callback(
        Output("drawer", "opened", allow_duplicate=True),
        Output("drawer", "title", allow_duplicate=True),
        Output("drawer", "children", allow_duplicate=True),
        Input({"type": "about", "name": ALL}, "n_clicks"),
        Input({"type": "grid", "name": ALL}, "cellClicked"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
        on_error=lambda error: (True, "Something went wrong", html.P(f"{type(error).__name__}: {str(error)[:300]}")),
    )
    def explain(_: list[Any], __: list[Any], path: str | None, search: str | None) -> tuple[Any, ...]:
        triggered, value = ctx.triggered_id, ctx.triggered[0]["value"] if ctx.triggered else None
        if not isinstance(triggered, dict) or not value:
            return no_update, no_update, no_update
        return opened(explorer, path, search, triggered, value)


def opened(
    explorer: Addresses,
    path: str | None,
    search: str | None,
    triggered: dict[str, str],
    value: Any,
) -> tuple[Any, ...]:
    """What the drawer shows after a click: whether it is open, title and contents."""
    saw("see", path=path or "/", search=search or "", number=triggered["name"])
    page = pages().get((path or "/").rstrip("/") or "/")
    spec = None if page is None else page.questions.get(triggered["name"].removeprefix(GRID))
    if page is None or spec is None:
        return no_update, no_update, no_update
    row, column = None, ""
    try:
        with panics.as_errors():
            view = explorer.view(search)
            if triggered["type"] == "grid":
                row, column = int(value["rowId"]), str(value["colId"]).removeprefix("c_")
                by = answer_of(spec, explorer, view).by
                if linked(column, by, spec.leads):
                    return no_update, no_update, no_update
            title, contents = answer_drawer.drawer(spec, explorer, view, row, column)
    except (UsageError, WarehouseError, NothingYetError) as error:
        return True, "This cannot be shown", html.P(str(error))
    return True, visible(title), components.readable(contents)
