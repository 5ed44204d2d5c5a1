"""What GPU-time cost, by the prices of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.results.people.use import renamed_users
from metrics import frames
from metrics.people import cost as metric
from metrics.people.names import with_latest_names

if TYPE_CHECKING:
    from app.config.cost import Cost
    from app.window import RowSource, Window


def prices_of(settings: Cost) -> pl.DataFrame:
    """The configured prices: `metrics.people.cost.PRICES`."""
    rows = [(each.gpu_model, each.since, each.per_gpu_hour) for each in settings.prices]
    return pl.DataFrame(rows, schema=metric.PRICES, orient="row")


def grid_of(settings: Cost) -> pl.DataFrame:
    """The configured factors of the grid: `metrics.people.cost.GRID`."""
    return pl.DataFrame([(each.since, each.kg_per_kwh) for each in settings.grid], schema=metric.GRID, orient="row")


def cost_rows(source: RowSource, window: Window, settings: Cost, dimension: str = "cluster") -> pl.DataFrame:
    """What the GPU-time of each subject cost, its energy and emissions: `metrics.people.cost.cost`."""
    spent = frames.conform(source.query("gpu_time_to_price", dimension=dimension, **window.parameters), metric.TO_PRICE)
    if dimension == "user":
        days = spent.with_columns(at=pl.col("day").cast(frames.TIME))
        spent = with_latest_names(days, renamed_users(source, window), user="subject", at="at").drop("at")
    return metric.cost(spent, prices_of(settings), grid_of(settings), pue=settings.pue)
