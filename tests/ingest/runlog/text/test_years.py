"""Stamps without a year: glog's, syslog's and `10-02 13:23:36`; the year is known, or the log is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest

from ingest.errors import YearError
from tests.support.logs.foreign_logs import read

if TYPE_CHECKING:
    from ingest.tables import Parsed

LINE = "iteration {step:8d}/ 1000 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.5E+00 |"
GLOG: Final = "I{:%m%d %H:%M:%S}.250000 4012 train.py:9] "
SYSLOG: Final = "{:%b %e %H:%M:%S} n1 train[9]: "
SHORT: Final = "INFO {:%m-%d %H:%M:%S} "
DETECTRON: Final = "[{:%m/%d %H:%M:%S} d2] "


def log(form: str, *ends: datetime, before: str = "") -> str:
    return before + "".join(form.format(end) + LINE.format(step=step) + "\n" for step, end in enumerate(ends, 1))


def ends(parsed: Parsed) -> list[str]:
    return [f"{ts:%Y-%m-%d %H:%M}" for ts in parsed.frames["steps"]["ts"]]


OCTOBER = datetime(2025, 10, 2, 13, 23, 36)  # noqa: DTZ001 - logs have local times
SYLVESTER = datetime(2025, 12, 31, 23, 59, 30)  # noqa: DTZ001 - logs write times without a zone
NEW_YEAR = datetime(2026, 1, 1, 0, 0, 30)  # noqa: DTZ001 - logs write times without a zone


@pytest.mark.parametrize("form", [GLOG, SYSLOG, SHORT, DETECTRON])
def test_the_year_is_the_stated_one(form: str) -> None:
    assert ends(read(log(form, OCTOBER), year=2025)) == ["2025-10-02 13:23"]


@pytest.mark.parametrize("form", [GLOG, SYSLOG, SHORT])
def test_behind_new_year_the_next_one_follows(form: str) -> None:
    parsed = read(log(form, SYLVESTER, NEW_YEAR), year=2025)
    assert ends(parsed) == ["2025-12-31 23:59", "2026-01-01 00:00"]


@pytest.mark.parametrize(
    "before", ["Wed Dec 31 20:00:00 CET 2025\n2025-12-31 20:00:00 setting up\n", "[2026-01-02 03:00:00] epilogue\n"]
)
def test_the_year_follows_from_a_whole_date_in_the_log(before: str) -> None:
    assert ends(read(log(SYSLOG, SYLVESTER, NEW_YEAR, before=before))) == ["2025-12-31 23:59", "2026-01-01 00:00"]


def test_the_year_follows_from_begin_or_the_jobs_start() -> None:
    for stated in ({"begin": datetime(2026, 1, 1, tzinfo=UTC)}, {"around": datetime(2026, 1, 1, tzinfo=UTC)}):
        assert ends(read(log(GLOG, SYLVESTER, NEW_YEAR), **stated)) == ["2025-12-31 23:59", "2026-01-01 00:00"]  # type: ignore[arg-type]  # of several types


def test_without_any_year_the_line_to_type_is_named() -> None:
    with pytest.raises(YearError, match=r"line 1: its time has no year: Oct  2 13:23:36\nPass the year .* --year 2026"):
        read(log(SYSLOG, OCTOBER))


def test_a_day_that_is_none_is_no_time() -> None:
    text = log(GLOG, OCTOBER) + "I1399 13:23:40.250000 4012 train.py:9] " + LINE.format(step=2) + "\n"
    assert ends(read(text, year=2025)) == ["2025-10-02 13:23", "2025-10-02 13:23"]


def test_slashes_are_a_date_too() -> None:
    assert ends(read(log("{:%Y/%m/%d %H:%M:%S} ", OCTOBER))) == ["2025-10-02 13:23"]
