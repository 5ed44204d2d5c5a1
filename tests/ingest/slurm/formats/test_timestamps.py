from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from ingest.errors import TimeZoneError
from ingest.slurm.formats.timestamps import read_instants
from tests.support.slurm.parsing import attempt, parse, refusals, text

BERLIN = "Europe/Berlin"


def utc(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)  # type: ignore[misc,arg-type]  # numbers, and no zone among them


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("1795247786", utc(2026, 11, 21, 7, 56, 26)),
        ("2026-11-21T08:56:26", utc(2026, 11, 21, 7, 56, 26)),
        ("2026-11-21 08:56:26", utc(2026, 11, 21, 7, 56, 26)),
        ("2026-07-21T08:56:26", utc(2026, 7, 21, 6, 56, 26)),
        ("2026-11-21T08:56:26+05:30", utc(2026, 11, 21, 3, 26, 26)),
        ("2026-11-21T08:56:26-0800", utc(2026, 11, 21, 16, 56, 26)),
        ("2026-11-21T08:56:26Z", utc(2026, 11, 21, 8, 56, 26)),
        ("Unknown", None),
        ("None", None),
        ("NONE", None),
        ("N/A", None),
        ("NA", None),
        ("", None),
        ("0", None),
    ],
)
def test_times_in_every_form_and_the_words_for_none(written: str, moment: datetime | None) -> None:
    when = read_instants(pl.Series("End", [written]), timezone=BERLIN, origin="x")
    assert (when.early.to_list(), when.error.to_list()) == ([moment], [None])


@pytest.mark.parametrize("written", ["soon", "12", "1795247786000", "2026-13-01T00:00:00", "-5", "14:22"])
def test_invalid_time_is_reported(written: str) -> None:
    when = read_instants(pl.Series("End", [written, "1795247786"]), timezone=None, origin="x")
    assert when.early.null_count() == 1
    assert when.error[0] == f"End: not a time: '{written}'"


def test_forms_may_be_mixed_in_one_column() -> None:
    column = pl.Series("End", ["1795247786", "2026-11-21T07:56:26Z", "2026-11-21T08:56:26", None, "Unknown"])
    when = read_instants(column, timezone=BERLIN, origin="x")
    assert when.early.to_list() == [utc(2026, 11, 21, 7, 56, 26)] * 3 + [None] * 2


def test_local_times_without_a_zone_are_refused_with_the_remedy() -> None:
    with pytest.raises(TimeZoneError) as caught:
        parse(text({"Submit": "2026-11-21T08:56:26"}))
    assert "2026-11-21T08:56:26" in str(caught.value)
    assert "--timezone Europe/Berlin" in str(caught.value)
    assert "SLURM_TIME_FORMAT=%s" in str(caught.value)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(TimeZoneError, match="Europe/Berln"):
        parse(text({"Submit": "2026-11-21T08:56:26"}), timezone="Europe/Berln")


# On 2026-10-25 in Berlin the clock goes from 03:00 back to 02:00: 02:30 occurs at 00:30 and at 01:30 UTC.


def on_the_night(start: str, end: str, **values: str) -> tuple[datetime, datetime]:
    row = {"Submit": "2026-10-25T01:00:00", "Start": start, "End": end, "Eligible": "2026-10-25T01:00:00", **values}
    got = attempt(row, timezone=BERLIN)
    return got["started_at"], got["ended_at"]  # type: ignore[return-value]  # both are times


@pytest.mark.parametrize(
    ("start", "end", "elapsed", "expected"),
    [
        ("02:30:00", "03:30:00", 7200, (0, 30, 2, 30)),  # began in the first 02:30
        ("02:30:00", "03:30:00", 3600, (1, 30, 2, 30)),  # began in the second
        ("01:30:00", "02:30:00", 3600, (23, 30, 0, 30)),  # ended in the first (23:30 the day before)
        ("01:30:00", "02:30:00", 7200, (23, 30, 1, 30)),  # ended in the second
        ("02:50:00", "02:10:00", 1200, (0, 50, 1, 10)),  # over the change: backwards on the clock
        ("02:10:00", "02:50:00", 6000, (0, 10, 1, 50)),  # both in the repeated hour, an hour apart
    ],
)
def test_elapsed_decides_which_of_the_repeated_hours_is_meant(
    start: str, end: str, elapsed: int, expected: tuple[int, int, int, int]
) -> None:
    began, ended = on_the_night(f"2026-10-25T{start}", f"2026-10-25T{end}", ElapsedRaw=str(elapsed))
    assert (began.hour, began.minute, ended.hour, ended.minute) == expected


def test_the_earlier_hour_is_taken_where_both_fit() -> None:
    began, ended = on_the_night("2026-10-25T02:10:00", "2026-10-25T02:50:00", ElapsedRaw="2400")
    assert (began, ended) == (utc(2026, 10, 25, 0, 10), utc(2026, 10, 25, 0, 50))


def test_suspension_counts_when_the_hour_is_decided() -> None:
    began, _ = on_the_night("2026-10-25T02:30:00", "2026-10-25T03:30:00", ElapsedRaw="3000", Suspended="00:10:00")
    assert began == utc(2026, 10, 25, 1, 30)


def test_unreported_suspension_leaves_the_smaller_gap() -> None:
    began, _ = on_the_night("2026-10-25T02:30:00", "2026-10-25T03:30:00", ElapsedRaw="3000")
    assert began == utc(2026, 10, 25, 1, 30)


def test_a_running_job_did_not_start_before_its_submission() -> None:
    row = {"Submit": "2026-10-25T00:30:00Z", "Start": "2026-10-25T02:10:00", "End": "Unknown", "State": "RUNNING"}
    assert attempt(row, timezone=BERLIN)["started_at"] == utc(2026, 10, 25, 1, 10)


def test_a_time_in_the_hour_left_out_in_spring_is_refused() -> None:
    row = {"Submit": "2026-03-29T01:00:00", "Start": "2026-03-29T02:30:00", "End": "2026-03-29T04:00:00"}
    [(line, reason)] = refusals(parse(text(row), timezone=BERLIN))
    assert line == 2
    assert "no such time in the zone" in reason


def test_a_night_job_in_spring_lasted_an_hour_less() -> None:
    row = {"Submit": "2026-03-29T01:00:00", "Start": "2026-03-29T01:30:00", "End": "2026-03-29T03:30:00"}
    got = attempt({**row, "ElapsedRaw": "3600", "Eligible": ""}, timezone=BERLIN)
    assert got["suspended_s"] == 0
