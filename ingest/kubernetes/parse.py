"""Kubernetes objects to rows of `pods`, `workloads` and `pod_lists`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from ingest.errors import UnrecognisedInputError, shorten
from ingest.kubernetes import pods, workloads
from ingest.kubernetes.gpus import QuantityError
from ingest.kubernetes.objects import DAMAGED, NOT_JSON, Found, Pod, Workload, objects
from ingest.tables import RAW_LIMIT, REJECTS, Parsed, columns_of, conform

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

SOURCE: Final = "kubernetes.objects"
KEY: Final = ("cluster", "uid")

PODS: Final = columns_of("pods")
WORKLOADS: Final = columns_of("workloads")
LISTS: Final = columns_of("pod_lists")


@dataclass
class _Objects:
    """What an input holds."""

    cluster: str
    pods: list[dict[str, Any]] = field(default_factory=list)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    rejects: list[tuple[str, bytes]] = field(default_factory=list)
    rows_read: int = 0
    skipped: int = 0
    latest: datetime | None = None
    earliest: datetime | None = None

    def add(self, found: Found | str) -> None:
        self.rows_read += 1
        if isinstance(found, str):
            self.rejects.append((found, b""))
            return
        try:
            if found.kind == "Pod":
                self._add_pod(found)
            elif found.kind in workloads.KINDS:
                self._add_workload(found)
            else:
                self.skipped += 1
        except (*DAMAGED, QuantityError) as error:
            self.rejects.append((shorten(f"{found.kind}: {error}"), found.data))

    def _add_pod(self, found: Found) -> None:
        pod = msgspec.json.decode(found.data, type=Pod)
        row = pods.pod_row(pod, cluster=self.cluster)
        self._observe(pods.times_of(pod))
        deleted = pod.metadata.deletionTimestamp or row["ended_at"]
        self.pods.append({**row, "deleted_at": deleted if found.removed else None})
        if found.removed and deleted is not None:
            self._observe([deleted])
        if found.listed:
            self.listed.add(pod.metadata.namespace)

    def _add_workload(self, found: Found) -> None:
        workload = msgspec.json.decode(found.data, type=Workload)
        workload.kind = found.kind
        self._observe(workloads.times_of(workload))
        self.workloads.append(workloads.workload_row(workload, cluster=self.cluster))

    def _observe(self, times: Iterable[datetime]) -> None:
        for time in times:
            self.latest = time if self.latest is None else max(self.latest, time)
            self.earliest = time if self.earliest is None else min(self.earliest, time)

    def table(self, rows: list[dict[str, Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
        """The rows, each object once, as it was last seen."""
        seen = [{**row, "seen_at": self.latest} for row in rows]
        frame = pl.DataFrame(seen, schema=schema)
        return frame.unique(KEY, keep="last", maintain_order=True)

    def refused(self, origin: str) -> pl.DataFrame:
        """The rejects."""
        rows = [
            {
                "cluster": self.cluster,
                "source": SOURCE,
                "origin": origin,
                "line": None,
                "reason": reason,
                "raw": data[:RAW_LIMIT].decode("utf-8", "replace"),
            }
            for reason, data in self.rejects
        ]
        return conform(pl.DataFrame(rows, schema=REJECTS), REJECTS)


def parse_objects(data: bytes, *, origin: str, cluster: str) -> Parsed:
    """Read one input.

    The latest time that any of its objects reports is taken as the time of the observation: the text has no other.

    Raises:
        UnrecognisedInputError: none of it is a Kubernetes object.
    """
    read = _Objects(cluster)
    for found in objects(data, origin=origin):
        if isinstance(found, Found) and not found.kind and not read.rows_read:
            raise UnrecognisedInputError(f"{origin}: {NOT_JSON}")
        read.add(found)
    of_pods, of_workloads = read.table(read.pods, PODS), read.table(read.workloads, WORKLOADS)
    lists = [{"cluster": cluster, "namespace": name, "seen_at": read.latest} for name in sorted(read.listed)]
    loaded = of_pods.height + of_workloads.height
    return Parsed(
        SOURCE,
        frozenset({cluster}),
        {"pods": of_pods, "workloads": of_workloads, "pod_lists": pl.DataFrame(lists, schema=LISTS)},
        read.refused(origin),
        rows_read=read.rows_read,
        rows_loaded=loaded,
        rows_duplicate=len(read.pods) + len(read.workloads) - loaded,
        rows_skipped=read.skipped,
        rows_rejected=len(read.rejects),
        covers_from=read.earliest,
        covers_until=read.latest,
    )
