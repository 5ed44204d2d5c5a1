"""A year of the schedule by a clock of its own: clock changes, a leap day, outages, kills, slow reports, twins.

Time does not pass: the test sets it, and the decision, the outbox and its lock are the real ones.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast
from zoneinfo import ZoneInfo

import pytest

from app.config.reports import ScheduledReport
from app.reports.delivery.outbox import Delivery, MadeReport, Outbox, key_of
from app.reports.schedule.plan import ReportPlan
from app.reports.schedule.run import Runner, ScheduledRun
from app.times import parse_period

if TYPE_CHECKING:
    from pathlib import Path

    from app.reports.delivery.send import Sender

BERLIN = ZoneInfo("Europe/Berlin")
BEGIN, END = datetime(2028, 1, 20, tzinfo=UTC), datetime(2029, 1, 20, tzinfo=UTC)
REPORTS = {
    "daily": ScheduledReport(name="daily", period="day", cron="30 2 * * *", zone="Europe/Berlin", deliver=("a", "b")),
    "weekly": ScheduledReport(name="weekly", period="week", catch_up=2, deliver=("a",)),
    "monthly": ScheduledReport(name="monthly", period="month", deliver=("a",)),
    "quarterly": ScheduledReport(name="quarterly", period="quarter", cron="0 0 29 * *", deliver=("a",)),
}


class KilledError(BaseException):
    """The process ends here."""


@dataclass
class World:
    """A clock, a disk, and receivers."""

    outbox: Outbox
    now: datetime = BEGIN
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    made_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    received: list[tuple[str, str]] = field(default_factory=list)
    kill: str | None = None
    slow: timedelta = timedelta(0)
    twin: Runner | None = None
    beside: list[ScheduledRun] = field(default_factory=list)

    def plan(self, report: ScheduledReport) -> ReportPlan:
        zone = ZoneInfo(report.zone or "UTC")
        return ReportPlan(report.name, report.period, report.cron, zone, BERLIN, 7, report.catch_up)

    def make(self, report: ScheduledReport, period: str, now: datetime) -> list[MadeReport]:
        if self.twin is not None and self.slow:
            self.beside.append(self.twin.run(report))
        self.now += self.slow
        self.reach("making")
        digest = f"{hash((report.name, period)) & (1 << 64) - 1:064x}"
        self.made[report.name, period] += 1
        self.made_at[report.name, period] = now
        return [
            MadeReport(key_of(report.name, period, digest), report.name, period, "c", digest, now.isoformat(), "", ())
        ]

    def send_pending(self, made: MadeReport) -> list[Delivery]:
        """As the real one: deliver, then record."""
        self.reach("recorded")
        for each in self.outbox.deliveries(made.key):
            if each.outcome == "pending":
                self.received.append((made.key, each.target))
                self.reach("delivered")
                self.outbox.note(made.key, each.target, "delivered", tries=1, now=self.now, reason=None)
        return []

    def reach(self, place: str) -> None:
        if self.kill == place:
            self.kill = None
            raise KilledError

    def runner(self) -> Runner:
        return Runner(self.outbox, cast("Sender", self), self.plan, self.make, lambda: self.now)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Outbox(tmp_path / "w-reports"))


@pytest.mark.slow
def test_every_period_of_a_year_is_made_and_delivered_once(world: World) -> None:
    runner = world.runner()
    while world.now < END:
        for report in REPORTS.values():
            runner.run(report)
        world.now += timedelta(days=1)
    assert set(world.made.values()) == {1}
    assert len(world.received) == len(set(world.received))
    made = [period for name, period in world.made if name == "daily"]
    assert {"2028-02-29", "2028-03-26", "2028-10-29"} <= set(made)  # leap day, both changes of the clocks
    assert len(made) == (END - BEGIN).days
    for (name, period), at in world.made_at.items():
        due = world.plan(REPORTS[name]).due_at(period)
        assert timedelta(0) <= at - due <= timedelta(days=1) or period == world.outbox.first(name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_outages_kills_and_twins_lose_and_double_nothing(world: World, seed: int) -> None:
    """Services that start, sleep and are killed at any point; two at once; reports that take a day."""
    chance = random.Random(seed)
    killed = 0
    while world.now < END:
        runner = world.runner()
        world.twin = world.runner()
        world.slow = timedelta(hours=chance.choice([0, 0, 1, 30]))
        world.kill = chance.choice([None, None, "making", "recorded", "delivered"])
        try:
            for report in chance.sample(list(REPORTS.values()), len(REPORTS)):
                runner.run(report)
        except KilledError:
            killed += 1
        world.now += timedelta(hours=chance.choice([1, 20, 20, 24 * 9, 24 * 25]))
    world.kill, world.slow = None, timedelta(0)
    for report in REPORTS.values():
        world.runner().run(report)
    assert killed > 5
    assert world.beside
    assert all(each.busy for each in world.beside)
    _none_lost(world)
    _each_once(world, killed)


def _none_lost(world: World) -> None:
    """From the first period on, each that is due is made, or stated as left out; and all that was made was received."""
    for name, report in REPORTS.items():
        recorded = {each.period: each for each in world.outbox.made(name)}
        due = {period for period in world.plan(report).due_periods(world.now) if period >= min(recorded)}
        assert set(recorded) == due
        received = {key for key, _ in world.received}
        assert {each.key for each in recorded.values() if each.sha256} <= received
    assert all(each.outcome == "delivered" for each in world.outbox.deliveries())


def _each_once(world: World, killed: int) -> None:
    """A receiver that drops doubles by their key has each report once, whatever was killed."""
    keys = [each.key for each in world.outbox.made() if each.sha256]
    assert len(keys) == len(set(keys))
    doubles = len(world.received) - len(set(world.received))
    assert doubles <= killed
    assert sum(count - 1 for count in world.made.values()) <= killed


def test_two_runs_at_once_make_one_report(world: World) -> None:
    world.twin, world.slow = world.runner(), timedelta(minutes=5)
    world.runner().run(REPORTS["monthly"])
    assert [each.busy for each in world.beside] == [True]
    assert world.made == {("monthly", "2027-12"): 1}


def test_a_period_begins_at_the_midnights_of_the_contract(world: World) -> None:
    assert world.plan(REPORTS["daily"]).due_at("2028-03-26") == parse_period("2028-03-27", BERLIN)[0] + timedelta(
        hours=2, minutes=30
    )
