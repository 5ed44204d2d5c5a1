"""Prefetching: the next item is computed in a thread while the current one is used."""

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
    """The same items; while the caller uses one, a second thread computes the next one, and no more than that.

    Its errors are raised here. A caller that stops early does not wait for the next item: its computation may hang (a
    pipe without a writer), and could not be stopped.
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
    """Start work in a separate thread; the returned function waits for its result, and raises its error once.

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

    An unlimited wait for a lock ignores Ctrl-C once polars was used: its signal handler restarts calls.
    """
    while True:
        try:
            return made.get(timeout=TURN_S)
        except Empty:
            continue


def _make(
    items: Iterator[Item], made: SimpleQueue[tuple[Item] | BaseException | None], requested: Semaphore, enough: Event
) -> None:
    """Compute one item for each request; None marks the end. Stops when there are `enough`."""
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
