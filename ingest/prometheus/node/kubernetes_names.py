"""Hosts of Slurm nodes, from kube-state-metrics: where slurmd runs in pods, telemetry names the host.

    kube_pod_info{pod="worker-3",node="host-a",host_ip="10.0.0.7",created_by_kind="NodeSet",...} 1

Pods of kinds that slurmd runs as (`KINDS`: Slinky's and SUNK's NodeSet, soperator's StatefulSet) are listed, all of
them; the writer selects those that are Slurm nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.prometheus.client.raw import GONE_S, ServerReader
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.prometheus.series.labels import bare_host
from ingest.tables import NODE_ALIASES, REJECTS, Parsed, SourceName, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.server import PrometheusServer

SOURCE: Final[SourceName] = "prometheus.kubernetes"

POD_INFO: Final = "kube_pod_info"

KINDS: Final = frozenset({"NodeSet", "StatefulSet"})
"""Kinds of controllers of slurmd's pods (label `created_by_kind`)."""

ALIAS_SOURCE: Final = "prometheus"
"""As in `node_aliases.source`."""


@dataclass
class _PodHosts:
    """Times of pods on hosts, with the numbers of readings of them and of other pods."""

    width_ms: int
    intervals: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    readings: int = 0
    others: int = 0
    span: tuple[int, int] | None = None

    def add(self, samples: Samples) -> None:
        """Add a batch."""
        stops = np.cumsum(samples.sizes)
        for labels, start, stop in zip(samples.labels, stops - samples.sizes, stops, strict=True):
            times = samples.times[start:stop][samples.values[start:stop] > 0]
            self.others += int(stop - start) - times.size
            if not times.size:
                continue
            low, high = int(times.min()), int(times.max())
            self.span = (low, high) if self.span is None else (min(self.span[0], low), max(self.span[1], high))
            if labels.get("created_by_kind") not in KINDS:
                self.others += times.size
                continue
            # Where the exporter's own labels use the same names, the object's are exported_...
            pod, host = (labels.get(f"exported_{label}") or labels.get(label, "") for label in ("pod", "node"))
            names = {bare_host(name) for name in (host, labels.get("host_ip", "")) if name}
            if not pod or not names:
                self.others += times.size
                continue  # a pod that waits for a host
            self.readings += times.size
            for each in np.split(times, np.flatnonzero(np.diff(times) > GONE_S * 1000) + 1):
                for name in names:
                    self.intervals.setdefault((name, pod), []).append((int(each[0]), int(each[-1])))

    def rows(self, cluster: str) -> list[tuple[str, str, str, datetime, str]]:
        """NODE_ALIASES. A pod that was gone has a new row when it is back: another may have replaced it."""
        begins: list[tuple[str, str, int]] = []
        for (name, pod), intervals in self.intervals.items():
            reached: int | None = None
            for low, high in sorted(intervals):
                if reached is None or low - reached > GONE_S * 1000:
                    begins.append((name, pod, (low - 1) // self.width_ms * self.width_ms))
                reached = high if reached is None else max(reached, high)
        return [(cluster, ALIAS_SOURCE, name, _moment(ms), pod) for name, pod, ms in sorted(begins)]


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """NODE_ALIASES of the pods that were read after `since`, up to and with `until`.

    Each holds from the beginning of the interval in which it was first read, and again where it was gone before. Every
    reading is a row; those of other pods are skipped.

    Raises:
        ServerDownError: a part of it cannot be read; then nothing is returned.
    """
    transport = ServerReader(server, spec.selector, timedelta(seconds=spec.interval_s))
    readings = transport.raw(names, since=since, until=until, each=lambda samples: samples)
    return from_raw(readings, cluster=spec.cluster, interval_s=spec.interval_s, names=names)


def from_raw(batches: Iterable[Samples], *, cluster: str, interval_s: int, names: Sequence[str]) -> Parsed:
    """NODE_ALIASES of readings from any transport; see `read`."""
    pods = _PodHosts(interval_s * 1000)
    for samples in batches:
        pods.add(samples)
    first, last = pods.span or (None, None)
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {"node_aliases": pl.DataFrame(pods.rows(cluster), schema=NODE_ALIASES, orient="row")},
        empty(REJECTS),
        rows_read=pods.readings + pods.others,
        rows_loaded=pods.readings,
        rows_skipped=pods.others,
        columns=list(names),
        covers_from=None if first is None else _moment(first),
        covers_until=None if last is None else _moment(last),
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


READER: Final = SourceReader(SOURCE, lambda _: (POD_INFO,), read)
"""Slurm nodes by their pods and hosts."""
