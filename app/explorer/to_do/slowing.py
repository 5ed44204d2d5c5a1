"""What slowed jobs down in the last week, by what it cost: slow nodes, slow steps, GPUs unlike their peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from dash import html

from app.explorer import components, wording
from app.explorer.questions import Asked, ask, window_of
from app.explorer.to_do.tasks import Task, listed
from app.results import headline_text
from app.results.windows import ledger_sums

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData
    from app.window import Window
    from queries.warehouse import Reader

DAYS: Final = 7
"""Days before the end of the period that are looked at."""

SLOWED: Final = f"What slowed jobs down in the last {DAYS} days"

MOST: Final = 3
"""Of each kind that are named, those that cost most first; the pages they lead to have all."""

LEAST_GPU_S: Final = 3600.0
"""GPU-seconds from which on slow steps are worth a word."""

STRAGGLERS = Asked("stragglers", days=DAYS)
ANOMALIES = Asked("anomalies", by="node", days=DAYS)


@dataclass(frozen=True)
class Slowing:
    """What slowed jobs down.

    Attributes:
        sessions: rows of `show stragglers` with a cost.
        nodes: rows of `show anomalies --by node` that are anomalous.
        runs: `run_id` and `slow_gpu_s`: what its steps took beyond the usual.
    """

    sessions: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    runs: list[dict[str, Any]]


def slow_runs(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Runs whose steps took longer than usual, those that lost most by it first: `run_id`, `slow_gpu_s`."""
    rows = ledger_sums(source, window, "run").group_by(run_id="subject")
    lost = rows.agg(slow_gpu_s=pl.col("straggling_gpu_seconds").cast(pl.Float64).sum())
    worth = lost.filter(pl.col("slow_gpu_s") >= LEAST_GPU_S)
    return worth.sort("slow_gpu_s", "run_id", descending=[True, False]).head(MOST).to_dicts()


def slowing(data: PageData, view: View) -> Slowing:
    """Ask for it: the same questions that the page of stragglers and anomalies asks."""
    sessions = ask(STRAGGLERS, data, view).answer.rows
    nodes = ask(ANOMALIES, data, view).answer.rows
    found = Slowing(
        sessions=_first(sessions, pl.col("lost_gpu_s") > 0, "lost_gpu_s") if sessions.height else [],
        nodes=_first(nodes, pl.col("anomalous").fill_null(value=False), "n_attempts") if nodes.height else [],
        runs=data.answers.ask(slow_runs, window_of(STRAGGLERS, view)),
    )
    explained = {row["run_id"] for row in found.sessions}
    return Slowing(found.sessions, found.nodes, [row for row in found.runs if row["run_id"] not in explained])


def _first(rows: pl.DataFrame, wanted: pl.Expr, by: str) -> list[dict[str, Any]]:
    return rows.filter(wanted).sort(by, descending=True, nulls_last=True, maintain_order=True).head(MOST).to_dicts()


def slowed(found: Slowing, view: View) -> Component:
    """The list by what each cost; nothing at all where nothing did."""
    tasks = [
        *(_session(row, view) for row in found.sessions),
        *(_run(row, view) for row in found.runs),
        *(_node(row, view) for row in found.nodes),
    ]
    if not tasks:
        return html.Div()
    more = html.Span(
        [
            "By what each cost; GPUs that deviate have no cost of their own. All: ",
            components.link("Stragglers and anomalies", view.link("/anomalies")),
            ".",
        ]
    )
    return components.panel(SLOWED, listed(tasks, view), note=more)


def _session(row: dict[str, Any], view: View) -> Task:
    """Ranks that waited: for a node, or for something else."""
    run, node = headline_text.run_label(row["run_id"]), row["nodes"]
    single = row["cause"] == "node" and node and " " not in node
    cause = f"slow node {node}" if row["cause"] == "node" else wording.in_words(row["cause"])
    what = f"{run}: its ranks waited ({cause})"
    why = f"{_hours(row['lost_gpu_s'])}: {row['reason']}."
    href = view.link("/node", node=node) if single else view.link("/run", id=row["run_id"])
    return Task(what, why, f"scontrol show node {node}" if single else "", href, node if single else run)


def _run(row: dict[str, Any], view: View) -> Task:
    run = headline_text.run_label(row["run_id"])
    why = f"{_hours(row['slow_gpu_s'])} in steps that took longer than its own usual ones; it has no times of ranks."
    return Task(f"{run}: slow steps", why, "", view.link("/run", id=row["run_id"]), run)


def _node(row: dict[str, Any], view: View) -> Task:
    runs = f" Meanwhile on it: {row['runs']}." if row["runs"] else ""
    span = f"{view.moment(row['since'])} to {view.moment(row['until'])} {view.zone_name}"
    why = f"{row['what']}, {span}.{runs} It is no proof of a fault."
    return Task(f"{row['node']} deviates", why, "", view.link("/node", node=row["node"]), row["node"])


def _hours(gpu_s: float) -> str:
    return f"{headline_text.hours(gpu_s / 3600)} GPU-h"
