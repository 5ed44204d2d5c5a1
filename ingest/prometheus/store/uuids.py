"""GPUs that inputs name by UUID or by index are stored by index, independent of the order of inputs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.prometheus.gpu import uuids
from ingest.prometheus.health import events as health
from ingest.prometheus.store.merge import merge
from ingest.prometheus.tables import GPUS
from ingest.tables import HEALTH_EVENTS, conform, rows_absent_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import date

    from queries.warehouse import Writer

_PLACE: Final = ["cluster", "node", "gpu"]
_NODES_AT_ONCE: Final = 64
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class HourWriter:
    """Writers for the hours of GPUs: `write` for hours, `roll_up` for all samples of some hours."""

    write: Callable[[pl.DataFrame], None]
    roll_up: Callable[[pl.DataFrame], None]


def by_index(writer: Writer, frame: pl.DataFrame) -> list[pl.DataFrame]:
    """A frame with cluster, node and gpu in parts: rows named by index, and rows named by a UUID with a known index.

    Both parts may have rows of one GPU and time.
    """
    gpus = uuids.by_uuid(frame)
    indexes = gpus if gpus.is_empty() else _indexes(writer, gpus)
    if indexes.is_empty():
        return [frame]
    by_uuid = frame.join(indexes, on=_PLACE, how="semi", maintain_order="left")
    others = frame.join(indexes, on=_PLACE, how="anti", maintain_order="left")
    return [others, uuids.renamed(by_uuid, indexes)]


def _indexes(writer: Writer, gpus: pl.DataFrame) -> pl.DataFrame:
    return uuids.indexes_of(gpus, writer.matching("gpu_uuids", gpus, keys=["cluster", "uuid"]))


def write(writer: Writer, named: pl.DataFrame, *, interval_s: int, hours: HourWriter) -> None:
    """Add UUIDs (GPU_UUIDS) to the stored ones; rows of GPUs stored under a new one are renamed to the index."""
    existing = conform(writer.matching("gpu_uuids", named, keys=uuids.KEY), uuids.GPU_UUIDS)
    merged = uuids.merged(pl.concat([existing, named]))
    if merged.equals(existing.sort(uuids.KEY)):
        return
    writer.replace("gpu_uuids", merged, keys=uuids.KEY)
    new = merged.join(existing, on=uuids.KEY, how="anti")
    stored = writer.query_with("gpus_by_uuid", {"incoming": new.select("cluster", "uuid").unique()})
    indexes = _indexes(writer, uuids.by_uuid(stored)) if stored.height else stored
    if indexes.height:
        _rename_samples(writer, indexes.join(stored, on=_PLACE), interval_s, hours)
        _rename_events(writer, indexes)


def _rename_samples(writer: Writer, indexes: pl.DataFrame, interval_s: int, hours: HourWriter) -> None:
    """Samples and hours of GPUs with their `index`; `first_hour` and `last_hour` are those of their hours."""
    old = writer.matching("gpu_hours", indexes, keys=_PLACE)
    writer.delete("gpu_hours", indexes.select(_PLACE))
    hours.write(uuids.renamed(old, indexes))
    for cluster, day, some in _days(indexes.drop_nulls("first_hour")):
        since = datetime.combine(day, time(), UTC)
        rows = writer.matching_samples(
            GPUS.name, some, keys=["cluster", "node"], cluster=cluster, since=since, until=since + _DAY
        )
        samples = conform(rows, GPUS.schema)
        by_uuid = samples.join(some, on=_PLACE, how="semi")
        if by_uuid.is_empty():
            continue
        new = uuids.renamed(by_uuid, some)
        by_index = samples.join(new, on=_PLACE, how="semi")
        merged = merge(new, by_index, interval_s=interval_s) if by_index.height else new.sort(GPUS.key)
        out = pl.concat([by_uuid, rows_absent_from(by_index, merged)])
        writer.change_partition(GPUS.name, cluster, day, (out, rows_absent_from(merged, by_index)), order=GPUS.key)
        hours.roll_up(merged)


def _days(indexes: pl.DataFrame) -> Iterator[tuple[str, date, pl.DataFrame]]:
    """Cluster, day and GPUs: all days that some nodes may have samples of, for some nodes at a time."""
    for (cluster,), gpus in indexes.group_by("cluster", maintain_order=True):
        nodes = gpus["node"].unique().sort()
        for begin in range(0, nodes.len(), _NODES_AT_ONCE):
            some = gpus.filter(pl.col("node").is_in(nodes[begin : begin + _NODES_AT_ONCE].implode()))
            spans = some.select(pl.date_ranges(pl.col("first_hour").dt.date(), pl.col("last_hour").dt.date()))
            for day in spans.to_series().explode().unique().sort().to_list():
                yield str(cluster), day, some


def _rename_events(writer: Writer, indexes: pl.DataFrame) -> None:
    stored = conform(writer.matching("health_events", indexes, keys=["cluster", "node"]), HEALTH_EVENTS)
    named = stored.join(indexes, on=_PLACE, how="semi")
    if named.height:
        others = stored.join(indexes, on=_PLACE, how="anti")
        merged = health.merge(others, uuids.renamed(named, indexes))
        writer.replace("health_events", merged, keys=["cluster", "node"])
