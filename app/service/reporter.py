"""Reports on their schedule: a thread that makes and delivers what is due, beside the one that reads and computes.

The schedule is checked every minute. What is due depends on the time and on what was recorded, not on the time of the
check: a service that was down, or slept, goes on with what it missed.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from app import clock
from app.faults import FAULTS, reason_of
from app.reports.delivery.outcomes import DeliveryStoppedError
from app.reports.schedule.assemble import runner_of
from app.times import iso

if TYPE_CHECKING:
    from pathlib import Path

    from app.config.reports import ScheduledReport
    from app.config.settings import Config
    from app.reports.schedule.run import Runner, ScheduledRun

logger = logging.getLogger("trackside.reporter")

TICK_S: Final = 60.0
"""Time between two checks of the schedule."""

STOP_TIMEOUT_S: Final = 20.0
"""How long a stop waits for the report that is being made."""

RETRY_AFTER: Final = timedelta(hours=1)
"""Time after which a report that could not be made is tried again."""


@dataclass
class Reporter:
    """Runs the schedule of a configuration.

    Attributes:
        root: the warehouse directory.
        settings: with reports and targets.
        outcomes: what the last run of each report came to, where it did anything.
        runner: makes and delivers.
    """

    root: Path
    settings: Config
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    runner: Runner = field(init=False)
    _retry_at: dict[str, datetime] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.runner = runner_of(self.root, self.settings, now=clock.now, sleep=self._sleep)

    def start(self) -> None:
        """Start the thread; the first check is at once."""
        self._thread = threading.Thread(target=self._run, name="trackside-reporter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop between two reports, or in the pause between two tries; what is pending stays so."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP_TIMEOUT_S)

    def failures(self) -> list[str]:
        """The present failures as text; empty if there are none."""
        return [f"report {name}: {each['failure']}" for name, each in sorted(self.outcomes.items()) if each["failure"]]

    def _run(self) -> None:
        while not self._stop.is_set():
            self.run_due(clock.now())
            self._stop.wait(TICK_S)

    def run_due(self, now: datetime) -> None:
        """Run each report once, except those that failed a short while ago."""
        for report in self.settings.reports:
            if self._stop.is_set():
                return
            if self._retry_at.get(report.name, now) <= now:
                self._make_report(report, now)

    def _make_report(self, report: ScheduledReport, now: datetime) -> None:
        try:
            done = self.runner.run(report)
        except DeliveryStoppedError:
            return
        except FAULTS as error:
            self._record_failure(report.name, now, failure=reason_of(error))
            return
        if done.busy:
            return
        for made in done.made:
            logger.info(
                "report made", extra={"fields": {"report": report.name, "period": made.period, "key": made.key}}
            )
        for each in done.deliveries:
            level = logging.INFO if each.outcome == "delivered" else logging.ERROR
            fields = {"key": each.key, "target": each.target, "tries": each.tries, "reason": each.reason}
            logger.log(level, "report %s", each.outcome, extra={"fields": fields})
        self._record(report.name, done, now)

    def _record(self, name: str, done: ScheduledRun, now: datetime) -> None:
        """Keep the outcome of a run. A run that did nothing keeps the outcome before it."""
        undelivered = [
            f"{each.key} was not delivered to {each.target}: {each.reason}"
            for each in done.deliveries
            if each.outcome != "delivered"
        ]
        if done.failures or undelivered:
            self._record_failure(name, now, failure="; ".join([*done.failures, *undelivered]).splitlines()[0])
            return
        if done.waiting:
            self._retry_at[name] = now + RETRY_AFTER
            return
        did_something = bool(done.made or done.deliveries)
        if not did_something and self._given_up(name):
            return
        if did_something or name in self.outcomes:
            self.outcomes[name] = {"at": iso(now), "failure": None}
        self._retry_at.pop(name, None)

    def _given_up(self, name: str) -> bool:
        """Whether deliveries of a report are still given up: a person may have sent them again."""
        if name not in self.outcomes:
            return False
        keys = {each.key for each in self.runner.outbox.made(name)}
        return any(each.key in keys and each.outcome == "dead" for each in self.runner.outbox.deliveries())

    def _record_failure(self, name: str, now: datetime, *, failure: str) -> None:
        self.outcomes[name] = {"at": iso(now), "failure": failure}
        self._retry_at[name] = now + RETRY_AFTER
        logger.error("%s", failure, extra={"fields": {"report": name}})

    def _sleep(self, seconds: float) -> None:
        """The pause between two tries, which a stop ends."""
        if self._stop.wait(seconds):
            raise DeliveryStoppedError
