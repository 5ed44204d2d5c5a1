"""The manual: the list of its pages, and one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import dcc, html

from app import manual
from app.errors import UsageError
from app.explorer import components
from app.explorer.page import ExplorerPage, PageData

if TYPE_CHECKING:
    from collections.abc import Callable

    from dash.development.base_component import Component

    from app.explorer.filters import View

PATH = "/docs"

ABOUT = {
    "/": "how-to/questions",
    "/runs": "concepts/runs",
    "/run": "concepts/runs",
    "/definitions": "reference/metrics",
    "/today": "how-to/questions",
    "/verdicts": "how-to/claims",
    **dict.fromkeys(("/gpu-time", "/reliability", "/nodes", "/node", "/anomalies", "/placement"), "how-to/questions"),
    **dict.fromkeys(("/people", "/jobs", "/scaling", "/filesystems", "/agreement", "/checkpoints"), "how-to/questions"),
}
"""The page of the manual about a page of the explorer."""


def address(topic: str, section: str = "") -> str:
    """Where the explorer shows a page of the manual."""
    return f"{PATH}/{topic}" + (f"#{section}" if section else "")


def about(path: str) -> Component | None:
    """A link from a page of the explorer to its page of the manual."""
    topic = ABOUT.get(path)
    return None if topic is None else components.link("Manual for this page", address(topic))


def layout(path: str, link: Callable[[str], str]) -> tuple[str, Component]:
    """Title and contents of an address below `/docs`.

    Args:
        path: the address. What follows `/docs/` is searched in the list of pages and never opened as a file.
        link: an address of the explorer with the cluster and period that are shown.

    """
    topic = path.removeprefix(PATH).strip("/")
    if not topic:
        return "Manual", _list(link)
    try:
        page = manual.find(topic)
    except UsageError as error:
        return "Not found", _missing(error, link)

    def to(target: str, section: str) -> str:
        before, _, _ = link(address(target)).partition("#")
        return f"{before}#{section}" if section else before

    crumb = html.P(components.link("All pages of the manual", link(PATH)), className="small")
    return page.title, html.Article(
        [crumb, *(_section(page, each, to) for each in page.sections)], className="page manual"
    )


def _missing(error: UsageError, link: Callable[[str], str]) -> Component:
    return components.message(
        "This page of the manual does not exist",
        html.P(str(error).partition("\n")[0], className="error-text"),
        html.P(components.link("All pages of the manual", link(PATH), class_name="button")),
        kind="error",
    )


def _section(page: manual.ManualPage, part: manual.PageSection, to: Callable[[str, str], str]) -> Component:
    return html.Section(dcc.Markdown(manual.linked(page, part.text, to)), id=part.slug)


def _list(link: Callable[[str], str]) -> Component:
    rooms = [
        html.Section(
            [html.H2(title), html.Ul([_entry(page, link) for page in pages])],
        )
        for title, pages in manual.rooms().items()
    ]
    lead = html.P(["The same pages in a terminal: ", html.Code("trackside docs"), "."], className="lead")
    return html.Div([html.H1("Manual"), lead, *rooms], className="page manual")


def _entry(page: manual.ManualPage, link: Callable[[str], str]) -> Component:
    summary = dcc.Markdown(page.summary, className="summary")
    return html.Li([components.link(page.title, link(address(page.topic))), summary])


def _gather(_: PageData, __: View) -> str:
    return PATH


def _layout(path: str, view: View) -> Component:
    return layout(path, view.link)[1]


PAGE = ExplorerPage(PATH, "Manual", "manual", _gather, _layout, position=90, filters=False, group="Help")
