"""The table of scaling: each size of each recipe, with what it gains over the smaller sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from metrics import frames
from metrics.scaling.efficiency import SCALINGS, by_time, by_tokens, comparable, size_of, sizes
from metrics.scaling.speeds import rate
from metrics.scaling.target import time_to_train, timed

if TYPE_CHECKING:
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
    ordered = sizes(recipe)
    times = timed(recipe)
    return [_row(size, ordered[:at], times) for at, size in enumerate(ordered)]


def _row(runs: pl.DataFrame, smaller: list[pl.DataFrame], times: pl.DataFrame) -> dict[str, Any]:
    gpus, batch = size_of(runs)
    own = times.join(runs, on="run_id", how="semi")
    steps, wall_s, flop, peak = runs.select(pl.col("n", "wall_s", "flop", "peak_flop").sum()).row(0)
    learning_rate = _only(runs, "learning_rate")
    first = smaller[0] if smaller else runs
    row = {
        "cluster": runs["cluster"][0],
        "recipe": runs["label"][0],
        "n_gpus": gpus,
        "batch": batch,
        "batch_per_gpu": None if batch is None else batch / gpus,
        "learning_rate": learning_rate,
        "n": runs["run_id"].n_unique(),
        "steps": steps,
        "step_s": wall_s / steps if steps else None,
        "mfu": flop / peak if peak else None,
        "reached": own.height,
        "batch_factor": _over(batch, size_of(first)[1]),
        "learning_rate_factor": _over(learning_rate, _only(first, "learning_rate")),
    }
    speed = rate(runs)
    row |= _ends(speed, "tokens_per_gpu_s", "ci_low", "ci_high") | {"over": _units(speed)}
    row |= _ends(time_to_train(own), "time_to_train_s", "time_low", "time_high")
    return row | _efficiencies(runs, own, smaller, times)


def _efficiencies(
    runs: pl.DataFrame, own: pl.DataFrame, smaller: list[pl.DataFrame], times: pl.DataFrame
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    fewer = [each for each in smaller if each["n_gpus"][0] < runs["n_gpus"][0]]
    for kind in SCALINGS:
        base = next((each for each in fewer if comparable(size_of(each), size_of(runs), kind)), None)
        row |= _efficiency(kind, base, None if base is None else by_tokens(base, runs))
    timed_bases = (times.filter(pl.col("n_gpus") == each["n_gpus"][0]) for each in fewer)
    base = next((each for each in timed_bases if each.height), None)
    result = None if base is None or not own.height else by_time(base, own)
    return row | _efficiency("by_time", base, result)


def _efficiency(kind: str, base: pl.DataFrame | None, result: Estimate | None) -> dict[str, Any]:
    ends = _ends(result, kind, f"{kind}_low", f"{kind}_high")
    return ends | {f"{kind}_base_gpus": None if base is None or result is None else base["n_gpus"][0]}


def _ends(result: Estimate | None, value: str, low: str, high: str) -> dict[str, Any]:
    interval = None if result is None else result.interval()
    return {
        value: None if result is None else result.value,
        low: None if interval is None else interval.low,
        high: None if interval is None else interval.high,
    }


def _units(result: Estimate | None) -> str | None:
    return None if result is None else f"{result.n} {result.over}"


def _only(runs: pl.DataFrame, name: str) -> float | None:
    """The value that all runs have; None where they differ or it is unknown."""
    values = runs[name].unique()
    return None if len(values) != 1 else values[0]


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
