"""Nodes from kube-state-metrics: periods in which they were ready or cordoned, and their GPUs.

    kube_node_status_condition{node="host-a",condition="Ready",status="true"} 1
    kube_node_spec_unschedulable{node="host-a"} 0
    kube_node_status_capacity{node="host-a",resource="nvidia_com_gpu",unit="integer"} 8

Successive equal readings are one period; a gap longer than a lost reading ends it.

Source: kubernetes/kube-state-metrics, docs/metrics/cluster/node-metrics.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.plausible import LONGEST_NAME
from ingest.prometheus.client.raw import GONE_S
from ingest.prometheus.node.kubernetes_gpus import gpus_of_resource, label_of
from ingest.tables import columns_of

if TYPE_CHECKING:
    import numpy.typing as npt

STATES: Final = columns_of("metered_node_states")
NODES: Final = columns_of("metered_nodes")

CONDITION: Final = "kube_node_status_condition"
CORDONED: Final = "kube_node_spec_unschedulable"
CAPACITY: Final = "kube_node_status_capacity"
CREATED: Final = "kube_node_created"
NAMES: Final = (CONDITION, CORDONED, CAPACITY, CREATED)

READY: Final = "Ready"
UNSCHEDULABLE: Final = "Unschedulable"
LATEST: Final = 4_102_444_800
"""Seconds since the epoch that no time of a node reaches (2100)."""


class _ConditionSpan(NamedTuple):
    """A time in which a condition of a node held, or did not, by its first and last reading (ms since 1970)."""

    node: str
    condition: str
    holds: bool
    first_ms: int
    last_ms: int


@dataclass
class _NodeFacts:
    """The facts of a node; `first` and `last` are times of readings (ms since 1970)."""

    gpus: dict[str, Decimal] = field(default_factory=dict)
    created_s: float | None = None
    first: int = 0
    last: int = 0


@dataclass
class Nodes:
    """Facts of nodes from readings, by name."""

    nodes: dict[str, _NodeFacts] = field(default_factory=dict)
    spans: list[_ConditionSpan] = field(default_factory=list)

    def take(self, labels: dict[str, str], times: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Add a series of one of `NAMES`."""
        name = label_of(labels, "node")
        if not 0 < len(name) <= LONGEST_NAME or not times.size:
            return
        low, high = int(times.min()), int(times.max())
        node = self.nodes.setdefault(name, _NodeFacts(first=low, last=high))
        node.first, node.last = min(node.first, low), max(node.last, high)
        metric, last = labels["__name__"], float(values[-1])
        if metric == CREATED and 0 < last < LATEST:
            node.created_s = last
        elif metric == CAPACITY and (gpus := gpus_of_resource(labels.get("resource", ""), last)):
            node.gpus[labels.get("resource", "")] = gpus
        elif metric == CORDONED:
            self._add(name, UNSCHEDULABLE, times, values > 0)
        elif metric == CONDITION and (labels.get("condition"), labels.get("status")) == (READY, "true"):
            self._add(name, READY, times, values > 0)

    def _add(self, name: str, condition: str, times: npt.NDArray[Any], holds: npt.NDArray[np.bool_]) -> None:
        ends = np.flatnonzero((np.diff(times) > GONE_S * 1000) | (np.diff(holds.astype(np.int8)) != 0)) + 1
        for part in np.split(np.arange(times.size), ends):
            first, last = part[0], part[-1]
            self.spans.append(_ConditionSpan(name, condition, bool(holds[first]), int(times[first]), int(times[last])))

    def states(self, cluster: str) -> pl.DataFrame:
        """Rows of `metered_node_states`."""
        rows = [
            (cluster, span.node, span.condition, span.holds, _moment(span.first_ms), _moment(span.last_ms))
            for span in self.spans
        ]
        return merged(pl.DataFrame(rows, schema=STATES, orient="row"))

    def rows(self, cluster: str) -> pl.DataFrame:
        """Rows of `metered_nodes`: nodes with GPUs."""
        rows = [
            {
                "cluster": cluster,
                "node": name,
                "created_at": _moment(node.first if node.created_s is None else int(node.created_s * 1000)),
                "n_gpus": sum(node.gpus.values(), Decimal(0)),
                "last_seen_at": _moment(node.last),
            }
            for name, node in sorted(self.nodes.items())
            if node.gpus
        ]
        return pl.DataFrame(rows, schema=NODES)


def merged(states: pl.DataFrame) -> pl.DataFrame:
    """Equal states of a node at most a short gap apart, as one period: its parts may come in any order."""
    key = ["cluster", "node", "condition"]
    rows = states.sort(*key, "started_at", "last_seen_at", "holds")
    gap_s = (pl.col("started_at") - pl.col("last_seen_at").cum_max().shift(1).over(key)).dt.total_seconds()
    begins = (gap_s > GONE_S) | (pl.col("holds") != pl.col("holds").shift(1).over(key))
    parts = rows.with_columns(part=begins.fill_null(value=True).cast(pl.Int64).cum_sum().over(key))
    grouped = parts.group_by(*key, "part", maintain_order=True).agg(
        pl.col("holds").first(), pl.col("started_at").min(), pl.col("last_seen_at").max()
    )
    return grouped.select(list(STATES))


def merged_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    """Each node once, by its last reading; without an exported creation time, since its first reading."""
    key = ["cluster", "node"]
    ordered = nodes.sort(*key, "last_seen_at", "created_at", "n_gpus")
    return (
        ordered.group_by(key, maintain_order=True)
        .agg(pl.col("created_at").min(), pl.col("n_gpus", "last_seen_at").last())
        .select(list(NODES))
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
