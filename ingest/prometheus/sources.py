"""Sources of telemetry, in the order in which inputs are loaded."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

_SKIPS: Final = "readings without a use: of other metrics, without a value, or of another time"

SOURCES: Final = (
    IngestSource(
        name="prometheus.gpu",
        title="GPU telemetry",
        feeds=("gpu_samples", "gpu_hours", "health_events", "driver_versions", "gpu_uuids"),
        files="OpenMetrics text with timestamps, dcgm-exporter's names; gzip",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="Activity of allocated GPUs, and their XIDs. Without it the use of allocated time is unknown.",
        counted=("gpu_samples", "health_events"),
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.gpu_hours",
        title="GPU telemetry by the hour",
        feeds=("gpu_hours",),
        files="Parquet with the columns of gpu_hours",
        command="trackside ingest prometheus hours.parquet",
        purpose="How long GPUs were active in each hour, where raw telemetry is gone.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.node",
        title="Node telemetry",
        feeds=("node_samples", "node_hours"),
        files="OpenMetrics text with timestamps, node_exporter's names; Parquet with the columns of node_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="Use of CPUs, networks and filesystems, by node, port and mount, and by job.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.health",
        title="Health from telemetry",
        feeds=("health_events",),
        files="OpenMetrics text with timestamps; Parquet with the columns of health_events",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="Memory errors, flapping links, throttling, lost mounts, failing node conditions, each with its time.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.slurm",
        title="Slurm exporters",
        feeds=("cluster_samples",),
        files="OpenMetrics text with timestamps; Parquet with the columns of cluster_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="Counts by the scheduler itself: a cross-check of accounting.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.kubernetes",
        title="Kubernetes names of nodes",
        feeds=("node_aliases",),
        files="OpenMetrics text with timestamps, kube-state-metrics' names",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="The pod and host of each Slurm node, so that telemetry is assigned to its node.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.pods",
        title="Kubernetes pods and nodes by their metrics",
        feeds=("metered_pods", "metered_node_states", "metered_nodes"),
        files="OpenMetrics text with timestamps, kube-state-metrics' names",
        command="trackside ingest prometheus --url http://prometheus:9090",
        purpose="Pods with GPUs in Kubernetes and states of its nodes, where the objects are not available.",
        skips="readings of other pods",
    ),
)

FOLDER: Final = SourceFolder(
    "prometheus",
    "Telemetry of GPUs and nodes, from a Prometheus server or from files",
    SOURCES,
    position=2,
    called="telemetry",
)

TITLES: Final = {source.name: source.title for source in SOURCES}
"""Titles of the sources."""

BY_NAME: Final = {source.name: source for source in SOURCES}
