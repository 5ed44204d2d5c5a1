"""Step numbers and times that are garbled but possible are no restarts; restarts for a single step stay restarts."""

from __future__ import annotations

import polars as pl
import pytest

from ingest.runlog.formats.text import reader
from ingest.runlog.formats.text.garbled import GarbledSteps
from ingest.runlog.lines import UNCONFIRMED
from ingest.runlog.text_format import builtin
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


@pytest.mark.parametrize("n_behind", [0, 1])
def test_garbled_number_at_the_end_is_no_step_yet(n_behind: int) -> None:
    lines = [*LINES["torchtitan"][:5], LINES["torchtitan"][5].replace("step:  6", "step:  60")]
    lines += LINES["torchtitan"][6 : 6 + n_behind]
    log = parsed("torchtitan", "".join(lines))
    assert [step for step, _, _ in steps(log)] == [*range(1, 6 if n_behind == 0 else 8)]
    ((reason, raw),) = log.rejects.select("reason", "raw").rows()
    assert (reason == UNCONFIRMED, "loss:" in raw) == (n_behind == 0, n_behind == 0)
    assert log.frames["run_sessions"].height == 1


def test_step_far_ahead_at_the_end_counts_if_its_time_is_too() -> None:
    lines = [megatron.line(n, f"08:00:{2 * n:02d}") for n in (1, 2, 3)]
    assert [step for step, _, _ in steps(read("".join([*lines, megatron.line(40, "08:01:20")])))][-1] == 40


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


def _every(interval_s: int, numbers: dict[int, int]) -> str:
    """Lines of these numbers at these multiples of the interval."""
    ends = {n * interval_s: step for n, step in numbers.items()}
    return _log({f"{8 + at // 3600:02d}:{at // 60 % 60:02d}:{at % 60:02d}": step for at, step in ends.items()})


@pytest.mark.parametrize(
    ("interval_s", "numbers"),
    [
        (600, {0: 80, 1: 90, 2: 100, 6: 1, 10: 120, 11: 130}),
        (300, {0: 80, 1: 90, 2: 100, 5: 90, 8: 120, 9: 130}),
        (120, {0: 8, 1: 9, 2: 10, 3: 1, 4: 12, 5: 13}),
        (10, {0: 80, 1: 90, 2: 100, 4: 1, 6: 120, 7: 130}),
    ],
)
def test_restart_between_slow_steps_is_no_garbled_number(interval_s: int, numbers: dict[int, int]) -> None:
    log = read(_every(interval_s, numbers))
    assert log.rejects.is_empty()
    assert len(starts(log)) == 2


@pytest.mark.parametrize("name", ["torchtitan", "nanogpt"])
def test_lines_that_are_mixed_up_are_not_garbled(name: str) -> None:
    """Two lines are swapped: what stands in place of 3 is no 3, but 3 stands where 7 was."""
    lines = list(LINES[name])
    lines[2], lines[6] = lines[6], lines[2]
    assert parsed(name, "".join(lines)).rejects.is_empty()


def test_restart_without_times_is_no_garbled_number() -> None:
    lines = list(LINES["nanogpt"])
    lines[4] = lines[1]
    log = parsed("nanogpt", "".join(lines))
    assert log.rejects.is_empty()
    assert len(starts(log)) == 2


def test_garbled_numbers_do_not_depend_on_slices() -> None:
    """The short interval behind the restart is in the next slice."""
    form = next(form for form in builtin() if form.name == "megatron")
    steps_at = {"step": [10.0, 20.0, 3.0, 40.0, 50.0, 60.0], "at": [n * 1_000_000 for n in (0, 20, 40, 59, 60, 61)]}
    kind = pl.lit(form.numbers_of("step")[0], dtype=pl.Int16)
    place = {"line": pl.int_range(6), "part": pl.lit(0, dtype=pl.Int32)}
    numbers = dict.fromkeys(("elapsed_s", "total"), pl.lit(None, dtype=pl.Float64))
    nothing = {"writer": pl.lit(None, dtype=pl.String), **numbers}
    records = pl.DataFrame(steps_at).with_columns(kind=kind, unit=1_000_000, **place, **nothing)
    garbled = GarbledSteps(form)
    for record in records.iter_slices(1):
        garbled.take(record)
    assert garbled.found.is_empty()


def test_garbled_numbers_do_not_mix_lines_of_a_clock_set_back() -> None:
    """The numbers are rejected before it is decided which order the lines have."""
    numbers = {n: n if n % 5 else 900 + n for n in range(1, 35)}
    stamps = {n: 200 + 4 * n - 20 * (n > 7) for n in numbers}
    text = "".join(megatron.line(numbers[n], f"08:{at // 60:02d}:{at % 60:02d}", ms=4000.0) for n, at in stamps.items())
    log = read(text)
    assert log.rejects.height == 6
    assert len(starts(log)) == 1
