"""Runs beside published results of the same recipe, kind of GPU and number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from metrics import frames
from metrics.mfu.peaks import gpu_of
from metrics.scaling.speeds import rate
from metrics.scaling.target import time_to_train, timed
from metrics.statistics import verdict_of_interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from metrics.scaling.estimate import Estimate

BASELINE: Final = 0.95
"""Share of a published result that a run is to reach: the rule of exemplar clusters."""

REFERENCE: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "recipe": frames.TEXT,
    "n_gpus": frames.NUMBER,
    "measure": frames.TEXT,
    "published": frames.NUMBER,
    "measured": frames.NUMBER,
    "share": frames.NUMBER,
    "share_low": frames.NUMBER,
    "share_high": frames.NUMBER,
    "n": frames.COUNT,
    "verdict": frames.TEXT,
    "name": frames.TEXT,
    "source": frames.TEXT,
}
"""A row a published figure: `measure` is `tokens/s/GPU` or `minutes`; `share` of the published speed, 1 as fast."""


def compared_with_references(runs: pl.DataFrame, references: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Each published figure with what runs of the same recipe and size measured: `REFERENCE`.

    `verdict` is on at least 95 % of the published speed: met, missed, or undetermined where the interval holds both.

    Args:
        runs: `metrics.scaling.speeds.run_speeds`'s rows with `seconds`.
        references: rows with `name`, `source`, `recipe`, `gpu`, `n_gpus`, and `tokens_per_gpu_s` or `minutes`.
    """
    kinds = {name: gpu.name if (gpu := gpu_of(name)) else name for name in runs["gpu_model"].drop_nulls().unique()}
    named = runs.with_columns(_kind=pl.col("gpu_model").replace(kinds))
    rows = [row for reference in references for row in _rows(named, reference)]
    return pl.DataFrame(rows, schema=REFERENCE)


def _rows(runs: pl.DataFrame, reference: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    same = (
        (pl.col("recipe") == reference["recipe"])
        & (pl.col("_kind") == reference["gpu"])
        & (pl.col("n_gpus") == reference["n_gpus"])
    )
    mine = runs.filter(same)
    for (cluster,), some in mine.group_by("cluster", maintain_order=True):
        known = {"cluster": cluster, **{name: reference[name] for name in ("recipe", "n_gpus", "name", "source")}}
        for measure, published, result, faster in (
            ("tokens/s/GPU", reference.get("tokens_per_gpu_s"), rate(some), True),
            ("minutes", reference.get("minutes"), time_to_train(timed(some)), False),
        ):
            if published is not None and result is not None:
                yield known | {"measure": measure} | _judged(result, published, faster=faster)


def _judged(result: Estimate, published: float, *, faster: bool) -> dict[str, Any]:
    """The share of the published speed; a time is a speed the other way round."""
    value = result.value if faster else result.value / 60
    interval = result.interval()
    ends = None if interval is None else tuple(end if faster else end / 60 for end in interval)
    share = value / published if faster else published / value
    low, high = (None, None) if ends is None else sorted(end / published if faster else published / end for end in ends)
    verdict = verdict_of_interval(low, high, BASELINE, "at_least")
    words = {"supported": "met", "refuted": "missed"}
    return {
        "published": published,
        "measured": value,
        "share": share,
        "share_low": low,
        "share_high": high,
        "n": result.n,
        "verdict": words.get(verdict, verdict),
    }
