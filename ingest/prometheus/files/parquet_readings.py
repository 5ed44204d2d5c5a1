"""Parquet files with raw readings, a row each, as exported from Prometheus, Thanos or VictoriaMetrics.

    __name__              gpu  Hostname  timestamp                  value
    DCGM_FI_DEV_GPU_UTIL  0    n1        2026-11-21 08:00:15+00:00  97

One column is the metric's name, one the time, one the value; columns of text are labels, and so are the fields of a
column `labels`. The readings are then processed like OpenMetrics text (`ingest.prometheus.files.openmetrics`).
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import InputError
from ingest.prometheus.files import by_source
from ingest.prometheus.files.openmetrics import as_parsed
from ingest.prometheus.files.openmetrics_parser import (
    AHEAD_S,
    REFUSED,
    OpenMetricsText,
    conflicts,
    in_milliseconds,
    time_reasons,
)
from ingest.prometheus.files.parquet_tables import is_number, is_text
from ingest.prometheus.gpu import readings
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.gather import Gathering
from ingest.tables import RAW_LIMIT, REAL, TEXT, WHOLE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus.mapping.mapping import Mapping
    from ingest.tables import Parsed

NAMES: Final = ("__name__", "metric_name", "metric", "name")
TIMES: Final = ("timestamp", "ts", "time", "datetime", "_time")
VALUES: Final = ("value", "_value")
LABELS: Final = "labels"
"""A column of structures, whose fields are labels."""

BATCH: Final = 1 << 20
"""Rows that are examined together."""

_NO_NAME, _NO_GPU = -1, -2


class ReadingColumns(NamedTuple):
    """Names of the columns with the metric's name, the time and the value."""

    name: str
    time: str
    value: str


def columns_of_readings(columns: Collection[str]) -> ReadingColumns | None:
    """The columns of a file for name, time and value of readings; None where one of them is missing."""
    matched_columns = [next((name for name in names if name in columns), None) for names in (NAMES, TIMES, VALUES)]
    name, time, value = matched_columns
    return ReadingColumns(name, time, value) if name and time and value else None


def parse_readings(
    data: bytes,
    columns: ReadingColumns,
    *,
    origin: str,
    cluster: str,
    interval_s: int,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    mapping: Mapping | None = None,
) -> list[Parsed]:
    """Readings, source by source: see `ingest.prometheus.files.openmetrics.parse_openmetrics`. Each row is one.

    Raises:
        InputError: the file is damaged, or its columns are of unsupported types.
    """
    mapping = mapping or builtin()
    reading = _ParquetFile(origin, columns, mapping, Gathering(since, until), now.timestamp() + AHEAD_S)
    for rows in _batches(data, origin):
        reading.take(rows)
    return as_parsed(reading.parsed_text(), mapping, cluster=cluster, interval_s=interval_s, origin=origin)


def _batches(data: bytes, origin: str) -> Iterator[pl.DataFrame]:
    try:
        for batch in pq.ParquetFile(io.BytesIO(data)).iter_batches(BATCH):
            yield pl.DataFrame(batch)
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        message = f"{origin}: the Parquet file is damaged ({reason}); write it again"
        raise InputError(message) from None


class _ParquetFile:
    """One file that is being read."""

    def __init__(
        self, origin: str, columns: ReadingColumns, mapping: Mapping, gathering: Gathering, latest_s: float
    ) -> None:
        self.origin, self.columns, self.mapping = origin, columns, mapping
        self.gathering, self.latest_s = gathering, latest_s
        self.names_to_read = sorted(by_source.names(mapping))
        self._refused = [pl.DataFrame(schema=REFUSED)]
        self._n_rows = self._n_skipped = 0

    def parsed_text(self) -> OpenMetricsText:
        """All that was read."""
        gathered = self.gathering.finish()
        return OpenMetricsText(gathered, self._n_rows, pl.concat(self._refused), self._n_skipped, conflicts(gathered))

    def take(self, rows: pl.DataFrame) -> None:
        """Take in rows."""
        self._n_rows += rows.height
        rows, labels = self._with_known_types(rows)
        name = pl.col("__name__")
        skipped = name.is_not_null() & ~name.is_in(self.names_to_read)
        requested = rows.filter(~skipped)
        self._n_skipped += rows.height - requested.height
        rows_read = self._numbered(requested, labels).with_columns(reason=self._reason())
        refused = rows_read.filter(pl.col("reason").is_not_null())
        if refused.height:
            raw = pl.struct([*labels, "at", "value"]).struct.json_encode().str.slice(0, RAW_LIMIT)
            self._refused.append(refused.select(pl.lit(None, dtype=WHOLE).alias("line"), "reason", raw.alias("raw")))
        good = rows_read.filter(pl.col("reason").is_null())
        times, values = in_milliseconds(good["at"].to_numpy()), good["value"].to_numpy()
        self.gathering.add(good["number"].to_numpy(), times, values)

    def _reason(self) -> pl.Expr:
        reasons = (
            (pl.col("__name__").is_null(), "no name of a metric"),
            (pl.col("value").is_null(), "no value"),
            (pl.col("at").is_null(), "no timestamp"),
            *time_reasons(pl.col("at"), self.latest_s),
            (pl.col("number") == _NO_GPU, "no label names the node and the GPU"),
        )
        return pl.coalesce(pl.when(when).then(pl.lit(reason)) for when, reason in reasons)

    def _with_known_types(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
        """Rows with `__name__`, labels, `at` (seconds or milliseconds) and `value`; and the names of the labels.

        Raises:
            InputError: a column is of an unsupported type.
        """
        name, time, value = self.columns
        if isinstance(rows.schema.get(LABELS), pl.Struct):
            fields = rows.select(pl.col(LABELS)).unnest(LABELS)
            others = [each for each in fields.columns if each not in rows.columns]
            rows = rows.drop(LABELS).with_columns(fields.select(others))
        kinds = rows.schema
        for column, good, reason in (
            (name, is_text(kinds[name]), "text"),
            (value, is_number(kinds[value]), "a number"),
            (time, _is_time(kinds[time]), "a time with a zone, or a number of seconds or milliseconds"),
        ):
            if not good:
                raise InputError(f"{self.origin}: {column} is {kinds[column]}, and should be {reason}")
        labels = [each for each, kind in kinds.items() if each not in self.columns and is_text(kind)]
        rows_read = rows.select(
            pl.col(name).cast(TEXT).alias("__name__"),
            *(pl.col(label).cast(TEXT).fill_null("").alias(f"label {label}") for label in labels),
            _at(time, kinds[time]).alias("at"),
            pl.col(value).cast(REAL).alias("value"),
        )
        return rows_read, ["__name__", *(f"label {label}" for label in labels)]

    def _numbered(self, rows: pl.DataFrame, labels: Sequence[str]) -> pl.DataFrame:
        """Rows with `number`, that of their series."""
        unique = rows.select(labels).unique(maintain_order=True)
        numbers = [self._number(row) for row in unique.iter_rows(named=True)]
        table = unique.with_columns(pl.Series("number", numbers, dtype=WHOLE))
        return rows.join(table, on=list(labels), how="left", nulls_equal=True, maintain_order="left")

    def _number(self, row: dict[str, str | None]) -> int:
        labels = {label.removeprefix("label "): value for label, value in row.items() if value}
        if "__name__" not in labels:
            return _NO_NAME
        return _NO_GPU if readings.refused(labels, self.mapping) else self.gathering.number(labels)


def _is_time(kind: pl.DataType) -> bool:
    return is_number(kind) or (isinstance(kind, pl.Datetime) and kind.time_zone is not None)


def _at(column: str, kind: pl.DataType) -> pl.Expr:
    """Times in seconds or milliseconds; numbers may count microseconds or nanoseconds, too."""
    if isinstance(kind, pl.Datetime):
        return pl.col(column).dt.epoch("us").cast(REAL) / 1000
    number = pl.col(column).cast(REAL)
    return (
        pl.when(number >= _NANOSECONDS_FROM)
        .then(number / 1e6)
        .when(number >= _MICROSECONDS_FROM)
        .then(number / 1e3)
        .otherwise(number)
    )


_MICROSECONDS_FROM: Final = 1e14
_NANOSECONDS_FROM: Final = 1e17
