"""Times at the beginning of lines in unusual forms: read, or refused with what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ingest.errors import UntimedError
from ingest.runlog.envelopes import stamps
from ingest.runlog.envelopes.stamps import restamped
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
    assert b"".join(restamped([text])) == text
    late = text + text.replace(b"04 ", b"05 ")
    monkeypatch.setattr(stamps, "SEARCHED", len(text))
    assert b"".join(restamped([text, late])) == text + late


@pytest.mark.parametrize("form", ["%m/%d/%Y %H:%M:%S ", "%m/%d/%Y %I:%M:%S %p ", "%Y-%m-%d %H:%M "])
def test_ambiguous_time_is_refused_with_advice(form: str) -> None:
    with pytest.raises(UntimedError, match=r"The time in line 1 is not read: .*\n.*\n.*sed -E"):
        read(log(form))


def test_time_in_utc_needs_no_zone() -> None:
    assert steps(read(log("%Y-%m-%d %H:%M:%S UTC "), timezone=None))[0] == (1, 28_800, 4.0)
