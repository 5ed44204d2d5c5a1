"""The identity of a series by its labels: its node, its device, and other series with the same measurement.

Exporters are scraped from an address, and several servers may scrape the same one. So a node's name is searched as
in `ingest.prometheus.series.labels`; where only the address is known, node_exporter's `node_uname_info` has the name of
the host at that address. Labels added by the scrape do not belong to the measured thing: series that differ only in
those are twins, and measure the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ingest.prometheus.series.labels import ADDRESS_LABELS, NODE_LABELS, bare_host, is_address, node_label, node_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.prometheus.mapping.mapping import MappedMetric

HOST_INFO: Final = "node_uname_info"
"""A series of node_exporter's whose label `nodename` is the name of the host."""

REPLICA_LABELS: Final = frozenset(
    {"job", "instance", "endpoint", "service", "monitor", "cluster"}
    | {"prometheus", "prometheus_replica", "replica", "__replica__", "__name__"}
)
"""Labels of the scrape: target, job and server."""

FEDERATED_LABELS: Final = frozenset({"exported_instance", "exported_job"})
"""The same for federated series; an `exported_job` alone may belong to the measured thing."""

POD_LABELS: Final = frozenset({"namespace", "pod", "container"})
"""Labels of the exporter's pod; but of metrics about pods (`ABOUT_PODS`) they name the pod."""

ABOUT_PODS: Final = ("container_", "kube_", "kubelet_")
"""Beginnings of the names of metrics that are about pods."""

NO_NODE: Final = "no label names the node"


class Identity(NamedTuple):
    """The identity of a series for one entry of the mapping.

    `name` is its node, or the address where only that is known (`by_address`); empty: neither is. `rest` are the
    labels, with their values, that distinguish it from others of its node and entry.
    """

    name: str
    by_address: bool
    device: str
    rest: tuple[tuple[str, str], ...]


def identify(metric: MappedMetric, labels: Mapping[str, str]) -> Identity:
    """Identify a series by its labels. Rows of clusters have no node: labels that may name one are kept.

    >>> from ingest.prometheus.mapping.mapping import MappedMetric
    >>> idle = MappedMetric("node_cpu_seconds_total", "node_samples", "cpu_busy")
    >>> identify(idle, {"__name__": "node_cpu_seconds_total", "cpu": "3", "instance": "10.0.0.7:9100", "job": "node"})
    Identity(name='10.0.0.7:9100', by_address=True, device='', rest=(('cpu', '3'),))
    """
    name = by = ""
    away = REPLICA_LABELS if metric.name.startswith(ABOUT_PODS) else REPLICA_LABELS | POD_LABELS
    if metric.table == "node_samples":
        by = node_label(labels)
        name = labels[by] if by else ""
        away |= _NODE_LABELS
    if labels.get("exported_instance"):
        away |= FEDERATED_LABELS
    rest = tuple(sorted((label, value) for label, value in labels.items() if value and label not in away))
    return Identity(name, by in ADDRESS_LABELS, metric.device_of(labels), rest)


_NODE_LABELS: Final = frozenset(NODE_LABELS)


@dataclass
class Hosts:
    """Names of hosts, by the address at which they are scraped."""

    _names: dict[str, set[str]] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str]) -> None:
        """Add a series with the names (`HOST_INFO`)."""
        name = bare_host(labels.get("nodename", ""))
        if name and node_label(labels, ["nodename"]):  # without exporters' pods, whose own name it may be
            for address in filter(None, map(labels.get, ADDRESS_LABELS)):
                self._names.setdefault(address, set()).add(name)
                self._names.setdefault(bare_host(address), set()).add(name)

    def node(self, identity: Identity) -> tuple[str, str]:
        """The node of a series, or the reason why it is unknown (one of both is empty).

        Another exporter of the same host has the same address but for the port.
        """
        if not identity.name:
            return "", NO_NODE
        host = bare_host(identity.name)
        if not identity.by_address:
            return host, ""
        names = self._names.get(identity.name) or self._names.get(host) or {host}
        if len(names) > 1:
            several = ", ".join(sorted(names)[:3])
            return "", f"several hosts have the name {identity.name}: {several}; scrape them under names of their own"
        return next(iter(names)), ""

    def with_name(self, labels: dict[str, str]) -> dict[str, str]:
        """Labels of a series, with the name of its host where only an address names the node."""
        name = self._name_at(node_of(labels))
        return {**labels, NODE_LABELS[0]: name} if name else labels

    def renamed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A frame with `node`, with the names of hosts in place of their addresses."""
        names = {node: name for node in frame["node"].unique().to_list() if (name := self._name_at(node))}
        return frame.with_columns(pl.col("node").replace(names)) if names else frame

    def _name_at(self, node: str) -> str:
        """The only host at an address; empty where there are several or none, and where a node is no address."""
        names = self._names.get(node, set()) if is_address(node) else set()
        return next(iter(names)) if len(names) == 1 else ""
