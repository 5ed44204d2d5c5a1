"""The question of `trackside show` about what GPU-time cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.people.cost import cost_rows, grid_of, prices_of
from app.show.answer import MOST_EXPLAINED, Answer, Details, Question, with_values
from app.show.questions.cluster.lost import SUBJECT_IN_WORDS
from app.show.registry import question
from app.show.sentences import gpu_hours, percent
from metrics.people import cost as metric

if TYPE_CHECKING:
    from app.config.cost import Cost
    from app.window import Window
    from queries.warehouse import Reader

HOW_TO_PRICE: Final = (
    "No price is configured. Write into trackside.toml, a table for each GPU model and date:\n"
    "  [cost]\n"
    '  currency = "EUR"\n'
    "  [[cost.prices]]\n"
    '  gpu_model = "h100"\n'
    "  since = 2026-01-01\n"
    "  per_gpu_hour = 2.10"
)
"""How prices are configured; the price is an example."""


@question(
    "cost",
    "what GPU-time cost, and its energy",
    help="what GPU-time cost by the prices of the configuration, what of that trained, its energy and emissions\n"
    "--by account, user, partition, run, category, model, day, cluster",
    by=("account", "user", "partition", "run", "category", "model", "day", "cluster"),
    position=42,
)
def cost(source: Reader, window: Window, question: Question) -> Answer:
    """What GPU-time cost, by subject."""
    configured = question.configured.cost
    by = question.dimension
    rows = cost_rows(source, window, configured, by).with_columns(
        pl.lit("cost").alias("metric"), energy_kwh=pl.col("energy_j") / metric.J_PER_KWH
    )
    money = configured.currency or "money"
    return Answer(
        f"What GPU-time cost, by {by}",
        rows,
        with_values(rows, _columns(by, money, configured)),
        headline=_headline(rows, money),
        ranked=("gpu_s", "cost", "productive_cost", "lost_cost", "energy_kwh", "co2_kg"),
        in_words=(SUBJECT_IN_WORDS,) if rows.schema["subject"] == pl.String else (),
        metrics=("cost", "energy", "emissions"),
        queries=("gpu_time_to_price",),
        notes=(*_prices_missing(rows, configured), *_energy(rows, configured)),
        parameters=window.parameters | {"dimension": by},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts=_PARTS,
        details=_details(configured) if question.details else (),
        when_empty="No GPU-time is known in this window: is it within what `trackside status` covers?",
    )


def _columns(by: str, money: str, configured: Cost) -> dict[str, tuple[str, str]]:
    """Columns for people: money only where prices are configured, emissions only where the grid's factor is."""
    costs = {
        "cost": (money, "number"),
        "productive_cost": ("productive, at least", "number"),
        "productive_cost_high": ("productive, at most", "number"),
        "lost_cost": ("lost", "number"),
        "idle_cost": ("idle or out of service", "number"),
        "per_productive_gpu_h": ("per productive GPU-h", "number"),
        "priced_gpu_s": ("priced GPU-h", "gpu_h"),
    }
    return {
        "subject": (by, "text"),
        "gpu_s": ("GPU-h", "gpu_h"),
        **(costs if configured.prices else {}),
        "energy_kwh": ("kWh", "number"),
        **({"co2_kg": ("kg CO2e", "number")} if configured.grid else {}),
        "energy_gpu_s": ("GPU-h of known power", "gpu_h"),
    }


_PARTS: Final = {
    "metric": "metric",
    "subject": "subject",
    "value": "cost",
    "numerator_gpu_s": "priced_gpu_s",
    "denominator_gpu_s": "gpu_s",
    "bound_low": "productive_cost",
    "bound_high": "productive_cost_high",
    "energy_j": "energy_j",
    "energy_gpu_s": "energy_gpu_s",
    "allocated_gpu_s": "allocated_gpu_s",
    "emitted_j": "emitted_j",
}


def _headline(rows: pl.DataFrame, money: str) -> str:
    total = rows.select(pl.col("cost", "productive_cost", "productive_cost_high").sum()).row(0)
    if rows.is_empty() or rows["cost"].null_count() == rows.height or not total[0]:
        held = float(rows["gpu_s"].sum())
        return f"{gpu_hours(held)} without a price: the cost is unknown." if rows.height else ""
    low, high = (percent(part / total[0]) for part in total[1:])
    trained = low if low == high else f"{low} to {high}"
    return f"{total[0]:,.0f} {money} in all, of which {trained} trained."


def _prices_missing(rows: pl.DataFrame, configured: Cost) -> tuple[str, ...]:
    """What has no price, and how to give it one."""
    if not configured.prices:
        return (HOW_TO_PRICE,)
    without = float(rows["gpu_s"].sum()) - float(rows["priced_gpu_s"].sum())
    if without < 1:
        return ()
    return (f"{gpu_hours(without)} have no price (GPU model or date): no cost includes them. See --by model.",)


def _energy(rows: pl.DataFrame, configured: Cost) -> tuple[str, ...]:
    """Which part the energy is of, and what is missing for the rest and for emissions."""
    known, held = float(rows["energy_gpu_s"].sum()), float(rows["allocated_gpu_s"].sum())
    if not known:
        return (
            "Energy: cannot tell, neither telemetry of GPU power (trackside ingest prometheus) nor Slurm's "
            "ConsumedEnergyRaw is loaded.",
        )
    of = (
        f"Energy is of the {percent(known / held)} of allocated GPU-time whose power is known; idle GPUs are not in it."
    )
    overhead = "" if configured.pue > 1 else " It is without cooling (config: cost.pue)."
    factor = "" if configured.grid else " Emissions need the grid's factor (config: [[cost.grid]], kg_per_kwh)."
    return (of + overhead + factor,)


def _details(configured: Cost) -> tuple[Details, ...]:
    """The prices and factors that were used."""
    prices, grid = prices_of(configured), grid_of(configured)
    priced = Details(
        f"Prices per GPU-hour ({configured.currency or 'no currency is configured'})",
        prices,
        {"gpu_model": ("GPU model", "text"), "since": ("since", "text"), "per_gpu_hour": ("price", "number")},
    )
    factors = Details(
        "Factors of the grid", grid, {"since": ("since", "text"), "kg_per_kwh": ("kg CO2e per kWh", "number")}
    )
    return tuple(each for each in (priced, factors) if each.rows.height)
