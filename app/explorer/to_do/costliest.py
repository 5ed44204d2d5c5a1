"""What costs most: by cause, node, user, account, partition or run, and what a person can do about the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
from dash import html

from app.explorer import components, open_pages, wording
from app.explorer.row_texts import texts_of
from app.results import advice
from app.results.failures.interruptions import node_failures
from app.results.goodput import lost_rows
from dashboards import palette
from metrics.categories import COSTLY

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader

DIMENSIONS = {
    "cause": "Cause",
    "node": "Node",
    "user": "User",
    "account": "Account",
    "partition": "Partition",
    "run": "Run",
}
"""What the costs can be split by."""

COSTLIEST = 12
"""Rows of the table of costs."""

ADVISED = 3
"""Number of first causes that get advice."""


class ToDo(NamedTuple):
    """What a person can do about a cost: in words, and the page with more about it."""

    words: str
    path: str
    page: str


_NODES: Final = ToDo(
    "Drain the nodes that fail more often than by chance, and shorten outages. Nodes and commands:",
    "/nodes",
    "Nodes",
)
_STEPLESS: Final = ToDo(
    "See in which runs it happened, and what was last to answer:", "/anomalies", "Stragglers and anomalies"
)
_STARTS: Final = ToDo("See which stage of a start takes longest:", "/reliability", "Reliability")

TO_DO: Final = {
    "checkpoint": ToDo("Save at the interval that loses least. Which run should save how often:", "/checkpoints",
                       "Checkpoints and waste"),
    "pending_demand": ToDo("Jobs waited for GPUs that were idle. Which sizes could start, and where:", "/placement",
                           "Placement"),
    **dict.fromkeys(("startup", "teardown"), _STARTS),
    **dict.fromkeys(("lost", "stalled", "maintenance", "drained", "down"), _NODES),
    **dict.fromkeys(("data_stall", "hang", "inactive", "idle_gpus", "lockstep"), _STEPLESS),
}  # fmt: skip
"""By cause, or else by category."""

_BY_PEOPLE: Final = frozenset({"cancelled", "failed", "out_of_memory", "preempted", "requeued", "timeout"})
"""Causes of lost time that no node explains: there is no advice."""


def costs(source: Reader, window: Window, by: str) -> pl.DataFrame:
    """GPU-hours that could have trained and did not, by who had them, the most first.

    Returns:
        `subject`, `category` (of the largest part), `cause`, `gpu_hours`, `share` (of all GPU-time in the window); by
        node what `app.results.failures.interruptions.node_failures` returns.
    """
    if by == "node":
        return node_failures(source, window)
    rows = lost_rows(source, window, by).filter(pl.col("category").is_in(COSTLY))
    return (
        rows.filter(pl.col("subject") != "(no attempt)")
        .sort("gpu_hours", descending=True)
        .group_by("subject", maintain_order=True)
        .agg(
            pl.col("category").first(),
            pl.col("cause").first(),
            pl.col("gpu_hours").sum(),
            pl.col("share").sum(),
        )
        .sort("gpu_hours", "subject", descending=[True, False])
    )


def costs_by_cause(lost: pl.DataFrame) -> pl.DataFrame:
    """The same by cause: `subject`, `category`, `cause`, `gpu_hours`, `share`.

    Args:
        lost: `app.results.goodput.lost_rows` of the cluster.
    """
    return (
        lost.filter(pl.col("category").is_in(COSTLY))
        .group_by("category", "cause")
        .agg(pl.col("gpu_hours").sum(), pl.col("share").sum())
        .sort("gpu_hours", descending=True)
        .with_columns(subject=pl.coalesce("cause", "category"))
    )


def panel(spent: pl.DataFrame, view: View) -> Component:
    """The largest costs, split by the address's dimension."""
    by = view.get("by", "cause")
    table, note = _node_table(spent, view) if by == "node" else _cost_table(spent, by, view)
    chooser = components.chooser("by", DIMENSIONS, by, "Split the costs by")
    return components.panel(
        "What is costing us most",
        html.Div(chooser, className="chooser"),
        table,
        note=note,
        right=components.export_button("costs"),
    )


def _node_table(blamed: pl.DataFrame, view: View) -> tuple[Component, str]:
    """Nodes by what their failures cost, what to do about the first that failed often, and what the numbers are."""
    note = (
        "Cost in GPU-hours of the interruptions attributed to a node: lost and stalled time of the attempt, and "
        "startup of the one that followed. Unobserved: interruptions of attempts of which more than a tenth was "
        "unobserved; no sum includes their cost."
    )
    rows = blamed.head(COSTLIEST).with_columns(
        href=texts_of(blamed["node"].head(COSTLIEST), lambda node: view.link("/node", node=node)),
        gpu_hours=pl.col("cost_gpu_s") / 3600,
    )
    columns = [
        components.column("node", "Node", href="href", flex=2, minWidth=80),
        components.column("gpu_hours", "GPU-h", "hours", bar=_top(rows), flex=2, minWidth=118),
        components.column("interruptions", "Count", "count", width=72, minWidth=72),
        components.column("cause", "Mostly", "words", flex=2, minWidth=108),
        components.column("unpriced", "Unobserved", "count", width=64, minWidth=64),
    ]
    table = components.grid(rows, columns, name="costs", empty="No interruption is attributed to a node.")
    to_do = advice.drain(blamed)
    if to_do is None:
        return table, note
    why, command = to_do
    return html.Div([table, html.P(why), components.code(command)]), note


def _top(rows: pl.DataFrame) -> float:
    """GPU-hours of a full bar."""
    return max([each for each in rows["gpu_hours"].to_list() if each], default=1.0)


NONE_LOST: Final = (
    "No lost time was observed. Where time is unattributed, telemetry or run logs would show whether some was lost."
)


def _cost_table(spent: pl.DataFrame, by: str, view: View) -> tuple[Component, str]:
    """Causes, or who had the GPUs, by what they cost, and what the numbers are."""
    first = spent.head(COSTLIEST)
    rows = first.with_columns(
        subject=texts_of(first.iter_rows(named=True), _named) if by == "cause" else first["subject"],
        href=_hrefs(first, by, view),
        **category_style(first),
    )
    if by == "cause":
        named = [
            components.column("subject", "Cause", href="href", flex=2, minWidth=120),
            components.column("label", "Category", swatch="colour", flex=2, minWidth=164),
        ]
    else:
        named = [
            components.column(
                "subject", DIMENSIONS[by], "run" if by == "run" else "text", href="href", flex=2, minWidth=120
            ),
            components.column("label", "Mostly", swatch="colour", flex=2, minWidth=152),
        ]
    hours = components.column("gpu_hours", "GPU-h", "hours", bar=_top(rows), flex=2, minWidth=124)
    columns = [named[0], hours, named[1]]
    note = (
        f"GPU-hours that could have trained and did not: {_costly()}."
        if by == "cause"
        else f"GPU-hours within allocations that could have trained and did not: {_costly('allocated')}."
    )
    table = components.grid(rows, columns, name="costs", empty=NONE_LOST)
    return html.Div([table, _advice(spent, view) if by == "cause" else None]), note


def to_do(category: str, cause: str | None) -> ToDo | None:
    """What a person can do about a cause; None where Trackside has no advice."""
    return None if cause in _BY_PEOPLE else TO_DO.get(cause or "") or TO_DO.get(category)


def _advice(spent: pl.DataFrame, view: View) -> Component | None:
    """What to do about the first causes, each kind of advice once, as far as the current viewer may open its page."""
    names_of: dict[ToDo, list[str]] = {}
    for row in spent.head(ADVISED).to_dicts():
        advised = to_do(row["category"], row["cause"])
        if advised is not None and open_pages.is_open(advised.path):
            names_of.setdefault(advised, []).append(_named(row))
    items = [
        html.Li(
            [
                html.B(", ".join(dict.fromkeys(names))),
                f": {each.words} ",
                components.link(each.page, view.link(each.path)),
            ]
        )
        for each, names in names_of.items()
    ]
    return html.Div([html.H3("What to do"), html.Ol(items)], className="to-do") if items else None


def _named(row: dict[str, str | None]) -> str:
    """A cause by its name, or by that of its category where it has none."""
    return wording.in_words(row["cause"]) if row["cause"] else palette.swatch(row["category"] or "").label


def _costly(state: str | None = None) -> str:
    """What counts as a cost, of a state of the GPUs or of all, in words."""
    swatches = [palette.swatch(name) for name in COSTLY]
    return "; ".join(swatch.label.lower() for swatch in swatches if state in {None, swatch.state})


def _hrefs(rows: pl.DataFrame, by: str, view: View) -> pl.Series:
    """The page of each row's subject."""
    if by == "cause":
        return links_of_causes(rows, view)
    if by == "run":
        return texts_of(rows["subject"], lambda run: view.link("/run", id=run))
    return texts_of(rows["subject"], lambda who: view.link("/runs", **{by: who}))


def links_of_causes(rows: pl.DataFrame, view: View) -> pl.Series:
    """The page about the GPU-time of each row's `category` and `cause`."""
    return texts_of(
        rows.iter_rows(named=True),
        lambda row: view.link("/gpu-time", category=row["category"], cause=row["cause"] or ""),
    )


def category_style(rows: pl.DataFrame) -> dict[str, pl.Series]:
    """`label` and `colour` of each row's `category`."""
    return {
        "label": texts_of(rows["category"], lambda name: palette.swatch(name).label),
        "colour": texts_of(rows["category"], lambda name: palette.swatch(name).colour),
    }


def class_colours(rows: pl.DataFrame) -> pl.Series:
    """The colour of each row's `class` of interruptions."""
    return texts_of(rows["class"], lambda name: palette.CLASS_COLOURS.get(name, "#888888"))
