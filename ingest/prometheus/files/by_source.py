"""A file's readings by source: the same rows as from a server with the same readings.

A reading of a metric that several sources read (a link that went down is a rate, and an event) is a row of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.prometheus.gpu import readings
from ingest.prometheus.gpu.samples import end
from ingest.prometheus.health import events as health
from ingest.prometheus.health import rules as health_rules
from ingest.prometheus.node import kubernetes_names, kubernetes_nodes, kubernetes_pods
from ingest.prometheus.node import samples as node_samples
from ingest.prometheus.node.kubernetes_names import POD_INFO
from ingest.prometheus.series.gather import batches, named
from ingest.prometheus.series.hosts import HOST_INFO
from ingest.tables import RAW_LIMIT, REJECTS, Parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.mapping.mapping import Mapping, Table
    from ingest.prometheus.series.gather import Gathered
    from ingest.tables import SourceName

_TABLES: Final[tuple[tuple[SourceName, Table], ...]] = (
    ("prometheus.node", "node_samples"),
    ("prometheus.slurm", "cluster_samples"),
)
_HEALTH: Final[SourceName] = "prometheus.health"

OF_PODS_WITH_GPUS: Final = frozenset(kubernetes_pods.OF_PODS) - {POD_INFO, kubernetes_pods.LIMITS}
"""Metrics that are not used in a file without the GPUs of pods."""


def names(mapping: Mapping) -> frozenset[str]:
    """Metrics whose readings some source uses."""
    of_health = health_rules.names(health_rules.builtin())
    return frozenset(
        (*readings.names(mapping), *mapping.names(), *of_health, HOST_INFO, POD_INFO, *kubernetes_pods.NAMES)
    )


def by_source(gathered: Gathered, mapping: Mapping, *, cluster: str, interval_s: int, origin: str) -> list[Parsed]:
    """The rows of each source in a file, GPUs first; only GPUs, and empty, if it has readings of none."""
    names_read = {*gathered.outside, *(labels["__name__"] for labels in gathered.samples.labels)}
    gpus = readings.from_readings(gathered, mapping, cluster=cluster, interval_s=interval_s)
    file = _FileReadings(gathered, mapping, cluster, interval_s, origin)
    parts = [gpus] if names_read & set(readings.names(mapping)) else []
    parts += [file.table(source, table) for source, table in _TABLES if names_read & set(mapping.names(table))]
    parts += [file.pods()] if POD_INFO in names_read else []
    parts += [file.health()] if names_read & set(health_rules.names(health_rules.builtin())) else []
    of_pods = kubernetes_pods.OF_PODS if kubernetes_pods.LIMITS in names_read else ()
    held = names_read & {*of_pods, *kubernetes_nodes.NAMES}
    parts += [file.held(frozenset(held))] if held else []
    first, *others = parts or [gpus]
    unused = set() if kubernetes_pods.LIMITS in names_read else set(OF_PODS_WITH_GPUS)
    if not any(parsed.source in {_TABLES[0][0], _HEALTH} for parsed in parts):
        unused |= {HOST_INFO}
    return [_skipping(first, _count(gathered, unused)) if unused else first, *others]


def _skipping(parsed: Parsed, n: int) -> Parsed:
    """With so many more readings that no source of the file needs."""
    return replace(parsed, rows_read=parsed.rows_read + n, rows_skipped=parsed.rows_skipped + n)


def _count(gathered: Gathered, metrics: set[str]) -> int:
    """Number of readings of these metrics in a file."""
    series = np.array([each["__name__"] in metrics for each in gathered.samples.labels], bool)
    outside = sum(count for name, count in gathered.outside.items() if name in metrics)
    return int(gathered.n_readings[series].sum()) + outside


@dataclass(frozen=True)
class _FileReadings:
    """Readings of one file, and how they are to be examined."""

    gathered: Gathered
    mapping: Mapping
    cluster: str
    interval_s: int
    origin: str

    def table(self, source: SourceName, table: Table) -> Parsed:
        """Node telemetry, or a scheduler's counts."""
        metrics = {*self.mapping.names(table), *([HOST_INFO] if table == "node_samples" else [])}
        made = node_samples.from_raw(
            self._batches(metrics), self.mapping, table, cluster=self.cluster, interval_s=self.interval_s
        )
        times = made.frame.select(pl.col("ts").min().alias("low"), end("ts", "interval_s").max().alias("high"))
        parsed = self._parsed(source, metrics, {table: made.frame}, made.refused, made.counts.loaded)
        return replace(
            parsed, warnings=made.warnings, covers_from=times["low"].item(), covers_until=times["high"].item()
        )

    def pods(self) -> Parsed:
        """Slurm nodes by their pods and hosts."""
        batches = self._batches({POD_INFO})
        aliases = kubernetes_names.from_raw(batches, cluster=self.cluster, interval_s=self.interval_s, names=[POD_INFO])
        account = self._parsed(aliases.source, {POD_INFO}, aliases.frames, {}, aliases.rows_loaded)
        return replace(account, covers_from=aliases.covers_from, covers_until=aliases.covers_until)

    def held(self, metrics: frozenset[str]) -> Parsed:
        """Pods with GPUs, and states of nodes; readings that health uses, too, are in its account."""
        pods = kubernetes_pods.from_raw(self._batches({*metrics}), cluster=self.cluster, names=sorted(metrics))
        counted = metrics - {*health_rules.names(health_rules.builtin())}
        used = named(self.gathered.samples, {*counted})
        account = self._parsed(pods.source, {*counted}, pods.frames, {}, int(used.sizes.sum()))
        return replace(account, covers_from=pods.covers_from, covers_until=pods.covers_until)

    def health(self) -> Parsed:
        """Health events."""
        metrics = {*health_rules.names(health_rules.builtin()), HOST_INFO}
        events = health.from_raw(self._batches(metrics), cluster=self.cluster)
        loaded = events.readings - events.blanks
        parsed = self._parsed(_HEALTH, metrics, {"health_events": events.events}, events.refused, loaded)
        return replace(parsed, covers_from=events.covers_from, covers_until=events.covers_until)

    def _batches(self, metrics: set[str]) -> Iterator[Samples]:
        """Readings; before all others those with the names of hosts."""
        yield from batches(named(self.gathered.samples, {HOST_INFO} & metrics))
        yield from batches(named(self.gathered.samples, metrics - {HOST_INFO}))

    def _parsed(
        self,
        source: SourceName,
        metrics: set[str],
        frames: dict[str, pl.DataFrame],
        refused: dict[str, str],
        loaded: int,
    ) -> Parsed:
        """The rows of readings, with their account.

        A refused series is kept once, by its labels, as one refused row; its other readings are skipped.
        """
        labels, sizes = self.gathered.samples.labels, self.gathered.samples.sizes
        series = np.array([each["__name__"] in metrics for each in labels], bool)
        n_readings, once = int(self.gathered.n_readings[series].sum()), int(sizes[series].sum())
        read = _count(self.gathered, metrics)
        rows = [(self.cluster, source, self.origin, None, why, raw[:RAW_LIMIT]) for raw, why in refused.items()]
        return Parsed(
            source,
            frozenset({self.cluster}),
            frames,
            pl.DataFrame(rows, REJECTS, orient="row"),
            rows_read=read,
            rows_loaded=loaded,
            rows_duplicate=n_readings - once,
            rows_skipped=read - loaded - (n_readings - once) - len(rows),
            rows_rejected=len(rows),
            columns=sorted({each["__name__"] for each in labels} & metrics),
        )
