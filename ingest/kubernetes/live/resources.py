"""Kinds of objects that an API server has, of those that are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from ingest.kubernetes.live.client import KubernetesClient

RESOURCES: Final = (
    ("", "nodes"),
    ("", "pods"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceslices"),
    ("batch", "jobs"),
    ("jobset.x-k8s.io", "jobsets"),
    ("trainer.kubeflow.org", "trainjobs"),
    ("kubeflow.org", "pytorchjobs"),
    ("kubeflow.org", "tfjobs"),
    ("kubeflow.org", "mpijobs"),
    ("kubeflow.org", "xgboostjobs"),
    ("kubeflow.org", "paddlejobs"),
    ("kubeflow.org", "jaxjobs"),
    ("argoproj.io", "workflows"),
    ("kueue.x-k8s.io", "workloads"),
    ("batch.volcano.sh", "jobs"),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"),
    ("ray.io", "rayclusters"),
    ("ray.io", "rayjobs"),
    ("kubevirt.io", "virtualmachines"),
    ("kubevirt.io", "virtualmachineinstances"),
)
"""Groups and plurals. What controls pods comes after them: an object that a pod names is not older than the pod."""


class Resource(NamedTuple):
    """A kind of objects at a server.

    Attributes:
        group: of the API; empty for the core's.
        version: that the server prefers.
        plural: its name in addresses.
        kind: its name in objects.
    """

    group: str
    version: str
    plural: str
    kind: str

    @property
    def path(self) -> str:
        """Where it is listed, over all namespaces."""
        return f"{base(self.group, self.version)}/{self.plural}"

    @property
    def name(self) -> str:
        """As `object_versions.resource` has it."""
        return "/".join(filter(None, (self.group, self.version, self.plural)))


class _Version(msgspec.Struct):
    version: str = ""


class _ApiGroup(msgspec.Struct):
    name: str
    preferredVersion: _Version = msgspec.field(default_factory=_Version)


class _Groups(msgspec.Struct):
    groups: list[_ApiGroup]


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    verbs: list[str] = msgspec.field(default_factory=list)


class _Entries(msgspec.Struct):
    resources: list[_ApiResource]


def base(group: str, version: str) -> str:
    """The address of a version of a group."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def resources_of(client: KubernetesClient) -> list[Resource]:
    """The kinds that are read and present, by the server's own list.

    Raises:
        ServerDownError: it cannot be reached, or reports an error.
        msgspec.DecodeError: it is no API server.
    """
    groups = msgspec.json.decode(client.get("/apis")[0], type=_Groups).groups
    versions = {"": "v1", **{one.name: one.preferredVersion.version for one in groups}}
    there: dict[str, dict[str, str]] = {}
    for group in dict.fromkeys(group for group, _ in RESOURCES if group in versions):
        entries = msgspec.json.decode(client.get(base(group, versions[group]))[0], type=_Entries).resources
        there[group] = {one.name: one.kind for one in entries if {"list", "watch"} <= set(one.verbs)}
    return [
        Resource(group, versions[group], plural, there[group][plural])
        for group, plural in RESOURCES
        if plural in there.get(group, {})
    ]
