"""Times of the lines of a log, in microseconds since 1970: from the stamps in them, their zone and their date.

A stamp with an offset needs nothing more. One without needs a zone, and without one the log is refused: whole hours off
would join it to another job. In the hour that occurs twice in autumn the order of the lines decides. A time of day
alone needs the day on which the log begins; a time earlier than the one before it by more than half a day is on the
next one. A stamp without a year takes it from another stamp of the log, from when the log begins, or from the attempt
that it is of: the year in which it is closest to that. Behind New Year the next one follows. Without any of these it is
refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import polars as pl

from ingest.errors import OptionError, TimeZoneError, YearError
from ingest.runlog.formats.text.collected import OWN_COLUMNS, Collected, own_times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ingest.runlog.translation import LogRequest

US: Final = 1_000_000
_DAY_US: Final = 86_400 * US
_HALF_A_YEAR: Final = 6
"""Months."""
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BACK_US: Final = 1_800 * US
"""A local time that goes back by more than this goes back to the same hour's second occurrence."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

STAMP_COLUMNS: Final[dict[str, pl.DataType]] = {
    "naive": pl.Int64(),
    "offset": pl.Int32(),
    "month_day": pl.String(),
    "of_day": pl.Int64(),
    "fine": pl.Boolean(),
    **OWN_COLUMNS,
}
"""The stamp of a line: microseconds since 1970 as if it were UTC, seconds by which it is ahead of UTC, the date as it
is written where it has no year, microseconds since midnight where it has no date, and whether it has a fraction.
Behind a collector's stamp, the line's own one, too (`OWN_COLUMNS`)."""

_SOURCES: Final = {
    "naive": ("date",),
    "offset": ("offset",),
    "of_day": ("month_day", "clock"),
    "fine": ("fraction", "clock_fraction"),
    "own": ("own_date", "own_clock"),
    "own_offset": ("own_offset",),
    "own_fine": ("own_date", "own_clock"),
}
"""The texts without which a column has no value."""


@dataclass
class Stamps:
    """The stamps of a log; their dates and zones are known once all of it is read.

    Attributes:
        is_dated: some line has a date.
        has_clock: some line has a time of day alone.
        first: the first whole date, in microseconds since 1970 as if it were UTC; None: there is none.
        collected: how a collector's stamps lie beside those of the lines.
        named: the name of a zone behind a time, such as CET, for a message; empty: none was seen.
    """

    is_dated: bool = False
    has_clock: bool = False
    first: int | None = None
    collected: Collected = field(default_factory=Collected)
    named: str = ""

    def take(self, records: pl.DataFrame) -> None:
        """Look at records (`scan.SCHEMA`) in the order of the log."""
        if self.first is None and records["naive"].count():
            self.first = records["naive"].drop_nulls()[0]
        days = records["month_day"].drop_nulls()
        self.is_dated = self.is_dated or self.first is not None or any(map(_month_and_day, days))
        self.has_clock = self.has_clock or records["of_day"].count() > days.len()
        self.collected.take(records)


@dataclass
class Times:
    """Adds times to the records of a log, some records at a time, in the order of the log, however it is divided.

    Attributes:
        request: the zone, and when the log begins.
        origin: the log's name, for messages.
        stamps: of the whole log.
    """

    request: LogRequest
    origin: str
    stamps: Stamps
    _year: int | None = None
    _day: tuple[int, int] | None = None
    _naive: int | None = None
    _is_doubtful: bool = False
    _has_gone_back: bool = False
    _of_day: int | None = None
    _days: int = 0

    def of(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records with `at` (microseconds since 1970; null where the line has no time) and `unit` (how coarse it is).

        They replace the columns that they are made of.

        Raises:
            TimeZoneError: the times have no zone, and none is stated.
            YearError: they have no year, and it does not follow.
        """
        unit = pl.when("fine").then(US // 1_000).otherwise(US)
        timed = records.with_columns(unit=unit)
        at = self._by_date(self._with_years(timed)) if self.stamps.is_dated else self._by_clock(timed)
        stamped = timed.with_columns(at.alias("at"))
        return (self._with_own_times(stamped) if self.stamps.collected.is_late else stamped).drop(STAMP_COLUMNS)

    def _with_own_times(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records with the times of the lines' own stamps: the collector's come in bursts.

        Raises:
            TimeZoneError: their zone does not follow from the collector's stamps, and none is stated.
        """
        own = records["own"]
        is_local = (own >= _DAY_US).fill_null(value=False) & records["own_offset"].is_null()
        if self.stamps.collected.zones or not is_local.any():
            return own_times(records.with_columns(local=pl.lit(None, dtype=pl.Int64)), self.stamps.collected).drop(
                "local", strict=False
            )
        naive = pl.select(pl.when(is_local).then(own)).to_series()
        zone = self._zone(records.with_columns(naive=naive), is_local)
        early, late = (each.to_physical() for each in _in_utc(naive, zone))
        local = late.zip_with((late <= records["at"]).fill_null(value=False), early)
        return own_times(records.with_columns(local=local), self.stamps.collected).drop("local")

    def _by_date(self, records: pl.DataFrame) -> pl.Series:
        """The times of whole dates, by their offsets or the zone that was stated."""
        known = records["naive"] - records["offset"].cast(pl.Int64) * US
        is_local = records["naive"].is_not_null() & records["offset"].is_null()
        if not is_local.any():
            return known
        return known.zip_with(known.is_not_null(), self._local(records, is_local))

    def _with_years(self, records: pl.DataFrame) -> pl.DataFrame:
        """Records whose stamps without a year have a date, too; one that is no day of the calendar has none."""
        days = [_month_and_day(text) for text in records["month_day"]] if records["month_day"].count() else []
        at = next((n for n, each in enumerate(days) if each is not None), None)
        if at is None:
            return records
        if self._year is None:
            self._year, self._day = self._first_year(records.row(at, named=True), days[at]), days[at]
        dates: list[str | None] = []
        for each in days:
            if each is not None and self._day is not None:
                ahead = each[0] - self._day[0]
                self._year += (ahead < -_HALF_A_YEAR) - (ahead > _HALF_A_YEAR)
                self._day = each
            dates.append(None if each is None else f"{self._year:04d}-{each[0]:02d}-{each[1]:02d}")
        begins = pl.Series(dates, dtype=pl.String).str.to_datetime("%Y-%m-%d", time_unit="us", strict=False)
        dated = records.with_columns(begins.to_physical().alias("_begin"))
        return dated.with_columns(naive=pl.coalesce("naive", pl.col("_begin") + pl.col("of_day"))).drop("_begin")

    def _first_year(self, first: Mapping[str, Any], day: tuple[int, int] | None) -> int:
        """The year of the first stamp without one.

        Raises:
            YearError: it does not follow.
        """
        own = None if self.stamps.first is None else EPOCH + timedelta(microseconds=self.stamps.first)
        reference = self.request.begin or own or self.request.around
        year = self.request.year
        year = year if year is not None else None if reference is None else _nearest(day, reference)
        if year is None:
            clock = (EPOCH + timedelta(microseconds=first["of_day"] or 0)).time().replace(microsecond=0)
            raise YearError(f"{self.origin} line {first['line']}", f"{first['month_day'].strip()} {clock}")
        return year

    def _local(self, records: pl.DataFrame, is_local: pl.Series) -> pl.Series:
        """The times of stamps without an offset, by the zone that was stated."""
        zone = self._zone(records, is_local)
        early, late = _in_utc(records["naive"], zone)
        naive = pl.concat([pl.Series([self._naive], dtype=pl.Int64), records["naive"]]).forward_fill()
        self._naive = naive[-1]
        both = pl.DataFrame({"early": early.to_physical(), "late": late.to_physical(), "is_local": is_local})
        both = both.with_columns(pl.when("is_local").then(each).alias(each) for each in ("early", "late"))
        back = (naive.diff()[1:] < -_BACK_US).fill_null(value=False)
        return self._second_occurrence(both.with_columns(back.alias("back")))

    def _zone(self, records: pl.DataFrame, is_local: pl.Series) -> str:
        """The zone that was stated.

        Raises:
            TimeZoneError: there is none, or it is unknown.
        """
        zone = self.request.timezone
        try:
            if zone is not None:
                ZoneInfo(zone)
                return zone
        except (KeyError, ValueError, OSError):
            pass
        first = records.filter(is_local).row(0, named=True)
        sample = f"{EPOCH + timedelta(microseconds=first['naive']):%Y-%m-%d %H:%M:%S}"
        name = self.stamps.named
        what = f"its time ({name} is no zone: several have the same name)" if name else "its time"
        raise TimeZoneError(f"{self.origin} line {first['line']}", what, sample, zone, command=None) from None

    def _second_occurrence(self, both: pl.DataFrame) -> pl.Series:
        """The times: of one that occurs twice, the later from where the log went back within the doubtful hour.

        A line without a time is as doubtful as the one before it.
        """
        doubtful = (both["early"] != both["late"]).forward_fill().fill_null(value=self._is_doubtful)
        if not doubtful.any():
            self._is_doubtful = self._has_gone_back = False
            return both["early"]
        begins = doubtful != doubtful.shift(1, fill_value=self._is_doubtful)
        stretch = begins.cast(pl.Int64).cum_sum()
        went = both["back"] | ((stretch == 0) & self._has_gone_back)
        chosen = both.with_columns(doubtful.alias("doubtful"), stretch.alias("stretch"), went.alias("went"))
        gone = (pl.col("went") & pl.col("doubtful")).cast(pl.Int64).cum_max().over("stretch") > 0
        made = chosen.select(gone=gone, at=pl.when(pl.col("doubtful") & gone).then("late").otherwise("early"))
        self._is_doubtful, self._has_gone_back = doubtful[-1], made["gone"][-1]
        return made["at"]

    def _by_clock(self, records: pl.DataFrame) -> pl.Series:
        """Times of day behind each other, from the day on which the log begins; null where that is unknown."""
        if self.request.begin is None or not self.stamps.has_clock:
            return pl.Series([None] * records.height, dtype=pl.Int64)
        clock = records.select(pl.when(pl.col("month_day").is_null()).then("of_day")).to_series()
        filled = pl.concat([pl.Series([self._of_day], dtype=pl.Int64), clock]).forward_fill()
        later = (filled.diff()[1:] < -_DAY_US // 2).fill_null(value=False).cast(pl.Int64).cum_sum() + self._days
        self._of_day, self._days = filled[-1], int(later[-1])
        return midnight(self.request.begin, self.request.timezone) + later * _DAY_US + clock


def zone_named_in(text: str) -> str:
    """The name of a zone behind a time in a line; empty where there is none.

    >>> zone_named_in("[2026-10-01 08:00:12,500 CEST] step 3"), zone_named_in("2026-10-01 08:00:12 INIT step 3")
    ('CEST', '')
    """
    found = re.search(rf"\d\d:\d\d:\d\d(?:[.,]\d+)? ?({_ZONE_NAMES})\b", text)
    return "" if found is None else found[1]


_ZONE_NAMES: Final = "(?:CE|ME|EE|WE)S?T|[ECMPB][SD]T|A[CEW][SD]T|[IJKH]ST|HKT|SGT|MSK"
"""Names of zones that logs have; none of them stands for a single one."""


def _in_utc(naive: pl.Series, zone: str) -> tuple[pl.Series, pl.Series]:
    """Local times (microseconds since 1970 as if they were UTC) in UTC: of one that occurs twice both."""
    moment = naive.cast(pl.Datetime("us")).dt
    early, late = (
        moment.replace_time_zone(zone, ambiguous=which, non_existent="null").dt.convert_time_zone("UTC")
        for which in ("earliest", "latest")
    )
    return early, late


def moments(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines whose stamps are numbers (`STAMP_COLUMNS`), not text.

    Args:
        lines: with `date`, `time`, `fraction`, `offset`, `month_day`, `clock` and `clock_fraction` as they are written,
            and their own stamps behind a collector's (`OWN_TEXTS`) where they have any.
    """
    has_date = pl.col("date").is_not_null() | pl.col("month_day").is_not_null()
    made = {
        "naive": _since(_dashed(lines, "date"), "time") + _parts("fraction"),
        "offset": _offset(lines, "offset"),
        "of_day": pl.coalesce(
            pl.when(pl.col("month_day").is_not_null()).then(_since(pl.lit("1970-01-01"), "time") + _parts("fraction")),
            pl.when(pl.col("date").is_null()).then(_since(pl.lit("1970-01-01"), "clock") + _parts("clock_fraction")),
        ),
        "fine": pl.when(has_date).then("fraction").otherwise("clock_fraction").is_not_null(),
        "own": pl.coalesce(
            _since(_dashed(lines, "own_date"), "own_time") + _parts("own_fraction"),
            _since(pl.lit("1970-01-01"), "own_clock") + _parts("own_clock_fraction"),
        ),
        "own_offset": _offset(lines, "own_offset"),
        "own_fine": pl.coalesce("own_fraction", "own_clock_fraction").is_not_null(),
    }
    lacking = [
        name
        for name, source in _SOURCES.items()
        if all(each not in lines.columns or lines[each].null_count() == lines.height for each in source)
    ]
    return lines.with_columns(
        pl.lit(None, dtype=STAMP_COLUMNS[name]).alias(name)
        if name in lacking
        else value.cast(STAMP_COLUMNS[name]).alias(name)
        for name, value in made.items()
    )


def _dashed(lines: pl.DataFrame, date: str) -> pl.Expr:
    """Dates with dashes, of ones with slashes or with nothing between their parts."""
    if date not in lines.columns or not lines[date].str.contains("^[0-9]{4}[^-]").any():
        return pl.col(date)
    dashed = pl.col(date).str.replace_all("/", "-", literal=True)
    parts = (dashed.str.slice(begin, length) for begin, length in ((0, 4), (4, 2), (6, 2)))
    is_compact = dashed.str.len_bytes() == len("20251202")
    return pl.when(is_compact).then(pl.concat_str(*parts, separator="-")).otherwise(dashed)


def _since(date: pl.Expr, time: str) -> pl.Expr:
    """Microseconds since 1970 of a date and a time, as if they were UTC."""
    both = pl.concat_str(date, pl.col(time), separator="T")
    return both.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False, cache=False).to_physical()


def _offset(lines: pl.DataFrame, name: str) -> pl.Expr:
    """Seconds by which a stamp is ahead of UTC; null where it has no zone. Nearly always all lines have the same."""
    if name in lines.columns and (texts := lines[name].unique()).len() == 1:
        return pl.lit(texts.to_frame().select(_seconds_ahead(name)).item())
    return _seconds_ahead(name)


def _seconds_ahead(name: str) -> pl.Expr:
    text = pl.col(name)
    sign = pl.when(text.str.contains("-", literal=True)).then(-1).otherwise(1)
    hours, minutes = (
        text.str.extract(r"[+-](\d{1,2}?)(?::?(\d\d)|\D?)$", group).cast(pl.Int64).fill_null(0) for group in (1, 2)
    )
    return pl.when(text.is_not_null()).then(sign * (hours * 3_600 + minutes * 60))


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


def _nearest(day: tuple[int, int] | None, reference: datetime) -> int | None:
    """The year in which a day is closest to a time."""
    if day is None:
        return None
    months = reference.month - day[0]
    return reference.year + (months > _HALF_A_YEAR) - (months < -_HALF_A_YEAR)


def _parts(fraction: str) -> pl.Expr:
    """The digits behind the seconds, in microseconds."""
    return pl.col(fraction).str.slice(0, 6).str.pad_end(6, "0").cast(pl.Int64).fill_null(0)


def midnight(begin: datetime, timezone: str | None) -> int:
    """The beginning of the day on which a log begins, in its zone; microseconds since 1970."""
    local = begin.astimezone(ZoneInfo(timezone)) if timezone else begin
    return round(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * US


def parse_begin(text: str, timezone: str | None) -> datetime:
    """`--begin`: ISO 8601 with a zone, or in the zone of the log.

    Raises:
        OptionError: it is no time, or has no zone and none is stated.
    """
    try:
        begin = datetime.fromisoformat(text.strip())
    except ValueError:
        raise OptionError(f"--begin {text}: write a time such as 2026-10-01T08:00:00Z") from None
    if begin.tzinfo is None and timezone is None:
        raise OptionError(f"--begin {text}: no zone; end it with Z or an offset, or add --timezone Europe/Berlin")
    return begin.replace(tzinfo=ZoneInfo(timezone)) if begin.tzinfo is None and timezone else begin
