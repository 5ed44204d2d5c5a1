"""The claims file and its calendars, watched: they are read again when one has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.claims.file import read_contract
from app.config.watched_file import WatchedFile
from app.errors import ClaimsError
from metrics.claims.verdict import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class WatchedClaims(WatchedFile[tuple[Claim, ...]]):
    """The claims of a file and of the calendars that it names.

    Args:
        path: the claims file; the vendor's headline claims if None.

    Raises:
        ClaimsError: the file is not valid at the start.
    """

    errors = (ClaimsError,)

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._calendars: tuple[Path, ...] = ()
        before = self.stamped()
        super().__init__(self.read(), before)

    def files(self) -> Iterable[Path]:
        """The file, if there is one, and its calendars."""
        return filter(None, (self._path, *self._calendars))

    def read(self) -> tuple[Claim, ...]:
        """The claims as the file has them."""
        contract = read_contract(self._path)
        self._calendars = tuple(each.path for each in contract.calendars)
        return contract.claims
