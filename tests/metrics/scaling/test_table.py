"""The table of scaling, and runs beside published results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from metrics import frames
from metrics.scaling import table
from metrics.scaling.reference import compared_with_references
from metrics.scaling.speeds import rate, run_speeds
from metrics.scaling.table import TABLE, scaling_table
from tests.metrics.scaling.runs import steps_of

if TYPE_CHECKING:
    from metrics.scaling.estimate import Estimate


def runs(*rows: pl.DataFrame, **seconds: float) -> pl.DataFrame:
    times = pl.DataFrame(list(seconds.items()), {"run_id": frames.TEXT, "seconds": frames.NUMBER}, orient="row")
    return run_speeds(pl.concat(rows)).join(times, on="run_id", how="left", maintain_order="left")


def test_each_size_has_its_gain_over_the_smallest_comparable() -> None:
    rows = scaling_table(
        runs(
            steps_of("a", gpus=8.0, step_s=2.0, learning_rate=1e-4),
            steps_of("b", gpus=16.0, step_s=1.25, learning_rate=1e-4),
            steps_of("c", gpus=16.0, step_s=2.0, batch=128.0, learning_rate=2e-4),
            a=100.0,
            c=60.0,
        )
    )
    first, strong, weak = rows.iter_rows(named=True)
    assert (first["strong"], first["weak"], first["by_time"]) == (None, None, None)
    assert (strong["strong"], strong["strong_base_gpus"], strong["weak"]) == (pytest.approx(0.8), 8.0, None)
    assert (weak["weak"], weak["strong"]) == (pytest.approx(1.0), None)
    assert weak["by_time"] == pytest.approx(100 * 8 / (60 * 16))
    assert strong["by_time"] is None  # it did not reach the target
    assert (weak["batch_factor"], weak["learning_rate_factor"]) == (2.0, 2.0)
    assert [row["reached"] for row in (first, strong, weak)] == [1, 0, 1]
    assert strong["step_s"] == 1.25


def test_recipes_are_not_compared() -> None:
    rows = scaling_table(runs(steps_of("a", gpus=8.0, step_s=2.0), steps_of("b", gpus=16.0, step_s=1.0, params=2e9)))
    assert rows["strong"].to_list() == [None, None]
    assert scaling_table(runs(steps_of("a", gpus=8.0, step_s=2.0)).clear()).schema == TABLE


REFERENCE = {"name": "n", "source": "s", "recipe": "r", "gpu": "H100 SXM", "n_gpus": 8}


@pytest.mark.parametrize(("off", "verdict"), [(1.0, "met"), (0.97, "undetermined"), (0.9, "missed")])
def test_a_published_speed_is_met_missed_or_neither(off: float, verdict: str) -> None:
    speed = 64 * 1024 / 2 / 8
    steps = [steps_of(name, gpus=8.0, step_s=2.0 / off * (1 + noise), recipe="r") for name, noise in NOISE.items()]
    times = {name: 120 / off * (1 + noise) for name, noise in NOISE.items()}
    rows = compared_with_references(runs(*steps, **times), [REFERENCE | {"tokens_per_gpu_s": speed, "minutes": 2.0}])
    assert rows["measure"].to_list() == ["tokens/s/GPU", "minutes"]
    assert rows["share"].to_list() == pytest.approx([off, off], rel=1e-3)
    assert rows["verdict"].to_list() == [verdict, verdict]
    assert (rows["share_low"] < rows["share"]).all()


NOISE = {"a": -0.01, "b": 0.0, "c": 0.01}


def test_other_recipes_gpus_and_sizes_are_beside_nothing() -> None:
    mine = runs(steps_of("a", gpus=8.0, step_s=2.0, recipe="r"))
    for other in ({"recipe": "q"}, {"gpu": "H200"}, {"n_gpus": 16}):
        assert compared_with_references(mine, [REFERENCE | other | {"tokens_per_gpu_s": 1.0}]).is_empty()


def test_speed_is_estimated_once_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of sizes compares them: forty sizes are eight hundred pairs."""
    estimated: list[list[str]] = []

    def noted(of: pl.DataFrame) -> Estimate | None:
        estimated.append(of["run_id"].to_list())
        return rate(of)

    monkeypatch.setattr(table, "rate", noted)
    sizes = {name: 8.0 * 2**at for at, name in enumerate("abcd")}
    rows = scaling_table(runs(*(steps_of(name, gpus=gpus, step_s=2.0) for name, gpus in sizes.items())))
    assert rows["strong_base_gpus"].to_list() == [None, 8.0, 8.0, 8.0]
    assert estimated == [["a"], ["b"], ["c"], ["d"]]
