"""Times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from app.errors import UsageError

_BACKWARDS = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def iso(moment: datetime) -> str:
    """A moment in UTC as every answer shows it.

    >>> iso(datetime(2026, 10, 1, tzinfo=UTC))
    '2026-10-01T00:00:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str, *, end: datetime | None = None) -> datetime:
    """A moment in UTC: ISO 8601 (no zone means UTC), or a length back from the end of the data.

    Args:
        text: `2026-10-01`, `2026-10-01T12:00+02:00`, `7d`.
        end: what lengths count back from; None if they make no sense here.

    Raises:
        UsageError: neither.

    >>> parse_time("2026-10-01T12:00+02:00").isoformat()
    '2026-10-01T10:00:00+00:00'
    >>> parse_time("36h", end=datetime(2026, 10, 3, tzinfo=UTC)).isoformat()
    '2026-10-01T12:00:00+00:00'
    """
    backwards = _BACKWARDS.fullmatch(text.strip())
    if backwards and end is not None:
        try:
            return end - timedelta(seconds=float(backwards[1]) * _UNITS[backwards[2]])
        except OverflowError:
            raise UsageError(f"{text!r} is longer than there has been time") from None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        shown = "2026-10-01, 2026-10-01T12:00" + (", or 7d for the last seven days of the data" if end else "")
        raise UsageError(f"{text!r} is not a time; write it like {shown}") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
