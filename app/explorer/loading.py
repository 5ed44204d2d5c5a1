"""The callbacks of sections: load one, stop one, load it again; and their last contents, to be sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dash import MATCH, Dash, Input, Output, State, html, no_update
from flask import Response, g, has_request_context, request

from app.access import people
from app.access.guard import LONGEST_QUERY, saw
from app.errors import UsageError
from app.explorer import components, sections
from app.explorer.filters import NothingYetError
from app.explorer.page import Addresses, pages
from app.results.serving.responses import Responses
from queries.errors import WarehouseError

if TYPE_CHECKING:
    from app.config.watched import Configured

KEPT_BYTES: Final = 64 << 20
"""Bytes of sections that are kept as they were sent."""

SECTION: Final = '{"name":["MATCH"],"type":"section"}.children'
"""How Dash names what the callback of a section answers."""


def register(made: Dash, explorer: Addresses) -> None:
    """Register the callbacks."""
    made.callback(
        Output({"type": "section", "name": MATCH}, "children"),
        Input({"type": "ask", "name": MATCH}, "data"),
        State({"type": "ask", "name": MATCH}, "id"),
    )(lambda request_data, named: show(explorer, request_data, named["name"]))

    @made.callback(
        Output({"type": "stop", "name": MATCH}, "disabled"),
        Input({"type": "stop", "name": MATCH}, "n_clicks"),
        State({"type": "ask", "name": MATCH}, "data"),
        prevent_initial_call=True,
    )
    def stop(clicks: int | None, request_data: dict[str, str]) -> Any:
        return explorer.answers.pool.stop(str(request_data["ticket"])) if clicks else no_update

    @made.callback(
        Output({"type": "ask", "name": MATCH}, "data"),
        Input({"type": "again", "name": MATCH}, "n_clicks"),
        State({"type": "ask", "name": MATCH}, "data"),
        prevent_initial_call=True,
    )
    def again(clicks: int | None, request_data: dict[str, str]) -> Any:
        return {**request_data, "ticket": sections.new_ticket()} if clicks else no_update


def show(explorer: Addresses, request_data: dict[str, str], name: str) -> Any:
    """The contents of a section of the page that the browser requests."""
    _saw(request_data, name)
    page = pages().get(str(request_data.get("path")))
    if page is None or page.sections is None:
        return no_update
    try:
        view = page.view(explorer, str(request_data.get("search") or ""))
        section = sections.section_of(page, view, name)
    except (UsageError, WarehouseError) as error:
        return html.P(str(error), className="nothing error-text")
    except NothingYetError:
        return no_update
    with explorer.answers.pool.on_behalf(str(request_data.get("ticket"))):
        contents, whole = sections.shown(section, explorer, view)
    if section.kept and whole and has_request_context():
        g.whole_section = True
        _visited(explorer, request_data)
    return components.readable(contents)


def _saw(request_data: dict[str, str], name: str) -> None:
    saw("see", path=str(request_data.get("path")), search=str(request_data.get("search") or ""), section=name)


def _visited(explorer: Addresses, request_data: dict[str, str]) -> None:
    """Have the page be computed ahead when newer data come; not that of a viewer, whose answers are their own."""
    if people.current().sees_all:
        explorer.answers.visits.add(str(request_data["path"]), str(request_data.get("search") or ""))


# What was sent -----------------------------------------------------------------------------------------------------


def keep(made: Dash, explorer: Addresses) -> None:
    """Send a section as it was sent before to the same person, for the same address, data version, prices.

    Most of a later visit's time would go into making and encoding the same components. Call it when everything that
    checks requests is there: nothing is sent again to who may not ask.
    """
    kept = Responses(KEPT_BYTES)

    def again() -> Response | None:
        found = (
            _section_request(request.get_json(silent=True))
            if request.path.endswith("/_dash-update-component")
            else None
        )
        if found is None:
            return None
        request_data, name = found
        version, key = _version(explorer), (people.current(), request_data["path"], request_data["search"], name)
        body = kept.get(version, key)
        if body is None:
            g.keep_as = (version, key)
            return None
        _saw(request_data, name)
        _visited(explorer, request_data)
        return Response(body, mimetype="application/json")

    def keep_whole(response: Response) -> Response:
        if g.pop("whole_section", False) and "keep_as" in g and response.status_code == 200:
            version, key = g.keep_as
            if version == _version(explorer):  # else newer data came while it was answered
                kept.put(version, key, response.get_data())
        return response

    made.server.before_request(again)
    made.server.after_request(keep_whole)


def _version(explorer: Addresses) -> tuple[str, Configured]:
    """What all sections that are kept follow from."""
    return explorer.answers.version(), explorer.configured.now()


def _section_request(body: Any) -> tuple[dict[str, str], str] | None:
    """The arguments of a section's callback, and the section's name; None of a request of any other form.

    The name must be the same wherever the request has it: the callback takes it from the state, and Dash names in its
    answer the output that the request names.
    """
    try:
        (given,) = body["inputs"]
        request_data, name = given["value"], given["id"]["name"]
        texts = (name, request_data["path"], request_data["search"])
        of, to = ({"name": name, "type": each} for each in ("ask", "section"))
        ours = {
            "output": SECTION,
            "outputs": {"id": to, "property": "children"},
            "inputs": [{"id": of, "property": "data", "value": request_data}],
            "state": [{"id": of, "property": "id", "value": of}],
        }
        is_ours = all(isinstance(each, str) for each in texts) and {each: body[each] for each in ours} == ours
        return (request_data, name) if is_ours and sum(map(len, texts)) <= LONGEST_QUERY else None
    except (KeyError, TypeError, ValueError):
        return None
