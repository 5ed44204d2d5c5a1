"""Addresses of pages that people opened lately: what is worth computing again once newer data are published."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 24
"""Addresses that are remembered."""

LONGEST: Final = 2_000
"""Characters of an address that is remembered; a longer one is not."""

DAY_S: Final = 86_400.0
"""How long each is remembered after its last visit."""


class Visit(NamedTuple):
    """An address that was opened: path of the page, and parameters as the browser has them."""

    path: str
    search: str


class Visits:
    """The addresses that were opened last. Safe for threads.

    >>> now = [0.0]
    >>> visits = Visits(most=2, kept_s=10, clock=lambda: now[0])
    >>> for at, path in ((0.0, "/nodes"), (1.0, "/runs"), (2.0, "/nodes"), (3.0, "/jobs")):
    ...     now[0] = at
    ...     visits.add(path, "")
    >>> [each.path for each in visits.latest()]
    ['/jobs', '/nodes']
    >>> now[0] = 12.5
    >>> [each.path for each in visits.latest()]
    ['/jobs']

    Args:
        most: addresses; those whose last visit is longest ago make room.
        kept_s: seconds after its last visit that an address is forgotten.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, *, most: int = MOST, kept_s: float = DAY_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._kept_s, self._clock = most, kept_s, clock
        self._last: OrderedDict[Visit, float] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, path: str, search: str) -> None:
        """An address was opened."""
        if len(path) + len(search) > LONGEST:
            return
        visit = Visit(path, search)
        with self._lock:
            self._last[visit] = self._clock()
            self._last.move_to_end(visit)
            while len(self._last) > self._most:
                self._last.popitem(last=False)

    def latest(self) -> list[Visit]:
        """The addresses, the one opened last first."""
        since = self._clock() - self._kept_s
        with self._lock:
            return [visit for visit, at in reversed(self._last.items()) if at >= since]
