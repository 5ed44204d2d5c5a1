"""Readers for a server's pages: so many at once, each for so long, and each can be stopped."""

from __future__ import annotations

import contextlib
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from queries.errors import StoppedError, WarehouseError
from queries.warehouse import open_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from queries.memo import Memo
    from queries.warehouse import Reader

AT_ONCE: Final = 4
"""Questions of pages that are worked on at once; DuckDB and polars use all cores for each."""

LONGEST_S: Final = 120.0
"""A question of a page is stopped after this long."""

HELD_S: Final = 2.0
"""A copy that was read is held open so long: the next section of a page opens it in a tenth of the time."""

HELD_ON_END_S: Final = 10.0
"""Then it is closed once: DuckDB keeps in memory what it has read of an open file."""

STOPPED: Final = "This question was stopped."
TOO_LONG: Final = "This question took longer than {seconds:.0f} s and was stopped. Choose a shorter period."
BUSY: Final = "The server is answering {number} other questions; this one waited {seconds:.0f} s for its turn."

_ticket: ContextVar[str | None] = ContextVar("ticket", default=None)


class ReadPool:
    """Opens readers. Those within `on_behalf` are limited; monitoring, which must not wait for a page, is not.

    Args:
        root: the warehouse directory.
        at_once: how many limited readers may be open.
        longest_s: how long each may be open, and how long another waits for its turn.
    """

    def __init__(self, root: Path, *, at_once: int = AT_ONCE, longest_s: float = LONGEST_S) -> None:
        self._root = root
        self._at_once = at_once
        self._longest_s = longest_s
        self._turns = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._open: dict[str, list[Reader]] = {}
        self._stopped: set[str] = set()
        self._held = _HeldCopy()

    @contextlib.contextmanager
    def on_behalf(self, ticket: str) -> Iterator[None]:
        """Have what this thread reads be limited, and stopped by `stop` with the same ticket."""
        token = _ticket.set(ticket)
        with self._lock:
            self._open[ticket] = []
        try:
            yield
        finally:
            _ticket.reset(token)
            with self._lock:
                self._open.pop(ticket, None)
                self._stopped.discard(ticket)

    def stop(self, ticket: str, why: str = STOPPED) -> bool:
        """Stop what is read on behalf of a ticket, also what still waits for its turn; whether there is anything."""
        with self._lock:  # readers that are listed are open: they are closed after they were taken off
            if ticket not in self._open:
                return False
            self._stopped.add(ticket)
            for reader in self._open[ticket]:
                reader.stop(why)
        return True

    @contextlib.contextmanager
    def reader(self, memo: Memo) -> Iterator[Reader]:
        """An open reader of the newest copy.

        Raises:
            StoppedError: it was stopped, or none became free.
            WarehouseError: as `open_reader`.
        """
        ticket = _ticket.get()
        if ticket is None:
            with open_reader(self._root, memo) as reader, self._held.afterwards(reader):
                yield reader
            return
        with (
            self._turn(),
            open_reader(self._root, memo) as reader,
            self._held.afterwards(reader),
            self._listed(ticket, reader),
        ):
            yield reader

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._turns.acquire(timeout=self._longest_s):
            raise StoppedError(BUSY.format(number=self._at_once, seconds=self._longest_s))
        try:
            yield
        finally:
            self._turns.release()

    @contextlib.contextmanager
    def _listed(self, ticket: str, reader: Reader) -> Iterator[None]:
        """Have the reader be found by its ticket, and stopped when its time is over."""
        with self._lock:
            self._open.setdefault(ticket, []).append(reader)
            if ticket in self._stopped:
                reader.stop(STOPPED)
        timer = threading.Timer(self._longest_s, self.stop, [ticket, TOO_LONG.format(seconds=self._longest_s)])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                if reader in self._open.get(ticket, ()):
                    self._open[ticket].remove(reader)


class _HeldCopy:
    """The copy that was read last, open for a moment after its readers are closed. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._let_go: Callable[[], None] | None = None
        self._since = self._until = 0.0
        self._waits = False

    @contextlib.contextmanager
    def afterwards(self, reader: Reader) -> Iterator[None]:
        """Hold what a reader has open for `HELD_S` after it was read without an error; what was held before goes."""
        yield
        with self._lock:
            now, before = time.monotonic(), self._let_go
            if before is None:
                self._since = now
            self._let_go = None
            if now - self._since < HELD_ON_END_S:
                with contextlib.suppress(WarehouseError):  # newer ones were published meanwhile, and it is gone
                    self._let_go = reader.held_open()
            self._until = now + HELD_S
            begins, self._waits = not self._waits, True
        if before is not None:
            before()
        if begins:
            threading.Thread(target=self._wait, daemon=True, name="held-copy").start()

    def _wait(self) -> None:
        """Let go when nothing was read for a while."""
        while True:
            with self._lock:
                left_s = self._until - time.monotonic()
                if left_s <= 0:
                    let_go, self._let_go, self._waits = self._let_go, None, False
                    break
            time.sleep(left_s)
        if let_go is not None:
            let_go()
