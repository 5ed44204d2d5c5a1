"""Times of the last list of each namespace: objects missing in such a list are gone."""

from __future__ import annotations

from typing import Final

import polars as pl

ALL_NAMESPACES: Final = ""
"""In `object_lists`: a list of the pods, or of Kueue's Workloads, of all namespaces (`kubectl get ... -A`)."""


def with_last_list(objects: pl.DataFrame, lists: pl.DataFrame, kind: str, name: str) -> pl.DataFrame:
    """Objects with the time of the latest list that their namespace is in, as a column of that name.

    Args:
        objects: with `cluster` and `namespace`.
        lists: rows of `object_lists`.
        kind: of the objects.
        name: of the column; null where there is no list.
    """
    of_kind = lists.filter(pl.col("kind") == kind)
    own = of_kind.group_by("cluster", "namespace").agg(_own=pl.col("seen_at").max())
    of_all = of_kind.filter(pl.col("namespace") == ALL_NAMESPACES).group_by("cluster").agg(_all=pl.col("seen_at").max())
    joined = objects.join(own, on=["cluster", "namespace"], how="left").join(of_all, on="cluster", how="left")
    return joined.with_columns(pl.max_horizontal("_own", "_all").alias(name)).drop("_own", "_all")
