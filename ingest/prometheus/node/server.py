"""Telemetry of nodes, networks and filesystems from a server, as rows of `node_samples`.

Raw readings are requested, by the fastest transport of the server, and processed here
(`ingest.prometheus.node.samples`): the increase of a counter within an interval does not follow from averages, and
servers interpolate between two readings in different ways. Series that are not needed are not requested.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.prometheus.client.raw import GONE_S, ServerReader
from ingest.prometheus.gpu.samples import end
from ingest.prometheus.mapping.mapping import quoted
from ingest.prometheus.node.samples import NodeReadings, ReadingCounts, SampleRows, combined
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.prometheus.series.hosts import HOST_INFO, Hosts
from ingest.tables import RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.prometheus.client.server import PrometheusServer
    from ingest.prometheus.mapping.mapping import MappedMetric, Mapping, Table
    from ingest.tables import SourceName

SOURCE: Final = "prometheus.node"
"""Name of the source in `loads` and `rejects`."""

LONGEST_NAMES: Final = 3_000
"""Characters of metrics' names that are requested at once: the query may be an address."""

FIRST_STEP: Final = timedelta(seconds=3 * GONE_S)

CELLS: Final = 1_000_000
"""Approximate number of cells of series in memory; intermediate results take some 250 bytes for each."""

_GONE: Final = timedelta(seconds=GONE_S)


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """Telemetry of nodes in an interval on the grid: `node_samples`.

    See `ingest.prometheus.reader.Read`.

    Returns:
        Each reading within that time is a row; readings up to `GONE_S` next to it are examined, and no rows. A series
        that names no node is a row that is refused. `covers_from` and `covers_until` are where samples begin and end.
    """
    return read_table(server, spec, names, source=SOURCE, table="node_samples", since=since, until=until)


def read_table(
    server: PrometheusServer,
    spec: ScrapeSpec,
    names: Sequence[str],
    *,
    source: SourceName,
    table: Table,
    since: datetime,
    until: datetime,
) -> Parsed:
    """Telemetry of one table; see `read`."""
    hosts = Hosts()
    made: list[SampleRows] = []
    for some, matchers in questions(spec.mapping, table, names):
        metrics = spec.mapping.of(table)
        readings = NodeReadings(metrics, table, spec.cluster, spec.interval_s, since, until, hosts)
        transport = ServerReader(server, ",".join(filter(None, [spec.selector, *matchers])))
        for low, high in _steps(readings, since - _GONE, until + _GONE):
            for batch in transport.raw(some, since=low, until=high, each=readings.read_batch):
                readings.add(batch)
            readings.finalize(high - _GONE)
        made.append(readings.made())
    frame = combined([each.frame for each in made], table, interval_s=spec.interval_s)
    refused = {raw: why for each in made for raw, why in each.refused.items()}
    rejects = pl.DataFrame(
        [(spec.cluster, source, server.url, None, why, raw[:RAW_LIMIT]) for raw, why in refused.items()],
        REJECTS,
        orient="row",
    )
    begin, finish = covered(frame, until, made, spec.interval_s)
    counts = (
        ReadingCounts(*map(sum, zip(*(each.counts for each in made), strict=True))) if made else ReadingCounts(0, 0, 0)
    )
    return Parsed(
        source,
        frozenset({spec.cluster}),
        {table: frame},
        rejects,
        rows_read=counts.loaded + counts.left_out + rejects.height,
        rows_loaded=counts.loaded,
        rows_skipped=counts.left_out,
        rows_rejected=rejects.height,
        columns=[name for name in names if name != HOST_INFO],
        warnings=list(dict.fromkeys(warning for each in made for warning in each.warnings)),
        covers_from=begin,
        covers_until=finish,
    )


def _steps(readings: NodeReadings, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The time in segments whose readings fill some `CELLS` cells: the first is short, to count them."""
    length = FIRST_STEP
    while since < until:
        before = readings.n_cells
        yield since, min(since + length, until)
        since += length
        length = min(until - since, length * CELLS // max(readings.n_cells - before, 1))
        length = max(FIRST_STEP, timedelta(seconds=length // timedelta(seconds=1)))


def questions(mapping: Mapping, table: Table, names: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """The queries, as names and label matchers: first names of hosts, then measurements.

    Names of which the same series are needed are requested together, up to `LONGEST_NAMES`.

    >>> from ingest.prometheus.mapping.mapping import builtin
    >>> list(questions(builtin(), "node_samples", ["node_cpu_seconds_total", "node_load1"]))
    [(['node_cpu_seconds_total'], ['mode=~"idle|iowait"']), (['node_load1'], [])]
    """
    if table == "node_samples" and HOST_INFO in names:
        yield [HOST_INFO], []
    by_matchers: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        if metrics := [metric for metric in mapping.of(table) if metric.name == name]:
            by_matchers.setdefault(_needed(metrics), []).append(name)
    for matchers, some in by_matchers.items():
        begin = 0
        for at in range(1, len(some) + 1):
            if at == len(some) or sum(map(len, some[begin : at + 1])) > LONGEST_NAMES:
                yield some[begin:at], list(matchers)
                begin = at


def _needed(metrics: Sequence[MappedMetric]) -> tuple[str, ...]:
    """Label matchers of the series that the metrics of one name use; none where they may use every series."""
    alone = {tuple(metric.matchers()) for metric in metrics}
    if len(alone) == 1:
        return alone.pop()
    names = {metric.where[0] if len(metric.where) == 1 and not metric.where_not else None for metric in metrics}
    labels = {None if each is None else each[0] for each in names}
    if None in labels or len(labels) > 1:
        return ()
    patterns = "|".join(sorted(each[1] for each in names if each is not None))
    return (f'{labels.pop()}=~"{quoted(patterns)}"',)


def covered(
    frame: pl.DataFrame, until: datetime, made: Sequence[SampleRows], interval_s: int
) -> tuple[datetime | None, datetime | None]:
    """The period with complete samples.

    Counters with another reading due have no samples from their last reading on: the next ingest, which resumes an
    interval before the end, has to resume there. A series last read more than `GONE_S` ago is gone, and not due.
    """
    times = frame.select(pl.col("ts").min().alias("low"), end("ts", "interval_s").max().alias("high"))
    low, high = times["low"].item(), times["high"].item()
    if low is None:
        return None, None
    until_ms = round(until.timestamp() * 1000)
    last = np.concatenate([each.last_ms for each in made])
    gone = max(until_ms, *(each.latest_ms for each in made)) - GONE_S * 1000
    due = last[(last > gone) & (last < until_ms)]
    if not due.size:
        return low, high
    width = timedelta(seconds=interval_s)
    since = datetime.fromtimestamp(int(due.min()) // 1000 // interval_s * interval_s, UTC)
    return min(low, since), min(high, since + width)


def _names(spec: ScrapeSpec) -> Sequence[str]:
    return (*spec.mapping.names("node_samples"), HOST_INFO)


READER: Final = SourceReader(SOURCE, _names, read)
"""CPUs, memory, networks, disks and filesystems of nodes."""
