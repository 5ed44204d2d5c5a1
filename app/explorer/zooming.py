"""Charts of very many points: after zooming in, the points of that part are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl
from dash import Dash, Input, Output, State, no_update

from app import panics
from app.access import people
from app.access.guard import saw
from app.errors import UsageError
from app.explorer.charts import figures
from app.explorer.filters import NothingYetError
from app.explorer.one_run import log_pages
from app.explorer.one_run.parts import STEPS
from app.explorer.page import pages
from app.explorer.pages.run import run_of
from queries.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping


def register(made: Dash, explorer: log_pages.LogPageData) -> None:
    """Register the callback of a run's steps."""

    @made.callback(
        Output(STEPS, "figure"),
        Input(STEPS, "relayoutData"),
        State("url", "search"),
        prevent_initial_call=True,
        on_error=lambda _: no_update,
    )
    def zoomed(shown: dict[str, Any] | None, search: str | None) -> Any:
        return steps_of(explorer, search or "", shown or {})


def steps_of(explorer: log_pages.LogPageData, search: str, shown: Mapping[str, Any]) -> Any:
    """The chart with the points of the part that is shown: all of them, or the slowest among them where they are many.

    Args:
        explorer: the data.
        search: the address's parameters.
        shown: plotly's report of the axes: a range of times, or that all is shown again.
    """
    whole = bool(shown.get("xaxis.autorange"))
    part = None if whole else _range(shown)
    if part is None and not whole:
        return no_update
    saw("see", path=log_pages.RUN, search=search, section=STEPS)
    try:
        with panics.as_errors():
            steps = _every_step(explorer, search)
    except (UsageError, WarehouseError, NothingYetError):
        return no_update
    rows = steps if part is None else steps.filter(pl.col("ts").is_between(*part))
    return no_update if rows.is_empty() else figures.steps(rows)


def _every_step(explorer: log_pages.LogPageData, search: str) -> pl.DataFrame:
    """The steps of the run of the address."""
    logged = log_pages.steps_of(explorer, search) if people.current().sees_all else None
    if logged is not None:
        return logged
    return run_of(explorer, pages()[log_pages.RUN].view(explorer, search)).steps


def _range(shown: Mapping[str, Any]) -> tuple[datetime, datetime] | None:
    """The times between which the axis runs; None where it was not zoomed."""
    try:
        low, high = (_moment(shown[f"xaxis.range[{end}]"]) for end in (0, 1))
    except (KeyError, ValueError):
        return None
    return low, high


def _moment(text: object) -> datetime:
    """A time of an axis, which is in UTC: plotly writes 2026-10-05 12:34:56.7891."""
    return datetime.fromisoformat(str(text)[:26]).replace(tzinfo=UTC)
