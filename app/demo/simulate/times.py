"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def spelled(seconds: int) -> str:
    """A second since 1970.

    >>> spelled(1788220800)
    '2026-09-01T00:00:00Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
