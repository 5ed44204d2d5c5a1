"""The table of scaling: each size of each recipe, with what it gains over the smaller sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from metrics import frames
from metrics.scaling.efficiency import SCALINGS, comparable, of_rates, of_times, size_of, sizes
from metrics.scaling.speeds import rate
from metrics.scaling.target import time_to_train, timed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from metrics.scaling.estimate import Estimate

_TEXT, _NUMBER, _COUNT = frames.TEXT, frames.NUMBER, frames.COUNT

TABLE: Final[frames.Schema] = {
    "cluster": _TEXT,
    "recipe": _TEXT,
    "n_gpus": _NUMBER,
    "batch": _NUMBER,
    "batch_per_gpu": _NUMBER,
    "learning_rate": _NUMBER,
    "n": _COUNT,
    "steps": _COUNT,
    "tokens_per_gpu_s": _NUMBER,
    "ci_low": _NUMBER,
    "ci_high": _NUMBER,
    "over": _TEXT,
    "step_s": _NUMBER,
    "mfu": _NUMBER,
    "reached": _COUNT,
    "time_to_train_s": _NUMBER,
    "time_low": _NUMBER,
    "time_high": _NUMBER,
    **{f"{kind}{part}": _NUMBER for kind in (*SCALINGS, "by_time") for part in ("", "_low", "_high", "_base_gpus")},
    "batch_factor": _NUMBER,
    "learning_rate_factor": _NUMBER,
}
"""A row a size (GPUs and global batch) of a recipe.

`n` runs, `steps` kept steps; `ci_low` and `ci_high` of the tokens per GPU-second, over what `over` names. `reached`
runs reached the target. `strong`, `weak`, `by_time`: the efficiency over the smallest size that is comparable, whose
GPUs are `..._base_gpus`. The factors are of batch and learning rate over those of the recipe's smallest size.
"""


def scaling_table(runs: pl.DataFrame) -> pl.DataFrame:
    """Each size of each recipe: `TABLE`, by recipe, GPUs and batch.

    Args:
        runs: `metrics.scaling.speeds.run_speeds`'s rows with `seconds`.
    """
    rows = [row for _, recipe in runs.group_by("cluster", "label", maintain_order=True) for row in _of_recipe(recipe)]
    return pl.DataFrame(rows, schema=TABLE)


def _of_recipe(recipe: pl.DataFrame) -> list[dict[str, Any]]:
    times = timed(recipe)
    reached = {gpus: time_to_train(rows) for (gpus,), rows in times.group_by("n_gpus", maintain_order=True)}
    in_time = set(times["run_id"])
    ordered = [_SizeRuns.of(runs, times, in_time) for runs in sizes(recipe)]
    return [_row(size, ordered[:at], reached) for at, size in enumerate(ordered)]


class _SizeRuns(NamedTuple):
    """The runs of a size of a recipe, and the inputs of each pair of sizes, made once.

    Attributes:
        runs: `metrics.scaling.speeds.run_speeds`'s rows with `seconds`.
        gpus: of each run.
        batch: global batch; None if unknown.
        learning_rate: None where it differs or is unknown.
        speed: tokens per second of a GPU.
        reached: how many of them reached the target.
        seconds: time to the target.
    """

    runs: pl.DataFrame
    gpus: float
    batch: float | None
    learning_rate: float | None
    speed: Estimate | None
    reached: int
    seconds: Estimate | None

    @classmethod
    def of(cls, runs: pl.DataFrame, times: pl.DataFrame, in_time: Collection[str]) -> _SizeRuns:
        """A size.

        Args:
            runs: its runs.
            times: the whole runs of the recipe that reached the target.
            in_time: their ids.
        """
        names = {*runs["run_id"]}.intersection(in_time)
        own = times.filter(pl.col("run_id").is_in(names)) if names else times.clear()
        gpus, batch = size_of(runs)
        rates = {*runs["learning_rate"]}
        learning_rate = None if len(rates) != 1 else rates.pop()
        return cls(runs, gpus, batch, learning_rate, rate(runs), own.height, time_to_train(own))


def _row(size: _SizeRuns, smaller: Sequence[_SizeRuns], times: Mapping[float, Estimate | None]) -> dict[str, Any]:
    runs, batch = size.runs, size.batch
    steps, wall_s, flop, peak = runs.select(pl.col("n", "wall_s", "flop", "peak_flop").sum()).row(0)
    first = smaller[0] if smaller else size
    row = {
        "cluster": runs["cluster"][0],
        "recipe": runs["label"][0],
        "n_gpus": size.gpus,
        "batch": batch,
        "batch_per_gpu": None if batch is None else batch / size.gpus,
        "learning_rate": size.learning_rate,
        "n": runs["run_id"].n_unique(),
        "steps": steps,
        "step_s": wall_s / steps if steps else None,
        "mfu": flop / peak if peak else None,
        "reached": size.reached,
        "batch_factor": _over(batch, first.batch),
        "learning_rate_factor": _over(size.learning_rate, first.learning_rate),
    }
    row |= _ends(size.speed, "tokens_per_gpu_s", "ci_low", "ci_high") | {"over": _units(size.speed)}
    row |= _ends(size.seconds, "time_to_train_s", "time_low", "time_high")
    return row | _efficiencies(size, smaller, times)


def _efficiencies(
    size: _SizeRuns, smaller: Sequence[_SizeRuns], times: Mapping[float, Estimate | None]
) -> dict[str, Any]:
    """The efficiencies over the smallest size that is comparable.

    Args:
        size: of which.
        smaller: the sizes before it, in order.
        times: time to the target by number of GPUs, of those numbers of which a run reached it.
    """
    row: dict[str, Any] = {}
    fewer = [each for each in smaller if each.gpus < size.gpus]
    for kind in SCALINGS:
        own = (size.gpus, size.batch)
        base = next((each for each in fewer if comparable((each.gpus, each.batch), own, kind)), None)
        result = None if base is None else of_rates(base.speed, size.speed)
        row |= _efficiency(kind, None if base is None else base.gpus, result)
    gpus = next((each.gpus for each in fewer if each.gpus in times), None)
    result = None if gpus is None else of_times(times[gpus], size.seconds, gpus / size.gpus)
    return row | _efficiency("by_time", gpus, result)


def _efficiency(kind: str, base_gpus: float | None, result: Estimate | None) -> dict[str, Any]:
    ends = _ends(result, kind, f"{kind}_low", f"{kind}_high")
    return ends | {f"{kind}_base_gpus": None if result is None else base_gpus}


def _ends(result: Estimate | None, value: str, low: str, high: str) -> dict[str, Any]:
    interval = None if result is None else result.interval()
    return {
        value: None if result is None else result.value,
        low: None if interval is None else interval.low,
        high: None if interval is None else interval.high,
    }


def _units(result: Estimate | None) -> str | None:
    return None if result is None else f"{result.n} {result.over}"


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
