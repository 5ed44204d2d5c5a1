"""Limits on the requests of one person or address."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED = 20_000
"""People and addresses that are counted at once; those with the oldest request are dropped first."""


class RateLimit:
    """So many requests a minute for each name, at most so many at once (a token bucket). Safe for threads.

    Args:
        per_minute: requests that are let through in a minute; also the most at once.
        clock: seconds that only grow.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, name: str) -> float:
        """Count a request: 0 if it may pass, else after how many seconds another may be tried.

        >>> limit = RateLimit(60, clock=iter([0.0] * 61 + [0.5, 1.5]).__next__)
        >>> all(limit.wait_s("a") == 0 for _ in range(60)), [limit.wait_s("a") for _ in range(3)]
        (True, [1.0, 0.5, 0.0])
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(name, (float(self.per_minute), now))
            left = min(float(self.per_minute), left + (now - since) * self.per_minute / 60)
            passes = left >= 1
            self._left[name] = (left - 1 if passes else left, now)
            while len(self._left) > REMEMBERED:
                self._left.popitem(last=False)
            return 0.0 if passes else (1 - left) * 60 / self.per_minute
