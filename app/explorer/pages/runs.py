"""The list of runs: find one, open it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import dash_mantine_components as dmc
import polars as pl
from dash import html

from app.errors import UsageError
from app.explorer import components, phone_columns, row_filters
from app.explorer.filters import address
from app.explorer.one_run import log_pages
from app.explorer.page import ExplorerPage, PageData
from app.explorer.row_texts import texts_of
from app.results.stored import stored_rows
from app.show.answer import Question
from app.show.questions.runs.runs import runs as runs_answer
from ingest.counted import counted

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.window import Window
    from queries.warehouse import Reader

FILTERS = ("user", "account", "partition", "state")
"""Columns that can be narrowed to one value."""

OF_ATTEMPTS = row_filters.CHOSEN_BETWEEN
"""Facts of a run's attempts: a run matches if one of them does. Offered where there are several values."""

ROWS = 200
"""Runs on one page of the list: the others are never sent."""

ORDERS = {
    "gpus": ("Most GPUs", "n_gpus"),
    "hours": ("Most GPU-hours", "allocated"),
    "started": ("Newest", "started_at"),
    "ended": ("Ended last", "ended_at"),
    "attempts": ("Most attempts", "n_attempts"),
}
"""How the list can be sorted: what people read, and the column."""

RunFilter: TypeAlias = "tuple[tuple[str, str], ...]"
"""What a run has to match: `text` in its id, name or user, and a value of each of `FILTERS` and `OF_ATTEMPTS`; empty:
any."""


@dataclass(frozen=True)
class ListOrder:
    """Which part of the list: sorted by one of `ORDERS`, after the first `skipped`."""

    sort: str = "gpus"
    skipped: int = 0


@dataclass(frozen=True)
class ListedRuns:
    """What the page shows of a window's runs.

    Attributes:
        rows: of `trackside show runs` that match: `ROWS` of them.
        matching: how many runs match.
        total: how many runs there are.
        choices: the values of each of `FILTERS`, and of those of `OF_ATTEMPTS` that have several.
        by_logs: the number of further runs with logs only.
    """

    rows: pl.DataFrame
    matching: int
    total: int
    choices: dict[str, frozenset[str]]
    by_logs: int = 0


def gather(source: Reader, window: Window, run_filter: RunFilter, order: ListOrder = ListOrder()) -> ListedRuns:
    """The runs of a window that match: those of all the data as they are stored, those of another window computed."""
    whole = source.query("computed", cluster=window.cluster).select("since", "until").rows()
    if whole == [(window.since, window.until)] and stored_rows(source, window, ()) is not None:
        return _stored(source, window, run_filter, order)
    rows = runs_answer(source, window, Question()).rows
    values = {name: dict(run_filter)[name] for name in OF_ATTEMPTS}
    matching = row_filters.runs_of(source, window, values) if any(values.values()) else rows["run_id"]
    found = listed(rows.filter(pl.col("run_id").is_in(matching.implode())), run_filter, order)
    return replace(found, total=rows.height, choices=_choices(source.query("run_choices", **window.parameters)))


def _choices(values: pl.DataFrame) -> dict[str, frozenset[str]]:
    return {name: frozenset(each) for name, each in row_filters.offered(values, (*FILTERS, *OF_ATTEMPTS)).items()}


def _stored(source: Reader, window: Window, run_filter: RunFilter, order: ListOrder) -> ListedRuns:
    parameters = {**window.parameters, **dict(run_filter), "sort": order.sort}
    rows = source.query("listed_runs", **parameters, most=ROWS, skipped=order.skipped)
    values = source.query("run_choices", **window.parameters)
    total = sum(values.filter(pl.col("name") == FILTERS[0])["runs"].to_list())
    return ListedRuns(rows.drop("matching"), rows["matching"][0] if rows.height else 0, total, _choices(values))


def listed(rows: pl.DataFrame, run_filter: RunFilter, order: ListOrder = ListOrder()) -> ListedRuns:
    """The rows of `trackside show runs` that match in what is a column of theirs."""
    values, shown = dict(run_filter), rows
    if text := values["text"]:
        matches = [
            pl.col(name).fill_null("").str.to_lowercase().str.contains(text, literal=True)
            for name in ("run_id", "name", "user")
        ]
        shown = shown.filter(pl.any_horizontal(matches))
    for name in FILTERS:
        if value := values[name]:
            shown = shown.filter(pl.col(name) == value)
    choices = {name: frozenset(map(str, rows[name].drop_nulls().unique())) for name in FILTERS}
    return ListedRuns(_sorted(shown, order.sort).slice(order.skipped, ROWS), shown.height, rows.height, choices)


def _sorted(rows: pl.DataFrame, sort: str) -> pl.DataFrame:
    """As the named query sorts: a run that has not ended is the last to end; nothing known comes last."""
    column = ORDERS[sort][1]
    rank = pl.col(column).fill_null(_NEVER) if sort == "ended" else pl.col(column)
    return rows.with_columns(rank.alias("_rank")).sort(
        "_rank", "started_at", "run_id", descending=[True, False, False], nulls_last=[True, False, False]
    ).drop("_rank")  # fmt: skip


_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


def order_of(view: View) -> ListOrder:
    """The part of the list that the address requests.

    Raises:
        UsageError: it cannot be sorted so, or it begins nowhere.
    """
    sort, skipped = view.get("sort", "gpus"), view.get("skip", "0")
    if sort not in ORDERS:
        raise UsageError(f"sort: runs cannot be sorted by {sort!r}; there are: {', '.join(ORDERS)}")
    if not skipped.isdecimal() or len(skipped) > LONGEST_NUMBER:
        raise UsageError(f"skip: {skipped!r} is no number of runs")
    return ListOrder(sort, int(skipped))


LONGEST_NUMBER = 9
"""Digits of a number of runs."""


def run_filter_of(view: View) -> RunFilter:
    """The filters of the address."""
    return (("text", view.get("q").lower()), *((name, view.get(name)) for name in (*FILTERS, *OF_ATTEMPTS)))


def layout(result: ListedRuns, view: View) -> Component:
    """The page."""
    linked = result.rows.with_columns(href=texts_of(result.rows["run_id"], lambda run: view.link("/run", id=run)))
    search = dmc.TextInput(
        id={"type": "filter", "name": "q"},
        value=view.get("q"),
        placeholder="run, name or user",
        label="Search",
        debounce=400,
        size="sm",
        leftSection=components.icon("search"),
    )
    choices = [
        dmc.Select(
            id={"type": "filter", "name": name},
            label=row_filters.label(name),
            data=sorted(result.choices.get(name, frozenset()) | ({view.get(name)} - {""})),
            value=view.get(name) or None,
            clearable=True,
            searchable=True,
            placeholder="any",
            size="sm",
        )
        for name in (*FILTERS, *OF_ATTEMPTS)
        if name in FILTERS or name in result.choices or view.get(name)
    ]
    sort = dmc.Select(
        id={"type": "filter", "name": "sort"},
        label="Sorted by",
        data=[{"value": name, "label": label} for name, (label, _) in ORDERS.items()],
        value=view.get("sort", "gpus"),
        allowDeselect=False,
        size="sm",
    )
    return html.Div(
        [
            html.H1("Runs"),
            html.Div([search, *choices, sort], className="filters"),
            components.panel(
                f"{result.matching:,} of {counted(result.total, 'run')}"
                if result.matching != result.total
                else counted(result.total, "run"),
                components.grid(
                    linked,
                    [
                        components.column("run_id", "Run", "run", href="href", flex=3, minWidth=135),
                        components.column("name", "Name", flex=3, minWidth=134),
                        components.column("user", "User", flex=1, minWidth=72),
                        components.column("state", "State", flex=6, minWidth=104),
                        components.column("n_gpus", "GPUs", "count", width=70, minWidth=66),
                        components.column("n_attempts", "Attempts", "count", width=82, minWidth=82),
                        components.column("started_at", view.titled("Started"), "time", width=140, minWidth=140),
                        components.column("ended_at", view.titled("Ended"), "time", width=140, minWidth=140),
                        components.column("allocated", "GPU-h", "gpu_h", width=80, minWidth=80),
                        components.column("ettr_low", "ETTR at least", "ratio", width=88, minWidth=84),
                        components.column("ettr_high", "at most", "ratio", width=84, minWidth=80),
                    ],
                    name="runs",
                    height=640,
                    zone=view.zone,
                    first=phone_columns.FIRST["runs"],
                    empty="No run matches. Clear a filter, or take a longer period.",
                ),
                _pager(result, view),
                log_pages.to_list(result.by_logs),
                note="Joined from the scheduler's attempts; click a run to see where its time went.",
                right=components.export_button("runs"),
            ),
        ],
        className="page",
    )


def _pager(result: ListedRuns, view: View) -> Component | None:
    """Which runs of those that match are shown, and links to those before and after."""
    first = order_of(view).skipped
    if not first and result.matching <= ROWS:
        return None
    params = {key: value for key, value in view.params.items() if key != "skip"}
    links = []
    if first:
        links.append(components.link("Earlier rows", address("/runs", {**params, "skip": _skip(first - ROWS)})))
    if first + ROWS < result.matching:
        links.append(components.link("Later rows", address("/runs", {**params, "skip": _skip(first + ROWS)})))
    shown = f"{first + 1:,} to {first + result.rows.height:,} of {result.matching:,}"
    return html.Div([html.Span(shown, className="small"), *links], className="pager")


def _skip(number: int) -> str:
    return str(number) if number > 0 else ""


def _gather(data: PageData, view: View) -> ListedRuns:
    found = data.answers.ask(gather, view.window, run_filter_of(view), order_of(view))
    return replace(found, by_logs=log_pages.others(data))


PAGE = ExplorerPage("/runs", "Runs", "runs", _gather, layout, position=20, group="Runs")
