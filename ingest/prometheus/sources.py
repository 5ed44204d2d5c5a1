"""Sources of telemetry, in the order in which inputs are loaded."""

from __future__ import annotations

from typing import Final

from ingest.source import IngestSource, SourceFolder

_SKIPS: Final = "readings that no sample is made from: of other metrics, without a value, or of another time"

SOURCES: Final = (
    IngestSource(
        name="prometheus.gpu",
        title="GPU telemetry",
        feeds=("gpu_samples", "gpu_hours", "health_events", "driver_versions", "gpu_uuids"),
        files="OpenMetrics text with timestamps, dcgm-exporter's names; gzip",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What allocated GPUs did, and which XIDs they had. Without it the use of allocated time is unknown.",
        counted=("gpu_samples", "health_events"),
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.gpu_hours",
        title="GPU telemetry by the hour",
        feeds=("gpu_hours",),
        files="Parquet with the columns of gpu_hours",
        command="trackside ingest prometheus hours.parquet",
        gives="How long GPUs were active in each hour, where raw telemetry is gone.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.node",
        title="Node telemetry",
        feeds=("node_samples", "node_hours"),
        files="OpenMetrics text with timestamps, node_exporter's names; Parquet with the columns of node_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What CPUs, networks and filesystems did, by node, port and mount, and for whom.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.health",
        title="Health from telemetry",
        feeds=("health_events",),
        files="OpenMetrics text with timestamps; Parquet with the columns of health_events",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="Memory errors, flapping links, throttling, lost mounts, failing node conditions: who was hit, and when.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.slurm",
        title="Slurm exporters",
        feeds=("cluster_samples",),
        files="OpenMetrics text with timestamps; Parquet with the columns of cluster_samples",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="What the scheduler itself counted: a cross-check of accounting.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.kubernetes",
        title="Kubernetes names of nodes",
        feeds=("node_aliases",),
        files="OpenMetrics text with timestamps, kube-state-metrics' names",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="Which Slurm node is which pod on which host, so that telemetry finds its node.",
        skips=_SKIPS,
    ),
    IngestSource(
        name="prometheus.pods",
        title="Kubernetes pods and nodes by their metrics",
        feeds=("metered_pods", "metered_node_states", "metered_nodes"),
        files="OpenMetrics text with timestamps, kube-state-metrics' names",
        command="trackside ingest prometheus --url http://prometheus:9090",
        gives="Who held GPUs of Kubernetes where and when, and how its nodes were, where the objects are not at hand.",
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
"""What each source is called where people read it."""


def source_named(name: str) -> IngestSource:
    """The source of that name.

    >>> source_named("prometheus.slurm").feeds
    ('cluster_samples',)
    """
    return next(source for source in SOURCES if source.name == name)
