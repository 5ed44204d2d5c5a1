"""Calendars of agreed maintenance: the events of an iCalendar file (RFC 5545) as exclusions of a contract's claims.

An event is about all nodes, or about those of a line `nodes: gpu[01-08]` in its description or location (or of its
property `X-TRACKSIDE-NODES`). Its times are as the calendar gives them; whole days and times without a zone are in the
contract's zone. Cancelled events are left out. Events that repeat without an end repeat for ten years.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from app.claims.node_patterns import valid_pattern
from metrics.claims.claim import Exclusion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST_CALENDAR = 4 << 20
"""Bytes of a calendar; a larger one is no list of agreed maintenance."""

MOST_EVENTS = 10_000
"""Events of a calendar, repeated ones counted each time."""

YEARS_REPEATED = 10
"""Years after its first time for which an event without an end is repeated."""

_TOO_OFTEN = ("SECONDLY", "MINUTELY", "HOURLY")

_NODES = re.compile(r"^\s*nodes\s*:\s*(\S.*?)\s*$", re.IGNORECASE | re.MULTILINE)


class CalendarError(ValueError):
    """A mistake in a calendar; the message names the event."""


@dataclass(frozen=True)
class Calendar:
    """A calendar of agreed maintenance.

    Attributes:
        file: its name.
        sha256: of its bytes.
        events: in order of time.
        path: where it was read.
    """

    file: str
    sha256: str
    events: tuple[Exclusion, ...]
    path: Path = field(compare=False)


def read_calendar(path: Path, zone: tzinfo = UTC) -> Calendar:
    """A calendar, its events as exclusions.

    Args:
        path: an iCalendar file.
        zone: of whole days, and of times that name none.

    Raises:
        CalendarError: it cannot be read, is no calendar, or has an event that cannot be excluded.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_CALENDAR + 1)
    except OSError as error:
        raise CalendarError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > LARGEST_CALENDAR:
        raise CalendarError(f"{path} has more than {LARGEST_CALENDAR >> 20} MiB, too much for maintenance")
    try:
        events = list(_events(content))
    except CalendarError as error:
        raise CalendarError(f"{path}: {error}") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise CalendarError(f"{path} is no calendar (iCalendar, .ics): {error}") from None
    found = []
    for event in events:
        try:
            found.append(_exclusion(event, path.name, zone))
        except (CalendarError, ValueError) as error:
            raise CalendarError(f"{path}: the event {_text(event, 'SUMMARY') or 'without a name'!r}: {error}") from None
    ordered = sorted(set(found), key=lambda each: (each.since, each.until, each.nodes or "", each.reason))
    return Calendar(path.name, hashlib.sha256(content).hexdigest(), tuple(ordered), path)


def _events(content: bytes) -> Iterator[Any]:
    """Events of a calendar, each time of those that repeat."""
    import icalendar  # noqa: PLC0415 - only where a contract has a calendar
    import recurring_ical_events  # noqa: PLC0415 - as above

    calendars = icalendar.Calendar.from_ical(content, multiple=True)
    if not calendars:
        raise CalendarError("no calendar in it (BEGIN:VCALENDAR)")
    count = 0
    for calendar in calendars:
        firsts = [_first_day(event) for event in calendar.walk("VEVENT")]
        if not firsts:
            continue
        low, high = min(firsts), max(firsts)
        until = datetime.combine(high, time(), UTC) + timedelta(days=366 * YEARS_REPEATED)
        for event in recurring_ical_events.of(calendar).between(datetime.combine(low, time(), UTC), until):
            if _text(event, "STATUS").upper() == "CANCELLED":
                continue
            count += 1
            if count > MOST_EVENTS:
                raise CalendarError(f"more than {MOST_EVENTS:,} events, repeated ones counted each time")
            yield event


def _first_day(event: Any) -> date:
    """The day before an event's first, whatever its zone."""
    name = _text(event, "SUMMARY") or "without a name"
    if "DTSTART" not in event:
        raise CalendarError(f"the event {name!r} has no DTSTART")
    rules = event.get("RRULE")
    for rule in rules if isinstance(rules, list) else [rules] if rules else []:
        often = [each for each in rule.get("FREQ", []) if str(each).upper() in _TOO_OFTEN]
        if often:
            raise CalendarError(f"the event {name!r} repeats {often[0]}: maintenance repeats DAILY or less often")
    start = event["DTSTART"].dt
    day: date = start.date() if isinstance(start, datetime) else start
    return day - timedelta(days=1)


def _exclusion(event: Any, file: str, zone: tzinfo) -> Exclusion:
    since, until = (_moment(each, zone) for each in (event.start, event.end))
    if since >= until:
        raise CalendarError(f"it begins at {since:%Y-%m-%dT%H:%M:%SZ} and has no length")
    nodes = _nodes(event)
    if nodes is not None:
        valid_pattern(nodes)
    return Exclusion(_text(event, "SUMMARY") or "agreed maintenance", since, until, nodes, calendar=file)


def _moment(value: date, zone: tzinfo) -> datetime:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    return (value.replace(tzinfo=zone) if value.tzinfo is None else value).astimezone(UTC)


def _nodes(event: Any) -> str | None:
    if named := _text(event, "X-TRACKSIDE-NODES"):
        return named
    for name in ("DESCRIPTION", "LOCATION"):
        if match := _NODES.search(_text(event, name)):
            return match[1]
    return None


def _text(event: Any, name: str) -> str:
    """A property as text; of several, the first."""
    value = event.get(name)
    value = value[0] if isinstance(value, list) and value else value
    return "" if value is None else str(value).strip()
