"""Hourly roll-ups of GPU telemetry in Parquet: what is left of a cluster's history when raw samples are long gone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.clusters import TOO_LONG, fits_a_folder
from ingest.dcgm import COLUMNS, RATIOS
from ingest.errors import InputError, MissingColumnError, UnrecognisedInputError
from ingest.frames import GPU_HOURS, RAW_LIMIT, REAL, REJECTS, TEXT, WHOLE, Parsed, conform
from ingest.gpu_samples import ACTIVE, HOUR_S
from ingest.times import EARLIEST_S, LATEST_S

if TYPE_CHECKING:
    from datetime import datetime

SOURCE: Final = "prometheus.gpu_hours"
MAGIC: Final = b"PAR1"
REQUIRED: Final = ("node", "gpu", "ts", "metric", "mean", "covered_s")
KEY: Final = ("cluster", "node", "gpu", "ts", "metric")
SLACK: Final = 1e-6
"""What sums of floats may be over."""


def names_cluster(data: bytes) -> bool:
    """Whether a Parquet file has a column that says the cluster."""
    return data.startswith(MAGIC) and "cluster" in _columns(data, "input")


def parse_gpu_hours(
    data: bytes,
    *,
    origin: str,
    cluster: str | None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Parsed:
    """Rows of `gpu_hours`, checked; those that cannot be are refused with the reason.

    Args:
        data: a Parquet file with the columns of `gpu_hours`: those of REQUIRED, others if they are there.
        origin: its name.
        cluster: of the rows that name none.
        since: hours that begin earlier are skipped.
        until: hours that begin then or later are skipped.

    Raises:
        UnrecognisedInputError, MissingColumnError, InputError: the file as a whole cannot be used.
    """
    rows = _read(data, origin, cluster)
    outside = ~_within(since, until)
    checked = rows.with_columns(reason=_reason(rows["cluster"]), outside=outside.fill_null(value=False))
    refused = checked.filter(pl.col("reason").is_not_null())
    good = checked.filter(pl.col("reason").is_null())
    inside = good.filter(~pl.col("outside"))
    once = once_each(inside.select(GPU_HOURS.keys()))
    hours = once.select(pl.col("ts").min().alias("low"), pl.col("ts").max().dt.offset_by("1h").alias("high"))
    return Parsed(
        SOURCE,
        _clusters(once) or _clusters(refused),
        {"gpu_hours": once},
        _rejects(refused, cluster, origin),
        rows_read=rows.height,
        rows_loaded=once.height,
        rows_duplicate=inside.height - once.height,
        rows_skipped=good.height - inside.height,
        rows_rejected=refused.height,
        columns=_columns(data, origin),
        covers_from=hours["low"].item(),
        covers_until=hours["high"].item(),
    )


def _clusters(rows: pl.DataFrame) -> frozenset[str]:
    """The clusters that rows name, if anything can be kept under the name."""
    return frozenset(filter(fits_a_folder, rows["cluster"].drop_nulls().unique()))


def once_each(rows: pl.DataFrame) -> pl.DataFrame:
    """Each GPU's metric of an hour once: the row that knows most of the hour. Millions of rows seldom need sorting."""
    if rows.select(pl.struct(KEY).hash().n_unique()).item() == rows.height:
        return rows
    return rows.sort(*KEY, "covered_s").unique(list(KEY), keep="last", maintain_order=True)


def _columns(data: bytes, origin: str) -> list[str]:
    try:
        return list(pl.read_parquet_schema(io.BytesIO(data)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        message = f"{origin}: the Parquet file is cut off or damaged ({str(error).splitlines()[0]}); write it again"
        raise UnrecognisedInputError(message) from None


def _read(data: bytes, origin: str, cluster: str | None) -> pl.DataFrame:
    """The file's columns that we know, in our types, and `far` (see `_in_our_types`)."""
    names = _columns(data, origin)
    lacking = [name for name in REQUIRED if name not in names]
    if lacking:
        message = f"{origin}: lacks the column(s) {', '.join(lacking)}; it has {', '.join(names) or 'none'}"
        raise MissingColumnError(message)
    try:
        frame = pl.read_parquet(io.BytesIO(data), columns=[name for name in GPU_HOURS if name in names])
        _refuse_odd_types(frame.schema, origin)
        return _in_our_types(frame, cluster)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        message = f"{origin}: the Parquet file is damaged ({str(error).splitlines()[0]}); write it again"
        raise InputError(message) from None


def _refuse_odd_types(schema: pl.Schema, origin: str) -> None:
    zoned = schema["ts"]
    if not isinstance(zoned, pl.Datetime) or zoned.time_zone is None:
        message = f"{origin}: ts is {zoned}, not a time with a zone; write it as a timestamp in UTC"
        raise InputError(message)
    for wanted, good, said in ((REAL, _is_number, "a number"), (TEXT, _is_text, "text")):
        names = [name for name, dtype in GPU_HOURS.items() if dtype == wanted and name in schema]
        odd = [name for name in names if not good(schema[name])]
        if odd:
            message = f"{origin}: {', '.join(odd)} should be {said}"
            raise InputError(message)


def _is_number(dtype: pl.DataType) -> bool:
    return dtype.is_numeric() or dtype == pl.Null


def _is_text(dtype: pl.DataType) -> bool:
    """Whether it is text, or says the same as text: a GPU's number does, bytes and lists do not."""
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null) or dtype.is_integer()


def _in_our_types(frame: pl.DataFrame, cluster: str | None) -> pl.DataFrame:
    """GPU_HOURS and `far`: the number that stands for a time outside the years 2000 to 2100; `ts` is null there."""
    numbers = [name for name, dtype in GPU_HOURS.items() if dtype == REAL and name in frame.columns]
    unit = getattr(frame.schema["ts"], "time_unit", "us")
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = pl.col("ts").to_physical()
    far = ~raw.is_between(EARLIEST_S * second, LATEST_S * second)
    frame = frame.with_columns(pl.when(far).then(raw.cast(TEXT)).alias("far"), pl.when(~far).then("ts").alias("ts"))
    frame = frame.with_columns(pl.col(numbers).cast(REAL), pl.col("node", "gpu", "metric").cast(TEXT))
    frame = frame.with_columns(pl.col("ts").dt.convert_time_zone("UTC").dt.cast_time_unit("us"))
    named = pl.col("cluster").cast(TEXT) if "cluster" in frame.columns else pl.lit(None, dtype=TEXT)
    frame = frame.with_columns(cluster=pl.coalesce(named, pl.lit(cluster, dtype=TEXT)))
    return conform(frame, {**GPU_HOURS, "far": TEXT})


def _within(since: datetime | None, until: datetime | None) -> pl.Expr:
    ts, everything = pl.col("ts"), pl.lit(value=True)
    return (everything if since is None else ts >= since) & (everything if until is None else ts < until)


def _reason(clusters: pl.Series) -> pl.Expr:
    """Why a row is refused; null where it is not. `clusters` are all that the rows name."""
    metric, covered, active = pl.col("metric"), pl.col("covered_s"), pl.col("active_s")
    numbers = pl.col("mean", "max", "p95", "active_s", "covered_s")
    ratio = metric.is_in([*RATIOS, ACTIVE])
    out_of_range = pl.any_horizontal(~pl.col("mean", "max", "p95").is_between(0, 1 + SLACK)).fill_null(value=False)
    names = [name for name, dtype in GPU_HOURS.items() if dtype == TEXT]
    long = [name for name in clusters.drop_nulls().unique(maintain_order=True) if not fits_a_folder(name)]
    reasons = (
        (pl.col("far").is_not_null(), "ts is not between the years 2000 and 2100"),
        (pl.col("cluster").is_in(long), f"cluster: {TOO_LONG}"),
        (pl.any_horizontal(pl.col(names).is_null() | (pl.col(names) == "")), "no cluster, node, GPU or metric"),
        (
            pl.col("ts").is_null() | (pl.col("ts") != pl.col("ts").dt.truncate("1h")),
            "ts is not the beginning of an hour",
        ),
        (~metric.is_in([*COLUMNS, ACTIVE]), "no metric of gpu_samples"),
        (pl.any_horizontal(numbers.is_infinite() | numbers.is_nan()).fill_null(value=False), "a value is not finite"),
        (covered.is_null() | ~covered.is_between(0, HOUR_S + SLACK, closed="right"), "covered_s is not within an hour"),
        (pl.col("mean").is_null(), "no mean"),
        (ratio & out_of_range, "a ratio is not between 0 and 1"),
        ((active < 0) | (active > covered + SLACK), "active_s is not within covered_s"),
        ((metric == ACTIVE) & active.is_null(), "activity without active_s"),
    )
    return pl.coalesce(pl.when(when).then(pl.lit(said)) for when, said in reasons)


def _rejects(refused: pl.DataFrame, cluster: str | None, origin: str) -> pl.DataFrame:
    """Refused rows as JSON; a Parquet file has no lines."""
    ts = pl.coalesce(pl.col("ts").dt.to_string("iso:strict"), "far").alias("ts")
    raw = pl.struct(pl.col(GPU_HOURS.keys()).exclude("ts"), ts)
    return conform(
        refused.select(
            pl.col("cluster").fill_null(cluster or ""),
            pl.lit(SOURCE).alias("source"),
            pl.lit(origin).alias("origin"),
            pl.lit(None, dtype=WHOLE).alias("line"),
            "reason",
            raw.struct.json_encode().str.slice(0, RAW_LIMIT).alias("raw"),
        ),
        REJECTS,
    )
