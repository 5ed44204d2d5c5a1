"""Tables in Parquet files: the columns that identify each, and the rules for invalid rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from ingest.prometheus.gpu.samples import ACTIVE, HOUR_S
from ingest.prometheus.series.labels import COLUMNS, RATIOS
from ingest.tables import TEXT, Schema, columns_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from ingest.tables import SourceName

Reason: TypeAlias = tuple[pl.Expr, str]
"""A condition that refuses rows, and its reason."""

SLACK: Final = 1e-6
"""Tolerance for sums of floats."""

_SEVERITIES: Final = ("critical", "warning", "info")
_AT_LEAST_NOTHING: Final = (
    "memory_used_bytes", "power_w", "sm_clock_hz", "pcie_bytes_per_s", "nvlink_bytes_per_s",
)  # fmt: skip


@dataclass(frozen=True)
class FileTable:
    """A table that files may hold.

    Attributes:
        name: the table.
        source: source of its rows.
        required: columns without which a file holds no such table.
        names: columns that must not be empty, with their names in messages.
        key: columns that identify a row.
        length: column with the seconds that a row covers; of two that are the same the longer stays.
        hourly: rows are of whole hours; else `length` gives where they end.
        reasons: other conditions that refuse a row.
        filled: values of columns that the file lacks.
    """

    name: str
    source: SourceName
    required: tuple[str, ...]
    names: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    reasons: tuple[Reason, ...]
    length: str | None = None
    hourly: bool = False
    filled: tuple[tuple[str, str], ...] = ()

    @property
    def schema(self) -> Schema:
        """Its columns."""
        return columns_of(self.name)

    @property
    def numbers(self) -> list[str]:
        """Its columns that are numbers."""
        return [name for name, kind in self.schema.items() if kind.is_float()]

    @property
    def texts(self) -> list[str]:
        """Its columns that are text."""
        return [name for name, kind in self.schema.items() if kind == TEXT]

    def missing(self, columns: Collection[str]) -> list[str]:
        """Required columns that are missing."""
        return [name for name in self.required if name not in columns]


def _any_column(columns: Collection[str], when: pl.Expr) -> pl.Expr:
    return pl.any_horizontal(when).fill_null(value=False) if columns else pl.lit(value=False)


def _outside(columns: Collection[str], low: float, high: float) -> pl.Expr:
    return _any_column(columns, ~pl.col(*columns).is_between(low, high))


_MEAN, _COVERED, _INTERVAL = pl.col("mean"), pl.col("covered_s"), pl.col("interval_s")
_IS_RATIO = pl.col("metric").is_in([*RATIOS, ACTIVE])
_ABOVE: Final = (
    (pl.col("above_s") < 0) | (pl.col("above_s") > _COVERED + SLACK),
    "above_s is not within covered_s",
)
_HOURS: Final[tuple[Reason, ...]] = (
    (
        _COVERED.is_null() | ~_COVERED.is_between(0, HOUR_S + SLACK, closed="right"),
        "covered_s is not within an hour",
    ),
    (_MEAN.is_null(), "no mean"),
)
_OF_HOURS: Final = (
    (pl.col("ts").is_null() | (pl.col("ts") != pl.col("ts").dt.truncate("1h")), "ts is not the beginning of an hour"),
)
_OF_SAMPLES: Final[tuple[Reason, ...]] = (
    (pl.col("ts").is_null(), "no ts"),
    (
        _INTERVAL.is_null() | ~_INTERVAL.is_between(0, HOUR_S, closed="right"),
        "interval_s is not between 0 and an hour",
    ),
)
_OF_METRICS: Final[tuple[Reason, ...]] = (
    (pl.col("device").is_null(), "no device; of a whole node (cluster) it is empty"),
    (pl.col("value").is_null(), "no value"),
    (pl.col("metric").str.ends_with("_per_s") & (pl.col("value") < 0), "a rate is below 0"),
)

GPU_HOURS: Final = FileTable(
    "gpu_hours",
    "prometheus.gpu_hours",
    required=("node", "gpu", "ts", "metric", "mean", "covered_s"),
    names=(("cluster", "cluster"), ("node", "node"), ("gpu", "GPU"), ("metric", "metric")),
    key=("cluster", "node", "gpu", "ts", "metric"),
    length="covered_s",
    hourly=True,
    reasons=(
        *_OF_HOURS,
        (~pl.col("metric").is_in([*COLUMNS, ACTIVE]), "no metric of gpu_samples"),
        *_HOURS,
        (_IS_RATIO & _outside(("mean", "max", "p95"), 0, 1 + SLACK), "a ratio is not between 0 and 1"),
        ((pl.col("active_s") < 0) | (pl.col("active_s") > _COVERED + SLACK), "active_s is not within covered_s"),
        ((pl.col("metric") == ACTIVE) & pl.col("active_s").is_null(), "activity without active_s"),
        _ABOVE,
    ),
)
GPU_SAMPLES: Final = FileTable(
    "gpu_samples",
    "prometheus.gpu",
    required=("node", "gpu", "ts", "interval_s"),
    names=(("cluster", "cluster"), ("node", "node"), ("gpu", "GPU")),
    key=("cluster", "node", "gpu", "ts"),
    length="interval_s",
    reasons=(
        *_OF_SAMPLES,
        (pl.all_horizontal(pl.col(*COLUMNS).is_null()), "no value"),
        (_outside(tuple(sorted(RATIOS)), 0, 1 + SLACK), "a ratio is not between 0 and 1"),
        (_any_column(_AT_LEAST_NOTHING, pl.col(*_AT_LEAST_NOTHING) < 0), "a value is below 0"),
    ),
)
NODE_SAMPLES: Final = FileTable(
    "node_samples",
    "prometheus.node",
    required=("node", "metric", "device", "ts", "interval_s", "value"),
    names=(("cluster", "cluster"), ("node", "node"), ("metric", "metric")),
    key=("cluster", "node", "metric", "device", "ts"),
    length="interval_s",
    reasons=(*_OF_SAMPLES, *_OF_METRICS),
)
CLUSTER_SAMPLES: Final = FileTable(
    "cluster_samples",
    "prometheus.slurm",
    required=("metric", "device", "ts", "interval_s", "value"),
    names=(("cluster", "cluster"), ("metric", "metric")),
    key=("cluster", "metric", "device", "ts"),
    length="interval_s",
    reasons=(*_OF_SAMPLES, *_OF_METRICS),
)
NODE_HOURS: Final = FileTable(
    "node_hours",
    "prometheus.node",
    required=("node", "metric", "device", "ts", "mean", "covered_s"),
    names=(("cluster", "cluster"), ("node", "node"), ("metric", "metric")),
    key=("cluster", "node", "metric", "device", "ts"),
    length="covered_s",
    hourly=True,
    reasons=(*_OF_HOURS, _OF_METRICS[0], *_HOURS, _ABOVE),
)
HEALTH_EVENTS: Final = FileTable(
    "health_events",
    "prometheus.health",
    required=("node", "ts", "kind", "code"),
    names=(("cluster", "cluster"), ("node", "node"), ("kind", "kind"), ("source", "source"), ("evidence", "evidence")),
    key=tuple(columns_of("health_events")),
    reasons=(
        (pl.col("ts").is_null(), "no ts"),
        (pl.col("code").is_null(), "no code"),
        (~pl.col("severity").is_in(_SEVERITIES), "severity is not critical, warning or info"),
    ),
    filled=(("source", "prometheus.health"), ("evidence", "telemetry")),
)

TABLES: Final = (GPU_SAMPLES, GPU_HOURS, NODE_SAMPLES, NODE_HOURS, CLUSTER_SAMPLES, HEALTH_EVENTS)
"""All of them. A file is the one of which it has most columns, if it lacks none that is required."""


def table_of_columns(columns: Collection[str]) -> FileTable | None:
    """The table that a file with these columns holds; None where required columns of every table are missing."""
    whole = [table for table in TABLES if not table.missing(columns)]
    return max(whole, key=lambda table: len(table.schema.keys() & set(columns)), default=None)


def nearest(columns: Collection[str]) -> FileTable:
    """The table that a file with these columns is most like."""
    return min(TABLES, key=lambda table: (len(table.missing(columns)), -len(table.schema.keys() & set(columns))))
