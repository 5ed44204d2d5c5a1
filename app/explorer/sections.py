"""Sections of a page: each is loaded by itself, shows that it is loading, can be stopped, and may fail alone."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

import dash_mantine_components as dmc
from dash import dcc, html

from app import panics
from app.errors import UsageError
from app.explorer import components
from queries.errors import StoppedError, WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import ExplorerPage, PageData, Section

logger = logging.getLogger("trackside.explorer")


def waiting(above: Component, page: ExplorerPage, view: View, search: str) -> Component:
    """A page whose sections are loaded once the browser has it."""
    sections = sections_of(page, view)
    return _page(
        above, sections, [[_request_store(each, page, search), _shell(each, _loading(each, view))] for each in sections]
    )


def at_once(above: Component, page: ExplorerPage, data: PageData, view: View) -> Component:
    """The same page with all that its sections show."""
    sections = sections_of(page, view)
    return _page(above, sections, [[_shell(each, loaded(each, data, view))] for each in sections])


def none(above: Component) -> Component:
    """The same page with nothing below the part above its sections."""
    return _page(above, (), ())


def section_of(page: ExplorerPage, view: View, name: str) -> Section:
    """The section of that name.

    Raises:
        UsageError: the page has none.
    """
    for each in sections_of(page, view):
        if each.name == name:
            return each
    raise UsageError(f"{page.path} has no section {name!r}")


def loaded(section: Section, data: PageData, view: View) -> Component:
    """What a section shows; its error, where it cannot show anything."""
    return shown(section, data, view)[0]


def shown(section: Section, data: PageData, view: View) -> tuple[Component, bool]:
    """What a section shows, and whether that is all of it and no error."""
    try:
        with panics.as_errors():
            return section.layout(section.gather(data, view), view), True
    except StoppedError as error:
        return _message(section, str(error), _retry_button(section)), False
    except (UsageError, WarehouseError) as error:
        return _message(section, str(error)), False
    except Exception as error:
        logger.exception("the section %s failed", section.name)
        return _message(section, f"This is a fault of Trackside: {type(error).__name__}: {str(error)[:300]}"), False


def new_ticket() -> str:
    """A name for one asking, by which it can be stopped."""
    return uuid.uuid4().hex


def sections_of(page: ExplorerPage, view: View) -> Sequence[Section]:
    """The sections of a page; none where it has none."""
    return page.sections(view) if page.sections is not None else ()


def _page(above: Component, sections: Sequence[Section], contents: Sequence[list[Component]]) -> Component:
    made = [
        html.Div(content, id=each.name, className=f"section span-{each.span}")
        for each, content in zip(sections, contents, strict=True)
    ]
    return html.Div([above, html.Div(made, className="sections")], className="page")


def _request_store(section: Section, page: ExplorerPage, search: str) -> Component:
    request_data = {"ticket": new_ticket(), "path": page.path, "search": search}
    return dcc.Store(id={"type": "ask", "name": section.name}, data=request_data)


def _shell(section: Section, content: Component) -> Component:
    return html.Div(content, id={"type": "section", "name": section.name}, className="section-content")


def _loading(section: Section, view: View) -> Component:
    """What is being loaded, since when, and a button that stops it."""
    since, until = (view.moment(each)[:10] for each in (view.window.since, view.window.until))
    stop = dmc.Button("Stop", id={"type": "stop", "name": section.name}, size="compact-xs", variant="default")
    return html.Section(
        [
            html.H2(section.title, className="panel-title"),
            html.P(
                [
                    html.Span(f"Loading {view.window.cluster}, {since} to {until} {view.zone_name} "),
                    html.Span(className="elapsed"),
                    html.Span(stop, className="stop-loading"),
                ],
                className="small loading-text",
                role="status",
            ),
        ],
        className="panel loading",
        style={"minHeight": f"{section.height}px"},
        **components.aria({"aria-label": section.title, "aria-busy": "true"}),
    )


def _message(section: Section, text: str, *more: Component) -> Component:
    return components.panel(section.title, html.P(text, className="nothing error-text"), *more)


def _retry_button(section: Section) -> Component:
    made: Component = dmc.Button(
        "Load again", id={"type": "again", "name": section.name}, size="compact-sm", variant="default"
    )
    return made
