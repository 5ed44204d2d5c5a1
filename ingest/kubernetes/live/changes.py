"""Changes at an API server since the last reading: the events since then, followed by a complete list.

Events alone would miss objects removed in a gap of the server's history (410 Gone), and a list alone those that came
and went between two readings. Together they are complete while the server keeps its history; a gap is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.kubernetes.live.client import GONE, GoneError
from ingest.kubernetes.objects import InputObject, objects_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ingest.kubernetes.live.client import KubernetesClient
    from ingest.kubernetes.live.resources import Resource


BOOKMARK: Final = "BOOKMARK"


class _Meta(msgspec.Struct):
    resourceVersion: str = ""
    next: str = msgspec.field(default="", name="continue")


class _ListPage(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Changed(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    code: int = 0


class _WatchEvent(msgspec.Struct):
    type: str
    object: _Changed = msgspec.field(default_factory=_Changed)


@dataclass
class Position:
    """Position up to which a kind was read.

    Attributes:
        version: the server's resource version; empty: nothing yet.
        gone: the server no longer had the events after it: some are missing.
        at: the server's time of the last list.
    """

    version: str = ""
    gone: bool = False
    at: datetime | None = field(default=None)


def events_since(
    client: KubernetesClient, resource: Resource, position: Position, *, seconds: float
) -> Iterator[InputObject | str]:
    """Events of a watch from a position on, which moves with it.

    Raises:
        ForbiddenError: we may not watch it.
        ServerDownError: the server cannot be reached.
    """
    for line in lines_since(client, resource, position, seconds=seconds):
        yield from objects_of(line)


def lines_since(client: KubernetesClient, resource: Resource, position: Position, *, seconds: float) -> Iterator[bytes]:
    """The same as text, without the events that only move the position."""
    if not position.version:
        return
    try:
        for line in client.watch(resource.path, position.version, seconds=seconds):
            event = msgspec.json.decode(line, type=_WatchEvent)
            if event.type == "ERROR":
                position.gone = event.object.code == GONE
                return
            position.version = event.object.metadata.resourceVersion or position.version
            if event.type != BOOKMARK:
                yield line
    except GoneError:
        position.gone = True
    except msgspec.DecodeError:
        return  # the line was cut off with its connection


def complete_list(
    client: KubernetesClient, resource: Resource, position: Position, *, page: int
) -> Iterator[InputObject | str]:
    """All objects of a kind, page by page; the position is that of the list afterwards.

    Where the server drops a list between two of its pages, the list is read again at once: objects that occur twice are
    the same ones.

    Raises:
        ForbiddenError: we may not list it.
        ServerDownError: the server cannot be reached.
    """
    try:
        yield from _pages(client, resource, position, page)
    except GoneError:
        yield from _pages(client, resource, position, 0)


def _pages(client: KubernetesClient, resource: Resource, position: Position, page: int) -> Iterator[InputObject | str]:
    following = ""
    while True:
        params: dict[str, str | int] = {"limit": page} if page else {}
        text, at = client.get(resource.path, **params, **({"continue": following} if following else {}))
        answer = msgspec.json.decode(text, type=_ListPage)
        for item in answer.items:
            yield from _listed(bytes(item), resource)
        following = answer.metadata.next
        if not following:
            position.version, position.at = answer.metadata.resourceVersion, at
            return


def _listed(item: bytes, resource: Resource) -> Iterator[InputObject | str]:
    """An item of a list, which does not repeat its kind."""
    yield InputObject(resource.kind, item, listed=1, group=resource.group)
