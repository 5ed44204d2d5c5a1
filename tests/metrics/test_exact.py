"""Sums that are the same to the last bit in any order and on any number of threads (metrics.exact, and who uses it)."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.exact import FLOP, exact_mean, exact_sum
from tests.metrics.same_bits import numbers

_AMOUNTS = st.lists(st.floats(-1e12, 1e12) | st.none(), max_size=40)


@settings(max_examples=60, deadline=None)
@given(_AMOUNTS, st.randoms(use_true_random=False))
def test_a_sum_is_the_same_in_any_order_and_near_the_exact_one(values: list[float | None], chance: object) -> None:
    mixed = list(values)
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # random.Random, as hypothesis hands it over
    one, other = (
        pl.DataFrame({"v": each}, schema={"v": pl.Float64}).select(exact_sum(pl.col("v")), mean=exact_mean(pl.col("v")))
        for each in (values, mixed)
    )
    assert one.rows() == other.rows()
    reported = [value for value in values if value is not None]
    assert one["v"].item() == pytest.approx(math.fsum(reported), abs=1e-8, rel=1e-12)
    assert (one["mean"].item() is None) == (not reported)


@pytest.mark.parametrize("wild", [float("nan"), float("inf"), -float("inf"), 1e308])
def test_a_number_that_cannot_be_does_not_stop_a_sum(wild: float) -> None:
    for places in (0, FLOP, 9, 15):
        result = pl.DataFrame({"v": [1.5, wild]}).select(exact_sum(pl.col("v"), places=places)).item()
        assert math.isfinite(result)


@pytest.mark.slow
def test_every_number_is_the_same_in_any_order_of_rows() -> None:
    first = numbers(0)
    for order in (1, 2, 3):
        assert numbers(order).splitlines() == first.splitlines()


@pytest.mark.slow
def test_every_number_is_the_same_on_any_number_of_threads() -> None:
    result = set()
    for threads in ("1", "5"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.metrics.same_bits", "0"],
            env=os.environ | {"POLARS_MAX_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        result.add(done.stdout)
    assert len(result) == 1
