"""Inputs that a computation of a cluster reads once, and that all of its parts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from metrics import frames
from metrics.ledger.capacity import coverage

if TYPE_CHECKING:
    from app.compute.attempt_nodes import AttemptNodes
    from app.config.settings import Rules
    from queries.warehouse import Writer


@dataclass(frozen=True)
class Facts:
    """Accounting data of a cluster, as metrics read them; `reported_states` are node states without corrections."""

    covered: pl.DataFrame
    attempts: pl.DataFrame
    on_nodes: AttemptNodes
    states: pl.DataFrame
    reported_states: pl.DataFrame


def covered_time(writer: Writer, cluster: str, source: str, rules: Rules) -> pl.DataFrame:
    """The time that the loads of a source cover, small gaps closed: `frames.COVERAGE`."""
    loads = frames.conform(writer.query("coverage", cluster=cluster, source=source), frames.COVERAGE)
    return coverage(loads, gap_s=rules.coverage_gap_hours * 3600)


def with_gpus(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """Thousandths back to GPUs."""
    exact = (pl.col("milli_gpus").cast(pl.Decimal(18, 3)) / 1000).cast(frames.GPUS)
    return table.with_columns(exact.alias(name)).drop("milli_gpus")
