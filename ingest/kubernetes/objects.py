"""Kubernetes API objects from JSON or YAML: lists, single objects, output of a watch, several in one file.

Each object is decoded into the fields that are read; all others are ignored. A damaged object is refused alone, with
the place of the fault in it.

Source of the fields: the Kubernetes API reference, meta/v1 ObjectMeta, core/v1 Pod, and the Job-like kinds' JobStatus.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from ingest.errors import InputError, UnrecognisedInputError, shorten
from ingest.files.json_texts import BrokenTextError, json_texts
from ingest.files.yaml_documents import documents
from ingest.plausible import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]


QUEUE_LABELS: Final = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
USER_LABELS: Final = ("trackside.io/user", "kueue.x-k8s.io/submitter", "user", "owner")


class OwnerReference(msgspec.Struct):
    """An owner of an object; one of the owners controls it."""

    kind: Name
    name: Name
    uid: Name
    controller: bool | None = None


class Metadata(msgspec.Struct):
    """The part that all objects have."""

    name: Name
    uid: Name
    creationTimestamp: Moment
    namespace: str = ""
    deletionTimestamp: Moment | None = None
    deletionGracePeriodSeconds: Annotated[int, msgspec.Meta(ge=0, le=10**9)] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None

    @property
    def deletion_requested(self) -> datetime | None:
        """Time of the request to end; the API server records the end of the grace period."""
        if self.deletionTimestamp is None:
            return None
        grace = timedelta(seconds=self.deletionGracePeriodSeconds or 0)
        return max(self.deletionTimestamp - grace, self.creationTimestamp)

    def controller(self) -> OwnerReference | None:
        """The controller of the object; None: none. Some operators do not mark the only owner as controller."""
        owners = self.ownerReferences or ()
        return next((owner for owner in owners if owner.controller), owners[0] if len(owners) == 1 else None)

    def label(self, *names: str) -> str | None:
        """The first of these labels, else annotations, that it has."""
        for texts in (self.labels or {}, self.annotations or {}):
            for name in names:
                if texts.get(name):
                    return texts[name]
        return None


def identity(meta: Metadata, *, cluster: str) -> dict[str, Any]:
    """The common columns of pods and workloads: identity and owner."""
    owner = meta.controller()
    return {
        "cluster": cluster,
        "uid": meta.uid,
        "namespace": meta.namespace,
        "name": meta.name,
        "owner_kind": owner.kind if owner else None,
        "owner_name": owner.name if owner else None,
        "owner_uid": owner.uid if owner else None,
        "created_at": meta.creationTimestamp,
        "queue": meta.label(*QUEUE_LABELS),
        "user": meta.label(*USER_LABELS),
    }


class Condition(msgspec.Struct):
    """A condition of an object: whether it holds, and its time. Those of Volcano's jobs have no type."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    lastTransitionTime: Moment | None = None

    @property
    def holds(self) -> bool:
        """Whether it does."""
        return self.status == "True"


class ContainerResources(msgspec.Struct):
    """Limits and requests of a container."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class Container(msgspec.Struct):
    """A container of a pod."""

    name: str = ""
    resources: ContainerResources | None = None
    restartPolicy: str | None = None


class Terminated(msgspec.Struct):
    """The end of a container."""

    exitCode: int | None = None
    reason: str | None = None
    finishedAt: Moment | None = None


class Running(msgspec.Struct):
    """The start of a container."""

    startedAt: Moment | None = None


class ContainerState(msgspec.Struct):
    """One of the two, or neither while it waits."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct):
    """A container, as its node reports it."""

    name: str = ""
    state: ContainerState | None = None
    lastState: ContainerState | None = None
    restartCount: Annotated[int, msgspec.Meta(ge=0, le=10**9)] = 0


class PodClaim(msgspec.Struct):
    """A claim of dynamic resource allocation that a pod names; of a template, it is made for the pod."""

    name: str = ""
    resourceClaimName: str | None = None


class PodSpec(msgspec.Struct):
    """Requests of a pod, and its node."""

    nodeName: str | None = None
    schedulerName: str | None = None
    priorityClassName: str | None = None
    containers: list[Container] | None = None
    initContainers: list[Container] | None = None
    resourceClaims: list[PodClaim] | None = None


class PodStatus(msgspec.Struct):
    """Status of a pod."""

    phase: str = "Unknown"
    reason: str | None = None
    startTime: Moment | None = None
    conditions: list[Condition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None
    resourceClaimStatuses: list[PodClaim] | None = None


class KubernetesPod(msgspec.Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class JobState(msgspec.Struct):
    """State of a job of Volcano."""

    phase: str | None = None
    reason: str | None = None
    lastTransitionTime: Moment | None = None


class PhaseTime(msgspec.Struct):
    """Time at which a virtual machine's instance reached a phase."""

    phase: str = ""
    phaseTransitionTimestamp: Moment | None = None


class WorkloadStatus(msgspec.Struct):
    """Status of a workload, for all kinds.

    Argo's and KubeVirt's have a phase, Volcano's a state, Ray's jobs a status of their own, the others conditions.
    """

    conditions: list[Condition] | None = None
    completionTime: Moment | None = None
    phase: str | None = None
    finishedAt: Moment | None = None
    phaseTransitionTimestamps: list[PhaseTime] | None = None
    state: JobState | str | None = None
    jobStatus: str | None = None
    endTime: Moment | None = None


class WorkloadSpec(msgspec.Struct):
    """How many pods a Job needs, and how many run at a time. Other kinds may have other things under these names."""

    completions: Any = None
    parallelism: Any = None


class Workload(msgspec.Struct):
    """An object that controls pods, or other workloads."""

    metadata: Metadata
    kind: str = ""
    spec: WorkloadSpec | None = None
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class Taint(msgspec.Struct):
    """A taint, which keeps pods off a node, and its time."""

    key: str
    timeAdded: Moment | None = None


class NodeSpec(msgspec.Struct):
    """Specification of a node."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class NodeCondition(Condition):
    """A condition of a node, with the time of its last confirmation."""

    lastHeartbeatTime: Moment | None = None


class NodeStatus(msgspec.Struct):
    """Resources and conditions of a node."""

    capacity: dict[str, str | int | float] | None = None
    conditions: list[NodeCondition] | None = None


class KubernetesNode(msgspec.Struct):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class ObjectKind(msgspec.Struct):
    """An object decoded only to its kind, a list of them, or an event of a watch."""

    kind: str = ""
    apiVersion: str = ""
    type: str = ""
    items: list[msgspec.Raw] | None = None
    object: msgspec.Raw = msgspec.Raw()


class InputObject(msgspec.Struct):
    """An object of the input.

    Attributes:
        kind: its kind.
        group: of the API that has it: `batch`, `kueue.x-k8s.io`; empty for the core's.
        data: its text.
        removed: a watch reported that it was removed.
        listed: it came in a list: 1, or in one within so many others.
        document: number of its text in the input, from 1.
    """

    kind: str
    data: bytes
    removed: bool = False
    listed: int = 0
    group: str = ""
    document: int = 0


LIST: Final = "List"
DEEPEST_LIST: Final = 8
"""Lists and events within each other that are opened."""

DELETED: Final = "DELETED"
UNUSED_EVENTS: Final = frozenset({"BOOKMARK", "ERROR"})
DAMAGED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
NO_OBJECTS: Final = "no Kubernetes objects in it, as JSON or YAML; kubectl get ... -o json prints them"


def objects(data: bytes, *, origin: str) -> Iterator[InputObject | str]:
    """The objects of an input in their order; a text is the reason why the rest of it cannot be read.

    Raises:
        UnrecognisedInputError: it does not begin with JSON or YAML of an object.
    """
    text = data.strip()
    if not text.startswith((b"{", b"[")):
        yield from _of_yaml(data, origin)
        return
    try:
        if text.startswith(b"["):
            whole = msgspec.json.decode(text, type=list[msgspec.Raw])
        else:
            msgspec.json.decode(text, type=ObjectKind)
            whole = [msgspec.Raw(text)]
    except DAMAGED:
        yield from _successive_objects(text)
        return
    for number, document in enumerate(whole, 1):
        yield from _of_document(number, _opened(bytes(document), "", removed=False))


def _of_document(number: int, every: Iterable[InputObject | str]) -> Iterator[InputObject | str]:
    """Objects with the number of their document."""
    for found in every:
        if isinstance(found, InputObject):
            found.document = number
        yield found


def objects_of(document: bytes) -> Iterator[InputObject | str]:
    """The objects of one JSON document: a list, an object, or an event of a watch."""
    yield from _opened(document, "", removed=False)


def _of_yaml(data: bytes, origin: str) -> Iterator[InputObject | str]:
    """Objects of YAML: output of `kubectl get -o yaml`; with `--watch` one document each."""
    found = False
    try:
        for number, document in enumerate(documents(data, origin=origin), 1):
            if isinstance(document, dict) and _KEYS & document.keys():
                found = True
                opened = _cut_list(document["items"]) if _is_cut(document) else _decoded_again(document)
                yield from _of_document(number, opened)
            elif document is not None and not found:
                break
    except InputError as error:
        if not found and b"apiVersion:" in data:
            raise
        if found:
            yield str(error)
    if not found:
        raise UnrecognisedInputError(f"{origin}: {NO_OBJECTS}")


_KEYS: Final = frozenset({"kind", "object", "items"})
"""One of these is in each object, event and list."""


def _is_cut(document: dict[str, Any]) -> bool:
    """Whether it is a list without its end, which names the kind: YAML that is cut between lines is YAML."""
    return isinstance(document.get("items"), list) and "kind" not in document


def _cut_list(items: list[Any]) -> Iterator[InputObject | str]:
    """The objects of a list that was cut, without the last, incomplete one. It is not evidence of removals."""
    for item in items[:-1]:
        yield from _decoded_again(item)
    yield "the list is cut off in this object"


_BETWEEN: Final = re.compile(r"[ \t\r\n,\x1e]*")
"""Separators of the objects of a watch, of a list without its brackets, and of JSON text sequences."""


def _successive_objects(text: bytes) -> Iterator[InputObject | str]:
    """Successive objects, as a watch prints them; the last one may be cut."""
    try:
        values = json_texts(text.decode("utf-8", "replace"), between=_BETWEEN)
        for number, (value, _) in enumerate(values, 1):
            yield from _of_document(number, _decoded_again(value))
    except BrokenTextError as error:
        yield f"the JSON ends or breaks here: {shorten(str(error))}"


def _decoded_again(value: object) -> Iterator[InputObject | str]:
    """An object that was decoded to find its end."""
    try:
        data = msgspec.json.encode(value)
    except (ValueError, OverflowError, RecursionError) as error:  # half a character, a number without an end, nesting
        yield shorten(f"not valid JSON: {error}")
        return
    yield from _opened(data, "", removed=False)


def _opened(data: bytes, kind: str, *, removed: bool, depth: int = 0) -> Iterator[InputObject | str]:
    try:
        head = msgspec.json.decode(data, type=ObjectKind)
    except DAMAGED as error:
        yield shorten(str(error))
        return
    name = head.kind or kind
    if depth > DEEPEST_LIST:
        yield "lists within lists: too deep"
    elif head.items is not None and name.endswith(LIST):
        for item in head.items:
            yield from _listed(bytes(item), name.removesuffix(LIST), head.apiVersion, depth)
    elif bytes(head.object) and head.type and not name:
        if head.type not in UNUSED_EVENTS:
            yield from _opened(bytes(head.object), "", removed=head.type == DELETED, depth=depth + 1)
    else:
        yield InputObject(name, data, removed, group=_group(head.apiVersion))


def _listed(data: bytes, kind: str, version: str, depth: int) -> Iterator[InputObject | str]:
    """An item of a list. Lists that the API itself returns do not repeat the kind at every item.

    Where several were put together, an item is a list itself.
    """
    try:
        head = msgspec.json.decode(data, type=ObjectKind)
    except DAMAGED as error:
        yield shorten(str(error))
        return
    if head.items is not None and head.kind.endswith(LIST):
        yield from _opened(data, "", removed=False, depth=depth + 1)
        return
    yield InputObject(head.kind or kind, data, listed=depth + 1, group=_group(head.apiVersion or version))


def _group(version: str) -> str:
    """The group of a version: `kueue.x-k8s.io/v1beta1` is of `kueue.x-k8s.io`, `v1` of the core."""
    return version.rpartition("/")[0]
