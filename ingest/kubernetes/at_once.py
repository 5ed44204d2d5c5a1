"""GPUs that pods hold at the same time: those of pods one after the other are not added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

FAR: Final = pl.lit("9999-12-31T00:00:00Z").str.to_datetime(time_unit="us", time_zone="UTC")
"""Stands for the end of a pod that still runs."""


def held_at_once(pods: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Numbers of GPUs that pods held together over time.

    Args:
        pods: `by`, `begins`, `ends` (null: not yet), `n_gpus` (null: unknown).
        by: columns to group by, such as attempt and node.

    Returns:
        `by`, `started_at`, `ended_at` (null: not yet), `n_gpus` (null: that of a pod is unknown): a row for each period
        with the same number, and none while there is no pod. Pods that all ended as they began have one row.
    """
    steps = _steps(pods, by, "begins").filter(pl.col("pods") > 0)
    others = pl.col("n_gpus").ne_missing(pl.col("n_gpus").shift(1))
    apart = (pl.col("at") != pl.col("until").shift(1)).fill_null(value=True)
    same = steps.with_columns(stretch=(others | apart).cum_sum().over(by))
    lasting = same.group_by(*by, "stretch", maintain_order=True).agg(
        started_at=pl.col("at").first(), ended_at=pl.col("until").last(), n_gpus=pl.col("n_gpus").first()
    )
    momentary = (
        pods.join(lasting, on=by, how="anti")
        .group_by(by, maintain_order=True)
        .agg(started_at=pl.col("begins").min(), ended_at=pl.col("begins").min(), n_gpus=_sum())
    )
    ended = pl.when(pl.col("ended_at") < FAR).then("ended_at")
    return pl.concat([lasting.drop("stretch").with_columns(ended_at=ended), momentary])


def most_at_once(pods: pl.DataFrame, by: Sequence[str], begins: str) -> pl.DataFrame:
    """The most GPUs that pods had at the same time: `by`, `gpus` (null: those of a pod are unknown).

    Args:
        pods: as of `held_at_once`.
        by: as there.
        begins: column of the times from which on they hold their GPUs.
    """
    steps = _steps(pods, by, begins).group_by(by).agg(most=pl.col("n_gpus").max())
    summed = (
        pods.group_by(by, maintain_order=True).agg(gpus=_sum()).join(steps, on=by, how="left", maintain_order="left")
    )
    known = pl.when(pl.col("gpus").is_not_null()).then(pl.coalesce("most", "gpus"))
    return summed.select(*by, gpus=known)


def _sum() -> pl.Expr:
    return pl.when(pl.col("n_gpus").null_count() == 0).then(pl.col("n_gpus").sum())


def _steps(pods: pl.DataFrame, by: Sequence[str], begins: str) -> pl.DataFrame:
    """Number of `pods` from `at` to `until`, and their `n_gpus`."""
    until = pl.col("ends").fill_null(FAR)
    lasting = pods.with_columns(_from=begins, _until=until).filter(pl.col("_from") < pl.col("_until"))
    one, gpus, unknown = pl.lit(1), pl.col("n_gpus").fill_null(0), pl.col("n_gpus").is_null().cast(pl.Int64)
    come = lasting.select(*by, at="_from", pods=one, n_gpus=gpus, unknown=unknown)
    go = lasting.select(*by, at="_until", pods=-one, n_gpus=-gpus, unknown=-unknown)
    changes = pl.concat([come, go]).group_by(*by, "at").agg(pl.col("pods", "n_gpus", "unknown").sum()).sort(*by, "at")
    held = changes.with_columns(
        pl.col("pods", "n_gpus", "unknown").cum_sum().over(by), until=pl.col("at").shift(-1).over(by)
    )
    return held.with_columns(n_gpus=pl.when(pl.col("unknown") == 0).then("n_gpus")).drop("unknown")
