"""GPU telemetry from a server that speaks Prometheus' HTTP API, as rows of our tables.

Averages are computed by the server, one query per metric and piece of time. Timestamps are milliseconds, and servers
differ in whether a window contains its left end; the server is asked which it does (`Server.window`), so that no
reading counts twice or never. An interval without a reading gives no point, so a gap stays a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ingest import xid
from ingest.dcgm import (
    METRIC,
    NODE_LABELS,
    PLACE_LABELS,
    READINGS,
    SOURCE,
    XID_COUNTS,
    XID_GAUGES,
    identity,
    is_blank,
    place,
)
from ingest.frames import RAW_LIMIT, REAL, REJECTS, Parsed, conform, empty
from ingest.gpu_samples import of_whole_gpus, too_sparse, usable, wide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus_server import Series, Server

XID_LOOKBACK_S: Final = 3600
"""How far before a piece of time the last XID is looked for, so that one that was there is not taken for a new one."""

HOSTS_AT_ONCE: Final = 40
"""Nodes whose raw XIDs are asked for in one query."""

_NAMES_SHOWN: Final = 5


@dataclass(frozen=True)
class Wanted:
    """What to read: a cluster's series (those that the selector matches) as averages over `interval_s`."""

    cluster: str
    selector: str
    interval_s: int

    def series(self, name: str, *more: str) -> str:
        """A selector of PromQL for one metric."""
        return f"{name}{{{','.join([*filter(None, [self.selector]), *more])}}}"

    def origin(self, url: str) -> str:
        """Where its rows come from, as `loads.origin` says it and the next load finds it: server and selector."""
        return f"{url} {{{self.selector}}}" if self.selector else url

    def matcher(self) -> str:
        """A selector for all metrics that we know."""
        names = "|".join((*METRIC, *XID_GAUGES, *XID_COUNTS))
        return self.series("", f'__name__=~"{names}"')


@dataclass
class _Reading:
    """One piece of time that is being read."""

    server: Server
    wanted: Wanted
    names: Sequence[str]
    since: datetime
    until: datetime
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def step(self) -> timedelta:
        """Width of the grid."""
        return timedelta(seconds=self.wanted.interval_s)

    @property
    def looked_back(self) -> datetime:
        """From when on XIDs are read."""
        return self.since - timedelta(seconds=XID_LOOKBACK_S)

    def averages(self) -> pl.DataFrame:
        """READINGS of means, at the ends of the intervals that they speak for."""
        places = ", ".join(PLACE_LABELS)
        found = [empty(READINGS)]
        for name in filter(self.names.__contains__, METRIC):
            window = self.server.window(self.step, at=self.until)
            query = f"max by ({places}) (avg_over_time({self.wanted.series(name)}{window}))"
            points = self.server.points(query, first=self.since + self.step, last=self.until, step=self.step)
            found.append(self._samples(name, points))
        return pl.concat(found)

    def xids(self) -> pl.DataFrame:
        """READINGS of XIDs, of those nodes only that have one: most have none, and readings are many."""
        begin = self.looked_back
        places = ", ".join(NODE_LABELS)
        found = [empty(READINGS)]
        for name in filter(self.names.__contains__, (*XID_GAUGES, *XID_COUNTS)):
            hit = self.server.ever(self.wanted.series(name), places, since=begin, until=self.until, step=self.step)
            for matcher in _matchers([one["metric"] for one in hit]):
                selector = self.wanted.series(name, *matcher)
                raw = self.server.readings(selector, since=begin, until=self.until, step=self.step)
                found.append(self._samples(name, raw))
        return pl.concat(found).filter(pl.col("value").is_finite()).unique(maintain_order=True)

    def _samples(self, name: str, series: Series) -> pl.DataFrame:
        """READINGS of an answer; series without node or GPU go to `refused`."""
        good = []
        for one in series:
            labels = one["metric"]
            where = place(labels)
            if where is None:
                self.refused[f"{name} {labels}"] = "no label names the node and the GPU"
            else:
                good.append((where, labels.get("xid", ""), identity(name, labels), one["values"]))
        return _frame(name, good)

    def rejects(self) -> pl.DataFrame:
        """The series that were refused."""
        rows = [
            (self.wanted.cluster, SOURCE, self.server.url, None, reason, raw[:RAW_LIMIT])
            for raw, reason in self.refused.items()
        ]
        return pl.DataFrame(rows, schema=REJECTS, orient="row")


def _frame(name: str, series: Sequence[tuple[Any, str, str, list[Any]]]) -> pl.DataFrame:
    if not series:
        return empty(READINGS)
    index = np.repeat(np.arange(len(series)), [len(values) for *_, values in series])
    points = [point for *_, values in series for point in values]
    told = pl.DataFrame(
        [(name, *where, code, itself) for where, code, itself, _ in series],
        schema={key: READINGS[key] for key in ("name", "node", "gpu", "instance", "code", "series")},
        orient="row",
    )
    milliseconds = (pl.Series([point[0] for point in points], dtype=REAL) * 1000).round().cast(pl.Int64)
    values = pl.Series([point[1] for point in points], dtype=pl.String).str.strip_prefix("+").cast(REAL, strict=False)
    return conform(
        told[index].with_columns(ts=milliseconds.cast(pl.Datetime("ms", "UTC")), value=values.fill_null(float("nan"))),
        READINGS,
    )


def read(server: Server, wanted: Wanted, names: Sequence[str], *, since: datetime, until: datetime) -> Parsed:
    """Telemetry of a piece of time on the grid: `gpu_samples` and `health_events`.

    Args:
        server: whom to ask.
        wanted: for what.
        names: the metrics that it has.
        since: beginning, on the grid.
        until: end, on the grid.

    Returns:
        Each point, and each reading of an XID that may have changed, is a row; a series that names no node or GPU is
        one that is refused. `covers_from` and `covers_until` are where the samples begin and end: without any, the
        answer speaks for no time, though it may tell of XIDs.

    Raises:
        ServerDownError: a part of it cannot be had; then none of it is.
    """
    reading = _Reading(server, wanted, names, since, until)
    points, raw = reading.averages(), reading.xids()
    good = usable(points.filter(~is_blank("value")))
    cells = of_whole_gpus(good.values).with_columns(
        pl.col("ts") - reading.step, interval_s=pl.lit(float(wanted.interval_s))
    )
    samples = wide(cells, cluster=wanted.cluster)
    # What happened in the hour looked back at has been told by the piece before it; of its first minutes nobody here
    # knows whether they only repeat what another series told before them.
    told_before = reading.looked_back + timedelta(seconds=xid.ECHO_S)
    health = xid.events(_seen(raw, samples, reading.step), cluster=wanted.cluster, told_before=told_before)
    rejects = reading.rejects()
    times = samples.select(pl.col("ts").min().alias("low"), (pl.col("ts").max() + reading.step).alias("high"))
    return Parsed(
        SOURCE,
        frozenset({wanted.cluster}),
        {"gpu_samples": samples, "health_events": health},
        rejects,
        rows_read=points.height + raw.height + rejects.height,
        rows_loaded=good.values.height + raw.height,
        rows_skipped=points.height - good.values.height,
        rows_rejected=rejects.height,
        columns=list(names),
        warnings=[*good.warnings, *too_sparse(samples, interval_s=wanted.interval_s), *_only_xids(samples, health)],
        covers_from=times["low"].item(),
        covers_until=times["high"].item(),
    )


def _matchers(found: Sequence[dict[str, str]]) -> Iterator[list[str]]:
    """Label matchers for the nodes of these series; none at all where no label names them."""
    by_label: dict[str, set[str]] = {}
    for labels in found:
        label = next((name for name in NODE_LABELS if labels.get(name)), "")
        by_label.setdefault(label, set()).add(labels.get(label, ""))
    for label, hosts in by_label.items():
        ordered = sorted(hosts)
        for begin in range(0, len(ordered), HOSTS_AT_ONCE):
            some = "|".join(re.escape(host) for host in ordered[begin : begin + HOSTS_AT_ONCE])
            quoted = some.replace("\\", "\\\\").replace('"', '\\"')
            yield [f'{label}=~"{quoted}"'] if label else []


def _seen(raw: pl.DataFrame, samples: pl.DataFrame, width: timedelta) -> xid.Seen:
    seen = pl.concat([samples.select("node", "gpu", pl.col("ts") + width), raw.select("node", "gpu", "ts")])
    present = seen.group_by("node", "gpu").agg(pl.col("ts").min().alias("present_from"))
    gauges, counts = pl.col("name").is_in(XID_GAUGES), pl.col("name").is_in(XID_COUNTS)
    return xid.Seen(raw.filter(gauges), raw.filter(counts), present)


def _only_xids(samples: pl.DataFrame, health: pl.DataFrame) -> list[str]:
    if samples.height or health.is_empty():
        return []
    return [
        "XIDs, but no samples: nothing says what the GPUs did, so this time is not covered and is asked for again. A "
        "server that never has samples is asked for prometheus.lookback_hours each time: ingest more often than that"
    ]


def nothing_there(url: str, wanted: Wanted, others: Sequence[str]) -> str:
    """What to say of a server that answers and has no series for us; `others` are the metrics it has."""
    more = ", ..." if len(others) > _NAMES_SHOWN else ""
    has = (
        f"it has {len(others):,} metrics ({', '.join(others[:_NAMES_SHOWN])}{more})" if others else "it has none at all"
    )
    matching = f" that match {{{wanted.selector}}}" if wanted.selector else ""
    return (
        f"{url} answers, but has no DCGM series{matching} in that time; {has}. Check prometheus.selector, and that "
        "dcgm-exporter is scraped. Nothing was loaded, and the next ingest asks for this time again"
    )
