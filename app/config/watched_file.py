"""Contents of a file that is watched while it is served: the file is read again when it has changed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from app.config.toml_file import stamp

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

T = TypeVar("T")

_Stamp = tuple[tuple[int, ...], ...]


class WatchedFile(ABC, Generic[T]):
    """Present contents of a file. Safe for threads.

    While the file has mistakes, its last valid contents stay in use, and `mistakes` describes the mistakes.

    Args:
        contents: the contents when the file was read last.
        read_at: `stamped` before that; None: the file is read when it is needed first.
    """

    errors: ClassVar[tuple[type[Exception], ...]]
    """Errors that `read` raises if the file has mistakes, or is missing."""

    def __init__(self, contents: T, read_at: _Stamp | None) -> None:
        self._lock = threading.Lock()
        self._contents, self._read_at = contents, read_at
        self._mistakes: str | None = None

    @abstractmethod
    def files(self) -> Iterable[Path]:
        """The file, and those that it names; none if there is none."""

    @abstractmethod
    def read(self) -> T:
        """Read the file; raises one of `errors`."""

    def stamped(self) -> _Stamp:
        """A stamp that changes when one of the files does."""
        return tuple(map(stamp, self.files()))

    def now(self) -> T:
        """The contents that are in use now."""
        with self._lock:
            self._follow()
            return self._contents

    def mistakes(self) -> str | None:
        """Why the present file cannot be used; None if it can."""
        with self._lock:
            self._follow()
            return self._mistakes

    def _follow(self) -> None:
        present = self.stamped()
        if present in {self._read_at, ()}:
            return
        try:
            self._contents, self._mistakes = self.read(), None
        except self.errors as error:
            self._mistakes = str(error)
        self._read_at = present
