"""Runs with logs only: their list, and the page of one. No accounting, cluster or computation is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import polars as pl
from dash import html

from app.access import people
from app.errors import UsageError
from app.explorer import commands, components, wording
from app.explorer.filters import address, parameters
from app.explorer.one_run import cards, logged, parts
from app.explorer.page import Addresses, PageData
from app.explorer.row_texts import texts_of
from app.formatting import duration, measured, minute
from app.results import headline_text
from app.run_page.next_steps import next_steps
from app.run_page.training import advice_text
from app.run_page.unknowns import unknowns
from dashboards import palette
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash.development.base_component import Component

    from app.explorer.one_run.data import RunPage
    from app.run_page.contents import RunContents
    from queries.warehouse import Reader

TITLE: Final = "Runs by their logs"

LIST, RUN = "/runs", "/run"

PAGE: Final = "logs"
"""The parameter of the list: how many runs come before those that are shown."""


class LogPageData(Addresses, Protocol):
    """The data of these pages.

    Attributes:
        rules: those of the configuration, as JSON.
    """

    rules: str

    @property
    def options(self) -> str:
        """What commands of pages need."""


def known(reader: Reader, run_id: str, cluster: str) -> tuple[str, str] | None:
    """Cluster and id of the run that a text means, if it has a log only; an empty `cluster`: of any."""
    found = reader.query("run_candidates", text=run_id, job=run_id, cluster=cluster or None)
    return (found["cluster"][0], found["run_id"][0]) if found.height and found["logged_only"][0] else None


def count(reader: Reader) -> int:
    """The number of runs with logs only."""
    rows = reader.query("logged_runs", most=1, skipped=0)
    return int(rows["matching"][0]) if rows.height else 0


def instead(explorer: LogPageData, path: str, search: str | None, *, computed: bool) -> Component | None:
    """What an address shows of such runs; None where it is about others, or to whoever sees only their own.

    Args:
        explorer: the data.
        path: of the address.
        search: its parameters.
        computed: whether other numbers are there: then the list is shown on request only.
    """
    if not people.current().sees_all:
        return None
    if path == RUN:
        return of_run(explorer, search)
    is_list = path == LIST and PAGE in parameters(search) if computed else path in {"/", LIST}
    return _list(explorer, path, search) if is_list else None


def others(data: PageData) -> int:
    """The number of runs with logs only, for people who may see them; else 0."""
    return data.answers.ask(count) if people.current().sees_all else 0


def to_list(runs: int) -> Component | None:
    """A link from the list of other runs to that of these."""
    if not runs:
        return None
    words = "1 more run is known by its log alone" if runs == 1 else f"{runs:,} more runs are known by their logs alone"
    return html.P(components.link(words, address(LIST, {PAGE: "0"})), className="small")


def _list(explorer: LogPageData, path: str, search: str | None) -> Component | None:
    found = explorer.answers.ask(logged.listed, explorer.rules, _skipped(parameters(search)))
    if not found.matching:
        return None
    why = html.P(
        [
            "Runs with a log but without accounting. The cluster's goodput, queues and failing nodes need ",
            components.link("accounting", "/docs/sources/slurm.md"),
            ", too.",
        ],
        className="lead",
    )
    head = html.Div([html.H1(TITLE), why], className="page-head")
    return html.Div([head, panel(found, path, parameters(search))], className="page")


def _skipped(params: Mapping[str, str]) -> int:
    text = params.get(PAGE, "0")
    if not text.isdecimal() or len(text) > _LONGEST:
        raise UsageError(f"{PAGE}: {text!r} is no number of runs")
    return int(text)


_LONGEST: Final = 9
"""Digits of a number of runs."""


def panel(found: logged.LoggedRuns, path: str, params: Mapping[str, str]) -> Component:
    """The list of runs, the newest first."""
    rows = found.rows.with_columns(
        href=texts_of(
            found.rows.iter_rows(named=True),
            lambda row: address(RUN, {"id": row["run_id"], "cluster": row["cluster"]}),
        )
    )
    cluster = [components.column("cluster", "Cluster", minWidth=90, flex=1)] if found.n_clusters > 1 else []
    columns = [
        components.column("run_id", "Run", "run", href="href", flex=3, minWidth=150),
        *cluster,
        components.column("goodput", "Job goodput", "ratio", flex=1, minWidth=84),
        components.column("ettr", "ETTR", "ratio", flex=1, minWidth=76),
        components.column("mfu", "MFU", "ratio", flex=1, minWidth=76),
        components.column("steps", "Steps", "count", flex=1, minWidth=82),
        components.column("lost", "Steps lost", "count", flex=1, minWidth=82),
        components.column("processes", "Processes", "count", flex=1, minWidth=88),
        components.column("gpus", "GPUs", "count", width=70, minWidth=66),
        components.column("started_at", "First line (UTC)", "time", width=140, minWidth=140),
        components.column("ended_at", "Last line (UTC)", "time", width=140, minWidth=140),
    ]
    return components.panel(
        f"{found.matching:,} {'run' if found.matching == 1 else 'runs'}",
        components.grid(rows, columns, name="logged", empty="No more runs."),
        _pager(found, path, params),
        note="The newest first; click a run to see where its time went. Steps lost were executed again later. "
        "Processes: how often it was started. A dash: unknown; the run's page lists what its log lacks.",
        right=components.export_button("logged"),
    )


def _pager(found: logged.LoggedRuns, path: str, params: Mapping[str, str]) -> Component | None:
    first = found.skipped
    if not first and found.matching <= logged.ROWS:
        return None
    links = [
        components.link(words, address(path, {**params, PAGE: str(skip)}))
        for words, skip in (("Newer runs", first - logged.ROWS), ("Older runs", first + logged.ROWS))
        if 0 <= skip < found.matching
    ]
    shown = f"{first + 1:,} to {first + found.rows.height:,} of {found.matching:,}"
    return html.Div([html.Span(shown, className="small"), *links], className="pager")


# One run ------------------------------------------------------------------------------------------------------------


def of_run(explorer: LogPageData, search: str | None) -> Component | None:
    """The page of the run of the address; None where it is not a run with a log only."""
    found = _run_of_address(explorer, search)
    if found is None:
        return None
    contents, data = found
    return html.Div(
        [
            _head(contents, explorer.options),
            html.Div(_cards(contents, data), className="cards five"),
            _where(contents),
            parts.timeline(data),
            parts.steps(data, lambda text: commands.completed(text, explorer.options)),
            *([parts.mfu(data.mfu)] if data.mfu.height else []),
            _processes(contents),
            _saving(contents),
            _unknown(contents, explorer.options),
        ],
        className="page",
    )


def steps_of(explorer: LogPageData, search: str) -> pl.DataFrame | None:
    """Every step of the run of the address; None where it is not a run with a log only."""
    found = _run_of_address(explorer, search)
    return None if found is None else found[1].steps


def _run_of_address(explorer: LogPageData, search: str | None) -> tuple[RunContents, RunPage] | None:
    """The numbers and the charts of the run of the address; None where it is not a run with a log only."""
    params = parameters(search)
    named = explorer.answers.ask(known, params.get("id", ""), params.get("cluster", ""))
    return None if named is None else explorer.answers.ask(logged.page_of, *named, explorer.rules)


def _head(contents: RunContents, options: str) -> Component:
    last, read = contents.log_read or (contents.window.until, None)
    model = next((str(row["gpu_model"]) for row in contents.attempts if row["gpu_model"]), None)
    facts = [
        ("Run", contents.choice.run_id),
        ("Cluster", contents.choice.cluster),
        ("GPUs", headline_text.gpus(contents.gpus)),
        ("GPU model", model),
        ("Processes", f"{len(contents.attempts):,}"),
        ("First line (UTC)", minute(contents.window.since)),
        ("Last line (UTC)", minute(last)),
        ("Log last read (UTC)", None if read is None else minute(read)),
    ]
    first, *_ = next_steps(contents)
    return html.Div(
        [
            html.Div([components.link(TITLE, address(LIST, {PAGE: "0"}))], className="crumbs pager"),
            html.Div([html.H1(contents.choice.run_id), components.state_badge("LOG ONLY")], className="title"),
            components.facts(facts),
            components.code(commands.completed(first.command, options)),
        ],
        className="run-head",
    )


def _cards(contents: RunContents, data: RunPage) -> list[Component]:
    goodput = None if contents.goodput is None else contents.goodput["value"]
    gaps = [row["gap_s"] for row in contents.attempts if row["gap_s"]]
    waited = f"{duration(sum(gaps))} between its processes" if gaps else "one process"
    return [
        cards.card(
            "Job goodput",
            measured(goodput, "ratio"),
            *cards.small("of the time since its first process, as Google defines it"),
            has_value=goodput is not None,
        ),
        cards.ettr_card(contents.ettr),
        cards.mfu_card(data.mfu, data.convention),
        cards.steps_lost(data.steps, data.window),
        cards.card("Started again", f"{max(len(contents.attempts) - 1, 0):,}", *cards.small(waited)),
    ]


def _where(contents: RunContents) -> Component:
    held = [(each.category, each.gpu_s / 3600) for each in contents.parts if each.category not in _WAITS]
    whole = sum(hours for _, hours in held)
    if not whole:
        return components.panel(parts.WHERE, html.P("Its log has no times.", className="nothing"))
    causes = [
        html.Li(f"{palette.swatch(each.category).label}: {', '.join(_caused(each.causes, contents.unit))}")
        for each in contents.parts
        if each.causes
    ]
    unit = "GPU-hours" if contents.gpus else "hours (its log does not record the number of GPUs)"
    return components.panel(
        parts.WHERE,
        components.stacked_bar(held, whole),
        html.Ul(causes, className="small") if causes else None,
        note=f"{headline_text.hours(whole)} {unit} of its processes.",
    )


_WAITS: Final = frozenset({"queued", "requeued"})
"""Categories in which it holds no GPUs."""


def _caused(causes: tuple[tuple[str, float], ...], unit: str) -> list[str]:
    return [f"{wording.in_words(cause)} {headline_text.hours(gpu_s / 3600)} {unit}" for cause, gpu_s in causes]


def _processes(contents: RunContents) -> Component:
    names = ("attempt_no", "node", "started_at", "ended_at", "gap_s", "first", "last", "lost")
    rows = pl.DataFrame([{name: row[name] for name in names} for row in contents.attempts], infer_schema_length=None)
    return components.panel(
        "Processes",
        components.grid(
            rows,
            [
                components.column("attempt_no", "No.", "count", width=65),
                components.column("node", "Node of rank 0", flex=2, minWidth=110),
                components.column("started_at", "First line (UTC)", "time", width=145, minWidth=140),
                components.column("ended_at", "Last line (UTC)", "time", width=145, minWidth=140),
                components.column("gap_s", "Nothing logged before", "seconds", flex=1, minWidth=110),
                components.column("first", "From step", "count", flex=1, minWidth=84),
                components.column("last", "To step", "count", flex=1, minWidth=84),
                components.column("lost", "Steps lost", "count", flex=1, minWidth=84),
            ],
            name="processes",
        ),
        note="Each is an attempt of the timeline. A log does not record why a process ended. "
        "Steps lost: a later process executed them again.",
        right=components.export_button("processes"),
    )


def _saving(contents: RunContents) -> Component:
    row = contents.checkpoints
    if row is None or not row["n_checkpoints"]:
        why = "Its log has no checkpoints, so the best interval is unknown. log.checkpoint(step) records them."
        return components.panel("How often it should save", html.P(why, className="nothing"))
    every = "at unknown times" if row["interval_s"] is None else f"every {duration(row['interval_s'])} of training"
    blocks = f", each blocks {duration(row['write_s'])}" if row["write_s"] else ""
    advice = advice_text(contents, row)
    return components.panel(
        "How often it should save",
        html.P(f"{advice[:1].upper()}{advice[1:]}.", className="answer"),
        note=f"{counted(row['n_checkpoints'], 'checkpoint')} saved, {every}{blocks}.",
    )


def _unknown(contents: RunContents, options: str) -> Component:
    listed = [
        html.Li([html.B(each.what), f": {commands.completed(each.because, options)}"]) for each in unknowns(contents)
    ]
    more = [
        html.Div([html.P(each.purpose, className="small"), components.code(commands.completed(each.command, options))])
        for each in next_steps(contents)
    ]
    return components.panel("What the log lacks, and where to get more", html.Ul(listed), *more)
