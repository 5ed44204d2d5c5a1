"""Times at the beginning of lines in unusual forms: read, or refused with what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ingest.errors import TimeZoneError, UntimedError, YearError
from ingest.runlog.envelopes import stamps
from ingest.runlog.envelopes.stamps import restamped
from ingest.runlog.text_format import parse_format
from tests.ingest.runlog.text.test_megatron import old_line
from tests.support.logs.foreign_logs import DAY, read, steps

FORMS = {
    "compact": "%Y%m%d-%H:%M:%S ",
    "digits": "[%Y%m%d_%H%M%S] ",
    "dots": "2: %Y.%m.%d %H:%M:%S.500 ",
    "ctime": "%a %b %d %H:%M:%S UTC %Y ",
    "apache": "[%d/%b/%Y:%H:%M:%S +0000] ",
    "german": "%d.%m.%Y %H:%M:%S ",
    "seconds": "%s.250 ",
    "milliseconds": "%s250: ",
}
AHEAD = {"dots": 0.5, "seconds": 0.25, "milliseconds": 0.25}


def log(form: str) -> str:
    moments = {n: DAY + timedelta(hours=8, seconds=4 * n) for n in range(1, 6)}
    stamp = {n: moment.strftime(form.replace("%s", str(int(moment.timestamp())))) for n, moment in moments.items()}
    return "".join(f"{stamp[n]}iter {n}: loss 2.5000, time 4000.00ms, mfu 31.20%\n" for n in moments)


@pytest.mark.parametrize("name", FORMS)
def test_time_in_an_unusual_form_is_read(name: str) -> None:
    ahead = 28_800 + AHEAD.get(name, 0)
    assert steps(read(log(FORMS[name]))) == [(n, ahead + 4 * (n - 1), 4.0) for n in range(1, 6)]


RICH = """\
[10/01/26 08:00:04] INFO     iter 1: loss 2.5000, time 4000.00ms, mfu 31.20%     train.py:12
[10/01/26 08:00:08] WARNING  saving                                              train.py:15
                    INFO     iter 2: loss 2.5000, time 4000.00ms, mfu 31.20%     train.py:12
"""


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_line_of_rich_without_a_time_has_the_one_before(size: int) -> None:
    assert steps(read(RICH, chunk=size)) == [(1, 28_800, 4.0), (2, 28_804, 4.0)]


def test_name_of_a_run_before_lines_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"20261001_080004 step 1\n20261001_080004 step 2\n"
    every = lambda _, forms: forms  # noqa: E731 - all of them
    assert b"".join(restamped([text], every)) == text
    late = text + text.replace(b"04 ", b"05 ")
    monkeypatch.setattr(stamps, "SEARCHED", len(text))
    assert b"".join(restamped([text, late], every)) == text + late


NUMBERS = "1543714304 parameters\n1610612736 tokens per epoch\n"


@pytest.mark.parametrize(
    "text",
    [
        NUMBERS + "".join(old_line(n) for n in range(1, 9)),
        "".join(f"{1790841604 - 4 * n} iter {n}: loss 2.5000, time 4000.00ms, mfu 31.20%\n" for n in range(1, 9)),
    ],
    ids=["before steps", "decreasing"],
)
def test_large_numbers_before_lines_are_no_times(text: str) -> None:
    with pytest.raises(UntimedError):
        read(text)


def test_large_numbers_give_no_year() -> None:
    line = "I1001 08:00:{:02d}.000000 1 trainer.py:905] trainer process   0 step {:8d}] loss=2.4312 aux={{}}\n"
    with pytest.raises(YearError):
        read(NUMBERS + "".join(line.format(4 * n, n) for n in range(1, 9)))


def test_format_of_ones_own_that_reads_the_number_goes_before() -> None:
    fields = {"step": r"it (\d+)", "total_tokens": r"^(\d+) tokens"}
    own = {"name": "own", "line": [{"kind": "step", "starts": r"^\d+ tokens, it \d+", "fields": fields}]}
    text = "".join(f"{1790841604 + n} tokens, it {n} at 2026-10-01 08:00:{4 * n:02d}\n" for n in range(1, 5))
    log = read(text, formats=(parse_format(own, origin="here"),))
    assert [seconds for _, seconds, _ in steps(log)][1:] == [28_804, 28_808, 28_812]


def test_rejects_have_the_text_of_the_file() -> None:
    text = log("%s.250 ")
    damaged = "1790841630.5 iter 6: loss 2.5000, time soon\n"
    assert read(text + damaged).rejects["raw"].to_list() == [damaged.strip()]


@pytest.mark.parametrize(
    ("form", "has_sed"),
    [("%m/%d/%Y %H:%M:%S ", True), ("%m/%d/%Y %I:%M:%S %p ", False), ("%Y-%m-%d %H:%M ", False)],
)
def test_ambiguous_time_is_refused_with_advice(form: str, has_sed: bool) -> None:
    with pytest.raises(UntimedError, match="The time in line 1 is not read: ") as refused:
        read(log(form))
    assert ("sed -E" in str(refused.value)) == has_sed


def test_name_of_a_zone_is_not_left_out() -> None:
    with pytest.raises(YearError):
        read(log("%a %b %d %H:%M:%S CEST %Y "))


def test_time_in_utc_needs_no_zone() -> None:
    assert steps(read(log("%Y-%m-%d %H:%M:%S UTC "), timezone=None))[0] == (1, 28_800, 4.0)
    assert steps(read(log("%Y-%m-%d %H:%M:%S GMT "), timezone=None))[0] == (1, 28_800, 4.0)


def test_offset_of_hours_alone_is_one_but_no_part_of_a_name() -> None:
    assert steps(read(log("[%Y-%m-%d %H:%M:%S+02] "), timezone=None))[0] == (1, 21_600, 4.0)
    assert steps(read(log("%Y-%m-%d %H:%M:%S,500-05 "), timezone=None))[0] == (1, 46_800.5, 4.0)
    assert steps(read(log("%Y-%m-%d %H:%M:%S-05-node3 ")))[0] == (1, 28_800, 4.0)


def test_lines_with_and_without_a_time_keep_their_order() -> None:
    first, *others = log("%Y-%m-%d %H:%M:%S ").splitlines(keepends=True)
    mixed = [line if n % 2 else line[20:] for n, line in enumerate(others)]
    plain = [step for step, _, _ in steps(read("".join([first, *others])))]
    assert [step for step, _, _ in steps(read("".join([first, *mixed])))] == plain


@pytest.mark.parametrize(
    ("zone", "begin"), [("UTC+02:00", 21_600), ("GMT-0500", 46_800), ("UTC+2", 21_600), ("UTC-7b", 28_800)]
)
def test_offset_behind_the_name_of_utc_is_read(zone: str, begin: int) -> None:
    assert steps(read(log(f"%Y-%m-%d %H:%M:%S {zone} "), timezone=None))[0] == (1, begin, 4.0)


def test_name_of_a_zone_is_named_where_the_zone_is_lacking() -> None:
    text = log("%Y-%m-%d %H:%M:%S CEST ")
    with pytest.raises(TimeZoneError, match="CEST is no zone: several have the same name"):
        read(text, timezone=None)
    assert steps(read(text, timezone="Europe/Berlin"))[0] == (1, 21_600, 4.0)
