"""UUIDs of the GPUs of each node, from telemetry that has both: they identify later readings with a UUID alone.

Within one input `ingest.prometheus.series.labels.Indexes` does the same; this module stores the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from ingest.prometheus.series.labels import index_and_uuid, node_of
from ingest.tables import columns_of, conform

if TYPE_CHECKING:
    from ingest.prometheus.client.remote_read import Samples
    from ingest.tables import Schema

GPU_UUIDS: Final[Schema] = columns_of("gpu_uuids")

KEY: Final = ("cluster", "node", "uuid", "gpu")

_PLACE: Final = ("cluster", "node", "gpu")
_MOMENT: Final = pl.Datetime("ms", "UTC")


@dataclass
class Uuids:
    """Collects UUIDs from readings whose labels have the index, too."""

    _first: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def add(self, samples: Samples) -> None:
        """Add readings."""
        begins = np.cumsum(samples.sizes) - samples.sizes
        for labels, begin, size in zip(samples.labels, begins.tolist(), samples.sizes.tolist(), strict=True):
            index, uuid = index_and_uuid(labels)
            node = node_of(labels)
            if size and node and index.isdigit() and uuid:
                key = node, uuid, index
                at = int(samples.times[begin])
                self._first[key] = min(at, self._first.get(key, at))

    def frame(self, cluster: str) -> pl.DataFrame:
        """GPU_UUIDS."""
        rows = [(*key, at) for key, at in self._first.items()]
        schema: Schema = {"node": pl.String(), "uuid": pl.String(), "gpu": pl.String(), "first_seen_at": _MOMENT}
        return merged(pl.DataFrame(rows, schema, orient="row").with_columns(cluster=pl.lit(cluster)))


def merged(rows: pl.DataFrame) -> pl.DataFrame:
    """One row of each node, UUID and index."""
    return conform(rows.group_by(KEY).agg(pl.col("first_seen_at").min()), GPU_UUIDS).sort(KEY)


def by_uuid(gpus: pl.DataFrame) -> pl.DataFrame:
    """Cluster, node and `gpu` of those that are no index, each once, with `uuid`."""
    uuid = pl.col("gpu").str.to_lowercase().str.strip_prefix("gpu-")
    named = gpus.select(_PLACE).drop_nulls().unique().filter(~pl.col("gpu").str.contains(r"^\d*$"))
    return named.with_columns(uuid.alias("uuid"))


def indexes_of(gpus: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """GPUs (`by_uuid`) with their `index` in GPU_UUIDS; those without one are left out.

    A UUID with several indexes on the node has none. A UUID without an index on the node has that of the cluster's
    other nodes, if they agree: an exporter may use another name for its node.
    """
    here, anywhere = (_only(known, of) for of in (["cluster", "node", "uuid"], ["cluster", "uuid"]))
    joined = gpus.join(here, on=["cluster", "node", "uuid"], how="left").join(
        anywhere, on=["cluster", "uuid"], how="left", suffix="_anywhere"
    )
    n, index = (pl.coalesce(name, f"{name}_anywhere") for name in ("n", "index"))
    return joined.filter(n == 1).with_columns(index=index).select(*gpus.columns, "index")


def _only(known: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """Number of indexes of each UUID, and one of them."""
    return known.group_by(of).agg(pl.col("gpu").n_unique().alias("n"), pl.col("gpu").min().alias("index"))


def renamed(frame: pl.DataFrame, indexes: pl.DataFrame) -> pl.DataFrame:
    """A frame with cluster, node and gpu, where the GPUs of `indexes` (`indexes_of`) have these."""
    joined = frame.join(indexes.select(*_PLACE, "index"), on=_PLACE, how="left", maintain_order="left")
    return joined.with_columns(gpu=pl.coalesce("index", "gpu")).drop("index")
