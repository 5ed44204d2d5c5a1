"""The numbers at the top of a run's page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl
from dash import html

from app import formatting
from app.explorer import components
from app.results import headline_text
from app.results.mfu import headline_mfu
from ingest.counted import counted
from metrics import frames

if TYPE_CHECKING:
    from dash.development.base_component import Component

    from app.explorer.one_run.data import RunPage
    from app.window import Window

NO_MFU: Final = "no run log with tokens and model size"
"""Why a run without a log has no MFU."""

_DEFINED: Final = {"ETTR": "ettr", "MFU": "mfu", "Steps lost": "lost", "Restarts": "time_to_job_restart"}
"""Cards by their titles: the definition that each opens."""


def card(title: str, value: str, *more: Component | None, has_value: bool = True) -> Component:
    """A number with what belongs to it; its title leads to its definition."""
    about = _DEFINED.get(title)
    named = html.Span(title, className="card-title")
    return html.Div(
        [
            components.link(title, f"/definitions#{about}", class_name="card-title link") if about else named,
            html.Span(value, className="card-value" if has_value else "card-value unknown"),
            *more,
        ],
        className="card still",
    )


def small(*texts: str) -> list[Component]:
    """Lines beneath a number."""
    return [html.Span(each, className="small") for each in texts if each]


def cards(data: RunPage) -> list[Component]:
    """ETTR, MFU, steps lost, restarts and GPU-hours."""
    hours = 0.0 if data.ettr is None else data.ettr["allocated"]
    restarts = data.attempts["time_to_job_restart_s"].drop_nulls()
    median = restarts.median() if restarts.len() else None
    return [
        ettr_card(data.ettr),
        mfu_card(data.mfu, data.convention),
        steps_lost(data.steps, data.window),
        card(
            "Restarts",
            f"{restarts.len():,}",
            *small("" if median is None else f"median {formatting.measured(float(median), 's')} to restart"),  # type: ignore[arg-type]  # polars types median() broadly
        ),
        card("GPU-hours", headline_text.amount(hours, "gpu_h"), *small("allocated in this period")),
    ]


def steps_lost(steps: pl.DataFrame, window: Window) -> Component:
    """Of the steps that began in the period, those that were run again."""
    low, high = pl.lit(window.since, dtype=frames.TIME), pl.lit(window.until, dtype=frames.TIME)
    began = steps.filter((pl.col("ts") >= low) & (pl.col("ts") < high))
    if began.is_empty():
        why = "no step was logged in this period" if steps.height else "no run log"
        return card("Steps lost", formatting.CANNOT_TELL, *small(why), has_value=False)
    lost = began.filter(~pl.col("kept").fill_null(value=True)).height
    return card(
        "Steps lost",
        f"{lost:,}",
        *small(f"of {began.height:,} logged in this period: repeated after an interruption"),
    )


def ettr_card(row: dict[str, Any] | None) -> Component:
    """ETTR with its arithmetic."""
    if row is None:
        return card("ETTR", formatting.CANNOT_TELL, *small("the run held no GPUs in this period"), has_value=False)

    def gpu_h(name: str) -> str:
        return headline_text.amount(row[name], "gpu_h")

    has_value = row["ettr"] is not None
    low, high = row["ettr_low"], row["ettr_high"]
    bounds = f"at least {formatting.measured(low, 'ratio')}, at most {formatting.measured(high, 'ratio')}"
    return card(
        "ETTR",
        formatting.measured(row["ettr"], "ratio"),
        components.span_bar(low, high, value=row["ettr"], target=None, top=1.0, what=bounds)
        if low is not None
        else None,
        html.Span(bounds, className="card-line") if low != high else None,
        *small(
            f"{gpu_h('productive')} productive"
            + (f" (+ {gpu_h('unseen')} unobserved)" if row["unseen"] else "")
            + (f" (+ {gpu_h('beside_idle')} active beside an idle GPU)" if row["beside_idle"] else "")
            + f" / ({gpu_h('queued_initial')} first queue + {gpu_h('queued_requeue')} requeue + "
            f"{gpu_h('allocated')} allocated) GPU-h"
        ),
        has_value=has_value,
    )


def mfu_card(mfu: pl.DataFrame, convention: str) -> Component:
    """MFU with its interval."""
    row = headline_mfu(mfu.to_dicts(), convention)
    if row is None:
        notes = [str(note) for note in mfu["note"].drop_nulls()[:1]] if mfu.height else [NO_MFU]
        return card("MFU", formatting.CANNOT_TELL, *small(*notes), has_value=False)
    interval = ""
    if row["ci_low"] is not None and row["ci_high"] is not None:
        low, high = (formatting.measured(row[bound], "ratio") for bound in ("ci_low", "ci_high"))
        interval = f"95 % interval {low} to {high}"
    return card(
        "MFU",
        formatting.measured(row["value"], "ratio"),
        components.span_bar(
            row["ci_low"], row["ci_high"], value=row["value"], target=None, top=1.0, what=interval or "MFU"
        ),
        html.Span(interval, className="card-line") if interval else None,
        *small(f"{row['convention']}, {row['dtype']}, {counted(row['n'], 'step')}"),
    )
