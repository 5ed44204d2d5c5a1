"""A text log that grows, is cut anywhere, is rotated and renamed between loads: each step once, none lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import polars as pl
import pytest

from ingest.runlog import store
from ingest.runlog.translation import LogRequest
from queries.warehouse import open_writer
from tests.ingest.runlog.text import test_other_formats as of_trainer
from tests.ingest.runlog.text import test_torchtitan as titan
from tests.support.command import assert_same, contents

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, tzinfo=UTC)
BEGIN = datetime(2026, 10, 1, 8, tzinfo=UTC)


def iteration(step: int, begin: datetime = BEGIN) -> str:
    at = begin + timedelta(seconds=2 * step)
    words = f"iteration {step:8d}/ 500 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.{step % 10}5E+00 |"
    return f"{at:%Y-%m-%dT%H:%M:%S}Z {words}\n"


LINES = [iteration(step) for step in range(1, 25)]


def load(warehouse: Path, *names: Path, logs: LogRequest | None = None) -> None:
    with open_writer(warehouse, verb="test", now=NOW) as writer:
        files = [str(name) for name in names]
        reports = store.ingest_files(writer, files, cluster="c", now=NOW, progress=lambda *_: None, logs=logs)
    assert [report.error for report in reports] == [None] * len(names)


def steps(warehouse: Path) -> list[int]:
    return contents(warehouse)["steps"].sort("ts")["step"].to_list()


@pytest.mark.slow
def test_a_log_loaded_at_any_length_is_the_log_loaded_once(tmp_path: Path) -> None:
    text, log = "".join(LINES), tmp_path / "train.log"
    for size in (*range(150, len(text), 313), len(text)):
        log.write_text(text[:size])
        load(tmp_path / "grown", log)
    load(tmp_path / "once", log)
    assert_same(tmp_path / "grown", tmp_path / "once")


@pytest.mark.slow
def test_a_log_loaded_behind_a_garbled_line_is_read_whole_later(tmp_path: Path) -> None:
    """Where that is its last line, the one before it, and where the number turns out to be right."""
    lines, log = [*LINES[:8], LINES[8].replace(" 9/", " 9009/"), *LINES[9:12]], tmp_path / "train.log"
    for size in (9, 10, 12):
        log.write_text("".join(lines[:size]))
        load(tmp_path / "grown", log)
    load(tmp_path / "once", log)
    assert_same(tmp_path / "grown", tmp_path / "once")
    ahead = "".join([*LINES[:8], LINES[8].replace(" 9/", " 3001/"), LINES[9].replace(" 10/", " 3002/")])
    for text in (ahead[: ahead.rindex("\n", 0, -1) + 1], ahead):
        log.write_text(text)
        load(tmp_path / "ahead", log)
    assert steps(tmp_path / "ahead")[-2:] == [3001, 3002]
    assert contents(tmp_path / "ahead")["rejects"].is_empty()


@pytest.mark.slow
def test_a_log_loaded_before_its_first_loss_has_no_step_twice(tmp_path: Path) -> None:
    """DeepSpeed prints the end of a step of the Trainer long before the first loss: its length is that of the bar."""
    drawn, loss, rest = of_trainer.with_deepspeed(1, 17, 0).partition("{'loss'")
    printed = f"{drawn}\n{of_trainer.DEEPSPEED.format(5, '00:00:10,000')}"
    log, logs = tmp_path / "train.log", LogRequest(timezone="UTC")
    for text in (printed, printed + loss + rest):
        log.write_text(text)
        load(tmp_path / "grown", log, logs=logs)
    load(tmp_path / "once", log, logs=logs)
    grown, once = (contents(tmp_path / name)["steps"].sort(pl.all()) for name in ("grown", "once"))
    assert grown.equals(once)
    assert grown["step"].is_unique().all()


@pytest.mark.slow
def test_a_log_loaded_within_a_coloured_line_is_read_whole_later(tmp_path: Path) -> None:
    """After a few characters of it, and within its colours, of which none is left in the text that is read."""
    text, log = (
        titan.FRESH + "".join(titan.line(n, f"08:00:{20 + 4 * n},000") for n in (1, 2, 3)),
        tmp_path / "train.log",
    )
    begin = text.rindex("\n", 0, -1) + 1
    colours = [place for place in range(begin, len(text)) if text[place] == "\x1b"]
    assert len(colours) > 2
    for size in (begin + 1, begin + 9, colours[0] + 2, colours[1] + 3, colours[2] + 1, len(text)):
        log.write_text(text[:size])
        load(tmp_path / "grown", log, logs=LogRequest(timezone="UTC"))
        assert contents(tmp_path / "grown")["rejects"].height == (size < len(text))
    load(tmp_path / "once", log, logs=LogRequest(timezone="UTC"))
    assert_same(tmp_path / "grown", tmp_path / "once")


@pytest.mark.slow
@pytest.mark.parametrize("truncated", [True, False])
def test_a_rotated_log_has_each_step_once(tmp_path: Path, *, truncated: bool) -> None:
    """Copied and truncated where it was, or renamed, between two loads and again before the next."""
    log, before = tmp_path / "train.log", tmp_path / "train.log.1"
    log.write_text("".join(LINES[:10]))
    load(tmp_path / "w", log)
    if truncated:
        before.write_text(log.read_text())
    else:
        log.rename(before)
    for last in (15, 24, 24):
        log.write_text("".join(LINES[10:last]))
        load(tmp_path / "w", log, before)
    assert steps(tmp_path / "w") == list(range(1, 25))


@pytest.mark.slow
def test_a_line_cut_in_two_by_rotation_is_refused_alone(tmp_path: Path) -> None:
    log, before = tmp_path / "train.log", tmp_path / "train.log.1"
    before.write_text("".join(LINES[:10]) + LINES[10][:80])
    log.write_text(LINES[10][80:] + "".join(LINES[11:]))
    load(tmp_path / "w", log, before)
    assert steps(tmp_path / "w") == [step for step in range(1, 25) if step != 11]
    assert contents(tmp_path / "w")["rejects"]["raw"].to_list() == [LINES[10][:80]]


@pytest.mark.slow
def test_a_run_resumed_into_its_file_runs_steps_again(tmp_path: Path) -> None:
    log, later = tmp_path / "train.log", BEGIN + timedelta(hours=1)
    log.write_text("".join(LINES) + "".join(iteration(step, later) for step in range(11, 31)))
    load(tmp_path / "w", log)
    assert steps(tmp_path / "w") == [*range(1, 25), *range(11, 31)]
    assert contents(tmp_path / "w")["run_sessions"].height == 2


@pytest.mark.slow
@pytest.mark.parametrize("begin", [datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 3, 29, tzinfo=UTC)])
def test_local_times_where_the_clock_is_changed_go_on(tmp_path: Path, begin: datetime) -> None:
    zone = ZoneInfo("Europe/Berlin")
    local = [(begin + timedelta(minutes=minute)).astimezone(zone) for minute in range(180)]
    line = "{0:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {1}  loss:  2.5  tps: 1,000  tflops: 1.0  mfu: 1.0%\n"
    (tmp_path / "train.log").write_text("".join(line.format(at, step) for step, at in enumerate(local, 1)))
    load(tmp_path / "w", tmp_path / "train.log", logs=LogRequest(timezone="Europe/Berlin"))
    ends = (
        contents(tmp_path / "w")["steps"]
        .sort("ts")
        .select(pl.col("ts") + pl.duration(microseconds=pl.col("duration_s").fill_null(0) * 1_000_000))
    )
    assert ends.to_series().diff().drop_nulls().unique().to_list() == [timedelta(minutes=1)]
