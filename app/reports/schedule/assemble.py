"""The schedule of a configuration, ready to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.errors import UsageError
from app.reports.delivery.outbox import Outbox, folder_of
from app.reports.delivery.send import Sender
from app.reports.schedule.make import make, plan_of
from app.reports.schedule.run import Runner
from queries.near_names import near_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from app.config.reports import ScheduledReport
    from app.config.settings import Config


def runner_of(root: Path, settings: Config, *, now: Callable[[], datetime], sleep: Callable[[float], None]) -> Runner:
    """What runs the schedule of a configuration on a warehouse.

    Args:
        root: the warehouse directory.
        settings: with reports and targets.
        now: reads the clock.
        sleep: waits so many seconds between two tries; it may raise `DeliveryStoppedError`.
    """
    outbox = Outbox(folder_of(root, settings.deliver.outbox))
    return Runner(
        outbox=outbox,
        sender=Sender(outbox, settings.deliver, now=now, sleep=sleep),
        plan=lambda report: plan_of(report, settings),
        make=lambda report, period, at: make(root, settings, report, period, outbox=outbox, now=at),
        now=now,
        keep_days=settings.deliver.keep_days,
    )


def requested_reports(settings: Config, name: str | None) -> Sequence[ScheduledReport]:
    """The report of a name, or all of them.

    Raises:
        UsageError: there is none.
    """
    found = [report for report in settings.reports if name in {None, report.name}]
    if found:
        return found
    if name is None:
        raise UsageError("the configuration has no [[reports]]; how to write one: trackside docs how-to/schedule")
    names = [report.name for report in settings.reports]
    close = near_names(name, names)
    hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(names) or 'none'}"
    raise UsageError(f"the configuration has no report {name!r}; {hint}")
