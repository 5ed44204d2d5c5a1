"""Orders in which three things are loaded where every order costs seconds."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Part = TypeVar("Part")


def three_orders(parts: Sequence[Part]) -> list[tuple[Part, ...]]:
    """Three of the six orders of three parts: each part is first once, and of any two each precedes the other.

    Examples:
        >>> three_orders("abc")
        [('a', 'c', 'b'), ('b', 'c', 'a'), ('c', 'b', 'a')]
    """
    return list(permutations(parts))[1::2]
