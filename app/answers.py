"""Answers from the published warehouse, each worked out once per data version: what explorer and exporter ask."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from queries.errors import NoWarehouseError
from queries.folder import current_copy
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.warehouse import Reader

KEPT = 256
"""Answers kept in memory; the least recently asked go first."""

P = ParamSpec("P")
T = TypeVar("T")


class Answers:
    """Asks the newest published copy. Safe for threads; one question is worked out by one thread at a time.

    Args:
        root: the warehouse directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def version(self) -> str:
        """Name of the newest published copy; empty if there is none yet."""
        try:
            copy = current_copy(self.root)
        except OSError:
            return ""
        return "" if copy is None else copy.stem

    def ask(self, function: Callable[Concatenate[Reader, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`function(reader, ...)` on the newest copy; the same question on the same data is answered from memory.

        Raises:
            NoWarehouseError: nothing has been published yet.
        """
        version = self.version()
        if not version:
            raise NoWarehouseError(
                f"there is no warehouse in {self.root} yet.\nMake one by ingesting something: trackside ingest slurm"
            )
        key = (version, f"{function.__module__}.{function.__qualname__}", args, tuple(sorted(kwargs.items())))
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key])
            with open_reader(self.root) as reader:
                found = function(reader, *args, **kwargs)
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found
