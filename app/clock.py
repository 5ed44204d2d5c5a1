"""The one place that reads the clock. Everything below gets the time as an argument."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The time, aware and in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - this is that place
