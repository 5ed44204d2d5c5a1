"""Orders in which three things are loaded where every order costs seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Part = TypeVar("Part")


def three_orders(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Three of the six orders of three parts: as they are, and as each of the others is first.

    Each part is once in each place, and of any two each precedes the other.

    Examples:
        >>> three_orders("abc")
        [('a', 'b', 'c'), ('b', 'c', 'a'), ('c', 'a', 'b')]
    """
    return [(*parts[first:], *parts[:first]) for first in range(3)]
