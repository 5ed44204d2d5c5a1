r"""OpenMetrics and Prometheus text with timestamps: GPU telemetry from a file.

    DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 97 1795247700.015

Exports for backfilling look like this, and so does what `trackside simulate` writes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest import xid
from ingest.dcgm import METRIC, NAMES, READINGS, SOURCE, XID_COUNTS, XID_GAUGES, identity, is_blank, place
from ingest.errors import UnrecognisedInputError, shorten
from ingest.frames import RAW_LIMIT, REAL, REJECTS, TEXT, WHOLE, Parsed, Schema, conform
from ingest.gpu_samples import Usable, averaged, end, too_sparse, usable, wide
from ingest.times import EARLIEST_S

if TYPE_CHECKING:
    from datetime import datetime

MILLISECONDS_FROM: Final = 1e11
"""Timestamps from here on are milliseconds (the older text format's): as seconds they would lie past the year 5000."""

AHEAD_S: Final = 86_400.0
"""How far ahead of ours another clock may be; a reading further on would be of a time that nobody has seen."""

_LABELS = r'\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}'
_LINE = rf"^([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:{_LABELS})?[ \t]+([^ \t{{\r]+)(?:[ \t]+([^ \t#\r]+))?[ \t]*(?:#.*)?\r?$"
_COMMENT = r"^\s*(?:#|$)"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_PLACE: Final[Schema] = {"node": TEXT, "gpu": TEXT, "instance": TEXT, "code": TEXT, "series": TEXT}
_SERIES: Final[Schema] = {"name": TEXT, "labels": TEXT, **_PLACE}
_READING = ["name", *_PLACE, "ts"]


def parse_openmetrics(
    data: bytes,
    *,
    origin: str,
    cluster: str,
    interval_s: int,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Parsed:
    """Telemetry text as averages on the grid (`gpu_samples`) and XIDs (`health_events`).

    Every line that is not a comment is a row. Other metrics, blank values, and rows outside since and until are
    skipped; a line without a timestamp, or that names no node or GPU, is refused, and so is one of before the year
    2000 or of more than a day after `now`.

    Raises:
        UnrecognisedInputError: the text is empty or of another kind.
    """
    rows, warnings = _rows(data, origin, now)
    refused = rows.filter(pl.col("reason").is_not_null())
    readings = _readings(rows.filter(pl.col("reason").is_null(), pl.col("wanted")))
    inside = readings.filter(_within(since, until), ~is_blank("value"))
    once = inside.group_by(_READING).agg(pl.col("value").max())
    good = usable(once.filter(pl.col("name").is_in(METRIC.keys())))
    samples = _samples(good, cluster, interval_s)
    health = xid.events(_seen(once), cluster=cluster)
    skipped = rows.height - refused.height - inside.height + good.n_left_out
    times = samples.select(pl.col("ts").min().alias("low"), end("ts", "interval_s").max().alias("high"))
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {"gpu_samples": samples, "health_events": health},
        _rejects(refused, cluster, origin),
        rows_read=rows.height,
        rows_loaded=once.height - good.n_left_out,
        rows_duplicate=inside.height - once.height,
        rows_skipped=skipped,
        rows_rejected=refused.height,
        columns=sorted(set(inside["name"])),
        warnings=[*warnings, *_nothing(readings), *good.warnings, *too_sparse(samples, interval_s=interval_s)],
        covers_from=times["low"].item(),
        covers_until=times["high"].item(),
    )


def _rows(data: bytes, origin: str, now: datetime) -> tuple[pl.DataFrame, list[str]]:
    """Lines that are no comments, taken apart, with the reason why one is refused; and warnings."""
    text = data.decode(errors="replace")
    lines = pl.DataFrame({"raw": text.split("\n")}, schema={"raw": TEXT}).with_row_index("line", offset=1)
    told = lines.filter(~pl.col("raw").str.contains(_COMMENT))
    fields = pl.col("raw").str.extract_groups(_LINE).struct.rename_fields(["name", "labels", "text", "stamp"])
    parts = told.with_columns(fields.alias("field")).unnest("field")
    if parts["name"].null_count() == parts.height:
        beginning = told["raw"].first() if told.height else ""
        message = (
            f"{origin}: not telemetry that we know; it begins with\n  {shorten(str(beginning))}\n"
            "Accepted are OpenMetrics text with timestamps, and Parquet with the columns of gpu_hours"
        )
        raise UnrecognisedInputError(message)
    wanted = pl.col("name").is_in(NAMES)
    rows = parts.with_columns(
        _number("text").alias("value"), _number("stamp").alias("at"), pl.col("labels").fill_null(""), wanted=wanted
    )
    rows = rows.join(_series(rows.filter("wanted")), on=["name", "labels"], how="left", maintain_order="left")
    whole = text.endswith("\n") or lines["raw"].last() == "# EOF" or not lines["raw"].last()
    cut = pl.lit(value=False) if whole else pl.col("line") == lines.height
    warnings = [] if whole else ["the file ends in the middle of a line; what came before is loaded"]
    return rows.with_columns(reason=_reason(cut, now.timestamp() + AHEAD_S)), warnings


def _number(column: str) -> pl.Expr:
    return pl.col(column).str.strip_prefix("+").cast(REAL, strict=False)


def _series(rows: pl.DataFrame) -> pl.DataFrame:
    """Node, GPU, MIG instance, XID and identity that each series' labels tell; nulls where they do not."""
    found = []
    for name, labels in rows.select("name", "labels").unique().iter_rows():
        told = {key: _ESCAPE.sub(_unescaped, value) for key, value in _LABEL.findall(labels)}
        where = place(told)
        found.append((name, labels, *(where or (None, None, None)), told.get("xid", ""), identity(name, told)))
    return pl.DataFrame(found, schema=_SERIES, orient="row")


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _reason(cut: pl.Expr, latest_s: float) -> pl.Expr:
    """Why a line is refused; null where it is not. No reading can be later than `latest_s`, an epoch."""
    wanted, at = pl.col("wanted"), pl.col("at")
    seconds = pl.when(at >= MILLISECONDS_FROM).then(at / 1000).otherwise(at)
    reasons = (
        (cut, "the file ends in the middle of this line"),
        (pl.col("name").is_null(), "not a line of the text format"),
        (wanted & pl.col("value").is_null(), "the value is not a number"),
        (wanted & pl.col("stamp").is_null(), "no timestamp: a scrape alone does not say when it was made"),
        (wanted & ~(at.is_finite() & (at >= 0)).fill_null(value=False), "not a timestamp"),
        (wanted & (seconds < EARLIEST_S), "before the year 2000: the clock was not set"),
        (wanted & (seconds > latest_s), "lies in the future"),
        (wanted & pl.col("node").is_null(), "no label names the node and the GPU"),
    )
    return pl.coalesce(pl.when(when).then(pl.lit(said)) for when, said in reasons)


def _readings(rows: pl.DataFrame) -> pl.DataFrame:
    """READINGS of good lines."""
    at = pl.col("at")
    milliseconds = pl.when(at >= MILLISECONDS_FROM).then(at).otherwise(at * 1000).round().cast(WHOLE)
    return conform(rows.with_columns(ts=milliseconds.cast(pl.Datetime("ms", "UTC"))), READINGS)


def _within(since: datetime | None, until: datetime | None) -> pl.Expr:
    """Whether a reading lies in the time asked for; one at its beginning speaks for the time before it."""
    ts, everything = pl.col("ts"), pl.lit(value=True)
    return (everything if since is None else ts > since) & (everything if until is None else ts <= until)


def _samples(good: Usable, cluster: str, interval_s: int) -> pl.DataFrame:
    """GPU_SAMPLES of the values that can be believed."""
    return wide(averaged(good.values, interval_s=interval_s), cluster=cluster)


def _seen(once: pl.DataFrame) -> xid.Seen:
    present = once.group_by("node", "gpu").agg(pl.col("ts").min().alias("present_from"))
    return xid.Seen(
        once.filter(pl.col("name").is_in(XID_GAUGES)), once.filter(pl.col("name").is_in(XID_COUNTS)), present
    )


def _rejects(refused: pl.DataFrame, cluster: str, origin: str) -> pl.DataFrame:
    return conform(
        refused.with_columns(
            cluster=pl.lit(cluster),
            source=pl.lit(SOURCE),
            origin=pl.lit(origin),
            raw=pl.col("raw").str.slice(0, RAW_LIMIT),
        ),
        REJECTS,
    )


def _nothing(readings: pl.DataFrame) -> list[str]:
    return ["no metric of DCGM is in it, so there is nothing to load"] if readings.is_empty() else []
