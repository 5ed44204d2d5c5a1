"""Old files of reports: which are removed, and which stay."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from app.config import settings as config
from app.config.reports import ScheduledReport
from app.reports.delivery.outbox import MadeReport, Outbox
from app.reports.schedule.plan import ReportPlan
from app.reports.schedule.run import Runner
from app.reports.schedule.tidy import tidy

if TYPE_CHECKING:
    from pathlib import Path

    from app.reports.delivery.send import Sender

NOW = datetime(2027, 1, 8, 6, tzinfo=UTC)


def add(outbox: Outbox, report: str, period: str, days: int, outcome: str = "delivered") -> str:
    """A report that was made so many days ago, with its folder."""
    key, at = f"{report}-{period}-{outcome}", NOW - timedelta(days=days)
    folder = outbox.folder_of(key)
    folder.mkdir(parents=True)
    (folder / "report.json").write_text("{}")
    outbox.add(MadeReport(key, report, period, "c", "0" * 64, at.isoformat(), "", ("report.json",)), ("here",))
    if outcome != "pending":
        outbox.note(key, "here", "dead" if outcome == "dead" else "delivered", tries=1, now=at, reason=None)
    return key


def test_only_delivered_old_and_not_newest_files_are_removed(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "w-reports")
    old = add(outbox, "monthly", "2026-08", 100)
    kept = [
        add(outbox, "monthly", "2026-09", 99, "dead"),
        add(outbox, "monthly", "2026-10", 98, "pending"),
        add(outbox, "monthly", "2026-11", 30),
        add(outbox, "monthly", "2026-12", 0),
        add(outbox, "monthly-b", "2026-08", 100),
    ]
    assert tidy(outbox, "monthly", keep_days=0, now=NOW) == []
    assert tidy(outbox, "monthly", keep_days=30, now=NOW) == [old]
    assert sorted(each.name for each in outbox.folder_of("").iterdir()) == sorted(kept)
    assert old in {each.key for each in outbox.made()}
    assert tidy(outbox, "monthly", keep_days=30, now=NOW) == []


def test_the_newest_report_stays_however_old_it_is(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "w-reports")
    add(outbox, "monthly", "2026-08", 100)
    assert tidy(outbox, "monthly", keep_days=1, now=NOW) == []


def test_what_a_kill_left_unrecorded_is_removed_after_a_day(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "w-reports")
    add(outbox, "monthly", "2026-12", 0)
    for name, days in {"monthly-2026-11-a": 2, "monthly-2026-11-b": 0, "other-2026-11-a": 2}.items():
        folder = outbox.folder_of(name)
        folder.mkdir()
        at = (NOW - timedelta(days=days)).timestamp()
        os.utime(folder, (at, at))
    assert tidy(outbox, "monthly", keep_days=30, now=NOW) == ["monthly-2026-11-a"]


def test_a_period_whose_files_are_gone_is_not_made_again(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "w-reports")
    report = ScheduledReport(name="monthly")
    for period, days in {"2026-10": 60, "2026-11": 30, "2026-12": 0}.items():
        add(outbox, "monthly", period, days)
    outbox.begin("monthly", "2026-10")

    def make(_report: ScheduledReport, period: str, _now: datetime) -> list[MadeReport]:
        raise AssertionError(period)

    runner = Runner(
        outbox, cast("Sender", None), lambda _: ReportPlan("monthly", "month"), make, lambda: NOW, keep_days=20
    )
    assert runner.run(report).made == []
    assert [each.name for each in outbox.folder_of("").iterdir()] == ["monthly-2026-12-delivered"]


def test_files_are_kept_for_ever_by_default() -> None:
    assert config.parse({}, origin="test").deliver.keep_days == 0
