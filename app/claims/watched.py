"""The claims file and its calendars, watched: they are read again when one has changed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from app.claims.file import read_contract
from app.config.toml_file import stamp
from app.errors import ClaimsError

if TYPE_CHECKING:
    from pathlib import Path

    from metrics.claims.verdict import Claim


class WatchedClaims:
    """The claims of a file, which is read again when it or one of its calendars has changed. Safe for threads.

    While the file has mistakes, the last valid claims stay in use, and `mistakes` describes the mistakes.

    Args:
        path: the claims file; the vendor's headline claims if None.

    Raises:
        ClaimsError: the file is not valid at the start.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._calendars: tuple[Path, ...] = ()
        self._stamp = self._stamped()
        self._claims = self._read()
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
        present = self._stamped()
        if present == self._stamp:
            return
        try:
            self._claims, self._mistakes = self._read(), None
        except ClaimsError as error:
            self._mistakes = str(error)
        self._stamp = present

    def _read(self) -> tuple[Claim, ...]:
        contract = read_contract(self._path)
        self._calendars = tuple(each.path for each in contract.calendars)
        return contract.claims

    def _stamped(self) -> tuple[tuple[int, ...], ...]:
        """What changes when one of the files does; nothing if there is none."""
        return tuple(stamp(each) for each in (self._path, *self._calendars) if each is not None)
