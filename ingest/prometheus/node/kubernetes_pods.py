"""Pods with GPUs from kube-state-metrics: owner, node, number of GPUs, beginning, end and outcome of each.

    kube_pod_container_resource_limits{namespace="a",pod="p-0",uid="...",container="main",resource="nvidia_com_gpu"} 8
    kube_pod_info{namespace="a",pod="p-0",uid="...",node="host-a",created_by_kind="Job",created_by_name="p"} 1

Most metrics repeat a time or a name with every reading, so only the first and the last reading of each series are kept.
Attempts are derived from them together with those of API objects (`ingest.kubernetes`), by pods' uids.

Source: kubernetes/kube-state-metrics, docs/metrics/workload/pod-metrics.md and job-metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ingest.plausible import LONGEST_NAME
from ingest.prometheus.client.raw import GONE_S, ServerReader
from ingest.prometheus.node import kubernetes_nodes
from ingest.prometheus.node.kubernetes_gpus import gpus_of_resource, label_of
from ingest.prometheus.reader import ScrapeSpec, SourceReader
from ingest.tables import REJECTS, Parsed, SourceName, columns_of, earliest_time, empty, latest_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.server import PrometheusServer

SOURCE: Final[SourceName] = "prometheus.pods"

PODS: Final = columns_of("metered_pods")
NAMESPACES: Final = columns_of("metered_namespaces")

KEY: Final = ("cluster", "uid")
LIMITS: Final = "kube_pod_container_resource_limits"
INFO: Final = "kube_pod_info"
JOB_OWNER: Final = "kube_job_owner"
TIMES: Final = {
    "kube_pod_created": "created_at",
    "kube_pod_status_scheduled_time": "scheduled_at",
    "kube_pod_start_time": "started_at",
    "kube_pod_completion_time": "ended_at",
}
"""Metrics whose value is a time, in seconds since the epoch."""

WORDS: Final = {
    "kube_pod_status_phase": ("phase", "phase"),
    "kube_pod_status_reason": ("reason", "reason"),
    "kube_pod_container_status_terminated_reason": ("reason", "container_reason"),
    "kube_pod_scheduler": ("name", "scheduler"),
}
"""Metrics that are 1 for the value of a label that holds: this label, and its name here."""

EXIT_CODE: Final = "kube_pod_container_status_last_terminated_exitcode"
OF_PODS: Final = (LIMITS, INFO, JOB_OWNER, *TIMES, *WORDS, EXIT_CODE)
NAMES: Final = (*OF_PODS, *kubernetes_nodes.NAMES)

EARLIEST: Final = ("ended_at", "first_seen_at")
"""Columns of which the earliest reading is kept, not the latest."""

FINAL: Final = ("Failed", "Succeeded")
LATEST: Final = 4_102_444_800
"""Seconds since the epoch that no time of a pod reaches (2100)."""


@dataclass
class _PodFacts:
    """The facts of a pod."""

    name: tuple[str, str] = ("", "")
    info: dict[str, str] = field(default_factory=dict)
    gpus: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    words: dict[str, tuple[int, str]] = field(default_factory=dict)
    ended_by: int | None = None
    first: int = 0
    last: int = 0


@dataclass
class _PodsByUid:
    """Facts of pods from readings, by uid."""

    pods: dict[str, _PodFacts] = field(default_factory=dict)
    owners: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    nodes: kubernetes_nodes.Nodes = field(default_factory=kubernetes_nodes.Nodes)
    readings: int = 0
    blank: int = 0

    def add(self, samples: Samples) -> None:
        """Add a batch."""
        stops = np.cumsum(samples.sizes)
        for labels, start, stop in zip(samples.labels, stops - samples.sizes, stops, strict=True):
            self.readings += int(stop - start)
            if labels.get("__name__") in kubernetes_nodes.NAMES:
                self.nodes.take(labels, samples.times[start:stop], samples.values[start:stop])
                continue
            held = samples.values[start:stop] > 0
            if not held.any():
                continue
            times = samples.times[start:stop][held]
            self._take(labels, int(times.min()), int(times.max()), float(samples.values[start:stop][held][-1]))

    def _take(self, labels: dict[str, str], low: int, high: int, value: float) -> None:
        """Add a series: its first and last time above 0, and its last value."""
        metric, namespace = labels.get("__name__", ""), label_of(labels, "namespace")
        if metric == JOB_OWNER:
            kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
            if kind not in {"", "<none>"}:
                self.owners[namespace, labels.get("job_name", "")] = (kind, name)
            return
        uid = labels.get("uid", "")
        if not uid or len(uid) > LONGEST_NAME:
            self.blank += 1
            return
        pod = self.pods.setdefault(uid, _PodFacts(first=low, last=high))
        pod.first, pod.last = min(pod.first, low), max(pod.last, high)
        pod.name = (namespace, label_of(labels, "pod"))
        self._fill(pod, metric, labels, (low, high, value))

    @staticmethod
    def _fill(pod: _PodFacts, metric: str, labels: dict[str, str], read: tuple[int, int, float]) -> None:
        low, high, value = read
        if metric == INFO:
            pod.info |= {name: text for name, text in labels.items() if text and text != "<none>"}
        elif metric == LIMITS and (gpus := gpus_of_resource(labels.get("resource", ""), value)):
            pod.gpus[labels.get("container", ""), labels.get("resource", "")] = gpus
        elif metric in TIMES and 0 < value < LATEST:
            pod.times[TIMES[metric]] = value
        elif metric == EXIT_CODE:
            pod.words["exit_code"] = (high, str(int(value)))
        elif metric in WORDS:
            label, name = WORDS[metric]
            pod.words[name] = max(pod.words.get(name, (0, "")), (high, labels.get(label, "")))
            if name == "phase" and labels.get(label) in FINAL:
                pod.ended_by = low if pod.ended_by is None else min(pod.ended_by, low)

    def rows(self, cluster: str) -> list[dict[str, Any]]:
        """Rows of `metered_pods`: pods with GPUs."""
        return [self._row(uid, pod, cluster) for uid, pod in self.pods.items() if pod.gpus and all(pod.name)]

    def _row(self, uid: str, pod: _PodFacts, cluster: str) -> dict[str, Any]:
        namespace, name = pod.name
        kind, owner = pod.info.get("created_by_kind"), pod.info.get("created_by_name")
        job = owner if kind == "Job" else None
        kind, owner = self.owners.get((namespace, job or ""), (kind, owner))
        phase = pod.words.get("phase", (0, ""))[1]
        code = pod.words.get("exit_code")
        reason = pod.words.get("reason") or pod.words.get("container_reason")
        times = {column: datetime.fromtimestamp(value, UTC) for column, value in pod.times.items()}
        ended = times.get("ended_at") or (None if pod.ended_by is None else _moment(pod.ended_by))
        return {
            "cluster": cluster,
            "uid": uid,
            "namespace": namespace,
            "name": name,
            "owner_kind": kind,
            "owner_name": owner,
            "job_name": job,
            "node": pod.info.get("exported_node") or pod.info.get("node"),
            "priority_class": pod.info.get("priority_class"),
            "scheduler_name": pod.words.get("scheduler", (0, None))[1],
            "n_gpus": sum(pod.gpus.values(), Decimal(0)),
            "created_at": times.get("created_at"),
            "scheduled_at": times.get("scheduled_at") or times.get("started_at"),
            "ended_at": ended if phase in FINAL else None,
            "phase": phase if phase in FINAL else None,
            "reason": reason[1] if reason and phase == FINAL[0] else None,
            "exit_code": 0 if phase == FINAL[1] else int(code[1]) if code and phase == FINAL[0] else None,
            "first_seen_at": _moment(pod.first),
            "seen_at": _moment(pod.last),
        }


def read(
    server: PrometheusServer, spec: ScrapeSpec, names: Sequence[str], *, since: datetime, until: datetime
) -> Parsed:
    """Pods that were read after `since`, up to and with `until`; see `ingest.prometheus.reader.Read`.

    Raises:
        ServerDownError: a part of it cannot be read; then nothing is returned.
    """
    transport = ServerReader(server, spec.selector, timedelta(seconds=spec.interval_s))
    readings = transport.raw(names, since=since, until=until, each=lambda samples: samples)
    return from_raw(readings, cluster=spec.cluster, names=names)


def from_raw(batches: Iterable[Samples], *, cluster: str, names: Sequence[str]) -> Parsed:
    """Pods of readings from any transport; see `read`."""
    pods = _PodsByUid()
    for samples in batches:
        pods.add(samples)
    rows = pl.DataFrame(pods.rows(cluster), schema=PODS)
    gap = pl.duration(seconds=GONE_S)
    namespaces = rows.group_by("cluster", "namespace").agg(pl.col("seen_at").max() - gap).sort("namespace")
    states, nodes = pods.nodes.states(cluster), pods.nodes.rows(cluster)
    firsts = pl.concat([rows["first_seen_at"], states["started_at"]])
    lasts = pl.concat([rows["seen_at"], states["last_seen_at"]])
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {
            "metered_pods": rows,
            "metered_namespaces": namespaces.select(list(NAMESPACES)),
            "metered_node_states": states,
            "metered_nodes": nodes,
        },
        empty(REJECTS),
        rows_read=pods.readings,
        rows_loaded=pods.readings,
        columns=list(names),
        covers_from=earliest_time(firsts),
        covers_until=latest_time(lasts),
    )


def merged(rows: pl.DataFrame) -> pl.DataFrame:
    """Each pod once: of several readings the latest that has a value, and from the first to the last."""
    ordered = rows.sort(
        "cluster", "uid", "seen_at", *[name for name in PODS if name not in {"cluster", "uid", "seen_at"}]
    )
    latest = [pl.col(name).drop_nulls().last() for name in PODS if name not in {"cluster", "uid", *EARLIEST}]
    grouped = ordered.group_by("cluster", "uid", maintain_order=True)
    return grouped.agg(*latest, pl.col(EARLIEST).min()).select(list(PODS))


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


READER: Final = SourceReader(SOURCE, lambda _: NAMES, read)
"""Pods with GPUs, and states of nodes."""
