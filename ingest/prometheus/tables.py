"""The tables of samples: columns that identify a series, and measured columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ingest.tables import CLUSTER_SAMPLES, GPU_SAMPLES, NODE_SAMPLES, Schema


@dataclass(frozen=True)
class SampleTable:
    """A table of samples: its columns, and which of them identify a series; the others but its time are values."""

    name: str
    series_key: tuple[str, ...]
    schema: Schema

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return (*self.series_key, "ts")

    @property
    def values(self) -> tuple[str, ...]:
        """Measured columns."""
        return tuple(name for name in self.schema if name not in {*self.key, "interval_s"})


GPUS: Final = SampleTable("gpu_samples", ("cluster", "node", "gpu"), GPU_SAMPLES)
NODES: Final = SampleTable("node_samples", ("cluster", "node", "metric", "device"), NODE_SAMPLES)
CLUSTERS: Final = SampleTable("cluster_samples", ("cluster", "metric", "device"), CLUSTER_SAMPLES)
TABLES: Final = (GPUS, NODES, CLUSTERS)
