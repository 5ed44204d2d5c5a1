"""Step numbers and times that are garbled but possible are no restarts; restarts for a single step stay restarts."""

from __future__ import annotations

import pytest

from ingest.runlog.formats.text import reader
from tests.ingest.runlog.text import test_megatron as megatron
from tests.ingest.runlog.text.test_mutations import LINES, WHOLE, parsed
from tests.support.logs.foreign_logs import read, starts, steps


@pytest.mark.parametrize(
    ("name", "number", "slice_of"), [("torchtitan", 30_000, 100_000), ("torchtitan", 1, 1), ("nanogpt", 8, 2)]
)
def test_garbled_number_is_rejected(name: str, number: int, slice_of: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SLICE", slice_of)
    lines = list(LINES[name])
    lines[4] = lines[4].replace("5", str(number), 1) if name == "nanogpt" else _titan(lines[4], number)
    log = parsed(name, "".join(lines))
    assert steps(log) == WHOLE[name]
    assert log.rejects["raw"].to_list() == [f"step {number} between 4 and 6"]
    assert log.rows_read == log.rows_loaded + log.rows_rejected


def _titan(line: str, number: int) -> str:
    return line.replace("step:  5", f"step:  {number}")


def test_garbled_number_of_one_rank_is_rejected() -> None:
    lines = [[f"{rank}: {line}" for line in LINES["torchtitan"]] for rank in range(2)]
    lines[0][4] = _titan(lines[0][4], 30_000)
    log = parsed("torchtitan", "".join("".join(both) for both in zip(*lines, strict=True)))
    assert steps(log) == WHOLE["torchtitan"]
    assert log.rejects.height == 1


@pytest.mark.parametrize("number", [70, 2])
def test_garbled_progress_bar_is_rejected(number: int) -> None:
    lines = list(LINES["transformers"])
    lines[4] = lines[4].replace(" 5/99", f" {number}/99")
    log = parsed("transformers", "".join(lines))
    assert [step for step, _, _ in steps(log)] == list(range(1, 10))
    assert len(starts(log)) == 1
    assert f"step {number} between 4 and 6" in log.rejects["raw"].to_list()


@pytest.mark.parametrize("stamp", ["2026-10-01 18:00:40", "2026-10-01 03:00:40", "1926-10-01 08:00:40"])
def test_garbled_time_is_rejected(stamp: str) -> None:
    lines = list(LINES["torchtitan"])
    lines[4] = lines[4].replace("2026-10-01 08:00:40", stamp)
    log = parsed("torchtitan", "".join(lines))
    assert steps(log) == WHOLE["torchtitan"]
    assert log.rejects["raw"].to_list() == [f"step 5 at {stamp}.000000"]


def _log(steps_at: dict[str, int]) -> str:
    return megatron.HEAD + "".join(megatron.line(step, at, ms=2000.0) for at, step in steps_at.items())


@pytest.mark.parametrize(
    "restart",
    [
        {"08:00:14": 3, "08:03:30": 1, "08:08:00": 5, "08:08:02": 6},  # time for two more starts
        {"08:00:14": 3, "08:00:16": 1, "08:00:18": 4, "08:00:20": 5},  # no line of a step is missing
        {"08:00:14": 3, "08:00:16": 1, "08:00:18": 2, "08:00:20": 3},  # it goes on from there
    ],
    ids=["pause", "no room", "goes on"],
)
def test_restart_for_a_step_is_no_garbled_number(restart: dict[str, int]) -> None:
    log = read(_log({"08:00:10": 1, "08:00:12": 2} | restart))
    assert log.rejects.is_empty()
    assert len(starts(log)) == 2
