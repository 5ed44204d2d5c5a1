"""Sums of results that are the same to the last bit in any order in which their rows are read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import polars as pl
import pytest

from app.results import goodput as results
from app.window import Window
from tests.metrics.same_bits import RUNS
from tests.metrics.tables import at
from tests.support.sources import KeepsNothing

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = Window("c", at(), at(5000))


def interrupted(dice: random.Random) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "class": "infrastructure",
            "milli_gpus": [dice.choice([500, 8000, 64_000]) for _ in range(3000)],
            "runtime_s": [7200 * dice.random() for _ in range(3000)],
        }
    )


def steps(dice: random.Random) -> pl.DataFrame:
    took = [dice.random() * 10 ** dice.randint(0, 5) for _ in range(3000)]
    return pl.DataFrame(
        {
            "cluster": "c", "run_id": [dice.choice(RUNS[:3]) for _ in took], "ts": [at(n) for n in range(3000)],
            "n_gpus": 64.0, "wall_s": took, "own_s": took, "flop": 1e18, "peak_flop": 6e18, "mfu": 1 / 6,
            "gpu_model": "H100", "dtype": "bf16", "implausible": False, "impossible": False,
        }
    )  # fmt: skip


class Rows(KeepsNothing):
    """A source that answers every query with the same rows."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows

    def query(self, name: str, **params: object) -> pl.DataFrame:
        del name, params
        return self.rows


def by_assumption(rows: pl.DataFrame, _patch: pytest.MonkeyPatch) -> object:
    return results.lost_imputed_rows(Rows(rows), WINDOW)["value"].item()


def of_the_program(rows: pl.DataFrame, patch: pytest.MonkeyPatch) -> object:
    patch.setattr(results, "step_mfu_rows", lambda *_: rows)
    patch.setattr(results, "flop_convention", lambda *_: "model")
    return results._program(Rows(rows), WINDOW).known_gpu_s  # noqa: SLF001 - the sums of one part


@pytest.mark.parametrize(("made", "summed"), [(interrupted, by_assumption), (steps, of_the_program)])
def test_the_order_of_rows_changes_no_bit_of_a_sum(
    made: Callable[[random.Random], pl.DataFrame],
    summed: Callable[[pl.DataFrame, pytest.MonkeyPatch], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = made(random.Random(3))
    result = {summed(rows.sample(fraction=1, shuffle=True, seed=order), monkeypatch) for order in range(6)}
    assert len(result) == 1
    assert result != {0.0}
