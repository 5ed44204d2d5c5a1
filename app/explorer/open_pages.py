"""Which pages the current viewer may open."""

from __future__ import annotations

from typing import Final

from app.access import people

PAGES: Final = frozenset(
    {"/", "/gpu-time", "/reliability", "/scaling", "/runs", "/run", "/jobs", "/compare", "/definitions", "/docs"}
)
"""Pages that the navigation offers viewers; what is on them passes the rules all the same."""


def is_open(path: str) -> bool:
    """Whether the current viewer may open a page."""
    return people.current().sees_all or path in PAGES
