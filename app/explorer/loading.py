"""The callbacks of sections: ask for one, stop one, ask for it again."""

from __future__ import annotations

from typing import Any

from dash import MATCH, Dash, Input, Output, State, html, no_update

from app.access.guard import saw
from app.errors import UsageError
from app.explorer import components, sections
from app.explorer.filters import NothingYetError
from app.explorer.page import Addresses, pages
from queries.errors import WarehouseError


def register(made: Dash, explorer: Addresses) -> None:
    """Register the callbacks."""
    made.callback(
        Output({"type": "section", "name": MATCH}, "children"),
        Input({"type": "ask", "name": MATCH}, "data"),
        State({"type": "ask", "name": MATCH}, "id"),
    )(lambda asked, named: show(explorer, asked, named["name"]))

    @made.callback(
        Output({"type": "stop", "name": MATCH}, "disabled"),
        Input({"type": "stop", "name": MATCH}, "n_clicks"),
        State({"type": "ask", "name": MATCH}, "data"),
        prevent_initial_call=True,
    )
    def stop(clicks: int | None, asked: dict[str, str]) -> Any:  # noqa: ANN401 - True or no_update
        return explorer.answers.pool.stop(str(asked["ticket"])) if clicks else no_update

    @made.callback(
        Output({"type": "ask", "name": MATCH}, "data"),
        Input({"type": "again", "name": MATCH}, "n_clicks"),
        State({"type": "ask", "name": MATCH}, "data"),
        prevent_initial_call=True,
    )
    def again(clicks: int | None, asked: dict[str, str]) -> Any:  # noqa: ANN401 - a dict or no_update
        return {**asked, "ticket": sections.new_ticket()} if clicks else no_update


def show(explorer: Addresses, asked: dict[str, str], name: str) -> Any:  # noqa: ANN401 - components
    """The contents of a section of the page that the browser has asked for."""
    saw("see", path=str(asked.get("path")), search=str(asked.get("search") or ""), section=name)
    page = pages().get(str(asked.get("path")))
    if page is None or page.sections is None:
        return no_update
    try:
        view = explorer.view(str(asked.get("search") or ""))
        view = page.find(explorer, view) if page.find is not None else view
        section = sections.section_of(page, view, name)
    except (UsageError, WarehouseError) as error:
        return html.P(str(error), className="nothing error-text")
    except NothingYetError:
        return no_update
    with explorer.answers.pool.on_behalf(str(asked.get("ticket"))):
        return components.readable(sections.loaded(section, explorer, view))
