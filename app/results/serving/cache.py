"""Answers for the explorer and the exporter: the published warehouse, each answer computed once per data version."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from app.results.serving.pool import ReadPool
from app.results.serving.visits import Visits
from queries.errors import NoWarehouseError
from queries.memo import Memo
from queries.warehouse import MADE, MADE_BYTES, current_copy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queries.warehouse import Reader

KEPT = 256
"""Answers kept in memory; the least recently used go first."""

P = ParamSpec("P")
T = TypeVar("T")


class _OfVersion:
    """What is kept of one data version: answers, and what several of them are made of."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.answers = Memo(KEPT)
        self.made = Memo(MADE, most_bytes=MADE_BYTES)


class AnswerCache:
    """Computes answers on the newest published copy. Safe for threads: they wait for each other on the same question.

    Answers are kept as long as nothing newer is published. What pages ask is limited and can be stopped: `pool`. Pages
    that were opened lately are computed again for newer data before they are opened: `visits`.

    Args:
        root: the warehouse directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.pool = ReadPool(self.root)
        self.visits = Visits()
        self._lock = threading.Lock()
        self._kept = _OfVersion("")

    def __len__(self) -> int:
        return len(self._kept.answers)

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
        kept = self._of_newest()

        def answer() -> T:
            with self.pool.reader(kept.made) as reader:
                return function(reader, *args, **kwargs)

        key = (f"{function.__module__}.{function.__qualname__}", args, tuple(sorted(kwargs.items())))
        return kept.answers.get(key, answer)

    def _of_newest(self) -> _OfVersion:
        """What is kept of the newest copy; what was kept of an older one is forgotten."""
        version = self.version()
        if not version:
            raise NoWarehouseError(
                f"there is no warehouse in {self.root} yet.\nMake one by ingesting something: trackside ingest slurm"
            )
        with self._lock:
            if version != self._kept.version:
                self._kept = _OfVersion(version)
            return self._kept
