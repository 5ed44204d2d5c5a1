"""A log without times is refused with what its file's own time says of its begin: a guess that is never used."""

from __future__ import annotations

import os
import shlex
import tarfile
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN = 1_790_841_600.7
"""2026-10-01T08:00:00Z, and a part of a second."""

NANOGPT = "".join(f"iter {n}: loss 3.{n:04d}, time 1500.00ms, mfu 30.00%\n" for n in range(100))
CSV = "epoch,step,step_time,train_loss\n0,0,2.0,2.5\n0,1,3.0,2.4\n0,3,1.0,1.0\n"
STATE = '{"log_history": [{"loss": 2.5, "step": 10}, {"loss": 2.2, "step": 20}, {"train_runtime": 44.0, "step": 20}]}'
UNCLEAR = CSV.replace("step_time", "other")
CLOCK = "".join(f"12:00:0{n} (pid=1) step:{n} - actor/pg_loss:-0.01 - timing_s/step:1.5\n" for n in range(5))


def refused(folder: Path, name: str, text: str, *options: str) -> str:
    """What the message of a log says that was written at `WRITTEN`; nothing of it is loaded."""
    (folder / name).write_text(text)
    os.utime(folder / name, (WRITTEN, WRITTEN))
    done = trackside("ingest", "runlog", name, "--warehouse", "w", *options, cwd=folder)
    assert done.returncode != 0
    with open_reader(folder / "w") as reader:
        assert reader.table("steps").is_empty()
    return done.stderr


@pytest.mark.parametrize(
    ("name", "text", "took_s", "begin"),
    [
        ("train.log", NANOGPT, 150, "2026-10-01T07:57:30Z"),
        ("metrics.csv", CSV, 7, "2026-10-01T07:59:53Z"),
        ("trainer_state.json", STATE, 44, "2026-10-01T07:59:16Z"),
    ],
)
def test_command_with_the_guess_loads_the_log(tmp_path: Path, name: str, text: str, took_s: int, begin: str) -> None:
    """With the facts that were stated; the last step then ends within the second in which the file was written."""
    output = refused(tmp_path, name, text, "--set", "gpu_model=H100 SXM", "--set", "gated=true")
    assert f"The file was last written at 2026-10-01T08:00:00Z, and what it records took {took_s} s" in output
    assert "That is a guess" in output
    command = shlex.split(output.splitlines()[-1])
    assert command == ["trackside", "ingest", "runlog", name, "--begin", begin, "--set", "gpu_model=H100 SXM", "--set",
                       "gated=true"]  # fmt: skip
    assert trackside(*command[1:], "--warehouse", "w", cwd=tmp_path).returncode == 0
    with open_reader(tmp_path / "w") as reader:
        assert reader.table("run_sessions").height == 1
        ends = [start.timestamp() + took for start, took in reader.table("steps").select("ts", "duration_s").rows()]
    assert max(ends) == pytest.approx(int(WRITTEN))


@pytest.mark.parametrize("text", [UNCLEAR, CSV.replace("2.0", "1e300"), CSV.replace("2.0", "-9")])
def test_without_durations_no_begin_is_guessed(tmp_path: Path, text: str) -> None:
    output = refused(tmp_path, "metrics.csv", text)
    assert "The file was last written at 2026-10-01T08:00:00Z, or copied then: the log begins before that" in output
    assert "guess" not in output


def test_times_of_day_need_the_date_alone(tmp_path: Path) -> None:
    output = refused(tmp_path, "train.log", CLOCK)
    assert "The file was last written at 2026-10-01T08:00:00Z" in output
    assert "guess" not in output


def test_log_in_an_archive_has_no_time(tmp_path: Path) -> None:
    """What unpacking writes is written now."""
    (tmp_path / "metrics.csv").write_text(CSV)
    with tarfile.open(tmp_path / "logs.tar", "w") as archive:
        archive.add(tmp_path / "metrics.csv", "metrics.csv")
    done = trackside("ingest", "runlog", "logs.tar", "--warehouse", "w", cwd=tmp_path)
    assert "has no times" in done.stderr
    assert "last written" not in done.stderr


def test_pipe_has_no_time(tmp_path: Path) -> None:
    pipe = tmp_path / "train.log"
    os.mkfifo(pipe)
    Thread(target=pipe.write_text, args=(NANOGPT,), daemon=True).start()
    done = trackside("ingest", "runlog", "train.log", "--warehouse", "w", cwd=tmp_path)
    assert "have no times" in done.stderr
    assert "last written" not in done.stderr
