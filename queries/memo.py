"""A cache in memory: results, and the frames that several results share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class _Remembered:
    """A value, once it is made; the lock is held while it is being made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made = False
        self.value: Any = None
        self.bytes = 0


class Memo:
    """Keeps the values that were used last. Safe for threads.

    A value is made once: a thread that needs one that is being made waits for it, and for no other. What fails is not
    kept.

    >>> memo = Memo(size=2)
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2), len(memo)
    (1, 1, 1)

    Args:
        size: how many values are cached; the least recently used is evicted first. No limit if None.
        most_bytes: of memory that the frames of all values take; what is larger alone is not kept. No limit if None.
    """

    def __init__(self, size: int | None = None, *, most_bytes: int | None = None) -> None:
        self._size = size
        self._most_bytes = most_bytes
        self._entries: OrderedDict[Hashable, _Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The first result of `make` for the key."""
        entry = self._entry(key)
        with entry.lock:
            if not entry.made:
                entry.value = make()
                entry.made = True
                entry.bytes = _bytes(entry.value) if self._most_bytes is not None else 0
                self._make_room()
        return entry.value  # type: ignore[no-any-return]  # a key always has one type

    def forget(self, of: Callable[[Hashable], bool]) -> None:
        """Forget the values of these keys: they are made again when they are needed.

        >>> memo = Memo()
        >>> memo.get("a", lambda: 1), memo.forget(lambda key: key == "a"), memo.get("a", lambda: 2)
        (1, None, 2)
        """
        with self._lock:
            for key in [key for key in self._entries if of(key)]:
                del self._entries[key]

    def _make_room(self) -> None:
        """Forget values that were used least recently until the others take no more memory than they may."""
        most = self._most_bytes
        if most is None:
            return
        with self._lock:
            taken = sum(entry.bytes for entry in self._entries.values())
            # What is too large alone goes first: nothing else has to make room for it.
            for key, entry in sorted(self._entries.items(), key=lambda each: each[1].bytes <= most):
                if taken <= most:
                    break
                if entry.bytes:
                    del self._entries[key]
                    taken -= entry.bytes

    def _entry(self, key: Hashable) -> _Remembered:
        with self._lock:
            entry = self._entries.setdefault(key, _Remembered())
            self._entries.move_to_end(key)
            while self._size is not None and len(self._entries) > self._size:
                self._entries.popitem(last=False)
        return entry


def _bytes(value: object) -> int:
    """About how much memory the frames of a value take; other values are small."""
    size = getattr(value, "estimated_size", None)  # of a frame: some processes import this module and no polars
    if size is not None:
        return int(size())
    if is_dataclass(value):
        value = tuple(vars(value).values())
    return sum(map(_bytes, value)) if isinstance(value, tuple | list) else 0
