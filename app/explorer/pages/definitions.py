"""The page Definitions: metrics, categories, evidence and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dash import html

from app.explorer import components
from app.explorer.page import ExplorerPage, PageData
from app.json_text import as_json
from app.results import references
from app.results.constants import computed_constants
from dashboards import palette
from metrics.catalog import METRICS

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View

EVIDENCE = {
    "log": "The training run recorded what it did.",
    "telemetry": "The activity of the GPUs was measured.",
    "accounting": "The scheduler's records prove it.",
    "assumed": "A rule filled a gap; the rule is printed.",
}


def layout(used: dict[str, Any]) -> Component:
    """The page; `used` are the constants of the cluster, empty while nothing is computed."""
    return html.Div(
        [
            html.H1("Definitions"),
            html.P(
                "A null is “cannot tell”, never zero. Bounds show what is unobserved about the past; intervals show "
                "what the process would do again. The two are never mixed.",
                className="lead",
            ),
            html.Nav(
                [
                    html.A("Metrics", href="#metrics"),
                    html.A("Categories", href="#categories"),
                    html.A("Evidence", href="#evidence"),
                    html.A("Constants", href="#constants"),
                ],
                className="contents",
                **components.aria({"aria-label": "On this page"}),
            ),
            html.H2("Metrics", id="metrics"),
            html.Div([_metric(metric) for metric in METRICS], className="definitions"),
            html.H2("Categories of GPU-time", id="categories"),
            html.P(
                "Every GPU of every node is at every instant in exactly one of them. An allocation beats a node state, "
                "a node state beats idle."
            ),
            html.Div([_categories(state, title) for state, title in palette.STATES.items()], className="states"),
            html.H2("Evidence", id="evidence"),
            html.Div(
                [
                    html.Div(
                        [
                            html.Span(className="dot", style={"backgroundColor": palette.EVIDENCE_COLOURS[kind]}),
                            html.B(kind),
                            html.Span(title),
                        ],
                        className="category",
                    )
                    for kind, title in EVIDENCE.items()
                ],
                className="panel",
            ),
            html.H2("Constants", id="constants"),
            components.code(
                "\n".join(f"{name} = {as_json(value)}" for name, value in sorted(used.items())), language="toml"
            )
            if used
            else html.P("Nothing has been computed yet.", className="nothing"),
        ],
        className="page prose",
    )


def _metric(metric: Any) -> Component:
    return html.Article(
        [
            html.H3(
                [
                    metric.name,
                    html.A(
                        "#",
                        href=f"#{metric.name}",
                        className="anchor",
                        **components.aria({"aria-label": "Link to this"}),
                    ),
                ]
            ),
            html.P(metric.summary),
            components.facts(
                [
                    ("Formula", metric.formula),
                    ("Unit", metric.unit),
                    ("Uncertainty", metric.interval),
                    ("Source", references.readable(metric.source)),
                    ("Query", html.Code(metric.query)),
                    ("Arithmetic", html.Code(metric.computed_by)),
                ]
            ),
        ],
        id=metric.name,
        className="panel",
    )


def _categories(state: str, title: str) -> Component:
    return html.Div(
        [
            html.H3(title),
            *[
                html.Div(
                    [components.dot(swatch), html.B(swatch.label), html.Code(swatch.name), html.Span(swatch.meaning)],
                    id=swatch.name,
                    className="category",
                )
                for swatch in palette.SWATCHES
                if swatch.state == state
            ],
        ],
        className="panel",
    )


def _gather(data: PageData, view: View) -> dict[str, Any]:
    return data.answers.ask(computed_constants, view.window.cluster)


def _layout(used: dict[str, Any], _: View) -> Component:
    return layout(used)


PAGE = ExplorerPage(
    "/definitions",
    "Definitions",
    "definitions",
    _gather,
    _layout,
    position=80,
    group="Help",
    filters=False,
    without_data=lambda: layout({}),
)
