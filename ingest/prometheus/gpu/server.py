"""GPU telemetry from a server with Prometheus' HTTP API, as rows of our tables.

Raw readings come by remote read from servers that have it, and are averaged here: that is faster than an answer in
JSON even where that has fewer numbers, and DCGM's blank values are left out of an average as in a file.
Elsewhere, and for long intervals, averages of gauges are computed by the server, one query per metric and segment of
time; there a blank reading makes its interval's average implausible, and the interval is left out. Counters are then
computed by the server for long intervals only: a `rate` needs two readings in one interval. Timestamps are
milliseconds, and servers differ in whether a window contains its left end; the server is probed for it
(`PrometheusServer.window`), so that every reading counts exactly once. An interval without a reading has no point, so a
gap stays a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.load_warnings import LoadWarning
from ingest.prometheus.client.raw import GONE_S, Answer, as_samples
from ingest.prometheus.client.remote_read import Samples
from ingest.prometheus.client.split import epoch_ms
from ingest.prometheus.gpu.drivers import LABELS as DRIVER_LABELS
from ingest.prometheus.gpu.drivers import Versions
from ingest.prometheus.gpu.means import Means, means_of, samples_of
from ingest.prometheus.gpu.rates import per_second
from ingest.prometheus.gpu.samples import too_sparse
from ingest.prometheus.gpu.uuids import Uuids
from ingest.prometheus.health import xid
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.prometheus.series.gather import Gathering, keep_readings, without_blanks
from ingest.prometheus.series.hosts import HOST_INFO, Hosts
from ingest.prometheus.series.labels import (
    ADDRESS_LABELS,
    LOCATION_LABELS,
    NODE_LABELS,
    POD_LABELS,
    READINGS,
    SOURCE,
    XID_COUNTS,
    XID_GAUGES,
    XID_NAMES,
    Indexes,
    gpu_location,
    identity,
    is_address,
    is_blank,
    uuid_alone,
)
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, conform, empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from ingest.prometheus.client.server import PrometheusServer

XID_LOOKBACK_S: Final = 3600
"""Lookback before a segment for the last XID, so that an old XID is not taken for a new one."""

RAW_UP_TO_S: Final = 300
"""Intervals up to this long are averaged here. With a reading every 15 s that took 0.2 of the time of queries in JSON
for a minute, 0.5 for five, and as long for half an hour."""

HOSTS_AT_ONCE: Final = 40
"""Nodes whose raw XIDs are requested in one query."""

_NAMES_SHOWN: Final = 5


@dataclass
class _SegmentReading:
    """One segment of time that is being read."""

    server: PrometheusServer
    spec: ScrapeSpec
    names: Sequence[str]
    since: datetime
    until: datetime
    refused: dict[str, str] = field(default_factory=dict)
    by_address: bool = False
    indexes: Indexes = field(default_factory=Indexes)
    versions: Versions = field(default_factory=lambda: Versions(early_ms=1))
    uuids: Uuids = field(default_factory=Uuids)

    @property
    def step(self) -> timedelta:
        """Width of the grid."""
        return timedelta(seconds=self.spec.interval_s)

    @property
    def looked_back(self) -> datetime:
        """Start of the time in which XIDs are read."""
        return self.since - timedelta(seconds=XID_LOOKBACK_S)

    def averages(self) -> list[Means]:
        """Means, at the ends of the intervals that they cover."""
        names = [name for name in self.spec.mapping.of_gpus if name in self.names]
        if self.spec.interval_s > RAW_UP_TO_S:
            return list(self._means_of_server(names))
        counters = [name for name in names if self.spec.mapping.of_gpus[name].counter]
        gauges = [name for name in names if name not in counters]
        of_gauges = self._from_raw(gauges, self.since, self._of_gauges)
        if of_gauges is None:
            of_gauges = list(self._means_of_server(gauges))
        return of_gauges + self._of_counters(counters)

    def _from_raw(
        self, names: Sequence[str], since: datetime, each: Callable[[Samples], Answer]
    ) -> list[Answer] | None:
        """Results of `each` for the batches of raw readings after `since`."""
        if not names:
            return []
        return self.server.samples(
            self._selector(names), first=since + self.step, last=self.until, step=self.step, each=each
        )

    def _selector(self, names: Sequence[str]) -> str:
        return self.spec.series("", f'__name__=~"{"|".join(names)}"')

    def _of_gauges(self, samples: Samples) -> Means:
        return self._averaged(cell_means(samples, self.spec.interval_s * 1000))

    def _of_counters(self, names: Sequence[str]) -> list[Means]:
        """Means of the increase of counters per second; earlier readings only complete the first interval.

        A series may come in several batches: together, the first reading of a later one has a rate, too. A server
        without a transport for raw readings is queried for them in JSON.
        """
        if not names:
            return []
        gathering = Gathering()
        since = self.since - self.step * -(-GONE_S // self.spec.interval_s)
        if self._from_raw(names, since, gathering.take) is None:
            selector = self._selector(names)
            for batch in self.server.json_readings(selector, since=since, until=self.until, step=self.step):
                gathering.take(batch)
        means = cell_means(per_second(without_blanks(gathering.finish().samples)), self.spec.interval_s * 1000)
        return [self._averaged(keep_readings(means, means.times > epoch_ms(self.since)))]

    def _means_of_server(self, names: Sequence[str]) -> Iterator[Means]:
        """Averages as the server computes them."""
        if not names:
            return
        places, queries = ", ".join((*LOCATION_LABELS, *DRIVER_LABELS)), []
        window = self.server.window(self.step, at=self.until)
        for name in names:
            series = self.spec.series(name, *self.spec.mapping.of_gpus[name].matchers())
            # What a counter grew is unknown where it fell: `rate` would count what the new one had before.
            is_counter = self.spec.mapping.of_gpus[name].counter
            rate = f"rate({series}{window}) unless resets({series}{window}) > 0"
            queries.append(f"max by ({places}) ({rate if is_counter else f'avg_over_time({series}{window})'})")
        readings = self.server.points_of(queries, first=self.since + self.step, last=self.until, step=self.step)
        for name, points in zip(names, readings, strict=True):
            yield self._averaged(as_samples(points, name), chosen=True)

    def _averaged(self, samples: Samples, *, chosen: bool = False) -> Means:
        """Means of the requested series; their drivers and UUIDs are collected."""
        self.versions.add(samples)
        self.uuids.add(samples)
        return means_of(self._identities(samples, chosen=chosen), samples)

    def xids(self) -> pl.DataFrame:
        """READINGS of XIDs, only of nodes that have one: most have none, and readings are many."""
        begin = self.looked_back
        places = ", ".join(NODE_LABELS)
        readings = [empty(READINGS)]
        for name in filter(self.names.__contains__, XID_NAMES):
            hit = self.server.ever(self.spec.series(name), places, since=begin, until=self.until, step=self.step)
            for matcher in _matchers([one["metric"] for one in hit]):
                readings += self._raw(name, self.spec.series(name, *matcher), begin)
        return pl.concat(readings).filter(pl.col("value").is_finite()).unique(maintain_order=True)

    def _raw(self, name: str, selector: str, begin: datetime) -> list[pl.DataFrame]:
        """READINGS of all raw readings, by the transport that the server has."""
        readings = self.server.samples(
            selector,
            first=begin + self.step,
            last=self.until,
            step=self.step,
            each=self._readings,
        )
        if readings is None:
            raw = self.server.readings(selector, since=begin, until=self.until, step=self.step)
            return [self._readings(as_samples(raw, name))]
        return readings

    def watched(self, raw: pl.DataFrame) -> pl.DataFrame:
        """GPUs (node, gpu, ts) present at the beginning of the segment, needed where an XID appears right then.

        For other GPUs the segment's own samples show it.
        """
        firsts = raw.group_by("name", "series").agg(pl.col("ts").min())["ts"]
        names = [name for name in self.spec.mapping.of_gpus if name in self.names]
        labels: list[dict[str, str]] = []
        if names and firsts.is_between(self.since, self.since + self.step, closed="right").any():
            query = f"max by ({', '.join(LOCATION_LABELS)}) ({self.spec.matcher(names)})"
            labels = self.server.points(query, first=self.since, last=self.since, step=self.step).labels
        present = [
            (where.node, uuid_alone(each) or where.gpu, self.since) for each in labels if (where := gpu_location(each))
        ]
        return pl.DataFrame(present, {key: READINGS[key] for key in ("node", "gpu", "ts")}, orient="row")

    def _readings(self, samples: Samples) -> pl.DataFrame:
        """READINGS of samples."""
        return _frame(self._identities(samples), samples)

    def _identities(self, samples: Samples, *, chosen: bool = False) -> list[tuple[str, ...] | None]:
        """Identity of each series; None where it is not requested, or has no node or GPU: the latter are in `refused`.

        Series `chosen` by the server no longer have all their labels.
        """
        of_gpus = self.spec.mapping.of_gpus
        identities: list[tuple[str, ...] | None] = []
        for labels in samples.labels:
            name = labels.get("__name__", "")
            selected = chosen or name not in of_gpus or of_gpus[name].matches(labels)
            identities.append(self._key(name, labels) if selected else None)
        return identities

    def _key(self, name: str, labels: dict[str, str]) -> tuple[str, ...] | None:
        """The identity of a series by its labels, in the order of READINGS."""
        self.indexes.add(labels)
        where = gpu_location(labels)
        if where is None:
            self.refused[f"{name} {_shown(name, labels)}"] = "no label names the node and the GPU"
            return None
        self.by_address |= is_address(where.node)
        where = where._replace(
            gpu=uuid_alone(labels) or where.gpu
        )  # `indexes` has the index when all series were added
        return (name, *where, labels.get("xid", ""), identity(name, labels))

    def hosts(self) -> Hosts:
        """Names of hosts by address; requested only where some series has no other name of its node."""
        hosts = Hosts()
        if self.by_address:
            labels = ", ".join(("nodename", *ADDRESS_LABELS, *POD_LABELS))
            series = self.spec.series(HOST_INFO)
            for one in self.server.ever(series, labels, since=self.since, until=self.until, step=self.step):
                hosts.add(one["metric"])
        return hosts

    def rejects(self) -> pl.DataFrame:
        """The series that were refused."""
        rows = [
            (self.spec.cluster, SOURCE, self.server.url, None, reason, raw[:RAW_LIMIT])
            for raw, reason in self.refused.items()
        ]
        return pl.DataFrame(rows, schema=REJECTS, orient="row")


def _shown(name: str, labels: dict[str, str]) -> dict[str, str]:
    """The labels of a refused series; averages have only those that locate a GPU."""
    return (
        labels if name in XID_NAMES else {label: value for label, value in labels.items() if label in LOCATION_LABELS}
    )


def cell_means(samples: Samples, width_ms: int) -> Samples:
    """Means of readings without blanks, at the ends of their intervals (multiples of `width_ms`).

    An interval holds the readings after its beginning, up to and with its end.
    """
    good = ~pl.DataFrame({"value": samples.values}).select(is_blank())["value"].to_numpy()
    series = np.repeat(np.arange(len(samples.labels)), samples.sizes)[good]
    ends, values = -(-samples.times[good] // width_ms) * width_ms, samples.values[good]
    if not values.size:
        return Samples([], samples.sizes[:0], ends, values)
    is_next = (ends[1:] != ends[:-1]) | (series[1:] != series[:-1])
    first = np.concatenate([[0], np.flatnonzero(is_next) + 1])
    with np.errstate(over="ignore"):
        means = np.add.reduceat(values, first) / np.diff(first, append=values.size)
    sizes = np.bincount(series[first], minlength=len(samples.labels))
    return Samples(samples.labels, sizes, ends[first], means)


def _frame(identities: Sequence[tuple[str, ...] | None], samples: Samples) -> pl.DataFrame:
    """READINGS of samples; `keys` has the key of each series, and None where it is left out."""
    good = np.array([each is not None for each in identities], bool)
    frame = pl.DataFrame(
        [each for each in identities if each is not None],
        schema={key: READINGS[key] for key in ("name", "node", "gpu", "instance", "code", "series")},
        orient="row",
    )
    keep = np.repeat(good, samples.sizes)
    rows = pl.DataFrame({"ts": samples.times[keep], "value": samples.values[keep]})
    of_series = frame[np.repeat(np.arange(frame.height), samples.sizes[good])]
    return conform(of_series.with_columns(rows["ts"].cast(pl.Datetime("ms", "UTC")), rows["value"]), READINGS)


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """Telemetry of a segment of time on the grid: `gpu_samples`, `health_events`, `driver_versions` and `gpu_uuids`.

    See `ingest.prometheus.reader.Read`.

    Returns:
        Each point, and each reading of an XID that may have changed, is a row; a series that names no node or GPU is
        one refused row. `covers_from` and `covers_until` are where the samples begin and end: without any, the
        answer covers no time, though it may have XIDs.
    """
    reading = _SegmentReading(server, spec, names, since, until)
    means, raw = reading.averages(), reading.xids()
    watched = reading.watched(raw)
    hosts = reading.hosts()  # now that all series were added
    raw, watched = (hosts.renamed(reading.indexes.renamed(each)) for each in (raw, watched))
    made = samples_of([each.renamed(reading.indexes, hosts) for each in means], spec)
    samples = made.frame
    # The segment before has reported the events of the lookback hour. Whether the hour's first minutes only repeat an
    # earlier series is unknown here.
    reported_before = reading.looked_back + timedelta(seconds=xid.ECHO_S)
    health = xid.events(
        _xid_readings(raw, samples, watched, reading.step), cluster=spec.cluster, reported_before=reported_before
    )
    rejects = reading.rejects()
    times = samples.select(pl.col("ts").min().alias("low"), (pl.col("ts").max() + reading.step).alias("high"))
    return Parsed(
        SOURCE,
        frozenset({spec.cluster}),
        {
            "gpu_samples": samples,
            "health_events": health,
            "driver_versions": hosts.renamed(reading.versions.frame(spec.cluster)),
            "gpu_uuids": hosts.renamed(reading.uuids.frame(spec.cluster)),
        },
        rejects,
        rows_read=made.n_read + raw.height + rejects.height,
        rows_loaded=made.n_good + raw.height,
        rows_skipped=made.n_read - made.n_good,
        rows_rejected=rejects.height,
        columns=list(names),
        warnings=[*made.warnings, *too_sparse(samples, interval_s=spec.interval_s), *_only_xids(samples, health)],
        covers_from=times["low"].item(),
        covers_until=times["high"].item(),
    )


def _matchers(readings: Sequence[dict[str, str]]) -> Iterator[list[str]]:
    """Label matchers for the nodes of these series; none at all where no label names them."""
    by_label: dict[str, set[str]] = {}
    for labels in readings:
        label = next((name for name in NODE_LABELS if labels.get(name)), "")
        by_label.setdefault(label, set()).add(labels.get(label, ""))
    for label, hosts in by_label.items():
        ordered = sorted(hosts)
        for begin in range(0, len(ordered), HOSTS_AT_ONCE):
            some = "|".join(re.escape(host) for host in ordered[begin : begin + HOSTS_AT_ONCE])
            quoted = some.replace("\\", "\\\\").replace('"', '\\"')
            yield [f'{label}=~"{quoted}"'] if label else []


def _xid_readings(raw: pl.DataFrame, samples: pl.DataFrame, watched: pl.DataFrame, width: timedelta) -> xid.XidReadings:
    moments = pl.concat([watched, samples.select("node", "gpu", pl.col("ts") + width), raw.select("node", "gpu", "ts")])
    present = moments.group_by("node", "gpu").agg(pl.col("ts").min().alias("present_from"))
    gauges, counts = pl.col("name").is_in(XID_GAUGES), pl.col("name").is_in(XID_COUNTS)
    return xid.XidReadings(raw.filter(gauges), raw.filter(counts), present)


def _only_xids(samples: pl.DataFrame, health: pl.DataFrame) -> list[LoadWarning]:
    if samples.height or health.is_empty():
        return []
    detail = (
        "XIDs, but no samples: the activity of GPUs is unknown, so this time is not covered and is requested again. A "
        "server that never has samples is queried for prometheus.lookback_hours each time: ingest more often than that"
    )
    return [LoadWarning("no_samples", health.height, detail)]


def no_metrics(url: str, spec: ScrapeSpec, others: Sequence[str]) -> LoadWarning:
    """The warning about a server without usable series; `others` are the metrics that it has."""
    more = ", ..." if len(others) > _NAMES_SHOWN else ""
    has = (
        f"it has {len(others):,} metrics ({', '.join(others[:_NAMES_SHOWN])}{more})" if others else "it has none at all"
    )
    matching = f" that match {{{spec.selector}}}" if spec.selector else ""
    detail = (
        f"{url} answers, but has no DCGM series{matching} in that time; {has}. Check prometheus.selector, and that "
        "dcgm-exporter is scraped. Nothing was loaded, and the next ingest requests this time again"
    )
    return LoadWarning("no_samples", None, detail)


READER: Final = SourceReader(SOURCE, lambda spec: (*spec.mapping.of_gpus, *XID_NAMES), read)
"""Samples of GPUs, and their XIDs."""
