"""A correction in two steps: its effect, on a copy of the warehouse; then the correction itself, as it was shown."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.adjudicate.make import Done, adjudicate
from app.errors import UsageError
from queries.directory import current_copy
from queries.trial import open_trial
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from app.adjudicate.requests import Request, Signature
    from app.config.settings import Config

KEPT: Final = 100
"""Effects that can still be confirmed; the oldest go first."""

BUSY: Final = "The effect of another correction is being computed. Try again in a moment; nothing was changed."
GONE: Final = "The effect of this correction was shown too long ago, or to someone else. See its effect again."
NEWER: Final = "The data have changed since the effect was shown. See its effect again; nothing was changed."


@dataclass(frozen=True)
class ShownCorrection:
    """A correction whose effect was shown.

    Attributes:
        request: the correction.
        signature: who makes it, and why.
        to: the name under which whoever saw it is logged in.
        version: of the data that the effect is about.
        done: the effect.
    """

    request: Request
    signature: Signature
    to: str
    version: str
    done: Done


class Corrector:
    """Corrections by people who see the effect first. Safe for threads: one effect is computed at a time.

    Args:
        root: the warehouse directory.
        settings: rules and claims to compute by.
    """

    def __init__(self, root: Path, settings: Config) -> None:
        self._root, self._settings = root, settings
        self._shown: OrderedDict[str, ShownCorrection] = OrderedDict()
        self._one = threading.Lock()

    def effect(self, request: Request, signature: Signature, *, to: str, now: datetime) -> tuple[str, Done]:
        """The effect of a correction, and the word to make it with.

        Raises:
            UsageError, WarehouseError: as `tried`.
        """
        version, done = self.tried(request, signature, now=now)
        word = secrets.token_urlsafe(16)
        self._shown[word] = ShownCorrection(request, signature, to, version, done)
        while len(self._shown) > KEPT:
            self._shown.popitem(last=False)
        return word, done

    def tried(self, request: Request, signature: Signature, *, now: datetime) -> tuple[str, Done]:
        """The data version, and the effect that a correction has on them; nothing is stored or kept.

        Raises:
            UsageError: it cannot be made, or another effect is being computed.
            WarehouseError: as `open_trial`.
        """
        if not self._one.acquire(blocking=False):
            raise UsageError(BUSY)
        try:
            version = self._version()
            with open_trial(self._root, now=now) as writer:
                done = adjudicate(writer, self._settings, request, signature, now=now, progress=_silent)
        finally:
            self._one.release()
        return version, done

    def make(self, word: str, *, to: str, now: datetime) -> Done:
        """Make the correction whose effect was shown.

        Raises:
            UsageError: it was not shown to this person, or the data have changed since.
            WarehouseError: another process is writing, or the warehouse cannot be written.
        """
        shown = self._shown.get(word)
        if shown is None or shown.to != to:
            raise UsageError(GONE)
        if shown.version != self._version():
            raise UsageError(NEWER)
        group = self._settings.warehouse_group
        with open_writer(self._root, verb="a correction in the explorer", now=now, group=group) as writer:
            done = adjudicate(writer, self._settings, shown.request, shown.signature, now=now, progress=_silent)
        self._shown.pop(word, None)
        return done

    def _version(self) -> str:
        copy = current_copy(self._root)
        return "" if copy is None else copy.stem


def _silent(_: str) -> None:
    """Nobody watches the steps."""
