"""What explorer and exporter ask: the published warehouse, each answer worked out once per data version, and claims."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from app.claims import verify as verifying
from app.errors import ClaimsError
from queries.directory import current_copy
from queries.errors import NoWarehouseError
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from metrics.claims.verdict import Claim
    from queries.warehouse import Reader

KEPT = 256
"""Answers kept in memory; the least recently asked go first."""

P = ParamSpec("P")
T = TypeVar("T")


class Answers:
    """Asks the newest published copy. Safe for threads; one question is worked out at a time, others wait for it.

    Answers are kept as long as nothing newer is published.

    Args:
        root: the warehouse directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._kept_of = ""
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
        key = (f"{function.__module__}.{function.__qualname__}", args, tuple(sorted(kwargs.items())))
        with self._lock:
            version = self.version()
            if not version:
                raise NoWarehouseError(
                    f"there is no warehouse in {self.root} yet.\n"
                    "Make one by ingesting something: trackside ingest slurm"
                )
            if version != self._kept_of:  # nobody asks the old copy again
                self._kept.clear()
                self._kept_of = version
            if key in self._kept:
                self._kept.move_to_end(key)
                return cast("T", self._kept[key])
            with open_reader(self.root) as reader:
                found = function(reader, *args, **kwargs)
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


class Claims:
    """The claims to judge, as their file is now: it is read again when it has changed. Safe for threads.

    While the file has mistakes, the claims that it had before go on being judged, and `mistakes` says what is wrong.

    Args:
        path: the claims file; the vendor's headline claims if None.

    Raises:
        ClaimsError: the file cannot be used to begin with.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._stamped()
        self._known = tuple(verifying.read_claims(path))
        self._mistakes: str | None = None

    def now(self) -> tuple[Claim, ...]:
        """The claims."""
        with self._lock:
            self._read_again()
            return self._known

    def mistakes(self) -> str | None:
        """Why the file as it is now cannot be used; None if it can."""
        with self._lock:
            self._read_again()
            return self._mistakes

    def _read_again(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            self._known, self._mistakes = tuple(verifying.read_claims(self._path)), None
        except ClaimsError as error:
            self._mistakes = str(error)
        self._stamp = stamp

    def _stamped(self) -> tuple[int, ...]:
        """What changes when the file does; nothing if there is none."""
        if self._path is None:
            return ()
        try:
            told = self._path.stat()
        except OSError:
            return ()
        return told.st_mtime_ns, told.st_size, told.st_ino
