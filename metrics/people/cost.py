"""Cost of GPU-time, by prices that are data: per GPU model and from a date on; and its energy and emissions.

Prices and grid factors come from the configuration. GPU-time without a price is counted in GPU-hours and
never in money, so each cost has the share of the GPU-time that it covers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.exact import exact_sum
from metrics.metric import Metric
from metrics.units import HOUR_S

if TYPE_CHECKING:
    from datetime import date

TO_PRICE: frames.Schema = {
    "cluster": frames.TEXT,
    "subject": frames.TEXT,
    "state": frames.TEXT,
    "category": frames.TEXT,
    "evidence": frames.TEXT,
    "gpu_model": frames.TEXT,
    "day": pl.Date(),
    "gpu_seconds": pl.Decimal(38, 9),
    "energy_gpu_s": frames.NUMBER,
    "energy_j": frames.NUMBER,
}
"""GPU-time by UTC day and GPU model, and the energy of the part whose power is known: `gpu_time_to_price`."""

PRICES: frames.Schema = {"gpu_model": frames.TEXT, "since": pl.Date(), "per_gpu_hour": frames.NUMBER}
"""Price of an hour of a GPU from a day on; `since` null: from ever. A model is words of its name; empty: any."""

GRID: frames.Schema = {"since": pl.Date(), "kg_per_kwh": frames.NUMBER}
"""Kilograms of CO2 equivalent of a kilowatt-hour from a day on; `since` null: from ever."""

J_PER_KWH: Final = 3.6e6

_UNSURE: Final = pl.col("category").eq("unattributed") | pl.col("evidence").eq("assumed")
"""Allocated time that may have been productive, for all that is known."""


def price_of(gpu_model: str | None, day: date, prices: list[tuple[str, date | None, float]]) -> float | None:
    """The price of an hour of a GPU on a day; None where there is none.

    A price is for a GPU if all of the words of its model are in the GPU's name, in any case, as in
    `metrics.mfu.peaks.gpu_of`. Of several the one with most words counts, and of those the latest before that day.

    >>> from datetime import date
    >>> prices = [("", None, 1.0), ("h100", None, 2.5), ("h100", date(2026, 10, 1), 2.0)]
    >>> price_of("NVIDIA-H100-80GB-HBM3", date(2026, 10, 1), prices), price_of(None, date(2026, 10, 1), prices)
    (2.0, 1.0)
    >>> price_of("h200", date(2026, 10, 1), prices[1:]) is None
    True
    """
    name = _words(gpu_model or "")
    fitting = [
        (len(_words(model)), since is not None, since or day, number, price)
        for number, (model, since, price) in enumerate(prices)
        if _words(model) <= name and (since is None or since <= day)
    ]
    return max(fitting)[4] if fitting else None


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def priced(spent: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """With the price of each row.

    Args:
        spent: `TO_PRICE`.
        prices: `PRICES`.

    Returns:
        `spent` with `per_gpu_hour`; null where no price is for that model on that day.
    """
    rows = prices.select(*PRICES).rows()
    models = spent.select("gpu_model", "day").unique()
    found = [price_of(model, day, rows) for model, day in models.rows()]
    table = models.with_columns(per_gpu_hour=pl.Series(found, dtype=pl.Float64))
    return spent.join(table, on=["gpu_model", "day"], how="left", nulls_equal=True, maintain_order="left")


def cost(spent: pl.DataFrame, prices: pl.DataFrame, grid: pl.DataFrame, *, pue: float = 1.0) -> pl.DataFrame:
    """Cost of the GPU-time of each subject, its productive part, and its energy and emissions.

    Args:
        spent: `TO_PRICE`.
        prices: `PRICES`, in one currency.
        grid: `GRID`.
        pue: power usage effectiveness: energy of the site per energy of its GPUs.

    Returns:
        By `cluster` and `subject`, the dearest first: `gpu_s`; `priced_gpu_s` of these, that have a price; `cost` of
        those (null of none); `productive_cost` and `productive_cost_high` (what is not known to be productive counted
        so, too); `lost_cost`; `idle_cost` (idle and out of service); `productive_gpu_s` that have a price;
        `per_productive_gpu_h` (cost over these hours; null of none); `allocated_gpu_s`; `energy_gpu_s` of these whose
        power is known; `energy_j` of those with the site's share (null of none); `co2_kg`, and `emitted_j`, the energy
        it is of.
    """
    rows = _emitted(priced(spent, prices), grid)
    gpu_s, price = pl.col("gpu_seconds").cast(pl.Float64), pl.col("per_gpu_hour") / HOUR_S
    has_price, money = price.is_not_null(), pl.col("gpu_seconds").cast(pl.Float64) * price
    productive, allocated = pl.col("category") == "productive", pl.col("state") == "allocated"
    kwh = pl.col("energy_j") / J_PER_KWH * pue

    def sum_of(value: pl.Expr, where: pl.Expr) -> pl.Expr:
        return exact_sum(value.filter(where))

    any_price, any_energy = has_price.any(), pl.col("energy_j").is_not_null().any()
    emitted = pl.col("kg_per_kwh").is_not_null() & pl.col("energy_j").is_not_null()
    sums = rows.group_by("cluster", "subject").agg(
        exact_sum(pl.col("gpu_seconds")).alias("gpu_s"),
        sum_of(gpu_s, has_price).alias("priced_gpu_s"),
        pl.when(any_price).then(exact_sum(money)).alias("cost"),
        pl.when(any_price).then(sum_of(money, productive & ~_UNSURE)).alias("productive_cost"),
        pl.when(any_price).then(sum_of(money, productive | (allocated & _UNSURE))).alias("productive_cost_high"),
        pl.when(any_price).then(sum_of(money, pl.col("category") == "lost")).alias("lost_cost"),
        pl.when(any_price).then(sum_of(money, ~allocated)).alias("idle_cost"),
        sum_of(gpu_s, productive & has_price & ~_UNSURE).alias("productive_gpu_s"),
        sum_of(gpu_s, allocated).alias("allocated_gpu_s"),
        exact_sum(pl.col("energy_gpu_s")).alias("energy_gpu_s"),
        pl.when(any_energy).then(exact_sum(pl.col("energy_j") * pue)).alias("energy_j"),
        pl.when(emitted.any()).then(sum_of(kwh * pl.col("kg_per_kwh"), emitted)).alias("co2_kg"),
        sum_of(pl.col("energy_j") * pue, emitted).alias("emitted_j"),
    )
    hours = pl.col("productive_gpu_s") / HOUR_S
    return sums.with_columns(per_productive_gpu_h=pl.when(hours > 0).then(pl.col("cost") / hours)).sort(
        "cost", "gpu_s", "subject", descending=[True, True, False], nulls_last=True
    )


def _emitted(rows: pl.DataFrame, grid: pl.DataFrame) -> pl.DataFrame:
    """With `kg_per_kwh` of the day: the latest factor that had begun; null where none had."""
    ever = pl.col("since").fill_null(pl.date(1, 1, 1))
    factors = grid.select(ever.cast(pl.Date).alias("since"), "kg_per_kwh").sort("since").unique("since", keep="last")
    return rows.sort("day").join_asof(factors.sort("since"), left_on="day", right_on="since", strategy="backward")


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="cost",
        unit="currency",
        summary="Cost of GPU-time, by the configured prices per GPU-hour of each GPU model, from a day on.",
        formula="sum over the ledger of GPU-hours x price of the node's GPU model on that UTC day",
        query="gpu_time_to_price",
        function=cost,
        interval="none: a census; GPU-time without a price is listed apart. Of what was productive: at least, at most",
        source="ours",
        show="cost",
    ),
    Metric(
        name="energy",
        unit="J",
        summary="Energy of allocated GPU-time, by telemetry of GPUs, else by Slurm's measurement of whole nodes.",
        formula="sum of mean power of the attempt x its GPU-seconds in the window x PUE",
        query="gpu_time_to_price",
        function=cost,
        interval="none: of the share of GPU-time whose power is known, which is given beside it",
        source="ours",
        show="cost",
    ),
    Metric(
        name="emissions",
        unit="kg",
        summary="CO2 equivalent of the energy, by the configured factor of the grid on that day.",
        formula="sum of energy x kilograms per kilowatt-hour of the UTC day",
        query="gpu_time_to_price",
        function=cost,
        interval="none: of the energy that is known",
        source="ours",
        show="cost",
    ),
)
