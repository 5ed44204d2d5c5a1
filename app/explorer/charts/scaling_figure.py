"""The figure of scaling: speed of a GPU by the number of GPUs, for each recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.explorer.charts import figures
from app.explorer.charts.question_figures import ends
from app.explorer.charts.survival_figure import CURVES

if TYPE_CHECKING:
    import plotly.graph_objects as go

_NEEDED: Final = {"recipe", "n_gpus", "batch", "n", "tokens_per_gpu_s", "ci_low", "ci_high"}

_SPEEDS: Final = [step * 10**power for power in range(8) for step in (1, 2, 5)]
"""Where the axis of speeds has ticks: plotly shows those within its range."""


def speed_by_size(rows: pl.DataFrame, by: str) -> go.Figure | None:
    """Tokens per second of a GPU by number of GPUs, with 95 % intervals: level where scaling costs nothing.

    Args:
        rows: of the question `scaling`, one for each size of a recipe.
        by: what they are split by.

    Returns:
        None where no recipe has two numbers of GPUs.
    """
    if by != "size" or not set(rows.columns) >= _NEEDED:
        return None
    known = rows.filter(pl.col("tokens_per_gpu_s") > 0)
    recipes = drawn_recipes(known)
    if not recipes:
        return None
    made = figures.blank(320, hovermode="closest", margin={"t": 34})
    for recipe, (colour, mark) in zip(recipes, CURVES, strict=False):
        made.add_scatter(**_points(known.filter(pl.col("recipe") == recipe).sort("n_gpus", "batch"), colour, mark))
    gpus = known.filter(pl.col("recipe").is_in(recipes))["n_gpus"].unique().sort().to_list()
    made.update_xaxes(type="log", title={"text": "GPUs"}, tickvals=gpus, ticktext=[f"{each:,.0f}" for each in gpus])
    made.update_yaxes(
        type="log",
        title={"text": "tokens/s per GPU"},
        showgrid=True,
        tickvals=_SPEEDS,
        ticktext=[f"{each:,}" for each in _SPEEDS],
    )
    return made


def drawn_recipes(rows: pl.DataFrame) -> list[str]:
    """Recipes that ran on two numbers of GPUs at least, those on most of them first, as many as there are colours."""
    sizes = rows.group_by("recipe").agg(pl.col("n_gpus").n_unique())
    several = sizes.filter(pl.col("n_gpus") > 1).sort("n_gpus", "recipe", descending=[True, False])
    return several["recipe"].head(len(CURVES)).to_list()


def reading(rows: pl.DataFrame) -> str:
    """How to read the figure, and which recipes it leaves out."""
    more = sorted(set(rows["recipe"]) - set(drawn_recipes(rows)))
    left_out = f" Not drawn, only in the table: {'; '.join(more)}." if more else ""
    return f"A point is a global batch. Level points: more GPUs cost no speed. Bars: 95 % interval.{left_out}"


def _points(sizes: pl.DataFrame, colour: str, mark: str) -> dict[str, Any]:
    speeds = sizes["tokens_per_gpu_s"].to_list()
    return {
        "x": sizes["n_gpus"].to_list(),
        "y": speeds,
        "name": figures.safe(sizes["recipe"].item(0)),
        "mode": "markers",
        "marker": {"color": colour, "symbol": mark, "size": 8},
        "error_y": {**(ends(sizes, speeds, "ci_low", "ci_high", 1.0) or {}), "color": colour, "thickness": 1},
        "customdata": sizes.select("batch", "n").rows(),
        "hovertemplate": "%{x:,} GPUs, batch %{customdata[0]:,}: %{y:,.0f} tokens/s per GPU, "
        "%{customdata[1]:,} runs<extra></extra>",
    }
