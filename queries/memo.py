"""A cache in memory: results, and the frames that several results share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class _Entry:
    """A value, once it is made; the lock is held while it is being made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = False
        self.value: Any = None


class Memo:
    """Keeps the values that were used last. Safe for threads.

    A value is made once: a thread that needs one that is being made waits for it, and for no other. What fails is not
    kept.

    >>> memo = Memo(size=2)
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2), len(memo)
    (1, 1, 1)

    Args:
        size: how many values are cached; the least recently used is evicted first. No limit if None.
    """

    def __init__(self, size: int | None = None) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returned when it was first called under that key."""
        entry = self._entry(key)
        with entry.lock:
            if not entry.made:
                entry.value = make()
                entry.made = True
        return entry.value  # type: ignore[no-any-return]  # a key always has one type

    def _entry(self, key: Hashable) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while self._size is not None and len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return entry
