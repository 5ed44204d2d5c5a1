"""Read an API server into the warehouse: one transaction, with the position to resume at."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from ingest.errors import OptionError, ServerDownError, SourceError
from ingest.future import without_future
from ingest.kubernetes.lists import ALL_NAMESPACES
from ingest.kubernetes.live.changes import Position, complete_list, events_since
from ingest.kubernetes.live.client import ForbiddenError, KubernetesClient
from ingest.kubernetes.live.kubeconfig import from_kubeconfig, in_cluster
from ingest.kubernetes.live.resources import resources_of
from ingest.kubernetes.objects import objects_of
from ingest.kubernetes.parse import ObjectsRead
from ingest.kubernetes.store import UNNAMED, write_parsed
from ingest.load_warnings import LoadWarning
from ingest.store.clusters import only_cluster
from ingest.store.report import LoadReport
from ingest.store.request import LoadRequest
from ingest.tables import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from ingest.kubernetes.live.follow import Follower
    from ingest.kubernetes.live.kubeconfig import ApiServer
    from ingest.kubernetes.live.resources import Resource
    from ingest.kubernetes.objects import InputObject
    from ingest.kubernetes.settings import Kubernetes
    from ingest.tables import Parsed
    from queries.warehouse import Writer

VERSIONS: Final = columns_of("object_versions")
VERSION_KEY: Final = ("cluster", "server", "resource")
NO_PODS: Final = "trackside ingest kubernetes --rbac prints the required role: kubectl apply -f - creates it."
LISTED: Final = frozenset({"Node", "Pod", "Workload"})
"""Kinds whose lists show removed objects."""


def login_of(settings: Kubernetes) -> ApiServer:
    """The configured server and credentials.

    Raises:
        OptionError: none is configured, or its kubeconfig cannot be used.
    """
    if settings.kubeconfig is not None:
        return from_kubeconfig([settings.kubeconfig.expanduser()], settings.context)
    if settings.in_cluster:
        return in_cluster()
    message = "no API server is configured; pass --kubeconfig FILE or --in-cluster, or set them in [kubernetes]"
    raise OptionError(message)


def connected(settings: Kubernetes) -> KubernetesClient:
    """A connection to the configured server.

    Raises:
        OptionError: none is configured, or its kubeconfig cannot be used.
    """
    return KubernetesClient(login_of(settings), timeout_s=settings.timeout_s, retries=settings.retries)


def ingest_live(
    writer: Writer,
    settings: Kubernetes,
    *,
    cluster: str | None,
    now: datetime,
    progress: Callable[[str, int, int], None],
    follower: Follower | None = None,
) -> list[LoadReport]:
    """Read every kind that the server has and permits: events since the last reading, then a list.

    Args:
        writer: the warehouse.
        settings: server, credentials and limits.
        cluster: its name; if None, the only one with accounting.
        now: stored as the time of loading; objects of later are refused.
        progress: called with the current kind, its number, and the number of kinds.
        follower: holds watches open between two readings, and has the events since the last one.

    Returns:
        One report. An incomplete reading leaves nothing behind.
    """
    with closing(connected(settings)) as client:
        try:
            objects = ObjectsRead(cluster or only_cluster(writer, UNNAMED), now)
            return [_read(writer, _ServerIngest(client, settings, objects, now, follower), progress)]
        except msgspec.DecodeError:
            error = ServerDownError(client.url, "is no API server of Kubernetes", "Is its address right?")
            return [LoadReport(client.url, error=error)]
        except ForbiddenError as refusal:
            error = ServerDownError(client.url, f"refuses the list of its kinds: {refusal}", NO_PODS)
            return [LoadReport(client.url, error=error)]
        except SourceError as error:
            return [LoadReport(client.url, error=error)]


def _read(writer: Writer, reading: _ServerIngest, progress: Callable[[str, int, int], None]) -> LoadReport:
    """Read all kinds, and write them at once."""
    client, cluster, now = reading.client, reading.objects.cluster, reading.now
    known = _versions_read(writer, cluster, client.url)
    resources = resources_of(client)
    for number, resource in enumerate(resources):
        progress(resource.name, number, len(resources))
        reading.read(resource, known.get(resource.name, ""))
    parsed = reading.parsed()
    parsed = without_future(parsed, origin=client.url, now=now)
    digest = hashlib.sha256(repr(sorted(reading.versions.items())).encode()).hexdigest()
    request = LoadRequest(client.url, "rest", request="list and watch")
    with writer.transaction():
        parsed = write_parsed(writer, parsed, cluster, request=request, digest=digest, now=now)
        writer.replace("object_versions", reading.rows(), keys=VERSION_KEY)
    if reading.follower is not None:
        reading.follower.stored()
        for resource in resources:
            reading.follower.follow(resource, reading.versions.get(resource.name, ""))
    return LoadReport(client.url, parsed)


@dataclass
class _ServerIngest:
    """An API server that is being read."""

    client: KubernetesClient
    settings: Kubernetes
    objects: ObjectsRead
    now: datetime
    follower: Follower | None = None
    versions: dict[str, str] = field(default_factory=dict)
    forbidden: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def read(self, resource: Resource, version: str) -> None:
        """Events since a version, then the list."""
        position = Position(version)
        try:
            self.objects.removed_at = None
            for found in self._events(resource, position):
                self.objects.add(found)
            for found in complete_list(self.client, resource, position, page=self.settings.page):
                self.objects.add(found)
        except ForbiddenError:
            if resource.plural == "pods":
                raise ServerDownError(self.client.url, "refuses the list of pods", NO_PODS) from None
            self.forbidden.append(resource.plural)
            return
        if position.at is not None:
            self.objects.observe([min(position.at, self.now)])
        if position.gone:
            self.missed.append(resource.plural)
        self.versions[resource.name] = position.version
        if resource.kind in LISTED:
            self.objects.listed.add((resource.kind, ALL_NAMESPACES))

    def _events(self, resource: Resource, position: Position) -> Iterator[InputObject | str]:
        """Events since the last reading: from a watch that was held open, else replayed by the server."""
        followed = self.follower.kept(resource) if self.follower else None
        if followed is None:
            yield from events_since(self.client, resource, position, seconds=self.settings.replay_s)
            return
        position.gone = followed.position.gone
        for line in followed.lines:
            yield from objects_of(line)

    def parsed(self) -> Parsed:
        """The result, with its warnings."""
        parsed = self.objects.parsed(self.client.url)
        if self.forbidden:
            parsed.warnings.append(LoadWarning("may_not_list", len(self.forbidden), ", ".join(self.forbidden)))
        if self.missed:
            parsed.warnings.append(LoadWarning("events_missed", len(self.missed), ", ".join(self.missed)))
        return parsed

    def rows(self) -> pl.DataFrame:
        """Rows of `object_versions`."""
        where = {"cluster": self.objects.cluster, "server": self.client.url, "seen_at": self.now}
        rows = [{**where, "resource": name, "version": version} for name, version in self.versions.items()]
        return pl.DataFrame(rows, schema=VERSIONS)


def _versions_read(writer: Writer, cluster: str, server: str) -> dict[str, str]:
    """Versions by resource, up to which this server was read."""
    where = pl.DataFrame({"cluster": [cluster], "server": [server]})
    rows = writer.matching("object_versions", where, keys=["cluster", "server"])
    return dict(rows.select("resource", "version").iter_rows())
