"""Working ahead: the next item is made while this one is used, or something is made while others are."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Item = TypeVar("Item")

TURN_S: Final = 0.2
"""The longest wait before checking for an interrupt (Ctrl-C)."""


def prefetch_one(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; while the caller is busy with one, a second thread makes the next one, and no more than that.

    What goes wrong in the making is raised here. A caller who stops early does not wait for the item in the making: the
    making may hang (a pipe without a writer), and could not be stopped.
    """
    made: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
    requested, enough = Semaphore(1), Event()
    Thread(target=_make, args=(items, made, requested, enough), daemon=True).start()
    try:
        while (item := _waited_for(made)) is not None:
            if isinstance(item, BaseException):
                raise item
            requested.release()
            yield item[0]
    finally:
        enough.set()
        requested.release()


def started(work: Callable[[], Item]) -> Callable[[], Item]:
    """Begin some work in a thread of its own; what comes back waits for it, and raises what went wrong, once.

    No call is needed: a thread whose work is no longer needed ends on its own and does not delay the exit.
    """
    made: SimpleQueue[tuple[Item] | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            made.put((work(),))
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits; a panic is no Exception
            made.put(error)

    Thread(target=run, daemon=True).start()

    def wait() -> Item:
        item = _waited_for(made)
        if isinstance(item, BaseException):
            raise item
        return item[0]

    return wait


def _waited_for(made: SimpleQueue[Item]) -> Item:
    """The next item of a queue.

    A wait without end for a lock goes on through Ctrl-C once polars was used: its handler of signals restarts calls.
    """
    while True:
        try:
            return made.get(timeout=TURN_S)
        except Empty:
            continue


def _make(
    items: Iterator[Item], made: SimpleQueue[tuple[Item] | BaseException | None], requested: Semaphore, enough: Event
) -> None:
    """Make one item each time that one is requested; None marks the end. Ends when there are `enough`."""
    try:
        while True:
            requested.acquire()
            if enough.is_set():
                return
            item = _next(items)
            made.put(item)
            if item is None:
                return
    except BaseException as error:  # noqa: BLE001 - raised in the thread that waits; a panic is no Exception
        made.put(error)


def _next(items: Iterator[Item]) -> tuple[Item] | None:
    for item in items:
        return (item,)
    return None
