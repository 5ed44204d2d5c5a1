"""Figures of questions, made from the rows of an answer: bars with their intervals, rates by size."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import polars as pl

from app.explorer import wording
from app.explorer.charts import figures
from app.results import headline_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import plotly.graph_objects as go

    Figure = Callable[[pl.DataFrame, str], "go.Figure | None"]

MOST: Final = 12
"""Bars of a figure; the table has all rows."""

LINE: Final = 26
"""Characters of a line of a bar's name."""


def bars(value: str, title: str, *, low: str = "", high: str = "", scale: float = 1.0, words: str = "") -> Figure:
    """Horizontal bars of the largest values, with a line from `low` to `high`.

    Args:
        value: column of the bars.
        title: of the axis.
        low: column of the interval's lower end; empty: none is drawn.
        high: that of its upper end.
        scale: what a value is divided by.
        words: column with the names of bars, where rows have it; else what they are split by.
    """

    def made(rows: pl.DataFrame, by: str) -> go.Figure | None:
        label = next((each for each in (words, by) if each in rows.columns), "subject")
        if not {value, label} <= set(rows.columns) or rows[label].is_duplicated().any():
            return None
        shown = rows.filter(pl.col(value).is_not_null()).sort(value, descending=True).head(MOST).reverse()
        if shown.height < 2 or not shown.select(pl.col(value).max() > 0).item():
            return None
        names = [_label(_named(each, by)) for each in shown[label].to_list()]
        lines = max(name.count("<br>") + 1 for name in names)
        height = 90 + (8 + 16 * lines) * shown.height
        result = figures.blank(height, hovermode="closest", margin={"l": 130, "r": 20, "t": 8, "b": 44})
        values = [float(each) / scale for each in shown[value].to_list()]
        error = ends(shown, values, low, high, scale)
        hover = f"%{{y}}: %{{x:,.4g}} {title}<extra></extra>"
        result.add_bar(y=names, x=values, orientation="h", marker={"color": "#0072B2"}, error_x=error, showlegend=False,
                       ids=shown[label].to_list(), hovertemplate=hover)  # fmt: skip
        result.update_xaxes(title={"text": title}, rangemode="tozero", showgrid=True)
        result.update_yaxes(type="category")
        return result

    return made


def lead_to(made: go.Figure, hrefs: Mapping[str, str | None]) -> bool:
    """Let bars lead to addresses, by what the bars are of; whether any does."""
    named = [each for each in made.data if each.ids is not None]
    for each in named:
        each.customdata = [hrefs.get(subject) for subject in each.ids]
        each.ids = None
    return any(href for each in named for href in each.customdata)


def _named(subject: str, by: str) -> str:
    if by == "run":
        return headline_text.run_label(subject)
    return wording.in_words(subject) if by in wording.NAMED else subject


def _label(text: str) -> str:
    """The name of a bar; a long one in several lines."""
    return "<br>".join(figures.safe(line) for line in textwrap.wrap(text, LINE)) or figures.safe(text)


def ends(rows: pl.DataFrame, values: list[float], low: str, high: str, scale: float) -> dict[str, object] | None:
    """Error bars of plotly from the columns `low` and `high`; an unknown end is at the value. None without columns."""
    if not {low, high} <= set(rows.columns):
        return None
    lows = [value if each is None else float(each) / scale for value, each in zip(values, rows[low], strict=True)]
    highs = [value if each is None else float(each) / scale for value, each in zip(values, rows[high], strict=True)]
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(end - value, 0.0) for value, end in zip(values, highs, strict=True)],
        "arrayminus": [max(value - end, 0.0) for value, end in zip(values, lows, strict=True)],
        "color": figures.DIM,
        "thickness": 1.5,
    }


def mttf_by_size(rows: pl.DataFrame, by: str) -> go.Figure | None:
    """MTTF of attempts by their size, with exact 95 % intervals: infrastructure failures, each attempt counted."""
    if by != "size" or not {"class", "counted", "size", "mttf_d", "mttf_low_d", "mttf_high_d", "gpus_low"} <= set(
        rows.columns
    ):
        return None
    shown = rows.filter(
        pl.col("class") == "infrastructure",
        pl.col("counted") == "attempts",
        pl.col("size") != "pooled",
        ~pl.col("size").str.starts_with("over"),
        pl.col("mttf_d").is_not_null(),
    )
    if shown.is_empty():
        return None
    shown = shown.sort("gpus_low", nulls_last=True)
    result = figures.blank(300, hovermode="closest")
    values = shown["mttf_d"].to_list()
    result.add_scatter(
        x=shown["size"].to_list(), y=values, mode="markers", marker={"size": 9, "color": "#0072B2"},
        error_y=ends(shown, values, "mttf_low_d", "mttf_high_d", 1.0), customdata=shown["n_failures"].to_list(),
        hovertemplate="%{x} GPUs: %{y:.3g} days, %{customdata} failures<extra></extra>", showlegend=False,
    )  # fmt: skip
    result.update_xaxes(type="category", title={"text": "GPUs of a job"})
    result.update_yaxes(type="log", dtick=1, title={"text": "MTTF (days), 95 % interval"}, showgrid=True)
    return result
