"""One run: where its time went, why it restarted, how far from the hardware's limit."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from dash import html

from app.errors import UsageError
from app.explorer import components, filters
from app.explorer.one_run import ends, parts
from app.explorer.one_run.cards import cards
from app.explorer.one_run.data import RunPage
from app.explorer.page import ExplorerPage, PageData, Section
from app.explorer.questions import QuestionSpec, section
from app.explorer.row_texts import texts_of
from app.results import headline_text
from app.results.constants import computed_constants
from app.results.ettr import ettr_run_rows
from app.results.failures.interruptions import restart_rows
from app.results.mfu import mfu_run_rows
from app.results.runs.joins import JOINED_BY
from app.results.runs.runs import resolve_run, run_steps, run_timeline, similar_runs
from app.run_page.one_run import OneRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader


def gather(source: Reader, window: Window, run_id: str) -> RunPage:
    """Read the data of the page.

    Args:
        source: where from.
        window: cluster and time.
        run_id: which run.

    Raises:
        UsageError: there is no such run in the window.
    """
    own = OneRun(source, window.cluster, run_id)
    run = _row(own, window, run_id)
    mine = pl.col("run_id") == run_id  # another run may have attempts of the same job
    ettr = ettr_run_rows(own, window).filter(mine)
    joined = own.query("run_attempts", cluster=window.cluster).filter(mine)
    interruptions = own.query("interruptions", **window.parameters)
    restarts = restart_rows(own, window).filter(mine)
    key = ["scheduler", "job_id", "submitted_at"]
    attempts = (
        joined.select(*key, "attempt_no", "joined_by")
        .join(own.query("attempts", cluster=window.cluster).drop("cluster"), on=key, how="left")
        .join(interruptions.select(*key, "class", "cause", "node", "detail"), on=key, how="left")
        .join(restarts.select(*key, "time_to_job_restart_s").unique(key), on=key, how="left")
        .with_columns(n_gpus=pl.col("milli_gpus") / 1000)
        .sort("attempt_no", "submitted_at")
    )
    steps = run_steps(own, window.cluster, run_id)
    return RunPage(
        window=window,
        run=run,
        ettr=ettr.row(0, named=True) if ettr.height else None,
        timeline=run_timeline(own, window.cluster, run_id),
        steps=steps,
        mfu=_mfu_rows(own, window, run_id, logged=bool(steps.height)),
        convention=computed_constants(own, window.cluster).get("flop_convention", ""),
        attempts=attempts,
        interruptions=interruptions,
    )


def several(job_id: str, run_ids: Sequence[str], view: View) -> Component:
    """The page where a job id belongs to more than one run: Slurm reuses ids."""
    return components.panel(
        f"{len(run_ids):,} runs have a job {job_id}",
        html.P("Slurm reuses job ids, and the jobs of an array share one. Choose a run; the newest comes first."),
        html.Ul([html.Li(components.link(run_id, view.link("/run", id=run_id))) for run_id in run_ids]),
    )


def _mfu_rows(source: OneRun, window: Window, run_id: str, *, logged: bool) -> pl.DataFrame:
    """MFU as it was stored for this window; worked out if this is no window that numbers are stored for."""
    stored = source.query("run_mfu", cluster=window.cluster, run_id=run_id, since=window.since, until=window.until)
    if stored.height or not logged:
        return stored
    return mfu_run_rows(source, window, run_id)


def head(source: Reader, window: Window, run_id: str) -> dict[str, Any]:
    """The run's row of `show runs`: what stands above the sections, and is there at once.

    Raises:
        UsageError: there is no such run in the window.
    """
    return _row(OneRun(source, window.cluster, run_id), window, run_id)


def _row(own: OneRun, window: Window, run_id: str) -> dict[str, Any]:
    rows = own.query("runs", **window.parameters)
    if rows.is_empty():
        raise UsageError(
            f"run {run_id!r} has no time in this period; choose a longer one. The page Runs lists the runs of this "
            "period"
        )
    return rows.row(0, named=True)


def _head(run: dict[str, Any], view: View) -> Component:
    """Which run it is, whose, and the command that prints its page."""
    return html.Div(
        [
            html.Div(
                [
                    components.link("Runs", view.link("/runs")),
                    components.link("Beside another run", view.link("/compare", a=run["run_id"])),
                ],
                className="crumbs pager",
            ),
            html.Div([html.H1(run["name"] or run["run_id"]), components.state_badge(run["state"])], className="title"),
            components.facts(
                [
                    ("Run", run["run_id"]),
                    ("User", run["user"]),
                    ("Account", run["account"]),
                    ("Partition", run["partition"]),
                    ("GPUs", headline_text.gpus(run["n_gpus"])),
                    ("Attempts", f"{run['n_attempts']:,}"),
                    ("Joined by", _joined_by(run)),
                    (view.titled("Started"), view.moment(run["started_at"])),
                    (view.titled("Ended"), view.moment(run["ended_at"]) if run["ended_at"] else "not yet"),
                ]
            ),
            components.code(view.completed(_command(run["run_id"], view))),
        ],
        className="run-head",
    )


def _joined_by(run: dict[str, Any]) -> str | None:
    """By what its attempts became one run; None where there is one attempt."""
    return None if run["n_attempts"] == 1 else JOINED_BY.get(run["joined_by"], run["joined_by"])


def _command(run_id: str, view: View) -> str:
    """The command that prints the run's page."""
    return f"trackside run {shlex.quote(run_id)} --cluster {shlex.quote(view.window.cluster)}"


def _attempts(attempts: pl.DataFrame, view: View) -> Component:
    linked = attempts.with_columns(
        node_href=texts_of(attempts["node"], lambda node: view.link("/node", node=node)),
        joined_by=pl.col("joined_by").replace(JOINED_BY),
    )
    return components.panel(
        "Attempts",
        components.grid(
            linked,
            [
                components.column("attempt_no", "No.", "count", width=65),
                components.column("job_id", "Job", minWidth=80, flex=1),
                components.column("joined_by", "Joined by", "text", minWidth=190, flex=1),
                components.column("state", "State", minWidth=115, flex=2),
                components.column("class", "Class", minWidth=115, flex=2),
                components.column("cause", "Cause", "words", minWidth=115, flex=2),
                components.column("node", "Node", href="node_href", minWidth=90, flex=1),
                components.column("started_at", view.titled("Started"), "time", width=145, minWidth=140),
                components.column("ended_at", view.titled("Ended"), "time", width=145, minWidth=140),
                components.column("n_nodes", "Nodes", "count", width=80),
                components.column("n_gpus", "GPUs", "count", width=75),
                components.column("time_to_job_restart_s", "To next start", "seconds", width=130, minWidth=115),
            ],
            name="attempts",
            height=420,
            zone=view.zone,
        ),
        right=components.export_button("attempts"),
    )


def runs_of_address(data: PageData, view: View) -> list[str]:
    """Ids of the runs that the address may mean.

    Raises:
        UsageError: it means none.
    """
    text = view.get("id")
    if not text:
        raise UsageError(
            "id: the run is missing. The address of a run is like /run?id=1234; the page Runs lists all runs"
        )
    run_ids = data.answers.ask(resolve_run, view.window.cluster, text)
    if not run_ids:
        alike = data.answers.ask(similar_runs, view.window.cluster, text)
        suggested = f" Did you mean: {', '.join(alike)}?" if alike else ""
        raise UsageError(f"{view.window.cluster} has no run and no job {text!r}.{suggested} The page Runs lists all.")
    return run_ids


def run_of(data: PageData, view: View) -> RunPage:
    """All of the one run that the address means: what its sections share.

    Raises:
        UsageError: it means none, or several.
    """
    run_ids = runs_of_address(data, view)
    if len(run_ids) > 1:
        raise UsageError(f"id: {len(run_ids):,} runs have a job {view.get('id')!r}; choose one of them")
    return data.answers.ask(gather, view.window, run_ids[0])


def _gather(data: PageData, view: View) -> dict[str, Any] | list[str]:
    """The row of the run of the address, or the ids of several that it may mean."""
    run_ids = runs_of_address(data, view)
    return run_ids if len(run_ids) > 1 else data.answers.ask(head, view.window, run_ids[0])


def _layout(found: dict[str, Any] | list[str], view: View) -> Component:
    return _head(found, view) if isinstance(found, dict) else several(view.get("id"), found, view)


def _find(data: PageData, view: View) -> View:
    """The view of the first cluster that has the run or job of an address; `SEVERAL` where it means several runs."""
    view = replace(view, params={name: value for name, value in view.params.items() if name != SEVERAL})
    text, named = view.get("id"), view.get("cluster")
    for cluster in [named] if named else [each.cluster for each in view.situation.computed]:
        run_ids = data.answers.ask(resolve_run, cluster, text) if text else []
        if run_ids:
            found = view if named else _in_cluster(view, cluster)
            return replace(found, params={**found.params, SEVERAL: "yes"}) if len(run_ids) > 1 else found
    return view


def _in_cluster(view: View, cluster: str) -> View:
    return replace(filters.resolve(view.situation, {**view.params, "cluster": cluster}), options=view.options)


SEVERAL: Final = "several"
"""A parameter of the view, never of the address, where several runs may be meant: there is nothing to show of one."""


QUESTIONS = (
    QuestionSpec("checkpoints", title="How often it should save", run="id"),
    QuestionSpec("interruptions", by="event", title="What its interruptions cost", run="id", chosen=False),
    QuestionSpec("stalls", title="Times without a step", run="id", chosen=False),
    QuestionSpec("stragglers", title="What its ranks waited for", run="id", chosen=False),
)


def _part(name: str, title: str, layout: Callable[[RunPage, View], Component], height: int) -> Section:
    """A section about the run as a whole: all of these wait for the same reading."""
    return Section(name, title, run_of, layout, height=height, kept=True)


PARTS = (
    _part("numbers", "Its numbers", lambda data, _: html.Div(cards(data), className="cards five"), 150),
    _part("why", ends.WHY, lambda data, view: ends.panel(data.interruptions, view), 190),
    _part("where", parts.WHERE, lambda data, _: parts.where(data), 150),
    _part("over-time", "Timeline", lambda data, _: parts.timeline(data), 420),
    _part("duration", "Steps", lambda data, view: parts.steps(data, view.completed), 560),
    _part("conventions", "MFU by convention", lambda data, _: parts.mfu(data.mfu), 320),
    _part("attempts", "Attempts", lambda data, view: _attempts(data.attempts, view), 420),
    _part("ends", "Why attempts ended", lambda data, view: ends.ends(data.interruptions, view), 480),
)

PAGE = ExplorerPage(
    "/run",
    "Run",
    None,
    _gather,
    _layout,
    parent="/runs",
    find=_find,
    sections=lambda view: [] if view.get(SEVERAL) else [*PARTS, *(section(each) for each in QUESTIONS)],
    questions={each.anchor: each for each in QUESTIONS},
)
