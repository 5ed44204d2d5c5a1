"""Moments as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


def iso(moment: datetime) -> str:
    """A moment in UTC, in the format of all answers.

    >>> from datetime import UTC, datetime
    >>> iso(datetime(2026, 10, 1, tzinfo=UTC))
    '2026-10-01T00:00:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
