"""The page of one node: what it did, why it was out, whether it fails more often than chance gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import html

from app.errors import UsageError
from app.explorer import components
from app.explorer.page import Page
from app.explorer.questions import FILTERS, Asked, section

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import Data

ASKED = (
    Asked("nodes", title="Its GPU-time and what its failures cost", name="time", chosen=False),
    Asked("lemons", title="Does it fail more often than chance gives?", chosen=False),
    Asked("lifecycle", by="event", title="Its outages", chosen=False),
    Asked("health", by="incident", title="Its incidents", chosen=False),
    Asked("interruptions", by="event", title="Attempts that it interrupted", name="interrupted", chosen=False),
    Asked("anomalies", days=7, by="node", title="Its telemetry beside its peers'", chosen=False),
)


def _named(_: Data, view: View) -> None:
    """Refuse an address without a node."""
    if not view.get("node"):
        raise UsageError(
            "node: the node is missing. The address of a node is like /node?node=n1; the page Nodes lists them"
        )


def _top(_: None, view: View) -> Component:
    node = view.get("node")
    return html.Div(
        [html.Div(components.link("Nodes", view.link("/nodes")), className="crumbs"), html.H1(node)],
        className="run-head",
    )


PAGE = Page(
    "/node",
    "Node",
    None,
    _named,
    _top,
    parent="/nodes",
    sections=lambda _: [section(each) for each in ASKED],
    narrowed_by=FILTERS,
    asked={each.anchor: each for each in ASKED},
)
