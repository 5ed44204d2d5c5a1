"""PromQL that gives each series the labels `node`, `gpu` and `device`, whatever its exporter calls them.

The labels, and which of them comes first, are those that ingest reads (`ingest.prometheus.series.labels`). They are
joined in that order and the first that is not empty is taken out: two functions a series, for this runs over all GPUs.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from ingest.prometheus.mapping.mapping import quoted
from ingest.prometheus.series.hosts import ABOUT_PODS, HOST_INFO, POD_LABELS, REPLICA_LABELS
from ingest.prometheus.series.labels import GPU_LABELS, NODE_LABELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingest.prometheus.mapping.mapping import MappedMetric

HOST: Final = r";*((?:[0-9]+\.){3}[0-9]+|[0-9A-Za-z_-]+|\[[0-9a-fA-F:.]+\])([.:][^;]*)?(;.*)?"
"""The first host of several: its name without port and domain; addresses stay whole."""

GPU: Final = ";*(?:nvidia)?([^;]+)(;.*)?"
"""The first of the names of a GPU; that of its device without what all devices begin with."""

EXPORTERS_POD: Final = ".*exporter.*"
"""Values of node labels that exporters in a pod took from their own pod."""

FOUND: Final = ("found_node", "found_gpu")
"""Labels that are set on the way."""


def with_node(expr: str) -> str:
    """An expression whose series have `node`: the bare name of the host, else its address."""
    return _first(reduce(_without_exporters_pod, ("Hostname", "hostname"), expr), NODE_LABELS, "node", HOST)


def with_gpu(expr: str) -> str:
    """An expression whose series have `gpu`: its index, else its minor number, else its UUID."""
    return _first(expr, GPU_LABELS, "gpu", GPU)


def with_host_names(expr: str) -> str:
    """An expression of node_exporter's, with `nodename` where it reports the own name of the host at that address."""
    names = f"max by (cluster, instance, nodename) ({HOST_INFO})"
    return (
        f"(({expr}) * on (cluster, instance) group_left (nodename) {names}) "
        f"or (({expr}) unless on (cluster, instance) {HOST_INFO})"
    )


def with_device(expr: str, metric: MappedMetric, label: str) -> str:
    """An expression whose series have the device of a mapping's entry as a label."""
    if metric.device_as:
        return f'label_replace({expr}, "{label}", "{quoted(metric.device_as)}", "", "")'
    if not metric.device:
        return expr
    joined = f'label_join({expr}, "{label}", "/", {", ".join(map(_text, metric.device))})'
    return _set(joined, label, label, f".*?{metric.device_pattern}.*") if metric.device_pattern else joined


def once(expr: str, metric: MappedMetric) -> str:
    """An expression in which series that differ only in who scraped them are one."""
    labels = REPLICA_LABELS if metric.name.startswith(ABOUT_PODS) else REPLICA_LABELS | POD_LABELS
    dropped = sorted({*labels, *NODE_LABELS, *FOUND} - {"cluster", "node", "__name__"})
    return f"max without ({', '.join(dropped)}) ({expr})"


def by(labels: Sequence[str], expr: str, how: str = "max") -> str:
    """An expression with these labels only."""
    return f"{how} by ({', '.join(labels)}) ({expr})"


def _without_exporters_pod(expr: str, label: str) -> str:
    return f'label_replace({expr}, "{label}", "", "{label}", "{EXPORTERS_POD}")'


def _set(expr: str, label: str, source: str, pattern: str) -> str:
    return f'label_replace({expr}, "{label}", "$1", "{source}", "{quoted(pattern)}")'


def _first(expr: str, sources: Sequence[str], label: str, pattern: str) -> str:
    """The series with a label: what the pattern takes out of the first of others that is not empty."""
    joined = f'label_join({expr}, "found_{label}", ";", {", ".join(map(_text, sources))})'
    return _set(joined, label, f"found_{label}", pattern)


def _text(label: str) -> str:
    return f'"{label}"'
