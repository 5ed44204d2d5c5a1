"""When reports are due: periods, cut-offs, cron, clock changes, leap days, and what is owed after an outage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest

from app.reports.schedule.plan import ReportPlan, owed, times

BERLIN, CAIRO, SANTIAGO = ZoneInfo("Europe/Berlin"), ZoneInfo("Africa/Cairo"), ZoneInfo("America/Santiago")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_without_cron_a_report_is_due_at_six_on_the_cutoff_day() -> None:
    plan = ReportPlan("m", "month", period_zone=BERLIN, cutoff_days=7)
    assert plan.due_at("2026-10") == at("2026-11-08T05:00")
    assert plan.due_at("2026-03") == at("2026-04-08T04:00")  # summer time
    assert ReportPlan("q", "quarter", cutoff_days=45).due_at("2026-Q3") == at("2026-11-15T06:00")
    assert ReportPlan("w", "week", cutoff_days=3).due_at("2026-W53") == at("2027-01-07T06:00")


@pytest.mark.parametrize(
    ("zone", "cron", "start", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-03-28T12:00", ["03-29T01:00", "03-30T00:30"]),  # skipped: right after
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", ["10-25T00:30", "10-26T01:30"]),  # twice on the clock: once
        (SANTIAGO, "0 0 * * *", "2026-09-05T12:00", ["09-06T04:00", "09-07T03:00"]),  # midnight is skipped
        (CAIRO, "0 0 * * 5", "2026-04-20T12:00", ["04-23T22:00", "04-30T21:00"]),
        (BERLIN, "0 9 * * 1", "2026-03-01T00:00", ["03-02T08:00", "03-09T08:00"]),  # 1 is Monday
        (BERLIN, "0 6 13 * 5", "2026-03-01T00:00", ["03-06T05:00", "03-13T05:00", "03-20T05:00"]),  # either
    ],
)
def test_a_cron_expression_means_what_cron_does(zone: ZoneInfo, cron: str, start: str, expected: list[str]) -> None:
    found = islice(times(cron, zone, at(start)), len(expected))
    assert [f"{each:%m-%dT%H:%M}" for each in found] == expected


def test_a_leap_day_is_a_day_and_ends_its_month() -> None:
    assert ReportPlan("d", "day", cron="0 6 * * *").due_at("2028-02-29") == at("2028-03-01T06:00")
    assert ReportPlan("m", "month", cron="0 6 29 2 *").due_at("2028-01") == at("2028-02-29T06:00")
    assert ReportPlan("m", "month", cutoff_days=1).due_at("2028-02") == at("2028-03-02T06:00")


def test_one_time_in_several_periods_is_on_the_last_of_them() -> None:
    plan = ReportPlan("w", "week", cron="0 6 8 * *", zone=BERLIN, period_zone=BERLIN)
    due = list(plan.due_periods(at("2026-11-24T00:00")))
    assert due[:2] == ["2026-W44", "2026-W40"]
    assert [period for _, period in plan.coming(at("2026-11-24T00:00"), 2)] == ["2026-W49", "2026-W53"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["day", "week", "month", "quarter"])
@pytest.mark.parametrize("cron", [None, "30 2 * * *", "0 6 1 * *"])
def test_what_is_coming_is_owed_from_that_very_moment_on(kind: str, cron: str | None) -> None:
    plan = ReportPlan("p", kind, cron=cron, zone=BERLIN, period_zone=BERLIN)  # type: ignore[arg-type]  # one of its texts
    now = at("2027-10-20T00:00")
    for due, period in plan.coming(now, 12):
        assert due > now
        assert next(plan.due_periods(due)) == period
        assert next(plan.due_periods(due - timedelta(seconds=1))) != period
        now = due


def test_a_new_schedule_begins_with_the_newest_period() -> None:
    found = owed(ReportPlan("m", "month"), at("2026-11-20T00:00"), set(), None)
    assert (found.periods, found.left_out, found.first) == (("2026-10",), (), "2026-10")


def test_an_outage_is_made_up_for_as_far_as_stated() -> None:
    plan = ReportPlan("m", "month", catch_up=3)
    found = owed(plan, at("2027-06-20T00:00"), {"2026-10"}, "2026-10")
    assert found.periods == ("2027-03", "2027-04", "2027-05")
    assert found.left_out == ("2026-11", "2026-12", "2027-01", "2027-02")
    done = {"2026-10", *found.periods, *found.left_out}
    assert owed(plan, at("2027-06-20T00:00"), done, "2026-10").periods == ()


def test_a_clock_that_is_put_back_owes_nothing() -> None:
    assert owed(ReportPlan("m", "month"), at("2026-01-20T00:00"), {"2026-10"}, "2026-10").periods == ()
