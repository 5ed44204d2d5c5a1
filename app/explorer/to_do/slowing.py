"""What slowed jobs down in the last week, by what it cost: slow nodes, slow steps, GPUs unlike their peers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl
from dash import html

from app.explorer import components, wording
from app.explorer.questions import QuestionSpec, answer_of, window_of
from app.explorer.to_do.tasks import Task, listed
from app.results import headline_text
from app.results.steps.stragglers import MOST_ROWS, rank_times
from app.results.windows import ledger_sums
from metrics.stragglers.sessions import session_stragglers

if TYPE_CHECKING:
    from datetime import datetime

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.page import PageData
    from app.window import Window
    from queries.warehouse import Reader

DAYS: Final = 7
"""Days before the end of the period that are looked at."""

SLOWED: Final = f"What slowed jobs down in the last {DAYS} days"

MOST: Final = 3
"""Of each kind that are named: those that cost most, or deviate most clearly. The pages they lead to have all."""

LEAST_GPU_S: Final = 3600.0
"""GPU-seconds from which on slow steps are worth a word."""

SHORTEST: Final = timedelta(hours=3)
"""Time that is looked at whatever the number of rank times."""

ANOMALIES = QuestionSpec("anomalies", by="node", days=DAYS)


@dataclass(frozen=True)
class Slowing:
    """What slowed jobs down.

    Attributes:
        sessions: rows of `SESSION_STRAGGLERS` with a cost.
        nodes: rows of `show anomalies --by node` that are anomalous.
        runs: `run_id` and `slow_gpu_s`: what its steps took beyond the usual.
        ranks_since: the beginning of the rank times that were read, where these are not all; else None.
    """

    sessions: list[dict[str, Any]]
    nodes: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    ranks_since: datetime | None = None


class SlowSessions(NamedTuple):
    """Rows of `SESSION_STRAGGLERS` with a cost, the costliest first, and since when rank times were read."""

    rows: list[dict[str, Any]]
    since: datetime


def slow_sessions(source: Reader, window: Window) -> SlowSessions:
    """Sessions whose ranks waited for the slowest: of the window, or of its last part with no more than `MOST_ROWS`.

    Without what telemetry shows of their nodes, which takes as long again and is in `show stragglers`.
    """
    while _n_times(source, window) > MOST_ROWS and window.until - window.since > SHORTEST:
        window = replace(window, since=window.since + (window.until - window.since) / 2)
    rows = session_stragglers(rank_times(source, window)).filter(pl.col("lost_gpu_s") > 0)
    return SlowSessions(_of_joined_runs(source, window, rows).to_dicts(), window.since)


def _of_joined_runs(source: Reader, window: Window, sessions: pl.DataFrame) -> pl.DataFrame:
    """The sessions under the runs that pages are of; a log may name its run otherwise than its jobs are joined."""
    if sessions.is_empty():
        return sessions
    named = sessions["run_id"].unique().to_list()
    joined = source.query("rank_runs", **window.parameters, runs=named)
    return (
        sessions.join(joined, on=["run_id", "session"], how="left", maintain_order="left")
        .with_columns(run_id=pl.coalesce("joined", "run_id"))
        .drop("joined")
    )


def _n_times(source: Reader, window: Window) -> int:
    return int(source.query("rank_sessions", **window.parameters, run=None)["n_rows"].sum())


def slow_runs(source: Reader, window: Window) -> list[dict[str, Any]]:
    """Runs whose steps took longer than usual, those that lost most by it first: `run_id`, `slow_gpu_s`."""
    rows = ledger_sums(source, window, "run").filter(pl.col("subject") != "(no attempt)").group_by(run_id="subject")
    lost = rows.agg(slow_gpu_s=pl.col("straggling_gpu_seconds").cast(pl.Float64).sum())
    return (
        lost.filter(pl.col("slow_gpu_s") >= LEAST_GPU_S)
        .sort("slow_gpu_s", "run_id", descending=[True, False])
        .to_dicts()
    )


def slowing(data: PageData, view: View) -> Slowing:
    """What slowed jobs of the whole cluster down, whatever the address filters and splits by."""
    whole = replace(view, params={})
    window = window_of(ANOMALIES, view)
    sessions = data.answers.ask(slow_sessions, window)
    named = {row["run_id"] for row in sessions.rows}
    runs = [row for row in data.answers.ask(slow_runs, window) if row["run_id"] not in named]
    nodes = answer_of(ANOMALIES, data, whole).answer.rows.filter(pl.col("anomalous").fill_null(value=False))
    since = None if sessions.since == window.since else sessions.since
    return Slowing(sessions.rows[:MOST], nodes.head(MOST).to_dicts(), runs[:MOST], since)


def slowed(found: Slowing, view: View) -> Component:
    """The list by what each cost; nothing at all where nothing did."""
    costs = [
        *((row["lost_gpu_s"], _session(row, view)) for row in found.sessions),
        *((row["slow_gpu_s"], _run(row, view)) for row in found.runs),
    ]
    costs.sort(key=lambda each: each[0], reverse=True)
    tasks = [*(task for _, task in costs), *(_node(row, view) for row in found.nodes)]
    if not tasks:
        return html.Div()
    since = "" if found.ranks_since is None else f"{view.moment(found.ranks_since)} {view.zone_name}"
    more = html.Span(
        [
            "By what each cost; GPUs that deviate have no cost of their own. ",
            f"Of the times of ranks, which are many, those since {since}. " if since else "",
            "All: ",
            components.link("Stragglers and anomalies", view.link("/anomalies")),
            ".",
        ]
    )
    return components.panel(SLOWED, listed(tasks, view), note=more)


def _session(row: dict[str, Any], view: View) -> Task:
    """Ranks that waited: for a node, or for something else."""
    run, nodes = headline_text.run_label(row["run_id"]), row["nodes"] or []
    slow = f"slow node {' '.join(nodes)}" if row["cause"] == "node" else wording.in_words(row["cause"])
    what = f"{run}: its ranks waited ({slow})"
    why = f"{_hours(row['lost_gpu_s'])}: {row['reason']}."
    if row["cause"] == "node" and len(nodes) == 1:
        node = nodes[0]
        return Task(what, why, f"scontrol show node {shlex.quote(node)}", view.link("/node", node=node), node)
    return Task(what, why, "", view.link("/run", id=row["run_id"]), run)


def _run(row: dict[str, Any], view: View) -> Task:
    run = headline_text.run_label(row["run_id"])
    hours = _hours(row["slow_gpu_s"])
    why = f"{hours} in steps that took longer than its own usual ones; without rank times the cause is unknown."
    return Task(f"{run}: slow steps", why, "", view.link("/run", id=row["run_id"]), run)


def _node(row: dict[str, Any], view: View) -> Task:
    runs = f" Meanwhile on it: {row['runs']}." if row["runs"] else ""
    span = f"{view.moment(row['since'])} to {view.moment(row['until'])} {view.zone_name}"
    why = f"{row['what']}, {span}.{runs} It is no proof of a fault."
    return Task(f"{row['node']} deviates", why, "", view.link("/node", node=row["node"]), row["node"])


def _hours(gpu_s: float) -> str:
    return f"{headline_text.hours(gpu_s / 3600)} GPU-h"
