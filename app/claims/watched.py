"""The claims file, watched: it is read again when it has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from app.claims.file import read_claims
from app.errors import ClaimsError

if TYPE_CHECKING:
    from pathlib import Path

    from metrics.claims.verdict import Claim


class WatchedClaims:
    """The claims of a file, which is read again when it has changed. Safe for threads.

    While the file has mistakes, the last valid claims stay in use, and `mistakes` describes the mistakes.

    Args:
        path: the claims file; the vendor's headline claims if None.

    Raises:
        ClaimsError: the file is not valid at the start.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._stamped()
        self._claims = tuple(read_claims(path))
        self._mistakes: str | None = None

    def now(self) -> tuple[Claim, ...]:
        """The claims."""
        with self._lock:
            self._read_again()
            return self._claims

    def mistakes(self) -> str | None:
        """Why the present file cannot be used; None if it can."""
        with self._lock:
            self._read_again()
            return self._mistakes

    def _read_again(self) -> None:
        stamp = self._stamped()
        if stamp == self._stamp:
            return
        try:
            self._claims, self._mistakes = tuple(read_claims(self._path)), None
        except ClaimsError as error:
            self._mistakes = str(error)
        self._stamp = stamp

    def _stamped(self) -> tuple[int, ...]:
        """What changes when the file does; nothing if there is none."""
        if self._path is None:
            return ()
        try:
            state = self._path.stat()
        except OSError:
            return ()
        return state.st_mtime_ns, state.st_size, state.st_ino
