"""Running the schedule: make what is due and not recorded, deliver what is pending. `serve` and the verb do the same.

Whoever runs it, and however often, each period is made once: one process at a time works on a report, under a lock, and
what was made is recorded before it is delivered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.errors import EXIT_STATUS, UncoveredError, UsageError
from app.faults import FAULTS
from app.reports.delivery.outbox import MadeReport
from app.reports.schedule.plan import owed
from app.reports.schedule.tidy import tidy
from app.times import parse_period, period_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from app.config.reports import ScheduledReport
    from app.reports.delivery.outbox import Delivery, Outbox
    from app.reports.delivery.send import Sender
    from app.reports.schedule.plan import ReportPlan

_OURS = tuple(EXIT_STATUS)


@dataclass
class ScheduledRun:
    """What a run did for one report.

    Attributes:
        report: its name.
        busy: another process works on it, so nothing was done.
        made: reports that were made now.
        deliveries: outcomes of now.
        failures: what could not be made, with the reason.
        waiting: periods without data so far.
    """

    report: str
    busy: bool = False
    made: list[MadeReport] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Runner:
    """What runs the schedule.

    Attributes:
        outbox: what was made and delivered.
        sender: delivers.
        plan: the schedule of a report.
        make: makes a report on a period, at a time; for every user a digest of its own.
        now: reads the clock.
        keep_days: days that files of delivered reports are kept; 0: for ever.
    """

    outbox: Outbox
    sender: Sender
    plan: Callable[[ScheduledReport], ReportPlan]
    make: Callable[[ScheduledReport, str, datetime], Sequence[MadeReport]]
    now: Callable[[], datetime]
    keep_days: int = 0

    def run(self, report: ScheduledReport, period: str | None = None) -> ScheduledRun:
        """Make and deliver what is due of a report, or the report on one period, due or not.

        A period that is named is made again where its data have changed, and delivered as another report.
        """
        done = ScheduledRun(report.name)
        with self.outbox.locked(report.name) as alone:
            if not alone:
                done.busy = True
                return done
            for made in self.outbox.pending(report.name):
                done.deliveries += self.sender.send_pending(made)
            try:
                periods = self._due(report) if period is None else [_of_kind(report, period)]
            except _OURS as error:
                done.failures.append(str(error))
                return done
            for each in periods:
                self._make(report, each, done)
            tidy(self.outbox, report.name, keep_days=self.keep_days, now=self.now())
        return done

    def _due(self, report: ScheduledReport) -> tuple[str, ...]:
        """Periods to make now; those that are too many are recorded as left out."""
        plan, now = self.plan(report), self.now()
        recorded = {each.period for each in self.outbox.made(report.name)}
        first = self.outbox.first(report.name)
        due = owed(plan, now, recorded, first)
        if first is None and due.first is not None:
            self.outbox.begin(report.name, due.first)
        for period in due.left_out:
            self.outbox.add(_left_out(report, period, now), ())
        return due.periods

    def _make(self, report: ScheduledReport, period: str, done: ScheduledRun) -> None:
        try:
            made = self.make(report, period, self.now())
        except UncoveredError as error:
            self.outbox.failed(report.name, period, now=self.now(), reason=f"waits for data: {error}")
            done.waiting.append(f"{period}: {error}")
            return
        except FAULTS as error:
            ours = isinstance(error, _OURS)
            reason = str(error) if ours else f"a fault of Trackside: {type(error).__name__}: {error}"
            self.outbox.failed(report.name, period, now=self.now(), reason=reason)
            done.failures.append(f"{period}: {reason}")
            return
        self.outbox.add_all(made, report.deliver)
        done.made += made
        for each in made:
            done.deliveries += self.sender.send_pending(each)


def _of_kind(report: ScheduledReport, period: str) -> str:
    """A period of the report's kind, as it is written.

    Raises:
        UsageError: it is none.
    """
    first = parse_period(period)[0].date()
    if period.strip() != period_of(report.period, first):
        raise UsageError(f"{report.name} is a report on a {report.period}, such as {period_of(report.period, first)}")
    return period.strip()


def _left_out(report: ScheduledReport, period: str, now: datetime) -> MadeReport:
    why = f"left out: more than the {report.catch_up} newest periods were missed (catch_up)"
    return MadeReport(
        f"{report.name}-{period}-left-out", report.name, period, None, None, now.isoformat(timespec="seconds"), why, ()
    )
