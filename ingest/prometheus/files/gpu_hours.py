"""Hourly roll-ups of GPUs, which remain of a cluster's history after raw samples are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.prometheus.files import parquet_tables
from ingest.prometheus.files.table_rules import GPU_HOURS

if TYPE_CHECKING:
    import polars as pl


def without_duplicates(rows: pl.DataFrame) -> pl.DataFrame:
    """Each GPU's metric of an hour once: the row that covers most of the hour."""
    return parquet_tables.without_duplicates(rows, GPU_HOURS.key, GPU_HOURS.length)
