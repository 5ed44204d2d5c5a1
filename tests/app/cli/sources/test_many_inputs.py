"""Messages about many inputs: what is the same of many is said once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

LINE = (
    "{at:%Y-%m-%dT%H:%M:%S}Z iteration {step:8d}/ 500 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.5E+00 |\n"
)


def log_of(number: int, zone: str = "Z") -> str:
    at = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(hours=number)
    return LINE.format(at=at, step=number + 1).replace("Z iteration", f"{zone} iteration")


def ingested(folder: Path) -> tuple[int, str]:
    done = trackside("ingest", "runlog", str(folder), "--warehouse", str(folder.parent / "w"))
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_warning_of_many_logs_is_printed_once(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number in range(5):
        (tmp_path / "logs" / f"{number}.out").write_text(log_of(number))
    (tmp_path / "logs" / "README.md").write_text("hello\n")
    status, stderr = ingested(tmp_path / "logs")
    assert status == 0
    assert stderr.count("tokens of a step") == 1
    assert "warning of 5 inputs: the tokens of a step" in stderr
    assert "passed over: files without a step of training: 1 (README.md)" in stderr
    assert "\n5 files: " in stderr


@pytest.mark.slow
def test_of_very_many_errors_the_rest_is_counted(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number in range(30):
        (tmp_path / "logs" / f"{number:02d}.out").write_text(log_of(number, zone=""))
    status, stderr = ingested(tmp_path / "logs")
    assert status != 0
    assert stderr.count("Pass the zone of the machine") == 21
    assert "trackside: 9 more could not be loaded: 9 such as " in stderr
    assert "29.out line 1: its time is a local time without an offset" in stderr
