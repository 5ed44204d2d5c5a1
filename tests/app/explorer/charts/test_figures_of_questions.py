"""Figures of questions: speed of a GPU by number of GPUs, for recipes that ran on several; and bars."""

from __future__ import annotations

import polars as pl

from app.explorer.charts.question_figures import bars
from app.explorer.charts.scaling_figure import reading, speed_by_size

SIZES = pl.DataFrame(
    {
        "recipe": ["7B", "7B", "70B"],
        "n_gpus": [8.0, 16.0, 512.0],
        "batch": [64.0, 128.0, 1024.0],
        "n": [1, 2, 1],
        "tokens_per_gpu_s": [4000.0, 3900.0, 900.0],
        "ci_low": [3950.0, None, 890.0],
        "ci_high": [4100.0, None, 910.0],
    }
)


def test_a_recipe_on_two_sizes_is_drawn_with_intervals() -> None:
    made = speed_by_size(SIZES, "size")
    assert made is not None
    (drawn,) = made.data
    assert (drawn.name, list(drawn.x), list(drawn.y)) == ("7B", [8.0, 16.0], [4000.0, 3900.0])
    assert (list(drawn.error_y.arrayminus), list(drawn.error_y.array)) == ([50.0, 0.0], [100.0, 0.0])
    assert list(made.layout.xaxis.ticktext) == ["8", "16"]
    assert reading(SIZES).endswith("Not drawn, only in the table: 70B.")


def test_nothing_is_drawn_without_two_sizes_or_by_day() -> None:
    assert speed_by_size(SIZES.tail(1), "size") is None
    assert speed_by_size(SIZES, "day") is None


def test_bars_of_zeros_alone_are_not_drawn() -> None:
    rows = pl.DataFrame({"node": ["a", "b"], "cost": [0.0, 0.0]})
    assert bars("cost", "GPU-hours")(rows, "node") is None
    assert bars("cost", "GPU-hours")(rows.with_columns(cost=pl.Series([0.0, 2.0])), "node") is not None
