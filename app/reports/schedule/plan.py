"""Which reports are due: a pure function of the schedule, the time, and what was made before.

A report is on a period of the calendar and is made once for each. So a run that was missed, a restart, a clock that is
put back and two services at once all come to the same: what is due and not recorded is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import dropwhile, islice, takewhile
from typing import TYPE_CHECKING

from cronsim import CronSim

from app.claims.contract import CUTOFF_DAYS
from app.times import earlier_periods, parse_period, period_of, periods_before

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import tzinfo

    from app.config.reports import PeriodKind

HOUR = time(6)
"""Without a cron expression a report is due at this time, in its zone, on the day of the cut-off: by then its numbers
have been computed after the cut-off, and no zone puts its clocks forward."""

LOOK_BACK = 400
"""Periods before now that are looked at: more than a year of days."""


@dataclass(frozen=True)
class ReportPlan:
    """When the reports of one kind are due.

    Attributes:
        name: of the report.
        kind: of its periods.
        cron: when it is due; None: on the day of the cut-off.
        zone: of `cron`.
        period_zone: in whose midnights periods begin and end.
        cutoff_days: days after a period until which data count for its report.
        catch_up: after an outage at most so many of the newest periods are made up for.
    """

    name: str
    kind: PeriodKind
    cron: str | None = None
    zone: tzinfo = UTC
    period_zone: tzinfo = UTC
    cutoff_days: int = CUTOFF_DAYS
    catch_up: int = 3

    def due_at(self, period: str) -> datetime:
        """When the report on a period is due, in UTC: the first time that cron names after its end."""
        return _due_at(self, period)

    @property
    def shown_zone(self) -> tzinfo:
        """The zone in which its times are meant."""
        return self.period_zone if self.cron is None else self.zone

    def coming(self, now: datetime, count: int = 5) -> list[tuple[datetime, str]]:
        """The next times at which a report becomes due, and on which period."""
        return list(islice(self._coming(now), count))

    def _coming(self, now: datetime) -> Iterator[tuple[datetime, str]]:
        if self.cron is None:
            period = next(self.due_periods(now))
            while True:
                period = self._following(period)
                yield self.due_at(period), period
        for tick in times(self.cron, self.zone, now):
            period = periods_before(self._at(tick), 1)[0]
            if self.due_at(period) == tick:
                yield tick, period

    def due_periods(self, now: datetime) -> Iterator[str]:
        """Periods whose report is due, the last one first.

        Where cron names one time in several periods, the report is on the last of them.
        """
        periods = islice(earlier_periods(self._at(now)), LOOK_BACK)
        ended = dropwhile(lambda period: self.due_at(period) > now, periods)
        return (period for period in ended if self.cron is None or self._is_last(period))

    def _is_last(self, period: str) -> bool:
        return parse_period(self._following(period), self.period_zone)[1] > self.due_at(period)

    def _following(self, period: str) -> str:
        return self._at(parse_period(period, self.period_zone)[1])

    def _at(self, moment: datetime) -> str:
        """The period that a moment is in."""
        return period_of(self.kind, moment.astimezone(self.period_zone).date())


@lru_cache(maxsize=8 * LOOK_BACK)
def _due_at(plan: ReportPlan, period: str) -> datetime:
    """As `ReportPlan.due_at`: a service computes the same periods each minute, and a calendar with zones is slow."""
    end = parse_period(period, plan.period_zone)[1]
    if plan.cron is None:
        day = end.astimezone(plan.period_zone).date() + timedelta(days=plan.cutoff_days)
        return datetime.combine(day, HOUR, tzinfo=plan.period_zone).astimezone(UTC)
    return next(times(plan.cron, plan.zone, end - timedelta(minutes=1)))


@dataclass(frozen=True)
class Owed:
    """What is to be made now.

    Attributes:
        periods: to make, the last one last.
        left_out: missed, and too many to be made up for; the last one last.
        first: the first period of this report's schedule.
    """

    periods: tuple[str, ...]
    left_out: tuple[str, ...]
    first: str | None


def owed(plan: ReportPlan, now: datetime, recorded: Collection[str], first: str | None) -> Owed:
    """The periods to make now: due, not recorded, and of these the newest.

    Args:
        plan: the schedule.
        now: the time.
        recorded: periods that were made, or left out.
        first: the first period of this report's schedule; None: it begins now, with the newest period that is due.
    """
    begin = next(plan.due_periods(now), None) if first is None else first
    if begin is None:
        return Owed((), (), None)
    due = takewhile(lambda period: period >= begin, plan.due_periods(now))  # as texts they are in the order of time
    newest = list(islice(due, plan.catch_up))
    return Owed(
        tuple(period for period in reversed(newest) if period not in recorded),
        tuple(period for period in [*due][::-1] if period not in recorded),
        begin,
    )


def times(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    """The times that a cron expression names from a moment on, in UTC.

    A time of day that the clocks skip comes at the moment after; one that they show twice comes once.

    >>> from zoneinfo import ZoneInfo
    >>> found = times("30 2 * * *", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 28, 12, tzinfo=UTC))
    >>> [f"{each:%d %H:%M}" for each in islice(found, 2)]
    ['29 01:00', '30 00:30']
    """
    for tick in CronSim(cron, after.astimezone(zone)):
        yield tick.astimezone(UTC)
