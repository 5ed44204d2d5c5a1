"""Samples that a day's ingest requests, by source: counted by the server, before anything is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ingest.errors import ServerDownError
from ingest.prometheus.gpu import server as gpus
from ingest.prometheus.mapping.mapping import quoted
from ingest.prometheus.node import server as nodes
from ingest.prometheus.node import slurm_exporters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from ingest.prometheus.client.server import PrometheusServer
    from ingest.prometheus.mapping.mapping import Table
    from ingest.prometheus.reader import ScrapeSpec
    from ingest.tables import SourceName

DAY_S: Final = 86_400

WINDOW_S: Final = 600
"""Window in which the readings of a metric are counted, in seconds."""

INSTANCES: Final = 3
"""Number of targets of a job whose readings are counted: one of them may be new."""

_TABLES: Final[Mapping[str, Table]] = {nodes.SOURCE: "node_samples", slurm_exporters.SOURCE: "cluster_samples"}


@dataclass(frozen=True)
class Demand:
    """Series and samples that a source reads in a day.

    Attributes:
        source: its name.
        series: current number of series, by the name of the metric.
        every_s: seconds from one reading of a series to the next, by the name of the metric, as they are read: those
            between two scrapes, or of the means that the server computes. Metrics without an answer are absent.
        raw: whether raw readings are read; else means of `every_s` seconds.
    """

    source: SourceName
    series: Mapping[str, int]
    every_s: Mapping[str, float]
    raw: bool

    @property
    def n_series(self) -> int:
        """Number of series."""
        return sum(self.series.values())

    @property
    def samples(self) -> float:
        """Samples a day, of the metrics whose interval is known."""
        return sum(map(self.samples_of, self.every_s))

    @property
    def unknown(self) -> list[str]:
        """The metrics whose interval, and so their number of samples, is unknown."""
        return sorted(self.series.keys() - self.every_s.keys())

    def samples_of(self, name: str) -> float:
        """Samples a day of one metric."""
        return self.series[name] * DAY_S / self.every_s[name]

    @property
    def paces(self) -> tuple[float, float]:
        """Shortest and longest interval of any metric, in seconds; at least one has to be known."""
        return min(self.every_s.values()), max(self.every_s.values())

    def largest(self, most: int = 3) -> list[tuple[str, int]]:
        """The metrics with the most samples, and their numbers of series; without those of unknown interval."""
        ordered = sorted(self.every_s, key=lambda name: (-self.samples_of(name), name))
        return [(name, self.series[name]) for name in ordered[:most]]


def demands(
    server: PrometheusServer, spec: ScrapeSpec, exported: Mapping[SourceName, Sequence[str]], *, at: datetime
) -> Iterator[Demand]:
    """The demand of each source in a day; sources without a current series are left out.

    Only series that are read count: not the other series of a metric (idle CPUs are read), nor XIDs, which are read
    only of nodes that have one.

    Raises:
        ServerDownError: the server gives no response, or refuses to count.
    """
    for source, names in exported.items():
        series = count_series(server, spec, source, names, at=at)
        if not series:
            continue
        raw = source != gpus.READER.source or reads_raw(server, spec)
        every_s = (
            _scraped_every(server, spec, source, series, at) if raw else dict.fromkeys(series, float(spec.interval_s))
        )
        yield Demand(source, series, every_s, raw)


def count_series(
    server: PrometheusServer, spec: ScrapeSpec, source: SourceName, names: Sequence[str], *, at: datetime
) -> dict[str, int]:
    """Number of series that a source reads, by the name of the metric.

    Raises:
        ServerDownError: the server gives no response, or refuses to count.
    """
    series: dict[str, int] = {}
    for some, matchers in _questions(spec, source, names):
        series |= server.count_by_name(spec.series("", f'__name__=~"{"|".join(some)}"', *matchers), at=at)
    return series


def reads_raw(server: PrometheusServer, spec: ScrapeSpec) -> bool:
    """Whether raw readings of GPUs are averaged here; else the server computes the averages."""
    return spec.interval_s <= gpus.RAW_UP_TO_S and (server.streams() or server.exports())


def _questions(
    spec: ScrapeSpec, source: SourceName, names: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Names of metrics, and the matchers of those of their series that are read."""
    table = _TABLES.get(source)
    if table is not None:
        yield from nodes.questions(spec.mapping, table, names)
        return
    read = [name for name in names if source != gpus.READER.source or name in spec.mapping.of_gpus]
    for begin in range(0, len(read), _AT_ONCE):
        yield read[begin : begin + _AT_ONCE], ()


_AT_ONCE: Final = 50
"""Names in one query, which is an address."""


def _scraped_every(
    server: PrometheusServer, spec: ScrapeSpec, source: SourceName, series: Mapping[str, int], at: datetime
) -> dict[str, float]:
    """Seconds between two readings, by the name of the metric; at most the window in which they count.

    Each metric is queried separately, since the scrape interval is set per job: the interval of one metric does not
    hold for another. A metric that the server refuses is left out.

    Raises:
        ServerDownError: the server gives no response.
    """
    every_s: dict[str, float] = {}
    for some, matchers in _questions(spec, source, list(series)):
        for name in some:
            try:
                counted = _readings(server, spec, name, matchers, at)
            except ServerDownError as error:
                if error.unreachable:
                    raise
                continue
            if counted is not None:
                every_s[name] = WINDOW_S / max(counted, 1.0)
    return every_s


def _readings(
    server: PrometheusServer, spec: ScrapeSpec, name: str, matchers: Sequence[str], at: datetime
) -> float | None:
    """Mean number of readings of a metric's series in the window; None if unknown.

    A job scrapes all its targets at one interval, so readings are counted at the `INSTANCES` of each job that have the
    fewest series. All 900,000 series of a metric would be tens of millions of readings, which servers refuse.
    """
    series = spec.series(name, *matchers)
    jobs = {labels.get("job", ""): number for labels, number in server.values(f"count by (job) ({series})", at=at)}
    fewest = f"bottomk by (job) ({INSTANCES}, count by (job, instance) ({series}))"
    instances = sorted({labels.get("instance", "") for labels, _ in server.values(fewest, at=at)})
    among = quoted("|".join(map(re.escape, instances)))
    sampled = spec.series(name, *matchers, f'instance=~"{among}"')
    counted = server.values(f"avg by (job) (count_over_time({sampled}[{WINDOW_S}s]))", at=at)
    means = {labels.get("job", ""): mean for labels, mean in counted}
    known = means.keys() & jobs.keys()
    total = sum(jobs[job] for job in known)
    return sum(jobs[job] * means[job] for job in sorted(known)) / total if total else None
