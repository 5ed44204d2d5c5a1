"""Patterns of node names in claims: `gpu[001-128],login*`."""

from __future__ import annotations

import re

from ingest.slurm.formats.nodelist import NodeListError, expand


def valid_pattern(value: str) -> str:
    """A valid node pattern.

    Raises:
        ValueError: it is none.
    """
    for item in pattern_items(value):
        if not set(item) & set("*?"):
            try:
                expand(item)
            except NodeListError as error:
                raise ValueError(str(error)) from None
        elif "[" in item:
            raise ValueError(f"{item!r} has both brackets and * or ?; use one or the other")
    return value


def pattern_items(text: str) -> list[str]:
    """The items of a node pattern; a comma in brackets separates no items.

    >>> pattern_items("gpu[01-03,7], login*")
    ['gpu[01-03,7]', 'login*']
    """
    return [item.strip() for item in re.findall(r"(?:[^,\[]|\[[^\]]*\]?)+", text) if item.strip()]
