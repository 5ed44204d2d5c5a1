"""Parquet files with rows of our tables, from another warehouse or an archive of telemetry.

The columns of a file decide which table it holds (`ingest.prometheus.files.table_rules`); each row is checked, and
refused with the reason if it is invalid. A warehouse's own files are loaded unchanged. A large file of hours is parsed
in blocks of time, so that the memory needed does not grow with the file.
"""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.cluster_names import TOO_LONG, fits_a_folder
from ingest.errors import InputError, MissingColumnError, UnrecognisedInputError
from ingest.plausible import EARLIEST_S, LATEST_S
from ingest.prometheus.files.table_rules import nearest, table_of_columns
from ingest.prometheus.gpu.samples import end
from ingest.tables import RAW_LIMIT, REJECTS, TEXT, WHOLE, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus.files.table_rules import FileTable

MAGIC: Final = b"PAR1"
"""How Parquet files begin."""

BLOCK: Final = 1 << 19
"""Approximate number of rows parsed together. A row takes up to 1 kB while it is checked and written."""

_DAMAGE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
"""Exceptions of polars for a damaged file."""

_OVERLAPS: Final = "covers time that another row covers"
_FAR: Final = "ts is not between the years 2000 and 2100"


def columns_of(data: bytes, origin: str) -> list[str]:
    """Names of a Parquet file's columns.

    Raises:
        UnrecognisedInputError: it is none, or cut.
    """
    try:
        return list(pl.read_parquet_schema(io.BytesIO(data)))
    except _DAMAGE as error:
        message = f"{origin}: the Parquet file is cut off or damaged ({_first_line(error)}); write it again"
        raise UnrecognisedInputError(message) from None


def parse_table(
    data: bytes,
    *,
    origin: str,
    cluster: str | None,
    since: datetime | None = None,
    until: datetime | None = None,
    block: pl.Expr | None = None,
) -> Parsed:
    """Rows of a table, checked; invalid ones are refused with the reason.

    Args:
        data: a Parquet file with the columns of a table: those that it needs, others if they are there.
        origin: its name.
        cluster: of the rows that name none.
        since: rows that begin earlier are skipped.
        until: rows that begin then or later are skipped.
        block: one of `blocks`, of which alone the rows are parsed; None: all rows of the file.

    Raises:
        UnrecognisedInputError, MissingColumnError, InputError: the file as a whole cannot be used.
    """
    columns = columns_of(data, origin)
    table = table_of_columns(columns)
    if table is None:
        like = nearest(columns)
        raise MissingColumnError(
            f"{origin}: lacks {', '.join(like.missing(columns))}; it has {', '.join(columns) or 'none'}\n"
            f"and is most like {like.name}"
        )
    rows = _read(data, table, origin, cluster, block)
    reasons = _reasons(table, rows["cluster"])
    why = pl.coalesce(pl.when(when).then(pl.lit(reason)) for when, reason in reasons)
    checked = rows.with_columns(reason=why, outside=(~_within(since, until)).fill_null(value=False))
    good = checked.filter(pl.col("reason").is_null())
    inside = good.filter(~pl.col("outside"))
    once = without_duplicates(inside, table.key, table.length)
    alone = _without_overlaps(once, table)
    overlapping = once.filter(~alone).with_columns(reason=pl.lit(_OVERLAPS))
    refused = pl.concat([checked.filter(pl.col("reason").is_not_null()), overlapping])
    loaded = once.filter(alone).select(list(table.schema))
    covers = _covers(loaded, table)
    return Parsed(
        table.source,
        _clusters(loaded) or _clusters(refused),
        {table.name: loaded},
        _rejects(refused, table, cluster, origin),
        rows_read=rows.height,
        rows_loaded=loaded.height,
        rows_duplicate=inside.height - once.height,
        rows_skipped=good.height - inside.height,
        rows_rejected=refused.height,
        columns=columns,
        covers_from=covers[0],
        covers_until=covers[1],
    )


def blocks(data: bytes, origin: str, *, rows: int = BLOCK) -> list[pl.Expr | None]:
    """The blocks of time in which a file is parsed: conditions on `ts`, of which each row meets one.

    Whether rows of hours repeat each other is decided within the hour, so each block can be checked by itself. A file
    of another table, or of few rows, is one block: None.

    Args:
        data: a Parquet file.
        origin: its name.
        rows: of a block, about; an hour is never divided.
    """
    table = table_of_columns(columns_of(data, origin))
    if table is None or not table.hourly:
        return [None]
    try:
        hours = pl.scan_parquet(io.BytesIO(data)).group_by("ts").len().collect(engine="streaming").sort("ts")
        number = (pl.col("len").cum_sum() - pl.col("len")) // rows
        starts = hours.drop_nulls("ts").group_by(number.alias("number")).agg(pl.col("ts").min()).sort("ts")["ts"]
        moments = [pl.lit(moment, dtype=starts.dtype) for moment in starts.to_list()]
    except (*_DAMAGE, OverflowError, ValueError):
        return [None]  # `parse_table` reports its fault
    if hours["len"].sum() <= rows or len(moments) < 2:
        return [None]
    later = [pl.col("ts") >= moment for moment in moments[1:]]
    return [~later[0], *(low & ~high for low, high in pairwise(later)), later[-1], pl.col("ts").is_null()]


def without_duplicates(rows: pl.DataFrame, key: Sequence[str], length: str | None) -> pl.DataFrame:
    """Rows with each key once: the one that covers most seconds. Millions seldom need sorting."""
    if rows.select(pl.struct(key).hash().n_unique()).item() == rows.height:
        return rows
    ordered = rows.sort(*key, *([length] if length else []))
    return ordered.unique(list(key), keep="last", maintain_order=True)


def _clusters(rows: pl.DataFrame) -> frozenset[str]:
    """The clusters that rows name, if anything can be kept under the name."""
    return frozenset(filter(fits_a_folder, rows["cluster"].drop_nulls().unique()))


def _covers(rows: pl.DataFrame, table: FileTable) -> tuple[datetime | None, datetime | None]:
    """The time that rows cover; events cover no time."""
    if table.length is None:
        return None, None
    last = pl.col("ts").dt.offset_by("1h") if table.hourly else end("ts", table.length)
    times = rows.select(pl.col("ts").min().alias("low"), last.max().alias("high"))
    return times["low"].item(), times["high"].item()


# --- reading


def _read(
    data: bytes, table: FileTable, origin: str, cluster: str | None, block: pl.Expr | None = None
) -> pl.DataFrame:
    """The file's columns that the table has, in our types, and `far` (see `_in_our_types`)."""
    try:
        present = [name for name in table.schema if name in columns_of(data, origin)]
        if block is None:
            frame = pl.read_parquet(io.BytesIO(data), columns=present)
        else:
            frame = pl.scan_parquet(io.BytesIO(data)).filter(block).select(present).collect()
        _refuse_odd_types(frame.schema, table, origin)
        return _in_our_types(frame, table, cluster)
    except _DAMAGE as error:
        message = f"{origin}: the Parquet file is damaged ({_first_line(error)}); write it again"
        raise InputError(message) from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _refuse_odd_types(schema: pl.Schema, table: FileTable, origin: str) -> None:
    zoned = schema["ts"]
    if not isinstance(zoned, pl.Datetime) or zoned.time_zone is None:
        message = f"{origin}: ts is {zoned}, not a time with a zone; write it as a timestamp in UTC"
        raise InputError(message)
    kinds: tuple[tuple[Sequence[str], Callable[[pl.DataType], bool], str], ...] = (
        (table.numbers, is_number, "a number"),
        (table.texts, is_text, "text"),
    )
    for names, good, reason in kinds:
        odd = [name for name in names if name in schema and not good(schema[name])]
        if odd:
            message = f"{origin}: {', '.join(odd)} should be {reason}"
            raise InputError(message)


def is_number(dtype: pl.DataType) -> bool:
    """Whether values of a type can be numbers."""
    return dtype.is_numeric() or dtype == pl.Null


def is_text(dtype: pl.DataType) -> bool:
    """Whether it is text, or usable as text: a GPU's number is, bytes and lists are not."""
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null) or dtype.is_integer()


def _in_our_types(frame: pl.DataFrame, table: FileTable, cluster: str | None) -> pl.DataFrame:
    """The table's columns and `far`: the number of an impossible time; `ts` is null there."""
    unit = getattr(frame.schema["ts"], "time_unit", "us")
    second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    raw = pl.col("ts").to_physical()
    far = ~raw.is_between(EARLIEST_S * second, LATEST_S * second)
    frame = frame.with_columns(pl.when(far).then(raw.cast(TEXT)).alias("far"), pl.when(~far).then("ts").alias("ts"))
    frame = frame.with_columns(pl.col("ts").dt.convert_time_zone("UTC").dt.cast_time_unit("us"))
    filled = {**dict(table.filled), "cluster": cluster}
    texts = [name for name in table.texts if name in frame.columns]
    frame = frame.with_columns(pl.col(texts).cast(TEXT))
    for name, value in filled.items():
        existing = pl.col(name) if name in frame.columns else pl.lit(None, dtype=TEXT)
        frame = frame.with_columns(pl.coalesce(existing, pl.lit(value, dtype=TEXT)).alias(name))
    return conform(frame, {**table.schema, "far": TEXT})


# --- invalid rows


def _within(since: datetime | None, until: datetime | None) -> pl.Expr:
    ts, everything = pl.col("ts"), pl.lit(value=True)
    return (everything if since is None else ts >= since) & (everything if until is None else ts < until)


def _reasons(table: FileTable, clusters: pl.Series) -> Iterator[tuple[pl.Expr, str]]:
    """Conditions that refuse a row, with reasons; the first one counts. `clusters` are all clusters of the rows."""
    names = [name for name, _ in table.names]
    *most, last = [reason for _, reason in table.names]
    numbers = pl.col(*table.numbers) if table.numbers else pl.lit(0.0)
    long = [name for name in clusters.drop_nulls().unique(maintain_order=True) if not fits_a_folder(name)]
    yield pl.col("far").is_not_null(), _FAR
    yield pl.col("cluster").is_in(long), f"cluster: {TOO_LONG}"
    empty = pl.any_horizontal(pl.col(names).is_null() | (pl.col(names) == ""))
    yield empty, f"no {', '.join(most)} or {last}"
    infinite = pl.any_horizontal(numbers.is_infinite() | numbers.is_nan()).fill_null(value=False)
    yield infinite, "a value is not finite"
    yield from table.reasons


def _without_overlaps(rows: pl.DataFrame, table: FileTable) -> pl.Series:
    """Mask of the rows to keep (each key once): the first of those that cover the same time of one series."""
    if table.length is None or table.hourly or rows.is_empty():
        return rows.select(pl.int_range(pl.len()) >= 0).to_series()
    series = [name for name in table.key if name != "ts"]
    begin, stop = pl.col("ts").dt.epoch("ms"), end("ts", table.length).dt.epoch("ms")
    spans = rows.select(pl.struct(series).rank("dense").alias("series"), begin.alias("begin"), stop.alias("end"))
    spans = spans.with_row_index("row").sort("series", "begin")
    if not spans.select((pl.col("begin") < pl.col("end").shift().over("series")).any()).item():
        return rows.select(pl.int_range(pl.len()) >= 0).to_series()
    stay = [False] * rows.height
    last: tuple[int, int] | None = None
    for row, number, low, high in spans.iter_rows():
        if last is None or last[0] != number or low >= last[1]:
            stay[row], last = True, (number, high)
    return pl.Series(stay, dtype=pl.Boolean)


def _rejects(refused: pl.DataFrame, table: FileTable, cluster: str | None, origin: str) -> pl.DataFrame:
    """Refused rows as JSON; a Parquet file has no lines."""
    ts = pl.coalesce(pl.col("ts").dt.to_string("iso:strict"), "far").alias("ts")
    raw = pl.struct(pl.col(table.schema.keys()).exclude("ts"), ts)
    return conform(
        refused.select(
            pl.col("cluster").fill_null(cluster or ""),
            pl.lit(table.source).alias("source"),
            pl.lit(origin).alias("origin"),
            pl.lit(None, dtype=WHOLE).alias("line"),
            "reason",
            raw.struct.json_encode().str.slice(0, RAW_LIMIT).alias("raw"),
        ),
        REJECTS,
    )
