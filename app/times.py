"""Times as people write them."""

from __future__ import annotations

import re
import zoneinfo
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from app.errors import UsageError
from ingest.iso_time import iso as iso  # noqa: PLC0414 - one name for all of app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo

_MONTH = re.compile(r"(\d{4})-(\d{2})")
_QUARTER = re.compile(r"(\d{4})-Q([1-4])")
_WEEK = re.compile(r"(\d{4})-W(\d{2})")
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_BACKWARDS = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_time(text: str, *, end: datetime | None = None, zone: tzinfo = UTC) -> datetime:
    """A moment in UTC: ISO 8601, or a length back from the end of the data.

    Args:
        text: `2026-10-01`, `2026-10-01T12:00+02:00`, `7d`.
        end: what lengths count back from; None if they make no sense here.
        zone: what a time without a zone is in.

    Raises:
        UsageError: neither.

    >>> parse_time("2026-10-01T12:00+02:00").isoformat()
    '2026-10-01T10:00:00+00:00'
    >>> parse_time("2026-10-01", zone=zoneinfo.ZoneInfo("Europe/Berlin")).isoformat()
    '2026-09-30T22:00:00+00:00'
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
    try:
        return (moment.replace(tzinfo=zone) if moment.tzinfo is None else moment).astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{text!r} is outside the years 1 to 9999 in UTC") from None


def parse_period(text: str, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """A period in UTC, its end not included: a month, a quarter, an ISO week, a day, or FROM..UNTIL.

    Args:
        text: `2026-10`, `2026-Q3`, `2026-W40`, `2026-10-05`, `2026-10-01..2026-10-15T12:00`.
        zone: in whose midnights the calendar's periods begin and end; FROM and UNTIL without a zone are in it, too.

    Raises:
        UsageError: none of these, no such month, week or day, or it ends before it begins.

    >>> [iso(moment) for moment in parse_period("2026-12")]
    ['2026-12-01T00:00:00Z', '2027-01-01T00:00:00Z']
    >>> [iso(moment) for moment in parse_period("2026-Q4", zoneinfo.ZoneInfo("Europe/Berlin"))]
    ['2026-09-30T22:00:00Z', '2026-12-31T23:00:00Z']
    >>> [iso(moment) for moment in parse_period("2026-10-01..2026-11-01", zoneinfo.ZoneInfo("Europe/Berlin"))]
    ['2026-09-30T22:00:00Z', '2026-10-31T23:00:00Z']
    >>> [iso(moment) for moment in parse_period("2026-W40")]
    ['2026-09-28T00:00:00Z', '2026-10-05T00:00:00Z']
    """
    requested = text.strip()
    if ".." in requested:
        first, _, last = requested.partition("..")
        since, until = parse_time(first, zone=zone), parse_time(last, zone=zone)
        if since >= until:
            raise UsageError(f"the period {requested} ends before it begins: write FROM..UNTIL")
        return since, until
    try:
        first_day, last_day = _calendar(requested)
        return _midnight(first_day, zone), _midnight(last_day, zone)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a period; write it like 2026-10 (a month), 2026-Q3 (a quarter), 2026-W40 (an ISO week), "
            "2026-10-05 (a day), or 2026-10-01..2026-10-15 (its end is not included). Times are UTC"
        ) from None


def zone_of(name: str) -> tzinfo:
    """The time zone of a name of the IANA database.

    Raises:
        UsageError: there is none.

    >>> zone_of("Europe/Berlin").key
    'Europe/Berlin'
    """
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"{name!r} is no time zone; write it like Europe/Berlin, or UTC") from None


def periods_before(text: str, count: int, zone: tzinfo = UTC) -> list[str]:
    """The periods of the same kind that come before one, the last one last.

    Before FROM..UNTIL come periods of its length; FROM and UNTIL without a zone are in `zone`. Periods before the year
    1 are left out.

    >>> periods_before("2026-02", 3)
    ['2025-11', '2025-12', '2026-01']
    >>> periods_before("2026-Q1", 2), periods_before("2026-W01", 1), periods_before("2026-03-01", 1)
    (['2025-Q3', '2025-Q4'], ['2025-W52'], ['2026-02-28'])
    >>> periods_before("2026-10-08..2026-10-15", 1)
    ['2026-10-01T00:00:00Z..2026-10-08T00:00:00Z']
    """
    return list(islice(earlier_periods(text, zone), count))[::-1]


def earlier_periods(text: str, zone: tzinfo = UTC) -> Iterator[str]:
    """The periods of the same kind before one, the last one first, as far as the year 1.

    >>> list(islice(earlier_periods("2026-Q2"), 3))
    ['2026-Q1', '2025-Q4', '2025-Q3']
    """
    with suppress(ValueError, OverflowError):
        while True:
            text = _before(text.strip(), zone)
            yield text


def _before(text: str, zone: tzinfo) -> str:
    if ".." in text:
        since, until = parse_period(text, zone)
        return f"{iso(since - (until - since))}..{iso(since)}"
    day = _calendar(text)[0] - timedelta(days=1)
    kinds = {"month": _MONTH, "quarter": _QUARTER, "week": _WEEK}
    return period_of(next((kind for kind, form in kinds.items() if form.fullmatch(text)), "day"), day)


def period_of(kind: str, day: date) -> str:
    """The period of the calendar that a day is in.

    Args:
        kind: month, quarter, week or day.
        day: the day.

    >>> [period_of(kind, date(2027, 1, 1)) for kind in ("month", "quarter", "week", "day")]
    ['2027-01', '2027-Q1', '2026-W53', '2027-01-01']
    """
    if kind == "month":
        return f"{day.year:04}-{day.month:02}"
    if kind == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    year, week, _ = day.isocalendar()
    return f"{year:04}-W{week:02}" if kind == "week" else day.isoformat()


def _calendar(text: str) -> tuple[date, date]:
    """The first day of a month, quarter, week or day, and the day after it; ValueError if it is none."""
    if match := _MONTH.fullmatch(text):
        first = date(int(match[1]), int(match[2]), 1)
        return first, _months_later(first, 1)
    if match := _QUARTER.fullmatch(text):
        first = date(int(match[1]), 3 * int(match[2]) - 2, 1)
        return first, _months_later(first, 3)
    if match := _WEEK.fullmatch(text):
        monday = date.fromisocalendar(int(match[1]), int(match[2]), 1)
        return monday, monday + timedelta(days=7)
    if match := _DAY.fullmatch(text):
        day = date(int(match[1]), int(match[2]), int(match[3]))
        return day, day + timedelta(days=1)
    raise ValueError(text)


def _months_later(first: date, months: int) -> date:
    return date(first.year + (first.month + months - 1) // 12, (first.month + months - 1) % 12 + 1, 1)


def months(since: datetime, until: datetime, zone: tzinfo = UTC) -> Iterator[tuple[datetime, datetime]]:
    """The calendar months of a zone that an interval touches, whole ones: from their beginning to the next one's.

    Args:
        since: the interval's first moment, in UTC.
        until: its end, not included.
        zone: in whose midnights months begin and end.

    >>> found = months(datetime(2026, 11, 30, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    >>> [(iso(low)[:10], iso(high)[:10]) for low, high in found]
    [('2026-11-01', '2026-12-01'), ('2026-12-01', '2027-01-01')]
    """
    day = since.astimezone(zone).date().replace(day=1)
    while _midnight(day, zone) < until:
        following = _months_later(day, 1)
        yield _midnight(day, zone), _midnight(following, zone)
        day = following


def _midnight(day: date, zone: tzinfo = UTC) -> datetime:
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def moment(text: str | None, *, end: datetime | None) -> datetime | None:
    """A time as typed, if one was; lengths count back from `end`."""
    return None if text is None else parse_time(text, end=end)
