"""The page Today: what needs a person now, and what the last day of the data was like beside the day before."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
from dash import html

from app import clock, formatting
from app.explorer import components, wording
from app.explorer.page import ExplorerPage, Section
from app.explorer.pages import overview
from app.explorer.questions import FILTERS, QuestionSpec, heading, section
from app.explorer.to_do.slowing import SLOWED, slowed, slowing
from app.explorer.to_do.tasks import Task, listed
from app.results import advice, headline_text
from app.results.failures.interruptions import node_failures
from app.results.failures.lemons import judged as judged_window
from app.results.failures.lemons import node_score_rows
from app.results.nodes.lifecycle import lifecycle
from app.results.windows import ledger_sums
from app.times import iso
from dashboards import palette
from ingest.counted import counted
from metrics.goodput.goodput import lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData
    from app.window import Window
    from metrics.claims.verdict import Judged
    from queries.warehouse import Reader

DAY = timedelta(days=1)

TIGHT = {"paddingLeft": "0"}
"""So that the four columns fit a phone."""

LAST_DAY = "Interruptions of the last 24 hours"

OLD = timedelta(days=2)
"""Data that end so long ago are worth a word."""


def last_days(view: View) -> tuple[Window, Window]:
    """The last 24 hours of the period, and the 24 hours before."""
    until = view.window.until
    return replace(view.window, since=until - DAY), replace(view.window, since=until - 2 * DAY, until=until - DAY)


# What needs a person --------------------------------------------------------------------------------------------


def flagged(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Nodes that fail more often than by chance, each with what its interruptions were and cost in the same time."""
    judged = judged_window(window)
    rows = node_score_rows(source, judged).filter(pl.col("verdict") != "none")
    if rows.is_empty():
        return []
    costs = node_failures(source, judged).select("node", "cause", "cost_gpu_s", "unpriced")
    return rows.join(costs, on="node", how="left", maintain_order="left").to_dicts()


def still_out(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Unplanned outages that last at the end of a window, those that lost most of it first: rows of `OUTAGES`."""
    rows = lifecycle(source, window).outages
    lasting = pl.col("back_at").is_null() | (pl.col("back_at") > window.until)
    return rows.filter(~pl.col("planned"), lasting).sort("lost_gpu_s", "node", descending=[True, False]).to_dicts()


def _tasks(data: PageData, view: View) -> list[Task]:
    numbers = data.answers.ask(overview.gather, view.window, data.claims.now(), view.requested)
    refuted = [each for each in numbers.judged if each.verdict == "refuted"]
    return [
        *_of_data(view),
        *_of_outages(data.answers.ask(still_out, view.window), view),
        *(_of_node(row, view) for row in data.answers.ask(flagged, view.window)),
        *_of_claims(refuted, view),
    ]


def _of_claims(refuted: Sequence[Judged], view: View) -> list[Task]:
    """One task for all claims that the data refute: they are looked at together."""
    if not refuted:
        return []
    quoted = "; ".join(f"{each.claim.id}: “{each.claim.quoted}”" for each in refuted)
    what = "A claim is refuted" if len(refuted) == 1 else f"{len(refuted)} claims are refuted"
    return [Task(what, quoted, f"trackside verify {view.command}", view.link("/verdicts"), "Verdicts")]


def _of_data(view: View) -> list[Task]:
    """The data that are missing for this page."""
    state, tasks, more = view.state, [], (view.link("/quality"), "Data quality")
    if state.newer_loads:
        loads = counted(state.newer_loads, "load")
        why = f"{loads} came after the numbers were computed."
        tasks.append(Task("Loaded data are not computed yet", why, "trackside compute", *more))
    age = clock.now() - state.until
    if age > OLD:
        why = (
            f"The data end {view.moment(state.until)} {view.zone_name}, {formatting.duration(age.total_seconds())} ago."
        )
        tasks.append(Task("The data are old", why, "trackside ingest slurm && trackside compute", *more))
    return tasks


MOST_OUT = 5
"""Nodes that are out of service of which each is described."""


def _of_outages(rows: Sequence[dict[str, Any]], view: View) -> list[Task]:
    """One task for all nodes that are out of service and should not be."""
    if not rows:
        return []
    nodes = [row["node"] for row in rows]
    one = len(nodes) == 1
    what = f"{nodes[0]} is out of service" if one else f"{len(nodes):,} nodes are out of service"
    described = "; ".join(_outage(row, view, named=not one) for row in rows[:MOST_OUT])
    more = f"; and {len(rows) - MOST_OUT:,} more" if len(rows) > MOST_OUT else ""
    command = f"scontrol show node {shlex.quote(','.join(nodes[:MOST_OUT]))}"
    href = view.link("/node", node=nodes[0]) if one else view.link("/nodes")
    return [Task(what, f"{described}{more}.", command, href, nodes[0] if one else "Nodes")]


def _outage(row: dict[str, Any], view: View, *, named: bool) -> str:
    """Since when a node is out of service, why, and what that cost within the period."""
    subject = f"{row['node']} since" if named else "Since"
    again = ", within a day of its last outage" if row["relapse"] else ""
    reason = f" ({row['reason']})" if row["reason"] else ""
    cost = f"; {headline_text.hours(row['lost_gpu_s'] / 3600)} GPU-h so far" if row["lost_gpu_s"] else ""
    return f"{subject} {view.moment(row['failed_at'])}{again}{reason}{cost}"


def _of_node(row: dict[str, Any], view: View) -> Task:
    node = row["node"]
    what = f"{node} is a {row['verdict']}" if row["verdict"] == "lemon" else f"{node} is suspect"
    why = f"It failed {counted(row['failures'], 'time')} (expected by chance: {row['expected']:.2g}){_mostly(row)}."
    return Task(what, why, advice.for_flagged(row), view.link("/node", node=node), node)


def _mostly(row: dict[str, Any]) -> str:
    """The most frequent cause of a node's interruptions, and what all of them cost."""
    cause = f", mostly {wording.in_words(row['cause'])}" if row["cause"] else ""
    if row["cost_gpu_s"] is None:
        return cause
    least = "at least " if row["unpriced"] else ""
    return f"{cause}; that cost {least}{headline_text.hours(row['cost_gpu_s'] / 3600)} GPU-h"


def _needs(tasks: list[Task], view: View) -> Component:
    if not tasks:
        nothing = "Nothing that Trackside can see: no lemon, no refuted claim, and the data are computed."
        return components.panel("What needs a person now", html.P(nothing, className="nothing"))
    return components.panel("What needs a person now", listed(tasks, view), note="Trackside only prints the commands.")


# What changed ---------------------------------------------------------------------------------------------------


def by_category(source: Reader, window: Window) -> dict[str, float]:
    """GPU-hours by category."""
    rows = lost(ledger_sums(source, window, "cluster"))
    return dict(rows.group_by("category").agg(pl.col("gpu_hours").sum()).iter_rows())


def counts(source: Reader, window: Window) -> dict[str, int]:
    """Interruptions by class."""
    rows = source.query("interruption_counts", **window.parameters)
    return dict(rows.group_by("class").agg(pl.col("n").sum()).iter_rows())


def _changes(data: PageData, view: View) -> pl.DataFrame:
    """Shares of all GPU-time by category, and interruptions by class: `now`, and the day `before`.

    Returns:
        `what` (in words), `kind` (category or class), its `name`, `unit`, `now`, `before`.
    """
    hours = [data.answers.ask(by_category, each) for each in last_days(view)]
    ended = [data.answers.ask(counts, each) for each in last_days(view)]
    names = [name for name in palette.ORDER if any(name in each for each in hours)]
    rows = [
        (palette.swatch(name).label, "category", name, "share", *(_share(each, name) for each in hours))
        for name in names
    ]
    classes = sorted(set(ended[0]) | set(ended[1]))
    rows += [
        (f"Interruptions: {name}", "class", name, "count", *(float(each.get(name, 0)) for each in ended))
        for name in classes
    ]
    columns = ["what", "kind", "name", "unit", "now", "before"]
    return pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


def _share(hours: dict[str, float], name: str) -> float | None:
    """Share of a category of all GPU-time; unknown where there is none."""
    whole = sum(hours.values())
    return hours.get(name, 0.0) / whole if whole else None


def _changed(rows: pl.DataFrame, view: View) -> Component:
    now, _before = last_days(view)
    texts = [
        {
            "what": row["what"],
            "href": view.link("/gpu-time", since=iso(now.since), until=iso(now.until), **{row["kind"]: row["name"]}),
            **{side: _text(row[side], row["unit"]) for side in ("now", "before")},
            "change": _change(row),
        }
        for row in rows.to_dicts()
    ]
    columns = [
        components.column("what", "What", href="href", flex=3, minWidth=118, wrapText=True, autoHeight=True),
        components.column("now", "Last 24 h", flex=1, minWidth=72, type="rightAligned", cellStyle=TIGHT),
        components.column("before", "24 h before", flex=1, minWidth=72, type="rightAligned", cellStyle=TIGHT),
        components.column("change", "Change", flex=1, minWidth=66, type="rightAligned"),
    ]
    return components.panel(
        "What changed since yesterday",
        components.grid(pl.DataFrame(texts), columns, name="changes"),
        note=f"{view.moment(now.since)} to {view.moment(now.until)} {view.zone_name}, beside the day before it; "
        "shares of all GPU-time, their changes in percentage points.",
        right=components.export_button("changes"),
    )


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return formatting.NOTHING
    return headline_text.share(value) if unit == "share" else f"{value:,.0f}"


def _change(row: dict[str, Any]) -> str:
    if row["now"] is None or row["before"] is None:
        return formatting.CANNOT_TELL
    change = row["now"] - row["before"]
    shown = f"{100 * change:+.1f}" if row["unit"] == "share" else f"{change:+,.0f}"
    return shown.replace("-", "").replace("+", "") if float(shown.replace(",", "")) == 0 else shown


def _interruptions(data: PageData, view: View) -> tuple[pl.DataFrame, int]:
    return data.answers.ask(overview.by_cost, last_days(view)[0], "all")


QUESTIONS = (QuestionSpec("health", by="incident", title="Incidents of the period, the newest first"),)

PAGE = ExplorerPage(
    "/today",
    "Today",
    "today",
    lambda _, __: None,
    lambda _, __: heading("Today", "What needs a person now, and what changed in the last 24 hours of the data."),
    position=12,
    narrowed_by=FILTERS,
    sections=lambda _: (
        Section("needs", "What needs a person now", _tasks, _needs, span=6),
        Section("changes", "What changed since yesterday", _changes, _changed, span=6),
        Section("slowed", SLOWED, slowing, slowed, height=90, kept=True),
        Section(
            "last-day",
            LAST_DAY,
            _interruptions,
            lambda found, view: overview.interruptions_table(found, view, title=LAST_DAY),
        ),
        *(section(each) for each in QUESTIONS),
    ),
    questions={each.anchor: each for each in QUESTIONS},
)
