"""Parts of a run's page with and without accounting of the run: where its time went, steps, MFU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from dash import html

from app import formatting
from app.explorer import components
from app.explorer.charts import figures
from app.explorer.one_run.cards import NO_MFU
from app.results import headline_text
from dashboards import palette
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from dash.development.base_component import Component

    from app.explorer.one_run.data import RunPage

WHERE: Final = "Where its GPU-time went"


def hours_by_category(timeline: pl.DataFrame) -> pl.DataFrame:
    """GPU-hours of a run's attempts: `category`, `gpu_hours`.

    Args:
        timeline: `app.results.runs.runs.run_timeline`.
    """
    held = timeline.filter((pl.col("category") != palette.QUEUED.name) & pl.col("ended_at").is_not_null())
    length_s = (pl.col("ended_at") - pl.col("started_at")).dt.total_microseconds() / 1e6
    return held.group_by("category").agg(gpu_hours=(length_s / 3600 * pl.col("gpus").cast(pl.Float64)).sum())


def where(data: RunPage) -> Component:
    """Where its GPU-time went, as one bar."""
    hours = hours_by_category(data.timeline)
    whole = float(hours["gpu_hours"].sum())
    if not whole:
        return components.panel(WHERE, html.P("None of its GPU-time is accounted for yet.", className="nothing"))
    return components.panel(
        WHERE,
        components.stacked_bar(list(hours.iter_rows()), whole),
        note=f"{headline_text.hours(whole)} GPU-hours over all its attempts, within this period or not.",
    )


def timeline(data: RunPage) -> Component:
    """What its attempts did when."""
    if data.timeline.is_empty():
        return components.panel("Timeline", html.P("No attempt of this run has held GPUs yet.", className="nothing"))
    legend = [
        html.Span(
            [components.dot(palette.swatch(name)), html.Span(palette.swatch(name).label)], className="legend-item"
        )
        for name in (palette.QUEUED.name, *palette.ORDER)
        if name in set(data.timeline["category"])
    ]
    if data.interruptions.height:
        legend.append(html.Span([html.Span("✕", className="mark"), html.Span("Interruption")], className="legend-item"))
    return components.panel(
        "Timeline",
        html.Div(legend, className="legend"),
        components.figure(figures.timeline(data.timeline, data.interruptions), "timeline", "The attempts over time"),
        note="One line per attempt of its whole life, times in UTC. What less than "
        f"{figures.VISIBLE:.0%} of its GPUs did at a time is not drawn.",
    )


def steps(data: RunPage, completed: Callable[[str], str]) -> Component:
    """How long each step took, and where steps were slow; `completed` makes commands read the same warehouse."""
    if data.steps.is_empty():
        return components.panel(
            "Steps",
            html.Div(
                [
                    html.P(
                        "This run has no log, so its steps are unobserved: MFU and lost steps are unknown. "
                        "The recorder is one file without dependencies:"
                    ),
                    components.code(
                        completed(
                            "trackside recorder > trackside_log.py     # copy it beside the training script\n"
                            "trackside ingest runlog run.jsonl && trackside compute"
                        )
                    ),
                ],
                className="nothing",
            ),
        )
    durations = data.steps["duration_s"].drop_nulls()
    median = durations.median() if durations.len() else None
    return components.panel(
        "Steps",
        components.figure(figures.steps(data.steps), STEPS, "Duration of each step over time"),
        html.P(slow_words(data.steps), className="answer"),
        note=f"{counted(data.steps.height, 'step')} over all its attempts"
        + ("" if median is None else f", median {formatting.measured(float(median), 's')}")  # type: ignore[arg-type]  # polars types median() broadly
        + (
            f"; the chart shows {figures.POINTS:,} points, the slowest among them, and more where you zoom in."
            if data.steps.height > figures.POINTS
            else "."
        ),
    )


STEPS = "steps"
"""The chart of a run's steps."""

BLOCK_STEPS = 50
"""Steps whose median is compared with that of all."""

SLOW = 1.2
"""From this many times the median on, a block of steps is called slow."""


def slow_words(rows: pl.DataFrame) -> str:
    """Where kept steps took longer than usual for a while, in words, also where none did.

    Args:
        rows: `app.results.runs.runs.run_steps`.
    """
    kept = rows.filter(pl.col("kept").fill_null(value=True), pl.col("duration_s").is_not_null()).sort("ts")
    if kept.height < 4 * BLOCK_STEPS:
        return "Too few steps to tell whether some were slow for a while."
    usual = float(kept["duration_s"].median())  # type: ignore[arg-type]  # polars types median() broadly
    blocks = (
        kept.with_row_index("_row")
        .group_by(pl.col("_row") // BLOCK_STEPS, maintain_order=True)
        .agg(pl.col("duration_s").median(), pl.col("ts").first(), pl.col("step").first(), last=pl.col("step").last())
    )
    slow = blocks.filter(pl.col("duration_s") >= SLOW * usual)
    if not usual or slow.is_empty():
        return f"In no block of {BLOCK_STEPS} steps did the median step take {SLOW:g} times as long as usual."
    worst = slow.sort("duration_s", descending=True).row(0, named=True)
    return (
        f"In {slow.height:,} of {blocks.height:,} blocks of {BLOCK_STEPS} steps the median step took {SLOW:g} times "
        f"as long as usual ({formatting.measured(usual, 's')}) or more. The slowest: steps {worst['step']:,} to "
        f"{worst['last']:,}, "
        f"{worst['duration_s'] / usual:.2g} times as long, from {formatting.minute(worst['ts'])} UTC on."
    )


def mfu(rows: pl.DataFrame) -> Component:
    """MFU by each convention that the log allows: rows of `mfu_run_rows`."""
    if rows["value"].null_count() == rows.height:
        why = "; ".join(rows["note"].drop_nulls().unique(maintain_order=True)) or NO_MFU
        return components.panel("MFU by convention", html.P(why, className="nothing"))
    noted = rows["note"].null_count() < rows.height
    return components.panel(
        "MFU by convention",
        components.grid(
            rows,
            [
                components.column("convention", "Convention", flex=2, minWidth=145),
                components.column("dtype", "Type", flex=1, minWidth=70),
                components.column("value", "MFU (mean)", "ratio", flex=1, minWidth=100),
                components.column("median", "Median", "ratio", flex=1, minWidth=90),
                components.column("ci_low", "95 % from", "ratio", flex=1, minWidth=90),
                components.column("ci_high", "to", "ratio", flex=1, minWidth=80),
                components.column("n", "Steps", "count", flex=1, minWidth=85),
                *([components.column("note", "Note", flex=3, minWidth=140)] if noted else []),
            ],
            name="mfu",
        ),
        note="Conventions count work differently; compare only values of one convention.",
        right=components.export_button("mfu"),
    )
