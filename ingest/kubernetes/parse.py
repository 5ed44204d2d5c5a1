"""Kubernetes objects to rows of `pods`, `workloads`, `nodes`, `node_conditions` and `object_lists`."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import polars as pl

from ingest.delimited.reader import as_utf_8
from ingest.errors import UnrecognisedInputError, shorten
from ingest.future import latest
from ingest.kubernetes import claims, kueue, nodes, pods, workloads
from ingest.kubernetes.gpus import QuantityError
from ingest.kubernetes.lists import ALL_NAMESPACES
from ingest.kubernetes.objects import DAMAGED, NO_OBJECTS, InputObject, KubernetesNode, KubernetesPod, Workload, objects
from ingest.kubernetes.sources import OBJECTS
from ingest.load_warnings import LoadWarning
from ingest.tables import NODES, RAW_LIMIT, REJECTS, Parsed, columns_of, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from ingest.kubernetes.objects import Metadata

KEY: Final = ("cluster", "uid")
NODE_KEY: Final = ("cluster", "node", "valid_from")
TRANSITION_KEY: Final = ("cluster", "uid", "condition", "holds", "since")
ENDED_KEY: Final = ("cluster", "uid", "container", "ended_at")
CLAIMED_KEY: Final = ("cluster", "uid", "entry")
CONDITION_KEY: Final = ("cluster", "node", "condition", "holds", "since")

PODS: Final = columns_of("pods")
WORKLOADS: Final = columns_of("workloads")
CONDITIONS: Final = columns_of("node_conditions")
ITEMS: Final = re.compile(rb'(?m)(^|[{,\s])"?items"?\s*:')
"""Where a list begins, in JSON or YAML."""
LISTS: Final = columns_of("object_lists")
QUEUED: Final = columns_of("kueue_workloads")
TRANSITIONS: Final = columns_of("kueue_conditions")
CLAIMS: Final = columns_of("resource_claims")
POD_CLAIMS: Final = columns_of("pod_claims")
SLICES: Final = columns_of("resource_slices")
CONTAINER_ENDS: Final = columns_of("container_ends")

KUEUE: Final = "kueue.x-k8s.io"
"""The API group of Kueue: others have a kind Workload, too."""

OBSERVED: Final = {
    "pods": (KEY, "seen_at", PODS),
    "workloads": (KEY, "seen_at", WORKLOADS),
    "nodes": (NODE_KEY, "last_seen_at", NODES),
    "node_conditions": (CONDITION_KEY, "last_seen_at", CONDITIONS),
    "kueue_workloads": (KEY, "seen_at", QUEUED),
    "kueue_conditions": (TRANSITION_KEY, "last_seen_at", TRANSITIONS),
    "resource_claims": (KEY, "seen_at", CLAIMS),
    "pod_claims": (CLAIMED_KEY, "seen_at", POD_CLAIMS),
    "resource_slices": (KEY, "seen_at", SLICES),
}
"""Tables of which the latest observation of each row is kept: its key, its column of that time, and its columns."""

COUNTED: Final = ("pods", "workloads", "nodes", "kueue_workloads", "resource_claims", "resource_slices")
"""Tables of which a row is an object."""


REMEMBERED: Final = timedelta(days=30)
"""Pods and workloads that ended longer ago have been removed: the remaining ones do not show the time before."""

_AS_LISTED: Final = object()
"""In place of the time of the observation, which is known at the end of the input."""

_Kind = TypeVar("_Kind")


@dataclass
class ObjectsRead:
    """The rows of an input: objects are added one by one, and only their rows stay in memory.

    Attributes:
        cluster: cluster of the objects.
        now: objects of later are refused.
        latest: time of the observation: the latest that one of them reports.
        removed_at: time at which removals are observed; None: only the objects' own times are known.
        removed_undated: pods that were removed at an unknown time.
        began: beginning of the work that it shows: pods that hold GPUs, or may, and jobs that Kueue holds back.
        above: the latest time in the input before these objects; None: there is none.
    """

    cluster: str
    now: datetime
    pods: list[dict[str, Any]] = field(default_factory=list)
    workloads: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    node_conditions: list[dict[str, Any]] = field(default_factory=list)
    kueue_workloads: list[dict[str, Any]] = field(default_factory=list)
    kueue_conditions: list[dict[str, Any]] = field(default_factory=list)
    container_ends: list[dict[str, Any]] = field(default_factory=list)
    resource_claims: list[dict[str, Any]] = field(default_factory=list)
    pod_claims: list[dict[str, Any]] = field(default_factory=list)
    resource_slices: list[dict[str, Any]] = field(default_factory=list)
    listed: set[tuple[str, str]] = field(default_factory=set)
    rejects: list[tuple[str, bytes]] = field(default_factory=list)
    rows_read: int = 0
    skipped: int = 0
    latest: datetime | None = None
    removed_at: datetime | None = None
    removed_undated: int = 0
    began: list[datetime] = field(default_factory=list)
    above: datetime | None = None
    _first: dict[str, str] = field(default_factory=dict)

    def add(self, found: InputObject | str) -> None:
        """Add an object, or the reason why there is none."""
        self.rows_read += 1
        if isinstance(found, str):
            self.rejects.append((found, b""))
            return
        try:
            if found.kind == "Pod":
                self._add_pod(found)
            elif found.kind == "Node":
                self._add_node(found)
            elif found.kind in workloads.KINDS:
                self._add_workload(found)
            elif found.kind == "Workload" and found.group == KUEUE:
                self._add_queued(found)
            elif found.kind in {claims.CLAIM, claims.SLICE}:
                self._add_devices(found)
            else:
                self.skipped += 1
        except (*DAMAGED, QuantityError) as error:
            self.rejects.append((shorten(f"{found.kind}: {error}"), found.data))

    def _add_pod(self, found: InputObject) -> None:
        pod = _decoded(found.data, KubernetesPod)
        row = pods.pod_row(pod, cluster=self.cluster)
        times = list(pods.times_of(pod))
        self.observe(times)
        if row["state"] == "RUNNING":
            row["alive_at"] = _AS_LISTED if found.listed else max(times)
        deleted = self.removed_at or pod.metadata.deletionTimestamp or row["ended_at"]
        if found.removed and deleted is None:  # forced deletion, without a recorded time
            deleted = max(filter(None, (self.latest, self.above)), default=None)
            self.removed_undated += 1
        self.pods.append({**row, "deleted_at": deleted if found.removed else None})
        if row["role"] != pods.SLURM_NODE and row["n_gpus"] != 0:
            self.began.append(row["created_at"])
        self.pod_claims += claims.pod_claim_rows(pod, cluster=self.cluster)
        self.container_ends += pods.container_end_rows(pod, cluster=self.cluster)
        if found.removed and deleted is not None:
            self.observe([deleted])
        self._note_list("Pod", pod.metadata, found)

    def _add_workload(self, found: InputObject) -> None:
        workload = _decoded(found.data, Workload)
        workload.kind = found.kind
        self.observe(workloads.times_of(workload))
        self.workloads.append(workloads.workload_row(workload, cluster=self.cluster))

    def _add_queued(self, found: InputObject) -> None:
        workload = _decoded(found.data, kueue.KueueWorkload)
        row = kueue.workload_row(workload, cluster=self.cluster)
        self.observe(kueue.times_of(workload))
        self.kueue_workloads.append(row)
        self.began.append(row["created_at"])
        self.kueue_conditions += kueue.condition_rows(workload, cluster=self.cluster)
        self._note_list("Workload", workload.metadata, found)

    def _add_devices(self, found: InputObject) -> None:
        if found.kind == claims.CLAIM:
            claim = _decoded(found.data, claims.ResourceClaim)
            self.observe([claim.metadata.creationTimestamp])
            self.resource_claims.append(claims.claim_row(claim, cluster=self.cluster))
            return
        offered = _decoded(found.data, claims.ResourceSlice)
        self.observe([offered.metadata.creationTimestamp])
        if row := claims.slice_row(offered, cluster=self.cluster):
            self.resource_slices.append(row)
        else:
            self.skipped += 1

    def _add_node(self, found: InputObject) -> None:
        node = _decoded(found.data, KubernetesNode)
        self.observe(nodes.times_of(node))
        self.nodes.append(nodes.node_row(node, cluster=self.cluster))
        self.node_conditions += nodes.condition_rows(node, cluster=self.cluster)
        if found.listed:
            self.listed.add(("Node", ""))

    def _note_list(self, kind: str, meta: Metadata, found: InputObject) -> None:
        """Note that objects of a namespace were listed; a list with those of two is of all namespaces."""
        if found.listed:
            self.listed.add((kind, meta.namespace))
        if found.listed == 1 and found.document and self._first.setdefault(kind, meta.namespace) != meta.namespace:
            self.listed.add((kind, ALL_NAMESPACES))

    def observe(self, times: Iterable[datetime]) -> None:
        """Date the observation: it is not before any of these times."""
        for time in times:
            if time > latest(self.now):
                continue  # a wrong clock: its object is refused, and does not date the others
            self.latest = time if self.latest is None else max(self.latest, time)

    def covers_from(self) -> datetime | None:
        """Beginning of the covered time: that of the earliest work shown, `REMEMBERED` before the observation at most.

        Nodes, and servers that run for months, are there long after pods that ended beside them were removed.
        """
        if self.latest is None:
            return None
        oldest = self.latest - REMEMBERED
        return min((time for time in self.began if oldest <= time <= self.latest), default=self.latest)

    def table(self, name: str) -> pl.DataFrame:
        """The rows of one of the tables, with the time of the observation."""
        _, time_column, schema = OBSERVED[name]
        rows = [{**row, time_column: self.latest} for row in getattr(self, name)]
        for row in rows:
            if "since" in row and row["since"] is None:
                row["since"] = self.latest
            if row.get("alive_at") is _AS_LISTED:
                row["alive_at"] = self.latest
        return pl.DataFrame(rows, schema=schema)

    def lists(self) -> pl.DataFrame:
        """Rows of `object_lists`."""
        rows = [
            {"cluster": self.cluster, "kind": kind, "namespace": name, "seen_at": self.latest}
            for kind, name in sorted(self.listed)
            if self.latest is not None
        ]
        return pl.DataFrame(rows, schema=LISTS)

    def take(self, other: ObjectsRead) -> None:
        """Add the rows of the same observation."""
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            if isinstance(mine, list):
                mine += more
            elif each.name in {"rows_read", "skipped", "removed_undated"}:
                setattr(self, each.name, mine + more)
        self.listed |= other.listed
        self.observe([] if other.latest is None else [other.latest])

    def parsed(self, origin: str) -> Parsed:
        """All of it, with an account of every object."""
        return parsed_of([self], origin)

    def refused(self, origin: str) -> pl.DataFrame:
        """The rejects."""
        rows = [
            {
                "cluster": self.cluster,
                "source": OBJECTS,
                "origin": origin,
                "line": None,
                "reason": reason,
                "raw": data[:RAW_LIMIT].decode("utf-8", "replace"),
            }
            for reason, data in self.rejects
        ]
        return conform(pl.DataFrame(rows, schema=REJECTS), REJECTS)


def parsed_of(observations: Sequence[ObjectsRead], origin: str) -> Parsed:
    """The rows of an input, with an account of every object: each object once, as last observed."""
    frames = {name: _last_observed(name, [each.table(name) for each in observations]) for name in OBSERVED}
    ends = pl.DataFrame([row for each in observations for row in each.container_ends], schema=CONTAINER_ENDS)
    loaded = sum(frames[name].height for name in COUNTED)
    undated = sum(each.removed_undated for each in observations)
    return Parsed(
        OBJECTS,
        frozenset({each.cluster for each in observations}),
        {
            **frames,
            "object_lists": pl.concat([each.lists() for each in observations]).unique(maintain_order=True),
            "container_ends": ends.unique(ENDED_KEY, keep="last", maintain_order=True),
        },
        conform(pl.concat([each.refused(origin) for each in observations]), REJECTS),
        rows_read=sum(each.rows_read for each in observations),
        rows_loaded=loaded,
        rows_duplicate=sum(len(getattr(each, name)) for each in observations for name in COUNTED) - loaded,
        rows_skipped=sum(each.skipped for each in observations),
        rows_rejected=sum(len(each.rejects) for each in observations),
        warnings=[LoadWarning("removed_undated", undated)] if undated else [],
        covers_from=min((from_ for each in observations if (from_ := each.covers_from())), default=None),
        covers_until=max((each.latest for each in observations if each.latest), default=None),
    )


def _last_observed(name: str, observed: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The last of several observations of each row; of two at one time, the one with its end."""
    key, time_column, schema = OBSERVED[name]
    rows = pl.concat(observed)
    if len(observed) > 1:
        rows = rows.sort([time_column, *({"ended_at"} & schema.keys())], maintain_order=True)
    return rows.unique(key, keep="last", maintain_order=True)


def _observations(every: Iterable[InputObject | str], cluster: str, now: datetime) -> list[ObjectsRead]:
    """The objects by observations: a new one begins with a list of kinds and namespaces already listed.

    Lists of different kinds and namespaces, and single objects, are of one time.
    """
    observations = [ObjectsRead(cluster, now)]
    for _, of_document in itertools.groupby(every, _document_of()):
        read = ObjectsRead(cluster, now, above=max(filter(None, (each.latest for each in observations)), default=None))
        for found in of_document:
            read.add(found)
        if read.listed & observations[-1].listed:
            observations.append(read)
        else:
            observations[-1].take(read)
    return observations


def _document_of() -> Callable[[InputObject | str], int]:
    """A function of the document that each object is of; what cannot be read is of the one before it."""
    last = 0

    def document(found: InputObject | str) -> int:
        nonlocal last
        last = found.document if isinstance(found, InputObject) else last
        return last

    return document


def _decoded(data: bytes, kind: type[_Kind]) -> _Kind:
    """An object of the API. The API leaves out empty fields; other writers may have null in their place.

    Raises:
        msgspec.DecodeError: it is damaged.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return msgspec.json.decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(data))), type=kind)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def parse_objects(data: bytes, *, origin: str, cluster: str, now: datetime) -> Parsed:
    """Read one input.

    The latest time that any of its objects reports, up to `now`, is taken as the time of the observation: the text has
    no other.

    Raises:
        UnrecognisedInputError: none of it is a Kubernetes object, or a list without any.
    """
    data = as_utf_8(data)
    every = objects(data, origin=origin)
    first = next(every, None)
    if isinstance(first, InputObject) and not first.kind:
        raise UnrecognisedInputError(f"{origin}: {NO_OBJECTS}")
    read = _observations(every if first is None else itertools.chain([first], every), cluster, now)
    n_read, rejects = sum(each.rows_read for each in read), [one for each in read for one in each.rejects]
    is_empty_list = not n_read and ITEMS.search(data)
    if not is_empty_list and n_read == sum(not data for _, data in rejects):
        raise UnrecognisedInputError(f"{origin}: {rejects[0][0] if rejects else NO_OBJECTS}")
    return parsed_of(read, origin)
