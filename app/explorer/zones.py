"""The time zone of a page: which can be chosen, and stored times (UTC) as clocks in it show them."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from app.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

UTC_NAME: Final = "UTC"
"""What is meant where an address names no zone."""


@cache
def names() -> tuple[str, ...]:
    """UTC, then the zones of the IANA database that are called after a place; UTC alone where there is no database."""
    places = (name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith("Etc/"))
    return (UTC_NAME, *sorted(places))


def checked(name: str) -> str:
    """The name of a zone that can be chosen; empty means UTC.

    Raises:
        UsageError: it is none of them.
    """
    if name and name not in names():
        raise UsageError(f"zone: {name!r} is no time zone; write it like Europe/Berlin, or UTC")
    return name or UTC_NAME


def zone_of(params: Mapping[str, str]) -> tzinfo:
    """The zone of an address that was checked."""
    name = params.get("zone", UTC_NAME)
    return UTC if name == UTC_NAME else zoneinfo.ZoneInfo(name)


def place(name: str) -> str:
    """A zone as a heading names it.

    >>> place("Europe/Berlin"), place("America/Argentina/Buenos_Aires"), place("UTC")
    ('Berlin', 'Buenos Aires', 'UTC')
    """
    return name.rpartition("/")[2].replace("_", " ")


def local(value: datetime, zone: tzinfo) -> datetime:
    """A moment as clocks in a zone show it.

    >>> local(datetime(2026, 10, 1, tzinfo=UTC), zoneinfo.ZoneInfo("Europe/Berlin")).isoformat()
    '2026-10-01T02:00:00+02:00'
    """
    try:
        return value.astimezone(zone)
    except OverflowError:  # the first and the last day that there is
        return value


def local_times(rows: pl.DataFrame, zone: tzinfo) -> pl.DataFrame:
    """Rows whose columns of times show the clocks of a zone; the moments stay the same."""
    if zone is UTC:
        return rows
    moments = [name for name, kind in rows.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    return rows.with_columns(pl.col(moments).dt.convert_time_zone(str(zone))) if moments else rows
