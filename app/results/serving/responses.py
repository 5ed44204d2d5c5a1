"""Answers as they were sent, of one version of all that they follow from: people who open a page get the same bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from sys import getsizeof
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class Responses:
    """Keeps the bodies that were used last, up to so many bytes together. Safe for threads.

    >>> kept = Responses(most_bytes=150)
    >>> kept.put("1", ("a",), b"aa"), kept.put("1", ("b",), b"bb"), kept.get("1", ("a",)), kept.get("1", ("b",))
    (None, None, None, b'bb')

    Args:
        most_bytes: of memory that all bodies and the texts of their keys take; what is larger alone is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._version: Hashable = None
        self._bodies: OrderedDict[tuple[Hashable, ...], bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, version: Hashable, key: tuple[Hashable, ...]) -> bytes | None:
        """The body that was put under the key in this version; None where there is none any more."""
        with self._lock:
            if version != self._version or key not in self._bodies:
                return None
            self._bodies.move_to_end(key)
            return self._bodies[key]

    def put(self, version: Hashable, key: tuple[Hashable, ...], body: bytes) -> None:
        """Keep a body; those of another version, and those used least recently, make room."""
        size = _size(key, body)
        if size > self._most_bytes:
            return
        with self._lock:
            if version != self._version:
                self._version, self._size = version, 0
                self._bodies.clear()
            if key in self._bodies:
                self._size -= _size(key, self._bodies.pop(key))
            self._bodies[key] = body
            self._size += size
            while self._size > self._most_bytes:
                self._size -= _size(*self._bodies.popitem(last=False))


def _size(key: tuple[Hashable, ...], body: bytes) -> int:
    """Bytes of memory."""
    return getsizeof(body) + sum(getsizeof(each) for each in key if isinstance(each, str))
