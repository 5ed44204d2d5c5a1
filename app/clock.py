"""The one place that reads the clock. Everything below gets the time as an argument."""

from __future__ import annotations

import os
from datetime import UTC, datetime

NOT_BEFORE = "TRACKSIDE_NOT_BEFORE"
"""An environment variable, a time such as 2026-11-01T00:00Z: on a machine whose clock is behind that, this is the time.

For data of a simulated cluster and for tests: what is later than now is refused.
"""


def now() -> datetime:
    """The time, aware and in UTC."""
    moment = datetime.now(UTC)  # noqa: TID251 - this is that place
    earliest = _earliest()
    return moment if earliest is None else max(moment, earliest)


def _earliest() -> datetime | None:
    """The time in `NOT_BEFORE`; None where that is no time."""
    try:
        moment = datetime.fromisoformat(os.environ.get(NOT_BEFORE, ""))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
