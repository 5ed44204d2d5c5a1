"""Telemetry from a file as rows of our tables, source by source: the same rows as from a server for that time.

    DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 97 1795247700.015

One file may hold the metrics of any exporters. Exports for backfilling are OpenMetrics or Prometheus text with
timestamps, and so are the files of `trackside simulate`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.prometheus.files import by_source
from ingest.prometheus.files.openmetrics_parser import AHEAD_S, NO_LINE, TextReader
from ingest.prometheus.gpu import readings
from ingest.prometheus.mapping.mapping import builtin
from ingest.prometheus.series.gather import Gathering
from ingest.prometheus.series.hosts import HOST_INFO
from ingest.tables import REJECTS, Parsed, conform

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ingest.prometheus.files.openmetrics_parser import OpenMetricsText
    from ingest.prometheus.mapping.mapping import Mapping


def parse_openmetrics(
    chunks: Iterable[bytes],
    *,
    origin: str,
    cluster: str,
    interval_s: int,
    now: datetime,
    since: datetime | None = None,
    until: datetime | None = None,
    mapping: Mapping | None = None,
) -> list[Parsed]:
    """Telemetry text, source by source; the first has the account of the lines that belong to none.

    Every line that is not a comment is a row. Of other metrics it is skipped, and outside since and until;
    a line without a timestamp is refused, and so is one of before the year 2000 or of ten minutes after `now`.

    Args:
        chunks: the text, in any chunks.
        origin: its name.
        cluster: cluster of the telemetry; no text names it.
        interval_s: width of the grid.
        now: the time.
        since: readings up to then are skipped: a reading covers the time before it.
        until: later readings are skipped.
        mapping: the columns that metrics fill; the built-in one if None.

    Raises:
        InputError: the text is empty or of another kind, or none of its lines has a timestamp.
    """
    mapping = mapping or builtin()
    reading = TextReader(
        origin,
        by_source.names(mapping),
        lambda labels: readings.refused(labels, mapping),
        Gathering(since, until),
        now.timestamp() + AHEAD_S,
    )
    return as_parsed(reading.read(chunks), mapping, cluster=cluster, interval_s=interval_s, origin=origin)


def as_parsed(text: OpenMetricsText, mapping: Mapping, *, cluster: str, interval_s: int, origin: str) -> list[Parsed]:
    """The contents of readings, source by source; the first has the account of the rows that belong to none."""
    first, *others = by_source.by_source(text.gathered, mapping, cluster=cluster, interval_s=interval_s, origin=origin)
    return [_with_rest(first, text, cluster, origin), *others]


def _with_rest(first: Parsed, text: OpenMetricsText, cluster: str, origin: str) -> Parsed:
    """The first source of a text, with the account of the lines that belong to none."""
    refused = text.refused.with_columns(cluster=pl.lit(cluster), source=pl.lit(first.source), origin=pl.lit(origin))
    return replace(
        first,
        rejects=pl.concat([first.rejects, conform(refused, REJECTS)]),
        rows_read=first.rows_read + text.n_skipped + refused.height,
        rows_skipped=first.rows_skipped + text.n_skipped,
        rows_rejected=first.rows_rejected + refused.height,
        warnings=[*text.warnings, *_nothing(text), *first.warnings],
    )


def _nothing(text: OpenMetricsText) -> list[LoadWarning]:
    names = {*text.gathered.outside, *(labels["__name__"] for labels in text.gathered.samples.labels)}
    nothing = names <= {HOST_INFO, *by_source.OF_PODS_WITH_GPUS}
    of_known_metrics = text.refused.filter(pl.col("reason") != NO_LINE)
    return [LoadWarning("no_known_metric")] if nothing and of_known_metrics.is_empty() else []
