"""Why attempts of a run ended: by cause, with what a person can do about it, and each end with its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl
from dash import html

from app.explorer import components, correcting, open_pages, wording
from dashboards import palette

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View

TO_DO: Final = {
    "infrastructure": "Nothing in the job to change; saving at the best interval loses least (below: How often it "
    "should save).",
    "preemption": "A job of higher priority took its GPUs: save when the scheduler warns, and often.",
    "planned": "The nodes were taken out on purpose: save before, or run elsewhere meanwhile.",
    "timeout": "It reached its time limit: request a longer one, or save and resubmit before it.",
    "user": "The job or a person ended it: read its last output.",
}
"""What to do about a class of interruptions."""

OF_CAUSE: Final = {
    "out_of_memory": "It needed more memory than it had requested: request more, or use less for each process.",
    "cancelled": "A person cancelled it.",
}
"""What to do about a cause, where it is more specific."""

UNINTERRUPTED: Final = "No attempt of this run was interrupted in this period."

REPEATED: Final = 2
"""From so many interruptions of one run on, a node is worth a look."""


def reasons(interruptions: pl.DataFrame) -> list[dict[str, Any]]:
    """Causes by how often they ended an attempt: `class`, `cause`, `n`, `node` (the most frequent), `of_node`."""
    by = ("class", "cause")
    nodes = (
        interruptions.filter(pl.col("node").is_not_null())
        .group_by(*by, "node")
        .agg(of_node=pl.len())
        .sort("of_node", "node", descending=[True, False])
        .unique(by, keep="first", maintain_order=True)
    )
    counted = interruptions.group_by(by).agg(n=pl.len()).join(nodes, on=by, how="left", nulls_equal=True)
    return counted.sort("n", *by, descending=[True, False, False]).to_dicts()


def to_do(reason: dict[str, Any]) -> str:
    """What a person can do about a cause."""
    advice: str = OF_CAUSE.get(reason["cause"], TO_DO.get(reason["class"], "Why it ended is not known."))
    return advice


WHY: Final = "Why it restarted, and what to do"


def panel(interruptions: pl.DataFrame, view: View) -> Component:
    """Each cause with what to do about it."""
    found = reasons(interruptions)
    if not found:
        return components.panel(WHY, html.P(UNINTERRUPTED, className="nothing"))
    most = max((each for each in found if each["node"]), key=lambda each: each["of_node"], default=None)
    repeated = most is not None and most["of_node"] >= REPEATED
    return components.panel(
        WHY,
        html.Ul(
            [html.Li(_advice(text, those, view)) for text, those in _by_advice(found).items()], className="blame tasks"
        ),
        html.P(
            [
                "Whether a node fails more often than by chance is on ",
                _nodes(view),
                ", with the command to drain it.",
            ],
            className="small",
        )
        if repeated and open_pages.is_open("/nodes")
        else None,
        note="How often each cause ended one of its attempts in this period. Each end, with its evidence, is below.",
    )


def _nodes(view: View) -> Component:
    return components.link("the page Nodes", view.link("/nodes"))


def _by_advice(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Causes by what to do about them, so that each advice is given once."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        grouped.setdefault(to_do(each), []).append(each)
    return grouped


def _advice(text: str, those: list[dict[str, Any]], view: View) -> list[Component]:
    return [*(html.Div(_reason(each, view), className="blame-head") for each in those), html.P(text, className="small")]


def _reason(reason: dict[str, Any], view: View) -> list[Component | None]:
    return [html.B(f"{reason['n']:,} x"), _cause(reason), _of_node(reason, view)]


def _of_node(reason: dict[str, Any], view: View) -> Component | None:
    """The node that did it most often, where one did it repeatedly."""
    if reason["node"] is None or reason["of_node"] < REPEATED:
        return None
    node = components.link(reason["node"], view.link("/node", node=reason["node"], cause=reason["cause"] or ""))
    return html.Span([f"{reason['of_node']:,} of them on ", node], className="small")


MOST_BLAMED: Final = 8
"""Ends of attempts that are explained one by one: a browser pays for each part of a page whenever one changes."""


SEEN_AT_ONCE: Final = 4
"""Ends that the box of them shows without scrolling."""


def ends(interruptions: pl.DataFrame, view: View) -> Component:
    """The last ends of attempts, the newest first, each with its cause and the evidence for it."""
    rows = interruptions.sort("ended_at", descending=True).to_dicts()
    if not rows:
        nothing = html.P(UNINTERRUPTED, className="nothing")
        return components.panel("Why attempts ended", nothing)
    more = " The list scrolls." if len(rows) > SEEN_AT_ONCE else ""
    more += (
        f" The last {MOST_BLAMED} of {len(rows):,}: all are below, by what they cost."
        if len(rows) > MOST_BLAMED
        else ""
    )
    return components.panel(
        "Why attempts ended",
        html.Ol([html.Li(_end(row, view)) for row in rows[:MOST_BLAMED]], className="blame"),
        note=f"The cause of each attempt's end, and the evidence for it, the newest first.{more}",
    )


def _end(row: dict[str, Any], view: View) -> list[Component | None]:
    node = row["node"]
    there = components.link(node, view.link("/node", node=node)) if node else "no node named as the cause"
    when = html.Span(f"{view.moment(row['ended_at'])} {view.zone_name}", className="small")
    return [
        html.Div([html.B(f"Attempt {row['attempt_no']}"), _cause(row), when], className="blame-head"),
        html.Div(["on " if node else "", there], className="small"),
        html.Div(row["detail"], className="detail") if row["detail"] else None,
        html.Div(f"evidence: {row['evidence']}, state {row['state']}", className="small"),
        correcting.of_row(view, row),
    ]


def _cause(row: dict[str, Any]) -> Component:
    """Class and cause in the colour of the class."""
    colour = palette.CLASS_COLOURS.get(row["class"], "#888888")
    return html.Span(
        f"{row['class']}: {wording.in_words(row['cause'])}", className="cause", style={"borderColor": colour}
    )
