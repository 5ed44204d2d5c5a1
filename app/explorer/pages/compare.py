"""Two runs side by side: what they requested, what they got, how they ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dash_mantine_components as dmc
import polars as pl
from dash import html

from app import formatting
from app.errors import UsageError
from app.explorer import components, wording
from app.explorer.one_run import parts
from app.explorer.page import ExplorerPage, Section
from app.explorer.pages import run, runs
from app.explorer.questions import heading
from app.results import headline_text
from app.results.mfu import headline_mfu
from app.results.runs.runs import resolve_run
from dashboards import palette
from metrics.categories import COSTLY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dash.development.base_component import Component

    from app.explorer.filters import View
    from app.explorer.one_run.data import RunPage
    from app.explorer.page import PageData

SIDES = ("a", "b")
"""Parameters of the address: a run or a job each."""


def _gather(data: PageData, view: View) -> list[RunPage]:
    return [_run(data, view, view.get(side)) for side in SIDES]


def _run(data: PageData, view: View, text: str) -> RunPage:
    """The run that a run id or a job id means.

    Raises:
        UsageError: there is none, or more than one.
    """
    found = data.answers.ask(resolve_run, view.window.cluster, text)
    if len(found) != 1:
        many = f"is a job of {len(found):,} runs: {', '.join(found[:5])}" if found else "is no run and no job"
        raise UsageError(f"{view.window.cluster}: {text!r} {many}; the page Runs lists all runs")
    return data.answers.ask(run.gather, view.window, found[0])


def _layout(pair: list[RunPage], view: View) -> Component:
    facts = [_facts(each, view) for each in pair]
    links = [components.link(each.run["run_id"], view.link("/run", id=each.run["run_id"])) for each in pair]
    rows = [html.Tr([html.Th(""), *[html.Th(each, scope="col") for each in links]])]
    for name, first in facts[0].items():
        second = facts[1][name]
        differs = "" if first == second else "differs"
        rows.append(html.Tr([html.Th(name, scope="row"), html.Td(first), html.Td(second)], className=differs))
    return components.panel(
        "Side by side",
        html.Div(html.Table([*rows[:1], html.Tbody(rows[1:])], className="side-by-side"), className="scrolls"),
        note="What differs is bold.",
    )


def _facts(page: RunPage, view: View) -> dict[str, str]:
    """The compared values as text; unknown ones as such."""
    row, ettr = page.run, page.ettr or {}
    restarts = page.attempts["time_to_job_restart_s"].drop_nulls()
    mfu = headline_mfu(page.mfu.to_dicts(), page.convention)
    steps = page.steps["duration_s"].drop_nulls() if page.steps.height else None
    causes = page.interruptions["cause"].drop_nulls().value_counts(sort=True).head(3).rows()
    return {
        **{name.capitalize(): row[name] or "-" for name in ("name", "user", "account", "partition", "state")},
        "GPUs": headline_text.gpus(row["n_gpus"]),
        "Attempts": f"{row['n_attempts']:,}",
        view.titled("Started"): view.moment(row["started_at"]),
        view.titled("Ended"): view.moment(row["ended_at"]) if row["ended_at"] else "not yet",
        "GPU-hours": headline_text.amount(ettr.get("allocated"), "gpu_h"),
        "ETTR": _ettr(ettr),
        "Cost GPU-hours": _lost(page),
        "MFU": f"{formatting.measured(mfu['value'], 'ratio')} ({mfu['convention']})" if mfu else "cannot tell",
        "Median step": formatting.measured(None if steps is None else steps.median(), "s"),  # type: ignore[arg-type]  # polars types median() broadly
        "Steps": f"{page.steps.height:,}" if page.steps.height else "no run log",
        "Interruptions": f"{page.interruptions.height:,}",
        "Mostly by": ", ".join(f"{wording.in_words(cause)} ({count:,})" for cause, count in causes) or "-",
        "Restarts": f"{restarts.len():,}",
        "Median time to restart": formatting.measured(restarts.median(), "s"),  # type: ignore[arg-type]  # as above
    }


def _ettr(ettr: Mapping[str, Any]) -> str:
    """The value, with its bounds where they are apart."""
    value, low, high = (formatting.measured(ettr.get(name), "ratio") for name in ("ettr", "ettr_low", "ettr_high"))
    return value if low == high else f"{value}, at least {low}, at most {high}"


def _lost(page: RunPage) -> str:
    """GPU-hours of its attempts that could have trained and did not, with what most of them went to."""
    hours = parts.hours_by_category(page.timeline)
    if hours.is_empty():
        return formatting.NOTHING
    costly = hours.filter(pl.col("category").is_in(COSTLY), pl.col("gpu_hours") > 0)
    costly = costly.sort("gpu_hours", "category", descending=[True, False])
    if costly.is_empty():
        return headline_text.hours(0.0)
    most = palette.swatch(costly["category"][0]).label.lower()
    return f"{headline_text.hours(float(costly['gpu_hours'].sum()))}, mostly {most}"


def _offered(data: PageData, view: View) -> list[str]:
    """Runs to choose from: the largest of the period."""
    found = data.answers.ask(runs.gather, view.window, runs.run_filter_of(view), runs.ListOrder())
    return found.rows["run_id"].to_list()


def _top(offered: list[str], view: View) -> Component:
    inputs = [
        dmc.Autocomplete(
            id={"type": "filter", "name": side}, label=f"Run {side.upper()}", value=view.get(side), debounce=600,
            data=offered, limit=50, placeholder="choose one, or type the id of a run or job", size="sm",
        )
        for side in SIDES
    ]  # fmt: skip
    lead = "Choose two runs, or type the id of any run or job; the largest runs of the period are offered."
    return html.Div([heading("Two runs side by side", lead), html.Div(inputs, className="two")])


PAGE = ExplorerPage(
    "/compare",
    "Two runs",
    "compare",
    _offered,
    _top,
    position=23,
    group="Runs",
    sections=lambda view: (
        [Section("side-by-side", "Side by side", _gather, _layout)] if all(view.get(side) for side in SIDES) else []
    ),
)
