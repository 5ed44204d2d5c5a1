"""Watches between two readings: `serve` reads every few minutes, and a busy API server drops its history sooner.

A thread for each kind holds a watch open and keeps its events until the next reading takes them. They are in memory
only: after a crash, the next reading continues from the stored position, as far as the server's history reaches.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from ingest.errors import OptionError, SourceError
from ingest.kubernetes.live.changes import Position, lines_since
from ingest.kubernetes.live.client import ForbiddenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.kubernetes.live.client import KubernetesClient
    from ingest.kubernetes.live.resources import Resource

MOST_HELD: Final = 1 << 28
"""Bytes of events that are kept until a reading takes them; beyond, they count as forgotten."""

WATCH_S: Final = 300.0
"""Seconds of one watch; then it is opened again from where it ended."""

PAUSE_S: Final = 1.0
"""Seconds between two watches of a kind."""


@dataclass
class Followed:
    """Events of a kind's watch since the last reading.

    Attributes:
        position: end of the events.
        lines: events as text, in their order.
        size: their bytes.
    """

    position: Position
    lines: list[bytes] = field(default_factory=list)
    size: int = 0


class Follower:
    """Watches that are held open. `connect` makes a connection for each."""

    def __init__(self, connect: Callable[[], KubernetesClient]) -> None:
        self._connect = connect
        self._followed: dict[str, Followed] = {}
        self._reading: dict[str, Followed] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._clients: list[KubernetesClient] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def follow(self, resource: Resource, version: str) -> None:
        """Hold a watch of a kind from a version on, unless there is one."""
        thread = self._threads.get(resource.name)
        if self._stop.is_set() or not version or (thread is not None and thread.is_alive()):
            return
        with self._lock:
            self._followed[resource.name] = Followed(Position(version))
        name = f"trackside-watch-{resource.name}"
        self._threads[resource.name] = threading.Thread(target=self._run, args=(resource,), name=name, daemon=True)
        self._threads[resource.name].start()

    def kept(self, resource: Resource) -> Followed | None:
        """Events since the last stored reading; None: no watch was held."""
        with self._lock:
            followed = self._followed.get(resource.name)
            if followed is None:
                return None
            position = Position(followed.position.version, followed.position.gone)
            self._reading[resource.name] = Followed(position, list(followed.lines))
            return self._reading[resource.name]

    def stored(self) -> None:
        """Drop the events of a stored reading. Without this call they are returned again."""
        with self._lock:
            for name, reading in self._reading.items():
                followed = self._followed[name]
                del followed.lines[: len(reading.lines)]
                followed.size = sum(map(len, followed.lines))
                if reading.position.gone:
                    del self._followed[name]  # the next reading continues from the list of this one
            self._reading.clear()

    def stop(self) -> None:
        """End all watches."""
        self._stop.set()
        with self._lock:
            for client in self._clients:
                client.close()

    def _run(self, resource: Resource) -> None:
        """Watch a kind until the server no longer has the next events, refuses, or `stop` is called."""
        followed = self._followed[resource.name]
        try:
            client = self._connect()
            with self._lock:
                self._clients.append(client)
            while not self._stop.is_set() and not followed.position.gone:
                self._watch(client, resource, followed)
                self._stop.wait(PAUSE_S)
        except (ForbiddenError, OptionError, msgspec.DecodeError):
            followed.position.gone = True  # the next reading reports why

    def _watch(self, client: KubernetesClient, resource: Resource, followed: Followed) -> None:
        position = Position(followed.position.version)
        try:
            for line in lines_since(client, resource, position, seconds=WATCH_S):
                with self._lock:
                    followed.position.version = position.version
                    followed.lines.append(line)
                    followed.size += len(line)
                    followed.position.gone = followed.size > MOST_HELD
                if self._stop.is_set() or followed.position.gone:
                    return
        except SourceError:
            return  # it is tried again, and each reading reports the error
        with self._lock:
            followed.position.version, followed.position.gone = position.version, position.gone
