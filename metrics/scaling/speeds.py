"""Training speed of each run: tokens per second of a GPU, MFU and time per step, by recipe, GPUs and global batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from metrics import frames
from metrics.exact import FLOP, exact_sum
from metrics.mfu.peaks import gpu_of
from metrics.scaling.estimate import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY: Final = ("gpu_model", "dtype", *(name for name in frames.MODEL if name != "flops_per_token"), "recipe")
"""Facts of a session that make its recipe. GPUs, batch and learning rate are not among them: these are scaled."""

MIN_BLOCKS: Final = 20
"""Fewest blocks of steps behind an error: as of an MFU."""


def has_speed() -> pl.Expr:
    """Whether a step has tokens, GPUs and a length."""
    return ((pl.col("tokens") > 0) & (pl.col("wall_s") > 0) & (pl.col("n_gpus") > 0)).fill_null(value=False)


def run_speeds(steps: pl.DataFrame, timed_alone: pl.DataFrame | None = None) -> pl.DataFrame:
    """The kept steps of each run, put together by recipe, number of GPUs and global batch.

    Args:
        steps: `metrics.mfu.mfu.step_mfu`'s rows with `frames.RECIPE`: `cluster`, `run_id`, `ts`, `tokens`, `wall_s`,
            `n_gpus`, `flop`, `peak_flop` and facts of the sessions. Steps without tokens, GPUs or length count not.
        timed_alone: rows like them, without tokens and with a length of 0, of runs of which no step has a speed: each
            such run is a row with 0 steps, for its time to the target.

    Returns:
        `cluster`, `run_id`, `label` (the recipe in words), `recipe` (its name), `gpu_model`, `n_gpus`,
        `batch` (samples of a step; null if unknown),
        `learning_rate`, `time_factor`, `n`, `tokens`, `wall_s`, `gpu_s`, `flop`, `peak_flop` (null where no step has
        an MFU), `first` (beginning of its first step) and `blocks` (tokens and GPU-seconds of blocks of steps).
    """
    timed = steps.filter(has_speed())
    if timed_alone is not None and timed_alone.height:
        timed = pl.concat([timed, timed_alone], how="diagonal_relaxed")
    samples = pl.coalesce("global_batch", pl.col("tokens") / pl.when(pl.col("seq_len") > 0).then("seq_len"))
    key = ["cluster", "run_id", "label", "n_gpus", "batch"]
    labelled = timed.with_columns(batch=samples.round(6)).join(
        _labels(timed), on=list(KEY), nulls_equal=True, how="left", maintain_order="left"
    )
    length = pl.len().over(key).sqrt().ceil().cast(pl.Int64)
    place = pl.int_range(pl.len()).over(key) // length
    counted = pl.col("mfu").is_not_null()
    gpu_s = pl.col("n_gpus") * pl.col("wall_s")
    blocks = (
        labelled.sort("ts", maintain_order=True)
        .with_columns(_block=place)
        .group_by(*key, "_block", maintain_order=True)
        .agg(
            n=(pl.col("wall_s") > 0).sum().cast(pl.Int64),
            first=pl.col("ts").min(),
            tokens=exact_sum(pl.col("tokens")),
            wall_s=exact_sum(pl.col("wall_s")),
            gpu_s=exact_sum(gpu_s),
            flop=exact_sum(pl.col("flop").filter(counted), places=FLOP),
            peak_flop=exact_sum(pl.col("peak_flop").filter(counted), places=FLOP),
            learning_rate=pl.col("learning_rate").drop_nulls().last(),
            time_factor=pl.col("time_factor").drop_nulls().last(),
            recipe=pl.col("recipe").first(),
            gpu_model=pl.col("gpu_model").first(),
        )
    )
    return (
        blocks.group_by(key, maintain_order=True)
        .agg(
            pl.col("learning_rate", "time_factor").drop_nulls().last(),
            pl.col("recipe", "gpu_model").first(),
            pl.col("first").min(),
            pl.col("n", "tokens", "wall_s", "gpu_s").sum(),
            *(pl.when(pl.col("peak_flop").sum() > 0).then(pl.col(name).sum()).alias(name) for name in _FLOP),
            blocks=pl.struct("tokens", "gpu_s"),
        )
        .sort("cluster", "label", "n_gpus", "batch", "run_id", nulls_last=True)
    )


_FLOP: Final = ("flop", "peak_flop")


def _labels(steps: pl.DataFrame) -> pl.DataFrame:
    """The recipes among the steps, with a label each: two of one name get a suffix that distinguishes them."""
    recipes = steps.select(KEY).unique(maintain_order=True).sort(KEY)
    named = [_label(row) for row in recipes.iter_rows(named=True)]
    several = {label for label in named if named.count(label) > 1}
    numbers: dict[str, int] = {}
    labels = []
    for label in named:
        numbers[label] = numbers.get(label, 0) + 1
        labels.append(f"{label} #{numbers[label]}" if label in several else label)
    return recipes.with_columns(pl.Series("label", labels, dtype=pl.String))


def _label(facts: Mapping[str, Any]) -> str:
    """A recipe in a few words.

    >>> _label({"recipe": None, "params": 8.03e9, "seq_len": 8192, "gpu_model": "NVIDIA H200", "dtype": "bf16"})
    '8.03B, seq 8192, H200, bf16'
    """
    sizes = f"{facts['params'] / 1e9:.3g}B" if facts["params"] else "unknown size"
    parts = [facts["recipe"] or sizes, f"seq {facts['seq_len']}" if facts["seq_len"] else None]
    gpu = gpu_of(facts["gpu_model"])
    return ", ".join(part for part in (*parts, gpu.name if gpu else facts["gpu_model"], facts["dtype"]) if part)


# Sizes --------------------------------------------------------------------------------------------------------------


def rate(runs: pl.DataFrame) -> Estimate | None:
    """Tokens per second of a GPU over the runs: of several by how they differ, of one by blocks of its steps."""
    runs = runs.filter(pl.col("gpu_s") > 0)
    if runs.height > 1:
        return estimate(runs["tokens"].to_list(), runs["gpu_s"].to_list(), "runs")
    return _over_blocks(runs) if runs.height else None


def _over_blocks(run: pl.DataFrame) -> Estimate | None:
    blocks = run["blocks"][0].struct.unnest()
    tokens, gpu_s = blocks["tokens"].to_list(), blocks["gpu_s"].to_list()
    whole = estimate(tokens, gpu_s, "blocks of steps")
    if whole is None or len(tokens) >= MIN_BLOCKS:
        return whole
    return Estimate(whole.value, None, 0.0, 1, "run")


def same_batch(one: float | None, other: float | None) -> bool:
    """Whether two global batches (or batches per GPU) are the same.

    >>> same_batch(0.75, 768 / 1024), same_batch(None, None)
    (True, False)
    """
    return one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9)
