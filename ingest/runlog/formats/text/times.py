"""When the lines of a log were written, in microseconds since 1970: by the stamps in them, their zone and their date.

A stamp with an offset needs nothing more. One without needs a zone, and without one the log is refused: whole hours off
would join it to another job. In the hour that occurs twice in autumn the order of the lines decides. A time of day
alone needs the day on which the log begins; a time earlier than the one before it by more than half a day is on the
next one. A stamp without a year takes it from another stamp of the log, from when the log begins, or from the attempt
that it is of: the year in which it is closest to that. Behind New Year the next one follows. Without any of these it is
refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import polars as pl

from ingest.errors import OptionError, TimeZoneError, YearError

if TYPE_CHECKING:
    from datetime import datetime

    from ingest.runlog.translation import LogRequest

US: Final = 1_000_000
_DAY_US: Final = 86_400 * US
_HALF_A_YEAR: Final = 6
"""Months."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BACK_US: Final = 1_800 * US
"""A local time that goes back by more than this goes back to the same hour's second occurrence."""


def with_times(records: pl.DataFrame, request: LogRequest, origin: str) -> pl.DataFrame:
    """Add `at` (microseconds since 1970; null where the line has no time) and `unit` (how coarse it is, likewise).

    Args:
        records: as `scan` has them.
        request: the zone, and when the log begins.
        origin: the log's name, for messages.

    Raises:
        TimeZoneError: the times have no zone, and none is stated.
        YearError: they have no year, and it does not follow.
    """
    dated = _with_years(records, request, origin)
    timed = dated.with_columns(_naive=_naive("date", "time", "fraction"), unit=_unit("fraction"))
    if timed["_naive"].is_null().all():
        return _by_clock(timed, request).drop("_naive")
    sign = pl.when(pl.col("offset").str.starts_with("-")).then(-1).otherwise(1)
    hours, minutes = (pl.col("offset").str.extract(r"(\d\d):?(\d\d)$", group).cast(pl.Int64) for group in (1, 2))
    offset = (sign * (hours * 3_600 + minutes * 60)).fill_null(0) * US
    known = timed.with_columns(at=pl.when(pl.col("offset").is_not_null()).then(pl.col("_naive") - offset))
    local = pl.col("_naive").is_not_null() & pl.col("offset").is_null()
    if known.select(local.any()).item():
        known = known.with_columns(at=pl.coalesce("at", _local(known, local, request, origin)))
    return known.drop("_naive")


def _with_years(records: pl.DataFrame, request: LogRequest, origin: str) -> pl.DataFrame:
    """Records whose stamps without a year have a date, too; one that is no day of the calendar has none."""
    if records["month_day"].is_null().all():
        return records
    days = [_month_and_day(text) for text in records["month_day"]]
    at = next((n for n, each in enumerate(days) if each is not None), None)
    if at is None:
        return records
    first = records.row(at, named=True)
    reference = request.begin or _own_date(records) or request.around
    year = request.year if request.year is not None else None if reference is None else _nearest(days[at], reference)
    if year is None:
        raise YearError(f"{origin} line {first['line']}", f"{first['month_day'].strip()} {first['time']}")
    dates, before = [], days[at]
    for date, each in zip(records["date"].to_list(), days, strict=True):
        if each is not None and before is not None:
            year += (each[0] - before[0] < -_HALF_A_YEAR) - (each[0] - before[0] > _HALF_A_YEAR)
            before = each
        dates.append(date if each is None else f"{year:04d}-{each[0]:02d}-{each[1]:02d}")
    return records.with_columns(date=pl.Series(dates, dtype=pl.String))


def _month_and_day(text: str | None) -> tuple[int, int] | None:
    """Month and day of a date without a year; None where it is none.

    >>> [_month_and_day(text) for text in ("1002", "625", "10-02", "10/02", "Oct  2", "1399", None)]
    [(10, 2), (6, 25), (10, 2), (10, 2), (10, 2), None, None]
    """
    if text is None:
        return None
    if text[0].isalpha():
        month, day = _MONTHS.index(text[:3]) + 1, int(text[3:])
    else:
        digits = text.replace("-", "").replace("/", "")
        month, day = int(digits[:-2]), int(digits[-2:])
    return (month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None


def _own_date(records: pl.DataFrame) -> datetime | None:
    """The first whole date in the log."""
    from datetime import UTC  # noqa: PLC0415 - only of logs that lack some
    from datetime import datetime as moment_of  # noqa: PLC0415 - likewise

    dated = records.select(_naive("date", "time", "fraction").alias("at"))["at"].drop_nulls()
    return moment_of.fromtimestamp(dated[0] / US, UTC) if dated.len() else None


def _nearest(day: tuple[int, int] | None, reference: datetime) -> int | None:
    """The year in which a day is closest to a time."""
    if day is None:
        return None
    months = reference.month - day[0]
    return reference.year + (months > _HALF_A_YEAR) - (months < -_HALF_A_YEAR)


def _naive(date: str, time: str, fraction: str) -> pl.Expr:
    """Microseconds since 1970 as if the stamp were UTC."""
    whole = (pl.col(date).str.replace_all("/", "-", literal=True) + "T" + pl.col(time)).str.to_datetime(
        "%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False
    )
    return whole.to_physical() + _parts(fraction)


def _parts(fraction: str) -> pl.Expr:
    """The digits behind the seconds, in microseconds."""
    return pl.col(fraction).str.slice(0, 6).str.pad_end(6, "0").cast(pl.Int64).fill_null(0)


def _unit(fraction: str) -> pl.Expr:
    """How coarse a stamp is: a second without a fraction, else a millisecond."""
    return pl.when(pl.col(fraction).is_null()).then(US).otherwise(US // 1_000)


def _local(records: pl.DataFrame, local: pl.Expr, request: LogRequest, origin: str) -> pl.Series:
    """The times of stamps without an offset, by the zone that was stated."""
    zone = request.timezone
    first = records.filter(local).row(0, named=True)
    sample = f"{first['date']} {first['time']}"
    if zone is None:
        raise TimeZoneError(f"{origin} line {first['line']}", "its time", sample, command=None)
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise TimeZoneError(f"{origin} line {first['line']}", "its time", sample, zone, command=None) from None
    moment = pl.col("_naive").cast(pl.Datetime("us"))
    early, late = (
        moment.dt.replace_time_zone(zone, ambiguous=which, non_existent="null").dt.convert_time_zone("UTC")
        for which in ("earliest", "latest")
    )
    naive = pl.col("_naive").forward_fill()
    both = records.select(
        early=pl.when(local).then(early).to_physical(),
        late=pl.when(local).then(late).to_physical(),
        back=(naive.diff() < -_BACK_US).fill_null(value=False),
    )
    return both.select(_second_occurrence()).to_series()


def _second_occurrence() -> pl.Expr:
    """Of a time that occurs twice: the later one from where the log went back within the doubtful hour."""
    doubtful = (pl.col("early") != pl.col("late")).fill_null(value=False)
    stretch = (doubtful != doubtful.shift(fill_value=False)).cum_sum()
    gone_back = (pl.col("back") & doubtful).cast(pl.Int64).cum_max().over(stretch) > 0
    return pl.when(doubtful & gone_back).then("late").otherwise("early")


def _by_clock(records: pl.DataFrame, request: LogRequest) -> pl.DataFrame:
    """Times of day behind each other, from the day on which the log begins; null where that is unknown."""
    nothing = records.with_columns(at=pl.lit(None, dtype=pl.Int64))
    if request.begin is None or records["clock"].is_null().all():
        return nothing
    day = midnight(request.begin, request.timezone)
    whole = pl.col("clock").str.to_time("%H:%M:%S", strict=False).cast(pl.Int64) // 1_000
    daily = records.with_columns(_of_day=whole + _parts("clock_fraction"), unit=_unit("clock_fraction"))
    days = (pl.col("_of_day").forward_fill().diff() < -_DAY_US // 2).fill_null(value=False).cum_sum()
    return daily.with_columns(at=day + days * _DAY_US + pl.col("_of_day")).drop("_of_day")


def midnight(begin: datetime, timezone: str | None) -> int:
    """The beginning of the day on which a log begins, in its zone; microseconds since 1970."""
    local = begin.astimezone(ZoneInfo(timezone)) if timezone else begin
    return round(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * US


def parse_begin(text: str, timezone: str | None) -> datetime:
    """`--begin`: ISO 8601 with a zone, or in the zone of the log.

    Raises:
        OptionError: it is no time, or has no zone and none is stated.
    """
    from datetime import datetime as moment_of  # noqa: PLC0415 - only here a time is made

    try:
        begin = moment_of.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(f"--begin {text}: write a time such as 2026-10-01T08:00:00Z") from None
    if begin.tzinfo is None and timezone is None:
        raise OptionError(f"--begin {text}: no zone; end it with Z or an offset, or add --timezone Europe/Berlin")
    return begin.replace(tzinfo=ZoneInfo(timezone)) if begin.tzinfo is None and timezone else begin
