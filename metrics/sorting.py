"""Sorts by several columns that use only those in which rows differ: the order is the same.

A computation is about one cluster, so the first column of its keys has the same value in every row. polars puts all key
columns of a row together before it compares rows: 325,000 runs in no order took 0.39 CPU seconds to sort by cluster and
run, and 0.06 by run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl


def sort_by(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Rows in the order of these columns.

    >>> import polars as pl
    >>> sort_by(pl.DataFrame({"cluster": ["c", "c"], "run_id": ["b", "a"]}), ["cluster", "run_id"])["run_id"].to_list()
    ['a', 'b']
    """
    varying = [name for name in names if not _is_constant(rows[name])]
    in_order = not varying or (len(varying) == 1 and rows[varying[0]].is_sorted())
    return rows if in_order else rows.sort(varying)


def _is_constant(column: pl.Series) -> bool:
    """Whether a column has one value, and no null."""
    if column.is_empty() or column.null_count():
        return False
    return bool((column == column[0]).all())
