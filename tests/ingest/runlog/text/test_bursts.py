"""Lines that reach a collector many at a time: their own stamps are their times, else a burst is spread and named."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ingest.errors import TimeZoneError
from ingest.runlog.formats.text import reader
from tests.support.logs.foreign_logs import DAY, codes, events, read, steps

if TYPE_CHECKING:
    from ingest.tables import Parsed

BEGIN = DAY + timedelta(hours=8)
CONTAINERD = "{:%Y-%m-%dT%H:%M:%S.%f}123Z stdout F "
STEP_S, FLUSH_S = 4, 80


def begins_of(parsed: Parsed) -> dict[int, float]:
    """When each step began, in seconds of the day."""
    return {step: begin for step, begin, _ in steps(parsed) if begin is not None}


def ended(step: int) -> datetime:
    return BEGIN + timedelta(seconds=STEP_S * step)


def passed_on(step: int) -> datetime:
    """When the buffer with a step's line is full: the lines follow each other by a few microseconds."""
    return BEGIN + timedelta(seconds=FLUSH_S * (1 + (STEP_S * step) // FLUSH_S), microseconds=step)


def titan(at: datetime, step: int) -> str:
    stamp = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}"
    return f"[titan] {stamp} - root - INFO - step: {step:2}  loss: 12.2  grad_norm: 4.3  memory: 37.0GiB(38.99%)  tps: 1,500  tflops: 8  mfu: 2.8%\n"  # noqa: E501 - as it is printed


def maxtext(at: datetime, step: int) -> str:
    return (
        f"I{at:%m%d %H:%M:%S.%f} 138304841739136 metric_logger.py:226] completed step: {step}, seconds: 4.000, "
        "TFLOP/s/device: 350.869, Tokens/s/device: 19222.175, total_weights: 1572864, loss: 12.980\n"
    )


def megatron(step: int) -> str:
    return (
        f" iteration {step:8}/     900 | consumed samples: {8 * step} | elapsed time per iteration (ms): 4000.0 | "
        "learning rate: 1.0E-4 | global batch size: 8 | lm loss: 9.1E+00 | loss scale: 1.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )


def olmo(at: datetime, step: int) -> str:
    stamp = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"
    return (
        f"{stamp}\tn1:0\tolmo_core.train:82\tINFO\t[step={step}/900,epoch=1]\n    train/CE loss={10 - step / 10:.1f}\n"
    )


@pytest.mark.parametrize("hours", [0, 2, -7])
@pytest.mark.parametrize("line", [titan, maxtext])
def test_own_stamps_are_the_times_behind_late_ones(line: object, hours: int) -> None:
    assert callable(line)
    text = "".join(
        CONTAINERD.format(passed_on(step)) + line(ended(step) + timedelta(hours=hours), step) for step in range(1, 61)
    )
    parsed = read(text, timezone=None)
    first = (1, 28804.0, None) if line is titan else (1, 28800.0, 4.0)  # torchtitan does not log how long it took
    assert steps(parsed) == [first, *((step, 28800.0 + STEP_S * (step - 1), 4.0) for step in range(2, 61))]
    assert "steps_in_bursts" not in codes(parsed)


def test_stamps_of_a_copied_log_say_no_zone() -> None:
    copied = BEGIN + timedelta(hours=9)
    text = "".join(f"{copied:%Y-%m-%dT%H:%M:%S}+0000 " + titan(ended(step), step) for step in range(1, 401))
    with pytest.raises(TimeZoneError, match="2026-10-01 08:00:04"):
        read(text, timezone=None)
    parsed = read(text, timezone="Europe/Berlin")
    assert steps(parsed)[1] == (2, 28800 - 7200 + 4.0, 4.0)


def test_collectors_stamps_in_time_stay_the_times() -> None:
    text = "".join(
        CONTAINERD.format(ended(step) + timedelta(milliseconds=3)) + titan(ended(step), step) for step in range(1, 41)
    )
    assert steps(read(text, timezone=None))[1:] == [
        (step, 28800.003 + STEP_S * (step - 1), 4.0) for step in range(2, 41)
    ]


def test_a_late_line_without_its_own_stamp_has_no_time() -> None:
    text = ""
    for step in range(1, 61):
        late = CONTAINERD.format(passed_on(step))
        text += late + titan(ended(step), step)
        if step == 30:
            text += (
                late + "Saving a checkpoint at step 30\n" + late + "Finished saving the checkpoint in 2.00 seconds\n"
            )
    parsed = read(text, timezone=None)
    begins = list(begins_of(parsed).values())
    assert begins == sorted(begins)
    assert all(begin is None or begin <= 28800 + STEP_S * 31 for _, _, begin, _ in events(parsed))


def test_late_steps_with_durations_end_one_after_the_other() -> None:
    text = "".join(CONTAINERD.format(passed_on(step)) + megatron(step) for step in range(1, 60))
    parsed = read(text)
    begins = begins_of(parsed)
    assert max(begin - (28800 + STEP_S * (step - 1)) for step, begin in begins.items()) < STEP_S + 0.01
    assert all(after - before >= 3.99 for before, after in itertools.pairwise(begins.values()))
    assert [length for _, _, length in steps(parsed)] == [4.0] * 59
    assert "steps_in_bursts" in codes(parsed)


@pytest.mark.parametrize("rows", [3, 7, 100_000])
def test_steps_logged_at_one_instant_share_their_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "SLICE", rows)
    text = "".join(olmo(BEGIN + timedelta(seconds=50 * ((step + 9) // 10)), step) for step in range(1, 101))
    parsed = read(text)
    assert steps(parsed)[:10] == [(step, 28850.0, None) for step in range(1, 11)]
    assert steps(parsed)[10:] == [(step, 28850.0 + 5 * (step - 11), 5.0) for step in range(11, 101)]
    assert parsed.frames["steps"].sort("step")["loss"].to_list() == [round(10 - step / 10, 1) for step in range(1, 101)]
    warned = next(one for one in parsed.warnings if one.code == "steps_in_bursts")
    assert warned.count == 100


def test_steps_of_one_second_are_no_burst() -> None:
    text = "".join(olmo(BEGIN + timedelta(seconds=step // 3), step).replace(".000", "") for step in range(1, 40))
    assert "steps_in_bursts" not in codes(read(text))


def test_fast_steps_are_no_burst() -> None:
    text = "".join(titan(BEGIN + timedelta(milliseconds=5 * step), step) for step in range(1, 201))
    parsed = read(text)
    assert steps(parsed)[1:] == [(step, round(28800 + (step - 1) / 200, 3), 0.005) for step in range(2, 201)]
    assert "steps_in_bursts" not in codes(parsed)


def test_a_save_within_a_burst_lies_between_its_steps() -> None:
    lines = []
    for step in range(1, 41):
        stamp = CONTAINERD.format(passed_on(step))
        lines.append(stamp + megatron(step))
        if step == 25:
            lines.append(stamp + f"  successfully saved checkpoint from iteration {step:7} to /x\n")
    parsed = read("".join(lines))
    begins = begins_of(parsed)
    ((kind, saved, begin, _),) = events(parsed)
    assert (kind, saved) == ("checkpoint_save", 25)
    assert begin is not None
    assert begins[25] < begin <= begins[26]
