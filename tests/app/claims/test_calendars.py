"""Calendars of agreed maintenance: their events as exclusions, in their own zones, and no mistake passed over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from app.claims.calendars import CalendarError, read_calendar
from app.claims.file import read_claims, read_contract
from app.errors import ClaimsError
from app.times import zone_of

if TYPE_CHECKING:
    from pathlib import Path


def event(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VEVENT", "UID:" + "-".join(lines), "DTSTAMP:20260901T000000Z", *lines, "END:VEVENT"])


def calendar(path: Path, *events: str) -> Path:
    path.write_text("\r\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//t//EN", *events, "END:VCALENDAR", ""]))
    return path


def spans(path: Path, zone: str = "UTC") -> list[tuple[str, str, str | None]]:
    found = read_calendar(path, zone_of(zone)).events
    return [(f"{each.since:%m-%dT%H:%M}", f"{each.until:%m-%dT%H:%M}", each.nodes) for each in found]


def test_repeated_events_keep_their_hour_when_clocks_change(tmp_path: Path) -> None:
    weekly = event("DTSTART;TZID=Europe/Berlin:20261020T080000", "DURATION:PT2H", "RRULE:FREQ=WEEKLY;COUNT=2",
                   "EXDATE;TZID=Europe/Berlin:20261103T080000")  # fmt: skip
    path = calendar(tmp_path / "m.ics", weekly)
    assert spans(path) == [("10-20T06:00", "10-20T08:00", None), ("10-27T07:00", "10-27T09:00", None)]


def test_days_and_times_without_a_zone_are_in_the_contracts(tmp_path: Path) -> None:
    day, floating = event("DTSTART;VALUE=DATE:20261020"), event("DTSTART:20261021T000000", "DTEND:20261021T010000")
    path = calendar(tmp_path / "m.ics", day, floating)
    assert spans(path, "Europe/Berlin") == [("10-19T22:00", "10-20T22:00", None), ("10-20T22:00", "10-20T23:00", None)]


@pytest.mark.parametrize(
    ("line", "nodes"),
    [
        ("DESCRIPTION:Firmware\\nnodes: gpu[01-08]\\nby night", "gpu[01-08]"),
        ("LOCATION:Nodes: login*", "login*"),
        ("X-TRACKSIDE-NODES:gpu01", "gpu01"),
        ("LOCATION:Hall 3", None),
    ],
)
def test_an_event_names_its_nodes_or_is_of_all(tmp_path: Path, line: str, nodes: str | None) -> None:
    path = calendar(tmp_path / "m.ics", event("DTSTART:20261020T000000Z", "DURATION:PT1H", line))
    assert spans(path) == [("10-20T00:00", "10-20T01:00", nodes)]


def test_cancelled_events_are_left_out_and_doubled_ones_once(tmp_path: Path) -> None:
    kept = event("DTSTART:20261020T000000Z", "DURATION:PT1H", "SUMMARY:kept")
    gone = event("DTSTART:20261021T000000Z", "DURATION:PT1H", "STATUS:CANCELLED")
    path = calendar(tmp_path / "m.ics", kept, gone, kept)
    assert spans(path) == [("10-20T00:00", "10-20T01:00", None)]


def test_events_without_an_end_repeat_for_ten_years(tmp_path: Path) -> None:
    path = calendar(tmp_path / "m.ics", event("DTSTART:20260101T000000Z", "DURATION:PT1H", "RRULE:FREQ=MONTHLY"))
    found = read_calendar(path).events
    assert len(found) == 10 * 12 + 1
    assert found[-1].since is not None
    assert found[-1].since - datetime(2026, 1, 1, tzinfo=UTC) < timedelta(days=3661)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no calendar in it"),
        (b"hello", "is no calendar"),
        (b"\xff\xfe\x00\x80", "is no calendar"),
        (event("SUMMARY:x"), "the event 'x' has no DTSTART"),
        (event("DTSTART:20269921"), "is no calendar"),
        (event("SUMMARY:x", "DTSTART:20261020T000000Z"), "'x': it begins at 2026-10-20T00:00:00Z and has no length"),
        (event("SUMMARY:x", "DTSTART:20261020T000000Z", "DURATION:PT1H", "RRULE:FREQ=SECONDLY"), "repeats SECONDLY"),
        (event("SUMMARY:x", "DTSTART:20261020T000000Z", "DURATION:PT1H", "LOCATION:nodes: a[1-"), "unbalanced"),
        (event("DTSTART:99991230T000000Z", "DURATION:PT1H"), "is no calendar"),
    ],
)
def test_a_mistake_is_named_with_its_event(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "m.ics"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        calendar(path, content)
    with pytest.raises(CalendarError, match=message.replace("[", r"\[")):
        read_calendar(path)


CLAIM = """
[[claim]]
id = "{id}"
metric = "{metric}"
quoted = "q"
read_as = "r"
kind = "delivered"
target = 0.5
direction = "at_least"
{more}
"""


def contract_file(path: Path, contract: str, *claims: tuple[str, str]) -> Path:
    written = [CLAIM.format(id=f"c{number}", metric=metric, more=more) for number, (metric, more) in enumerate(claims)]
    path.write_text(contract + "".join(written))
    return path


def test_claims_leave_out_what_their_metric_can(tmp_path: Path) -> None:
    calendar(tmp_path / "m.ics", event("DTSTART:20261020T000000Z", "DURATION:PT1H", "LOCATION:nodes: gpu1"),
             event("DTSTART:20261021T000000Z", "DURATION:PT1H"))  # fmt: skip
    path = contract_file(tmp_path / "c.toml", '[contract]\nmaintenance = ["m.ics"]\n', ("occupancy", ""), ("mfu", ""))
    occupancy, mfu = read_claims(path)
    assert [each.nodes for each in occupancy.exclusions] == ["gpu1", None]
    assert [each.nodes for each in mfu.exclusions] == [None]


@pytest.mark.parametrize("field", ["monthly_fee", "cutoff_days", "credit_cap_percent"])
def test_true_is_no_number_of_a_contract(field: str, tmp_path: Path) -> None:
    """It would be taken for 1: one of a currency, one day, one percent."""
    contract = f'[contract]\ncurrency = "EUR"\n{field} = true\n' + (
        "" if field == "monthly_fee" else "monthly_fee = 5\n"
    )
    with pytest.raises(ClaimsError, match=rf"contract\.{field}: true is not a number"):
        read_contract(contract_file(tmp_path / "c.toml", contract, ("occupancy", "")))


def test_all_mistakes_of_a_contract_are_listed(tmp_path: Path) -> None:
    contract = (
        '[contract]\nmonthly_fee = 5\nzone = "Mars"\nmaintenance = ["none.ics"]\ncredit_cap_percent = 0\nfree = 1\n'
    )
    claims = (
        ("occupancy", 'rule = "best"'),
        ("occupancy", "credits = [{ above = 0.5, percent = 5 }]"),
        ("occupancy", "credits = [{ below = 0.5, percent = 5 }, { below = 0.5, percent = 6 }]"),
        ("occupancy", "credits = [{ percent = 101, below = 0.5 }, { percent = 5 }]"),
        ("occupancy", "credits = [{ below = 0.9999, percent = 5 }]"),
    )
    with pytest.raises(ClaimsError) as error:
        read_contract(contract_file(tmp_path / "c.toml", contract, *claims))
    expected = (
        "contract.zone: 'Mars' is no time zone",
        "contract.credit_cap_percent",
        "contract.free",
        "contract.maintenance 1: ",
        "none.ics cannot be read",
        "claim 1.rule",
        "claim 2: credits: a claim of at_least",
        "claim 3: credits: two steps",
        "claim 4.credits.1.percent",
        "claim 4.credits.2: write below",
        "claim 5: credits: the step below 0.9999 is of numbers that meet the target 0.5",
    )
    for each in expected:
        assert each in str(error.value)


def test_a_fee_has_a_currency(tmp_path: Path) -> None:
    path = contract_file(tmp_path / "c.toml", "[contract]\nmonthly_fee = 5\n", ("occupancy", ""))
    with pytest.raises(ClaimsError, match="monthly_fee and currency belong together"):
        read_contract(path)
    contract_file(path, '[contract]\nmonthly_fee = 12.10\ncurrency = "EUR"\n', ("occupancy", ""))
    assert (str(read_contract(path).monthly_fee), read_contract(path).is_agreed) == ("12.1", True)
