"""The page of one node: what it did, why it was out, whether it fails more often than by chance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dash import html

from app.errors import UsageError
from app.explorer import components, row_filters
from app.explorer.page import ExplorerPage
from app.explorer.questions import FILTERS, MONTH, QuestionSpec, section
from app.results.nodes.similar import similar_nodes

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData

LED_HERE = ("category", "cause")
"""Parameters with what it was about on the page from which one came; they narrow no other section of this page."""

CAME = QuestionSpec("lost", by="node", title="The GPU-time that led here", name="came", chosen=False)

QUESTIONS = tuple(
    replace(each, ignores=LED_HERE, about="node")
    for each in (
        QuestionSpec("nodes", title="Its GPU-time and what its failures cost", name="time", chosen=False, notes=False),
        QuestionSpec("lemons", title="Does it fail more often than by chance?", chosen=False),
        QuestionSpec("lifecycle", by="event", title="Its outages", chosen=False),
        QuestionSpec("health", by="incident", title="Its incidents", chosen=False),
        QuestionSpec(
            "interruptions", by="event", title="Attempts that it interrupted", name="interrupted", chosen=False
        ),
        QuestionSpec(
            "stragglers", by="rank", title="Its ranks beside those that do the same work", name="ranks", chosen=False
        ),
        QuestionSpec("anomalies", days=MONTH, by="node", title="Its telemetry beside its peers'", chosen=False),
    )
)


def _require_known_node(data: PageData, view: View) -> None:
    """Refuse an address without a node, or with one that no source names.

    Raises:
        UsageError: it names none, or none that there is.
    """
    node, cluster = view.get("node"), view.window.cluster
    if not node:
        raise UsageError(
            "node: the node is missing. The address of a node is like /node?node=n1; the page Nodes lists them"
        )
    alike = data.answers.ask(similar_nodes, cluster, node)
    if alike is not None:
        suggestion = f" Did you mean: {', '.join(alike)}?" if alike else ""
        raise UsageError(f"{cluster} has no node {node!r}.{suggestion} The page Nodes lists all nodes.")


def _arrival(view: View) -> dict[str, str]:
    """Category and cause of the GPU-time that led here; nothing where another page did."""
    return {name: view.get(name) for name in LED_HERE if view.get(name)}


def _top(_: None, view: View) -> Component:
    crumbs = [components.link("Nodes", view.link("/nodes"))]
    came = _arrival(view)
    if came:
        words = " by ".join(row_filters.value_label(name, each) for name, each in came.items())
        crumbs.append(components.link(f"GPU time: {words}", view.link("/gpu-time", **came)))
    return html.Div([html.Div(crumbs, className="crumbs pager"), html.H1(view.get("node"))], className="run-head")


PAGE = ExplorerPage(
    "/node",
    "Node",
    None,
    _require_known_node,
    _top,
    parent="/nodes",
    sections=lambda view: [section(each) for each in ((CAME, *QUESTIONS) if _arrival(view) else QUESTIONS)],
    narrowed_by=tuple(each for each in FILTERS if each not in {"node", *LED_HERE}),
    questions={each.anchor: each for each in (CAME, *QUESTIONS)},
)
