"""What GPU-time costs, against a slow twin."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.people import cost as metric
from metrics.people.cost import GRID, PRICES, TO_PRICE, cost, price_of

FIRST = date(2026, 9, 30)
MODELS = (None, "h100", "NVIDIA-H100-80GB-HBM3", "a100")
STATES = {
    "productive": "allocated",
    "lost": "allocated",
    "unattributed": "allocated",
    "no_demand": "idle",
    "down": "unavailable",
}


def slow(rows: list[dict[str, Any]], prices: list[Any], grid: list[Any], pue: float) -> dict[str, dict[str, Any]]:
    """The same, row by row and by hand."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        sums = found.setdefault(row["subject"], dict.fromkeys(("gpu_s", "priced_gpu_s", "energy_gpu_s"), 0.0))
        gpu_s = float(row["gpu_seconds"])
        sums["gpu_s"] += gpu_s
        sums["energy_gpu_s"] += row["energy_gpu_s"] or 0.0
        price = slow_price(row["gpu_model"], row["day"], prices)
        if price is not None:
            sums["priced_gpu_s"] += gpu_s
            add(sums, "cost", gpu_s / 3600 * price)
            unsure = row["category"] == "unattributed" or row["evidence"] == "assumed"
            trained = row["category"] == "productive"
            add(sums, "productive_cost", gpu_s / 3600 * price if trained and not unsure else 0)
            likely = trained or (row["state"] == "allocated" and unsure)
            add(sums, "productive_cost_high", gpu_s / 3600 * price if likely else 0)
            add(sums, "lost_cost", gpu_s / 3600 * price if row["category"] == "lost" else 0)
            add(sums, "idle_cost", gpu_s / 3600 * price if row["state"] != "allocated" else 0)
        if row["energy_j"] is not None:
            add(sums, "energy_j", row["energy_j"] * pue)
            begun = [each for each in grid if each[0] is None or each[0] <= row["day"]]
            if begun:
                factor = max(begun, key=lambda each: each[0] or date.min)[1]
                add(sums, "co2_kg", row["energy_j"] / 3.6e6 * pue * factor)
    return found


def add(sums: dict[str, Any], name: str, value: float) -> None:
    sums[name] = sums.get(name, 0.0) + value


def slow_price(model: str | None, day: date, prices: list[Any]) -> float | None:
    """Of two models only: a price of `h100` goes before one of any GPU."""
    for wanted in ("h100", ""):
        if wanted == "h100" and "h100" not in (model or "").lower():
            continue
        begun = [
            (since or date.min, price) for name, since, price in prices if name == wanted and (since or day) <= day
        ]
        if begun:
            return float(max(begun)[1])
    return None


days = st.integers(0, 3).map(lambda number: FIRST + timedelta(days=number))
amounts = st.decimals(0, 10**6, places=6)
sold = st.lists(
    st.tuples(st.sampled_from(("h100", "")), st.none() | days, st.integers(0, 40).map(float)),
    max_size=4,
    unique_by=lambda price: price[:2],
)
factors = st.lists(st.tuples(st.none() | days, st.floats(0, 2)), max_size=3, unique_by=lambda factor: factor[0])
spent = st.lists(
    st.fixed_dictionaries(
        {
            "cluster": st.just("c"),
            "subject": st.sampled_from(("ann", "bob")),
            "category": st.sampled_from(sorted(STATES)),
            "evidence": st.sampled_from(("log", "assumed")),
            "gpu_model": st.sampled_from(MODELS),
            "day": days,
            "gpu_seconds": amounts,
            "energy": st.none() | st.floats(0, 1e9),
        }
    ),
    min_size=1,
    max_size=12,
)


@given(spent, sold, factors, st.sampled_from((1.0, 1.3)))
def test_cost_is_that_of_the_slow_twin(
    rows: list[dict[str, Any]], prices: list[Any], grid: list[Any], pue: float
) -> None:
    rows = [
        row
        | {
            "state": STATES[row["category"]],
            "energy_j": row["energy"],
            "energy_gpu_s": None if row["energy"] is None else float(row["gpu_seconds"]),
        }
        for row in rows
    ]
    found = cost(
        pl.DataFrame([{name: row[name] for name in TO_PRICE} for row in rows], schema=TO_PRICE),
        pl.DataFrame(prices, schema=PRICES, orient="row"),
        pl.DataFrame(grid, schema=GRID, orient="row"),
        pue=pue,
    )
    wanted = slow(rows, prices, grid, pue)
    assert sorted(found["subject"]) == sorted(wanted)
    for row in found.iter_rows(named=True):
        for name in (
            "gpu_s", "priced_gpu_s", "cost", "productive_cost", "productive_cost_high", "lost_cost", "idle_cost",
            "energy_gpu_s", "energy_j", "co2_kg",
        ):  # fmt: skip
            value = wanted[row["subject"]].get(name)
            same = row[name] is None if value is None else row[name] == pytest.approx(value, rel=1e-9, abs=1e-6)
            assert same, (name, row[name], value)


def test_cost_without_prices_is_unknown_and_not_zero() -> None:
    row = ("c", "ann", "allocated", "productive", "log", "h100", FIRST, Decimal(3600), None, None)
    found = cost(
        pl.DataFrame([row], schema=TO_PRICE, orient="row"),
        pl.DataFrame(schema=PRICES),
        pl.DataFrame(schema=GRID),
    ).row(0, named=True)
    assert (found["gpu_s"], found["priced_gpu_s"]) == (3600, 0)
    assert [found[name] for name in ("cost", "idle_cost", "energy_j", "co2_kg", "per_productive_gpu_h")] == [None] * 5


def test_price_of_begins_on_its_day() -> None:
    prices = [("h100", None, 2.5), ("h100", FIRST, 2.0)]
    assert price_of("h100", FIRST - timedelta(days=1), prices) == 2.5
    assert price_of("h100", FIRST, prices) == 2.0
    assert price_of("h100", FIRST - timedelta(days=1), prices[1:]) is None


def test_price_of_words_are_whole_words() -> None:
    assert price_of("H200", FIRST, [("h20", None, 1.0)]) is None
    assert price_of("H100 NVL", FIRST, [("h100", None, 1.0), ("nvl h100", None, 3.0)]) == 3.0


def test_cost_publishes_three_metrics() -> None:
    assert [entry.name for entry in metric.METRICS] == ["cost", "energy", "emissions"]
