"""Numbers of rows in the warehouse by source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.registry import SOURCES

if TYPE_CHECKING:
    from ingest.source import IngestSource
    from queries.warehouse import Reader


def row_counts(reader: Reader) -> pl.DataFrame:
    """Rows that the warehouse has now of the tables that each source feeds.

    Returns:
        `cluster`, `source`, `fed` (the table) and `n`, sorted; tables without a row of a source are left out.
    """
    tables = dict.fromkeys(name for source in SOURCES for name in source.counted or source.feeds)
    counts = reader.row_counts(tables)
    parts = [
        counts.filter(pl.col("fed") == name, *_of(source)).select(
            "cluster", pl.lit(source.name).alias("source"), "fed", "n"
        )
        for source in SOURCES
        for name in source.counted or source.feeds
    ]
    return pl.concat(parts).group_by("cluster", "source", "fed").agg(pl.col("n").sum()).sort("cluster", "source", "fed")


def _of(source: IngestSource) -> tuple[pl.Expr, ...]:
    """Conditions for the rows of a source, in tables with a source or a scheduler."""
    named = pl.col("source").is_null() | (pl.col("source") == source.name)
    scheduled = pl.col("scheduler").is_null() | pl.col("scheduler").is_in(source.schedulers)
    return (named, scheduled) if source.schedulers else (named,)
