"""Suggestions for names that do not exist: the accepted names that are spelled most like a typed one."""

from __future__ import annotations

from difflib import get_close_matches  # here: a process that runs queries of others can open no file any more
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MISTYPED: Final = 0.75
"""The least similarity (0-1) of a name that was mistyped; below it another word may be meant: `user`, not `cluster`."""

ALIKE: Final = 0.55
"""The least similarity of a name worth showing among others."""


def near_names(typed: str, names: Iterable[str], *, most: int = 1, similarity: float = ALIKE) -> list[str]:
    """The names that are spelled like what was typed, the most similar first; none if there is no similar one.

    >>> near_names("shwo", ["sql", "show"]), near_names("metrcis", ["Metrics"]), near_names("xyz", ["sql"])
    (['show'], ['Metrics'], [])
    """
    by_lower = {name.lower(): name for name in names}
    return [by_lower[near] for near in get_close_matches(typed.lower(), by_lower, n=most, cutoff=similarity)]


def did_you_mean(typed: str, names: Iterable[str], *, most: int = 1) -> str:
    """The end of a refusal that suggests the name that was mistyped; empty if there is none.

    >>> did_you_mean("shwo", ["sql", "show"]), did_you_mean("user", ["cluster", "cause"])
    ('; did you mean show?', '')
    """
    near = near_names(typed, names, most=most, similarity=MISTYPED)
    return f"; did you mean {' or '.join(near)}?" if near else ""
