"""Working ahead: the next item is made while this one is used."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; while the caller is busy with one, a second thread makes the next one, and no more than that.

    What goes wrong in the making is raised here. When the caller stops early, the item in the making is finished first.
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(_next, items)
        while (item := coming.result()) is not None:
            coming = pool.submit(_next, items)
            yield item[0]


def _next(items: Iterator[Item]) -> tuple[Item] | None:
    for item in items:
        return (item,)
    return None
