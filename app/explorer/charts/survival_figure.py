"""The figure of survival: how many attempts no interruption has ended by an age, and how many were observed then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from plotly.subplots import make_subplots

from app.explorer.charts import figures
from metrics.failures.exposure import OVER_128, POOLED

if TYPE_CHECKING:
    import plotly.graph_objects as go

FEWEST: Final = 5
"""Least interruptions for a curve: one of fewer steps shows nothing about ages."""

THIN: Final = 10
"""Attempts under observation below which a curve is dotted: one more interruption would change it much."""

CURVES: Final = (("#0072B2", "circle"), ("#D55E00", "square"), ("#009E73", "diamond"), ("#CC79A7", "triangle-up"))
"""Colour and mark of a curve: as many sizes are drawn, those with most interruptions."""

DAY_S: Final = 86_400.0


def survival(rows: pl.DataFrame, _: str) -> go.Figure | None:
    """Kaplan-Meier of infrastructure's interruptions by the size of jobs, with 95 % intervals and numbers at risk.

    Args:
        rows: points of curves, as `metrics.failures.hazard.CURVES`.

    Returns:
        None where no size has enough interruptions.
    """
    sizes = drawn_sizes(rows)
    if not sizes:
        return None
    made = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.7, 0.3], vertical_spacing=0.06)
    made.update_layout(template=figures.TEMPLATE, height=480, hovermode="closest", margin={"t": 34})
    for size, (colour, mark) in zip(sizes, CURVES, strict=False):
        points = _curves(rows).filter(pl.col("size") == size).sort("age_s")
        _interval(made, points, size, colour)
        _curve(made, points, size, colour, mark)
        _at_risk(made, points, size, colour)
    made.update_yaxes(title={"text": "not interrupted"}, tickformat=".0%", rangemode="tozero", showgrid=True, row=1)
    made.update_yaxes(title={"text": "at risk"}, type="log", dtick=1, showgrid=True, row=2)
    made.update_xaxes(rangemode="tozero")
    made.update_xaxes(title={"text": "age of the attempt (days)"}, row=2)
    return made


def left_out(rows: pl.DataFrame) -> str:
    """How to read the figure, and of which sizes it has no curve, and why."""
    drawn = drawn_sizes(rows)
    counts = _failures(rows)
    few = [f"{_of_size(size)} ({n:,})" for size, n in counts.items() if n < FEWEST]
    more = [f"{_of_size(size)} ({n:,})" for size, n in counts.items() if n >= FEWEST and size not in drawn]
    return " ".join(
        [
            f"Infrastructure's interruptions by GPUs of the job, 95 % intervals (log-log); dotted: fewer than {THIN} "
            "attempts were still under observation.",
            *([f"Not drawn, fewer than {FEWEST} interruptions: {', '.join(few)}."] if few else []),
            *([f"Not drawn, since {len(CURVES)} curves are: {', '.join(more)}."] if more else []),
        ]
    )


def drawn_sizes(rows: pl.DataFrame) -> list[str]:
    """Sizes of which there is a curve, those of jobs of one size before mixed ones, in the order of the rows."""
    counts = {size: n for size, n in _failures(rows).items() if n >= FEWEST}
    most = sorted(counts, key=lambda size: (_MIXED.get(size, 0), -counts[size]))[: len(CURVES)]
    return [size for size in counts if size in most]


_MIXED: Final = {OVER_128.label: 1, POOLED.label: 2}
"""Sizes that put jobs of several sizes together, and their rank behind the others: the narrower one first."""


def _of_size(size: str) -> str:
    """What a size is called in a sentence."""
    return "all sizes" if size == POOLED.label else size


def _curves(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("curve") == "survival", pl.col("class") == "infrastructure")


def _failures(rows: pl.DataFrame) -> dict[str, int]:
    """Interruptions of each size that has any."""
    counts = _curves(rows).group_by("size", maintain_order=True).agg(pl.col("n_failures").sum())
    return dict(counts.iter_rows())


def _curve(made: go.Figure, points: pl.DataFrame, size: str, colour: str, mark: str) -> None:
    """The steps, dotted from where few are left."""
    begin = [0.0, *(points["age_s"] / DAY_S).to_list()]
    values = [1.0, *points["value"].to_list()]
    ends = ["", *(_end(*each) for each in points.select("ci_low", "ci_high", "at_risk").iter_rows())]
    enough = points.filter(pl.col("at_risk") >= THIN).height + 1
    failures = int(points["n_failures"].sum())
    label = f"{_of_size(size)}{'' if size == POOLED.label else ' GPUs'}, {failures:,} interrupted"
    for part, dash in ((slice(0, enough), "solid"), (slice(enough - 1, None), "dot")):
        made.add_scatter(
            x=begin[part], y=values[part], customdata=ends[part], name=label, legendgroup=size,
            showlegend=dash == "solid", mode="lines+markers", marker={"symbol": mark, "size": 5},
            line={"shape": "hv", "dash": dash, "color": colour, "width": 2},
            hovertemplate="%{x:.3g} days: %{y:.1%} not interrupted%{customdata}<extra></extra>", row=1, col=1,
        )  # fmt: skip


def _end(low: float | None, high: float | None, at_risk: int) -> str:
    interval = "" if low is None or high is None else f", 95 % {low:.1%} to {high:.1%}"
    return f"{interval}, {at_risk:,} at risk"


def _interval(made: go.Figure, points: pl.DataFrame, size: str, colour: str) -> None:
    """The band between the ends of the interval."""
    known = points.filter(pl.col("ci_low").is_not_null(), pl.col("ci_high").is_not_null())
    days = (known["age_s"] / DAY_S).to_list()
    shared = {"x": days, "legendgroup": size, "showlegend": False, "hoverinfo": "skip", "mode": "lines"}
    line = {"width": 0, "shape": "hv"}
    made.add_scatter(y=known["ci_low"].to_list(), line=line, **shared, row=1, col=1)
    tint = f"rgba({','.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))},0.13)"
    made.add_scatter(y=known["ci_high"].to_list(), line=line, fill="tonexty", fillcolor=tint, **shared, row=1, col=1)


def _at_risk(made: go.Figure, points: pl.DataFrame, size: str, colour: str) -> None:
    """How many attempts were under observation just before each age at which one was interrupted."""
    made.add_scatter(
        x=(points["age_s"] / DAY_S).to_list(), y=points["at_risk"].to_list(), legendgroup=size, showlegend=False,
        mode="lines", line={"shape": "vh", "color": colour, "width": 1.5},
        hovertemplate="%{x:.3g} days: %{y:,} at risk<extra></extra>", row=2, col=1,
    )  # fmt: skip
