"""Joins of many rows with few: where there is nothing to join, nothing is compared.

Most clusters have no log of a run, so what is joined to a million runs is a frame without rows. polars puts the key
columns of every row together all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence


def join_few(rows: pl.DataFrame, few: pl.DataFrame, *, on: Sequence[str]) -> pl.DataFrame:
    """`rows` with the columns of `few`, null where a row has no other of the same key: a left join.

    >>> rows = pl.DataFrame({"cluster": ["c"], "run_id": ["a"]})
    >>> few = pl.DataFrame({"cluster": ["c"], "run_id": ["a"], "saved": [2]})
    >>> join_few(rows, few, on=["cluster", "run_id"])["saved"].to_list()
    [2]
    >>> join_few(rows, few.clear(), on=["cluster", "run_id"])["saved"].to_list()
    [None]

    Args:
        rows: many.
        few: each key once; of its other columns `rows` has none.
        on: the key.
    """
    if few.is_empty():
        others = few.drop(on).schema
        return rows.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in others.items())
    return rows.join(few, on=on, how="left", maintain_order="left")


def only_few(rows: pl.DataFrame, few: pl.DataFrame, *, on: Sequence[str]) -> pl.DataFrame:
    """Those of `rows` that have the key of one of `few`: a semi join.

    >>> rows = pl.DataFrame({"run_id": ["a", "b"]})
    >>> only_few(rows, rows[1:], on=["run_id"])["run_id"].to_list(), only_few(rows, rows.clear(), on=["run_id"]).height
    (['b'], 0)
    """
    return rows.clear() if few.is_empty() else rows.join(few, on=on, how="semi", maintain_order="left")


def without_few(rows: pl.DataFrame, few: pl.DataFrame, *, on: Sequence[str]) -> pl.DataFrame:
    """Those of `rows` that have the key of none of `few`: an anti join.

    >>> rows = pl.DataFrame({"run_id": ["a", "b"]})
    >>> without_few(rows, rows[1:], on=["run_id"])["run_id"].to_list()
    ['a']
    >>> without_few(rows, rows.clear(), on=["run_id"]).height
    2
    """
    return rows if few.is_empty() else rows.join(few, on=on, how="anti", maintain_order="left")
