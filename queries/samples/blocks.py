"""Samples of a table in blocks, for what reads many of them once: polars decodes our files twice as fast as DuckDB.

A block is lazy, so that its reader takes the columns that it needs, and others only where those are not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from queries.samples import parquet_days

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

ROWS: Final = 32 * parquet_days.ROW_GROUP
"""Of a block, at most: some 200 MB of a few columns."""


def blocks(paths: Iterable[Path], columns: pl.Schema) -> Iterator[pl.LazyFrame]:
    """Rows of files in the order in which they lie there: of a GPU after those of the one before, by time.

    Args:
        paths: of files of one sample table.
        columns: of that table; those that an older file lacks are null.
    """
    for path in paths:
        file = pl.scan_parquet(path, hive_partitioning=False, glob=False)
        schema = file.collect_schema()
        absent = [pl.lit(None, dtype=kind).alias(name) for name, kind in columns.items() if name not in schema]
        rows = file.with_columns(absent)
        n_rows = int(file.select(pl.len()).collect().item())
        yield from (rows.slice(begin, ROWS) for begin in range(0, n_rows, ROWS))
