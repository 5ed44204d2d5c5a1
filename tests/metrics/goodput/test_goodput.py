"""Goodput, occupancy, availability and where the rest went."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.categories import CATEGORIES
from metrics.goodput.goodput import Program, goodput, lost, ml_productivity
from tests.metrics.tables import Row, spent, sums

HOUR = 3600.0
INVENTORIED = pl.Series("cluster", ["c"])
NOWHERE = pl.Series("cluster", [], dtype=pl.String)


def measured(*result: Row, metric: str = "goodput_allocated", inventoried: pl.Series = INVENTORIED) -> dict[str, Any]:
    return goodput(sums(*result), inventoried).filter(pl.col("metric") == metric).row(0, named=True)


# 100 GPU-hours there were: 70 allocated (60 of them productive, 2 not seen), 20 idle, 10 unavailable
BY_HAND = (
    spent("productive", 50, evidence="log"),
    spent("productive", 10, evidence="telemetry"),
    spent("lost", 5, evidence="log", cause="node_fail"),
    spent("startup", 3, evidence="log"),
    spent("unattributed", 2, evidence="accounting"),
    spent("no_demand", 15, evidence="accounting"),
    spent("pending_demand", 5, evidence="accounting"),
    spent("down", 4, evidence="accounting"),
    spent("maintenance", 6, evidence="accounting"),
)


@pytest.mark.parametrize(
    ("metric", "numerator", "denominator", "low", "high"),
    [
        ("goodput_allocated", 60, 70, 60 / 70, 62 / 70),
        ("goodput_capacity", 60, 100, 0.60, 0.62),
        ("occupancy", 70, 100, 0.70, 0.70),
        ("availability", 90, 100, 0.90, 0.90),
    ],
)
def test_both_halves_and_the_bounds_by_hand(
    metric: str, numerator: float, denominator: float, low: float, high: float
) -> None:
    result = measured(*BY_HAND, metric=metric)
    assert (result["numerator"], result["denominator"]) == (numerator * HOUR, denominator * HOUR)
    assert (result["bound_low"], result["bound_high"]) == (pytest.approx(low), pytest.approx(high))
    assert (result["unit"], result["note"]) == ("ratio", None)


@pytest.mark.parametrize("metric", ["goodput_allocated", "goodput_capacity", "occupancy", "availability"])
def test_the_value_is_the_numerator_over_the_denominator(metric: str) -> None:
    """5.2: goodput_alloc = productive GPU-h / allocated GPU-h, goodput_cluster = productive / capacity GPU-h."""
    result = measured(*BY_HAND, metric=metric)
    assert result["value"] == pytest.approx(result["numerator"] / result["denominator"])


@pytest.mark.parametrize(
    ("metric", "log", "telemetry", "accounting"),
    [("goodput_allocated", 58 / 70, 10 / 70, 2 / 70), ("goodput_capacity", 0.58, 0.10, 0.32)],
)
def test_evidence_shares_by_hand(metric: str, log: float, telemetry: float, accounting: float) -> None:
    result = measured(*BY_HAND, metric=metric)
    assert result["evidence_log"] == pytest.approx(log)
    assert result["evidence_telemetry"] == pytest.approx(telemetry)
    assert result["evidence_accounting"] == pytest.approx(accounting)
    assert result["evidence_assumed"] == 0


def test_with_full_coverage_the_bounds_are_the_value() -> None:
    result = measured(spent("productive", 3), spent("lost", 1))
    assert (result["bound_low"], result["value"], result["bound_high"]) == (0.75, 0.75, 0.75)


@pytest.mark.parametrize(("unseen", "given_"), [(10, True), (10.1, False), (100, False)])
def test_value_needs_nine_tenths_of_allocated_time_observed(unseen: float, *, given_: bool) -> None:
    result = measured(
        spent("productive", min(80, 100 - unseen)),
        spent("lost", max(0, 20 - unseen)),
        spent("unattributed", unseen, evidence="accounting"),
    )
    assert (result["value"] is not None) is given_
    assert (result["note"] is None) is given_
    assert result["bound_low"] is not None


def test_goodput_is_unknown_with_accounting_alone() -> None:
    result = measured(spent("unattributed", 70, evidence="accounting"), spent("no_demand", 30, evidence="accounting"))
    assert (result["value"], result["bound_low"], result["bound_high"]) == (None, 0.0, 1.0)
    assert result["note"] == "cannot tell: 100.0 % of the allocated GPU-time is unattributed"


def test_assumed_productive_time_is_not_observed() -> None:
    """5.4: unattributed and assumed GPU-time counts all unproductive (low) and all productive (high)."""
    result = measured(spent("productive", 50, evidence="assumed"), spent("lost", 50))
    assert (result["bound_low"], result["bound_high"]) == (0.0, 0.5)
    assert result["value"] is None


def test_gpus_active_while_one_is_idle_are_productive_at_most() -> None:
    """5.3: the lockstep rule decides the value, not the bounds; the idle GPU is known to be idle."""
    result = measured(
        spent("productive", 8),
        spent("stalled", 7, evidence="telemetry", cause="lockstep"),
        spent("stalled", 1, evidence="telemetry", cause="inactive"),
    )
    assert (result["bound_low"], result["value"], result["bound_high"]) == (8 / 16, 8 / 16, 15 / 16)
    of_capacity = measured(
        spent("productive", 8),
        spent("stalled", 8, cause="lockstep"),
        spent("no_demand", 4, evidence="accounting"),
        metric="goodput_capacity",
    )
    assert (of_capacity["value"], of_capacity["bound_high"]) == (8 / 20, 16 / 20)


@pytest.mark.parametrize("metric", ["goodput_capacity", "occupancy", "availability"])
def test_capacity_ratios_are_unknown_without_an_inventory(metric: str) -> None:
    result = measured(*BY_HAND, metric=metric, inventoried=NOWHERE)
    assert (result["value"], result["bound_low"], result["bound_high"]) == (None, None, None)
    assert str(result["note"]).startswith("cannot tell: no node inventory was read")


def test_goodput_over_allocated_time_needs_no_inventory() -> None:
    result = measured(spent("productive", 3), spent("lost", 1), inventoried=NOWHERE)
    assert (result["value"], result["note"]) == (0.75, None)


def test_without_allocation_the_ratio_to_it_is_null() -> None:
    result = measured(spent("no_demand", 30, evidence="accounting"))
    names = ("value", "bound_low", "bound_high", "evidence_log", "evidence_accounting")
    assert {name: result[name] for name in names} == dict.fromkeys(names)
    assert result["denominator"] == 0


def test_idle_cluster_has_a_capacity_goodput_of_zero() -> None:
    result = measured(spent("no_demand", 30, evidence="accounting"), metric="goodput_capacity")
    assert (result["value"], result["bound_low"], result["bound_high"]) == (0.0, 0.0, 0.0)


def test_time_without_a_known_node_state_bounds_the_availability() -> None:
    """Nothing says whether those GPUs were in service (evidence assumed), so 0.6 is no more certain than 0.9."""
    result = measured(
        spent("unattributed", 50, evidence="accounting"),
        spent("no_demand", 10, evidence="accounting"),
        spent("down", 10, evidence="accounting"),
        spent("unknown", 30, evidence="assumed"),
        metric="availability",
    )
    assert result["bound_low"] == pytest.approx(0.6)
    assert result["bound_high"] == pytest.approx(0.9)


# --- laws --------------------------------------------------------------------------------------------

kinds = st.sampled_from(["log", "telemetry", "accounting", "assumed"])


@st.composite
def ledgers(draw: st.DrawFn, subjects: tuple[str, ...] = ("n1", "n2")) -> list[Row]:
    return [
        spent(
            draw(st.sampled_from(CATEGORIES)),
            draw(st.sampled_from([0, 1, 5, 100])),
            evidence=draw(kinds),
            subject=draw(st.sampled_from(subjects)),
        )
        for _ in range(draw(st.integers(0, 10)))
    ]


@settings(max_examples=60, deadline=None)
@given(ledgers())
def test_bounds_enclose_the_value_and_all_are_within_0_and_1(result: list[Row]) -> None:
    for row in goodput(sums(*result), INVENTORIED).iter_rows(named=True):
        low, value, high = row["bound_low"], row["value"], row["bound_high"]
        if low is None:
            assert (value, high, row["denominator"]) == (None, None, 0.0)
            continue
        assert -1e-12 <= low <= high <= 1 + 1e-12
        if value is not None:
            assert low - 1e-12 <= value <= high + 1e-12


@settings(max_examples=25, deadline=None)
@given(ledgers())
def test_evidence_shares_add_up_to_one(result: list[Row]) -> None:
    for row in goodput(sums(*result), INVENTORIED).iter_rows(named=True):
        shares = [row[f"evidence_{kind}"] for kind in ("log", "telemetry", "accounting", "assumed")]
        if row["denominator"] > 0:
            assert sum(shares) == pytest.approx(1)
        else:
            assert shares == [None] * 4


def halves(result: pl.DataFrame) -> list[tuple[str, float, float]]:
    both = result.group_by("metric").agg(pl.col("numerator", "denominator").sum()).sort("metric")
    return both.rows()


@settings(max_examples=25, deadline=None)
@given(ledgers(), ledgers())
def test_nodes_add_up_to_the_cluster_and_windows_to_the_whole(first: list[Row], second: list[Row]) -> None:
    whole = sums(*first, *second)
    cluster = goodput(whole.with_columns(subject=pl.lit("c")), INVENTORIED)
    parts = pl.concat([goodput(sums(*first), INVENTORIED), goodput(sums(*second), INVENTORIED)])
    assert halves(goodput(whole, INVENTORIED)) == halves(cluster)
    assert halves(parts) == halves(cluster)


@settings(max_examples=25, deadline=None)
@given(ledgers())
def test_shares_of_what_was_lost_add_up_to_one(result: list[Row]) -> None:
    elsewhere = [{**row, "cluster": "d"} for row in result[:3]]
    shares = lost(sums(*result, *elsewhere)).group_by("cluster").agg(pl.col("share").sum())
    assert shares["share"].to_list() == pytest.approx([1.0] * shares.height)


def test_where_the_time_went_by_hand() -> None:
    result = lost(sums(*BY_HAND, spent("lost", 1, evidence="log", cause="node_fail")))
    assert result["gpu_hours"].to_list() == [50, 15, 10, 6, 6, 5, 4, 3, 2]  # largest first, equal groups together
    assert result.filter(pl.col("category") == "lost").select("cause", "gpu_hours", "share").rows() == [
        ("node_fail", 6.0, pytest.approx(6 / 101))
    ]


def test_provisional_time_is_in_the_value_and_not_the_low_bound() -> None:
    """5.4: the low bound is what nothing can take back."""
    result = measured(spent("productive", 60), spent("productive", 30, cause="provisional"), spent("lost", 10))
    assert (result["bound_low"], result["value"], result["bound_high"]) == (0.6, 0.9, 0.9)
    assert measured(spent("productive", 30, cause="provisional"), metric="goodput_capacity")["bound_low"] == 0


def test_shares_of_allocated_time_and_straggling_by_hand() -> None:
    slow = {**spent("productive", 50), "straggling_gpu_seconds": 3600}
    result = lost(sums(slow, spent("lost", 30), spent("no_demand", 20)))
    assert result.select("category", "share", "share_allocated", "straggling_gpu_seconds").rows() == [
        ("productive", 0.5, 0.625, 3600),
        ("lost", 0.3, 0.375, 0),
        ("no_demand", 0.2, None, 0),
    ]


# --- scheduling x runtime x program ------------------------------------------------------------------


def product(program: Program, *result: Row, inventoried: pl.Series = INVENTORIED) -> dict[str, dict[str, Any]]:
    rows_ = ml_productivity(goodput(sums(*result), inventoried), program)
    return {row["metric"]: row for row in rows_.iter_rows(named=True)}


KNOWN = Program(value=0.5, numerator=5.0, denominator=10.0, n=7, known_gpu_s=60 * HOUR, ci_low=0.4, ci_high=0.6)


def test_the_product_by_hand() -> None:
    result = product(KNOWN, *BY_HAND)
    values = {name: row["value"] for name, row in result.items()}
    assert values == pytest.approx(
        {"scheduling_goodput": 0.7, "runtime_goodput": 60 / 70, "program_goodput": 0.5, "mpg": 0.3}
    )
    assert (result["mpg"]["bound_low"], result["mpg"]["bound_high"]) == (pytest.approx(0.3), pytest.approx(0.31))
    assert (result["program_goodput"]["ci_low"], result["program_goodput"]["ci_high"]) == (0.4, 0.6)


def test_product_without_a_factor_is_null_and_names_it() -> None:
    result = product(Program(value=None), *BY_HAND)
    assert result["mpg"]["value"] is None
    assert result["mpg"]["note"] == "cannot tell: program_goodput is unknown"
    assert str(result["program_goodput"]["note"]).startswith("cannot tell: no kept step logs its FLOP")
    nowhere = product(KNOWN, *BY_HAND, inventoried=NOWHERE)
    assert nowhere["mpg"]["note"] == "cannot tell: scheduling_goodput is unknown"
    assert nowhere["mpg"]["bound_low"] is None


def test_productive_time_of_unknown_mfu_widens_program_bounds() -> None:
    half = Program(value=0.5, known_gpu_s=30 * HOUR)
    result = product(half, *BY_HAND)["program_goodput"]
    assert (result["bound_low"], result["value"], result["bound_high"]) == (0.25, None, 0.75)
    assert result["note"] == "cannot tell: MFU is known for 50.0 % of the productive GPU-time"


@settings(max_examples=40, deadline=None)
@given(ledgers(subjects=("c",)), st.floats(0.01, 1), st.floats(0, 2))
def test_product_is_within_its_bounds_and_below_each_factor(result: list[Row], mfu: float, known: float) -> None:
    ledger = sums(*result, spent("productive", 1))
    whole = goodput(ledger, INVENTORIED)
    productive = whole.filter(pl.col("metric") == "goodput_capacity")["numerator"].item()
    rows_ = ml_productivity(whole, Program(value=mfu, known_gpu_s=known * productive))
    by_name = {row["metric"]: row for row in rows_.iter_rows(named=True)}
    mpg = by_name.pop("mpg")
    assert 0 <= mpg["bound_low"] <= mpg["bound_high"] <= 1 + 1e-12
    if mpg["value"] is not None:
        assert mpg["bound_low"] - 1e-12 <= mpg["value"] <= mpg["bound_high"] + 1e-12
        assert mpg["value"] <= min(row["value"] for row in by_name.values()) + 1e-12
