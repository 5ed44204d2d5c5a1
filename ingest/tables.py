"""The frames of all sources: columns, types and units as declared in `queries/schema`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

import polars as pl

from queries import sql_files

if TYPE_CHECKING:
    from ingest.load_warnings import LoadWarning

Schema: TypeAlias = dict[str, pl.DataType]
SourceName: TypeAlias = str
"""`FOLDER.KIND` of a source in `ingest.registry`."""

TIME: Final = pl.Datetime("us", "UTC")
GPUS: Final = pl.Decimal(12, 3)
TEXT: Final = pl.String()
WHOLE: Final = pl.Int64()
REAL: Final = pl.Float64()
FLAG: Final = pl.Boolean()
TEXTS: Final = pl.List(pl.String())
WARNINGS: Final = pl.List(pl.Struct({"code": TEXT, "count": WHOLE, "detail": TEXT}))

RAW_LIMIT = 4_000
"""Characters of a refused row that are stored."""

ATTEMPT_KEY: Final = ("cluster", "scheduler", "job_id", "submitted_at")

_TYPES: Final[Schema] = {
    "VARCHAR": TEXT,
    "VARCHAR[]": TEXTS,
    "JSON": TEXT,
    "TIMESTAMPTZ": TIME,
    "DATE": pl.Date(),
    "BIGINT": WHOLE,
    "DOUBLE": REAL,
    "FLOAT": pl.Float32(),
    "BOOLEAN": FLAG,
    "STRUCT(code VARCHAR, count BIGINT, detail VARCHAR)[]": WARNINGS,
    "DECIMAL(12,3)": GPUS,
    "DECIMAL(18,9)": pl.Decimal(18, 9),
}
"""Types of columns in `queries/schema`, and those of frames."""


@cache
def columns_of(table: str) -> Schema:
    """The frame of a table: the columns that its schema file declares, in that order.

    >>> columns_of("cluster_settings")
    {'cluster': String, 'name': String, 'value': String}
    """
    return {column.name: _TYPES[column.type.removesuffix(" NOT NULL")] for column in sql_files.table(table).columns}


ATTEMPTS: Final = columns_of("attempts")
NODE_LISTS: Final = columns_of("node_lists")
NODES: Final = columns_of("nodes")
NODE_STATES: Final = columns_of("node_states")
JOB_GPUS: Final = columns_of("job_gpus")
STEP_USAGE: Final = columns_of("step_usage")
JOB_SUMMARIES: Final = columns_of("job_summaries")
CLUSTER_SETTINGS: Final = columns_of("cluster_settings")
NODE_TOPOLOGY: Final = columns_of("node_topology")
RESERVATIONS: Final = columns_of("reservations")
USERS: Final = columns_of("users")
ASSOCIATIONS: Final = columns_of("associations")
COORDINATORS: Final = columns_of("coordinators")
QOS: Final = columns_of("qos")
TRANSACTIONS: Final = columns_of("transactions")
SCHEDULER_STATS: Final = columns_of("scheduler_stats")
RUNAWAY_JOBS: Final = columns_of("runaway_jobs")
GPU_SAMPLES: Final = columns_of("gpu_samples")
GPU_HOURS: Final = columns_of("gpu_hours")
NODE_SAMPLES: Final = columns_of("node_samples")
CLUSTER_SAMPLES: Final = columns_of("cluster_samples")
NODE_HOURS: Final = columns_of("node_hours")
NODE_ALIASES: Final = columns_of("node_aliases")
HEALTH_EVENTS: Final = columns_of("health_events")
RUN_SESSIONS: Final = columns_of("run_sessions")
STEPS: Final = columns_of("steps")
RUN_EVENTS: Final = columns_of("run_events")
REJECTS: Final = columns_of("rejects")


@dataclass(frozen=True)
class Parsed:
    """One parsed input: the rows for each table, the refused rows, and an account of every row read.

    `rows_read` is always the sum of loaded, duplicate, skipped and rejected rows, and `rejects` has one row for
    each rejected one. `covers_from` and `covers_until` are aware; both are None where the input has no time.
    `rows_new`, the number of new rows, is set by the function that writes them. `rows_of_headers` is the number of
    skipped rows that repeat the header.
    """

    source: SourceName
    clusters: frozenset[str]
    frames: dict[str, pl.DataFrame]
    rejects: pl.DataFrame
    rows_read: int
    rows_loaded: int
    rows_duplicate: int = 0
    rows_skipped: int = 0
    rows_of_headers: int = 0
    rows_rejected: int = 0
    rows_new: int | None = None
    columns: list[str] = field(default_factory=list)
    warnings: list[LoadWarning] = field(default_factory=list)
    covers_from: datetime | None = None
    covers_until: datetime | None = None

    def __post_init__(self) -> None:
        accounted = self.rows_loaded + self.rows_duplicate + self.rows_skipped + self.rows_rejected
        least = min(self.rows_loaded, self.rows_duplicate, self.rows_skipped)
        if accounted != self.rows_read or self.rows_rejected != self.rejects.height or least < 0:
            message = (
                f"{self.source}: {self.rows_read} rows read, {accounted} accounted for, {self.rejects.height} kept"
            )
            raise AssertionError(message)
        for name, frame in (*self.frames.items(), ("rejects", self.rejects)):
            if dict(frame.schema) != columns_of(name):
                message = f"{self.source}: frame {name} is not as declared: {frame.schema}"
                raise AssertionError(message)


def earliest_time(times: pl.Series) -> datetime | None:
    """The earliest of the times; None where there are none. Polars types `Series.min` as a value of any kind."""
    first = times.min()
    return first if isinstance(first, datetime) else None


def latest_time(times: pl.Series) -> datetime | None:
    """The latest of the times; None where there are none."""
    last = times.max()
    return last if isinstance(last, datetime) else None


def empty(schema: Schema) -> pl.DataFrame:
    """A frame of that schema without rows; all callers share it, so none may change it in place."""
    return _empty(tuple(schema.items()))


@cache
def _empty(columns: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def conform(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of the schema, in its order and types; those that the frame lacks are null.

    >>> conform(pl.DataFrame({"name": ["a"], "more": [1]}), {"name": TEXT, "value": TEXT}).row(0)
    ('a', None)
    """
    has = frame.schema
    if all(has.get(name) == dtype for name, dtype in schema.items()):
        return frame[list(schema)]
    return frame.select(
        pl.lit(None, dtype).alias(name)
        if name not in has
        else pl.col(name)
        if has[name] == dtype
        else pl.col(name).cast(dtype)
        for name, dtype in schema.items()
    )


def rows_absent_from(rows: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Those of `rows` that are not among `others`, which have the same columns; nulls are equal.

    >>> rows = pl.DataFrame({"node": ["n1", None]})
    >>> rows_absent_from(rows, rows[1:])["node"].to_list()
    ['n1']
    """
    return rows.join(others, on=rows.columns, how="anti", nulls_equal=True)
