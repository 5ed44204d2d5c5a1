"""Real training loops on a GPU, killed and resumed (`data/runlog/gpu_trainers/make.py`): logs against their truth."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from ingest.errors import UntimedError
from tests.support.logs.binary_logs import DATA
from tests.support.logs.foreign_logs import codes, read
from tests.support.logs.run_logs import parse_runlog

if TYPE_CHECKING:
    import polars as pl

    from ingest.tables import Parsed

LOGS = DATA / "gpu_trainers"
TRUTH = json.loads((LOGS / "truth.json").read_text())
BEGIN = datetime(2026, 11, 27, 23, 53, 6, tzinfo=UTC)
PEAK_BF16 = 989.4
"""TFLOP/s of an H100 SXM."""


def knew(run: str, *, last: tuple[int, int] = (10**9, 10**9)) -> list[tuple[int, float, float]]:
    """What both processes of a run knew of their steps, up to the last one that each could log."""
    both = zip((f"{run}-first", f"{run}-second"), last, strict=True)
    return [tuple(step) for name, most in both for step in TRUTH[name] if step[0] <= most]


def loaded(name: str, **stated: Any) -> Parsed:
    return read((LOGS / name).read_bytes(), **stated)


def recorded(run: str) -> Parsed:
    """The recorder's log of a run."""
    return parse_runlog((LOGS / f"{run}.jsonl").read_bytes(), cluster="c")


def assert_numbers(steps: pl.DataFrame, truth: list[tuple[int, float, float]]) -> None:
    assert steps.sort("ts")["step"].to_list() == [number for number, _, _ in truth]


@pytest.mark.parametrize("run", ["loop", "trainer", "lightning"])
def test_recorder_has_each_step_as_the_loop_knew_it(run: str) -> None:
    steps = recorded(run).frames["steps"].sort("ts")
    truth = knew(run)
    assert_numbers(steps, truth)
    for row, (_, began, ended) in zip(steps.iter_rows(named=True), truth, strict=True):
        assert row["ts"].timestamp() + row["duration_s"] == pytest.approx(ended, abs=2e-3)
        assert row["duration_s"] == pytest.approx(ended - began, abs=2e-3)


def test_recorder_mfu_is_below_the_rate_of_products() -> None:
    """54 % of the peak in the median step, of which products of matrices alone reach 77 %, and the MLP's shape 69 %."""
    log = recorded("loop")
    steps, rate = log.frames["steps"], json.loads((LOGS / "rate.json").read_text())
    (session, *_) = log.frames["run_sessions"].rows(named=True)
    assert session["params"] == rate["params"]
    assert session["gpu_model"] == "NVIDIA H100 80GB HBM3"
    layers, heads, head_dim, seq_len = (session[name] for name in ("layers", "heads", "head_dim", "seq_len"))
    flops = 6 * rate["params"] + 12 * layers * heads * head_dim * seq_len  # a token, as PaLM counts
    tflops = flops * steps["tokens"][0] / steps["duration_s"].median() / 1e12
    assert tflops / PEAK_BF16 == pytest.approx(0.54, abs=0.005)
    assert tflops < rate["tflops"]["mlp"] < rate["tflops"]["square"] < PEAK_BF16


def test_trainer_stdout_has_the_steps_of_both_processes() -> None:
    """A step that is killed in its callback is not printed. Times are the seconds since training began, as printed."""
    parsed = loaded("trainer.log", begin=BEGIN)
    steps, truth = parsed.frames["steps"].sort("ts"), knew("trainer", last=(69, 119))
    assert_numbers(steps, truth)
    assert parsed.rejects.is_empty()
    for row, (number, began, ended) in zip(steps.iter_rows(named=True), truth, strict=True):
        assert row["tokens"] == (512 if number > 1 or row["loss"] == 4.548 else None) or number == 61
        if number not in {1, 61}:
            gap = 0.2 if number % 20 == 1 else 0.03  # a save lies before it
            assert row["duration_s"] == pytest.approx(ended - began, abs=gap)
    saves = parsed.frames["run_events"].filter(kind="checkpoint_save")["step"].sort().to_list()
    assert saves == [20, 40, 60, 80, 100]


def test_trainer_stdout_has_the_driver_and_both_starts() -> None:
    frames = loaded("trainer.log", begin=BEGIN).frames
    assert frames["run_sessions"].height == 2
    assert frames["run_events"].filter(kind="driver")["detail"].to_list() == ["580.159.04"]


def test_trainer_state_has_the_time_of_each_step() -> None:
    parsed = loaded("trainer_state.json", begin=BEGIN)
    steps = parsed.frames["steps"].sort("ts")
    assert steps["step"].to_list() == list(range(1, 101))
    assert set(steps["tokens"]) == {512}
    lengths = dict(steps.select("step", "duration_s").rows())
    for number, began, ended in TRUTH["trainer-first"][1:19]:
        assert lengths[number] == pytest.approx(ended - began, abs=0.03)
    assert lengths[61] == pytest.approx(0.9748, abs=1e-3)
    assert codes(parsed) == ["times_reckoned"]


@pytest.mark.parametrize(("name", "first", "last"), [("first", 0, 68), ("second", 60, 118)])
def test_lightning_csv_has_the_steps_of_its_process(name: str, first: int, last: int) -> None:
    """It flushes behind the step after the one that it logs."""
    steps = loaded(f"csv/{name}.csv", begin=BEGIN).frames["steps"].sort("ts")
    assert steps["step"].to_list() == list(range(first, last + 1))
    assert steps["duration_s"].to_list() == pytest.approx([0.05] * steps.height)


@pytest.mark.parametrize("name", ["csv/first.csv", "trainer_state.json", "trainer.log"])
def test_a_begin_is_of_one_log_without_times(name: str) -> None:
    with pytest.raises(UntimedError, match=r"several would overlap\.\nLoad it by itself"):
        loaded(name, begin=BEGIN, several=True)
