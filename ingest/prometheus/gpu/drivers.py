"""Versions of the GPUs' driver by node and day: a label that exporters write on the readings of every GPU.

    DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n7",DCGM_FI_DRIVER_VERSION="550.144.03"} 98
    gpu_gfx_activity{gpu_id="0",hostname="n9",serial_number="6924",driver_version="6.12.12"} 98

dcgm-exporter has the label because its list of counters defines the field with type `label` (`etc/default-counters.csv`
since 3.0), of AMD's device-metrics-exporter because its configuration lists `DRIVER_VERSION` among the labels
(`GPUMetricLabel` of `exporterconfig.proto`; all are listed by default). Exporters whose own list lacks it, and others,
do not export it: then the driver is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.prometheus.series.labels import node_of
from ingest.tables import columns_of, conform

if TYPE_CHECKING:
    from ingest.prometheus.client.remote_read import Samples
    from ingest.tables import Schema

LABELS: Final = ("DCGM_FI_DRIVER_VERSION", "driver_version")
"""Labels that hold the version: of dcgm-exporter, and of AMD's device-metrics-exporter."""

DRIVER_VERSIONS: Final[Schema] = columns_of("driver_versions")

KEY: Final = ("cluster", "node", "ts", "version")

_VERSION: Final = re.compile(r"\d{1,6}(\.\d{1,10}){1,3}")
_DAY_MS: Final = 86_400_000
_MOMENT: Final = pl.Datetime("ms", "UTC")


@dataclass
class Versions:
    """Collects versions from readings. One metric per node is enough: all metrics of a node have the same label.

    Attributes:
        early_ms: milliseconds by which a reading is dated back: 1 where intervals contain their end.
    """

    early_ms: int = 0
    _metrics: dict[str, str] = field(default_factory=dict)
    _spans: list[tuple[str, str, int, int]] = field(default_factory=list)

    def add(self, samples: Samples) -> None:
        """Add readings."""
        stops = np.cumsum(samples.sizes)
        for labels, start, stop in zip(samples.labels, stops - samples.sizes, stops, strict=True):
            version = next((labels[name] for name in LABELS if labels.get(name)), "")
            if not version or not _VERSION.fullmatch(version):
                continue
            node, metric = node_of(labels), labels.get("__name__", "")
            if node and self._metrics.setdefault(node, metric) == metric:
                times = samples.times[start:stop] - self.early_ms  # in their order
                edges = np.flatnonzero(np.diff(times // _DAY_MS)) + 1
                self._spans += [
                    (node, version, int(one[0]), int(one[-1])) for one in np.split(times, edges) if one.size
                ]

    def frame(self, cluster: str) -> pl.DataFrame:
        """DRIVER_VERSIONS of the nodes and days that had a reading with a version."""
        schema: Schema = {"node": pl.String(), "version": pl.String(), "low": _MOMENT, "high": _MOMENT}
        spans = pl.DataFrame(self._spans, schema, orient="row")
        return merged(
            spans.select(
                "node",
                "version",
                cluster=pl.lit(cluster),
                ts=pl.col("low").dt.truncate("1d"),
                first_seen_at="low",
                last_seen_at="high",
            )
        )


def merged(rows: pl.DataFrame) -> pl.DataFrame:
    """One row of each node, day and version: from the first reading of it to the last."""
    made = rows.group_by(KEY).agg(pl.col("first_seen_at").min(), pl.col("last_seen_at").max())
    return conform(made, DRIVER_VERSIONS).sort(KEY)
