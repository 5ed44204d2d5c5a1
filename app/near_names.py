"""Suggestions for names that do not exist: the accepted names that are spelled most like a typed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def near_names(typed: str, names: Iterable[str], *, most: int = 1) -> list[str]:
    """The names that are spelled like what was typed, the most similar first; none if there is no similar one.

    >>> near_names("shwo", ["sql", "show"]), near_names("metrcis", ["Metrics"]), near_names("xyz", ["sql"])
    (['show'], ['Metrics'], [])
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only for a name that does not exist

    by_lower = {name.lower(): name for name in names}
    return [by_lower[near] for near in get_close_matches(typed.lower(), by_lower, n=most, cutoff=0.55)]


def did_you_mean(typed: str, names: Iterable[str], *, most: int = 1) -> str:
    """The end of a refusal that suggests the nearest name; empty if there is none.

    >>> did_you_mean("shwo", ["sql", "show"]), did_you_mean("xyz", ["sql", "show"])
    ('; did you mean show?', '')
    """
    near = near_names(typed, names, most=most)
    return f"; did you mean {' or '.join(near)}?" if near else ""
