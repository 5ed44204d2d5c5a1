"""Lines taken together give what lines taken one by one give: restarts, saves, several ranks, coarse stamps."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ingest.errors import UntimedError
from ingest.runlog.formats.text import plain
from tests.ingest.runlog.text import test_megatron as megatron
from tests.support.logs.foreign_logs import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingest.tables import Parsed

BEGIN = datetime(2026, 10, 1, 8, tzinfo=UTC)


def written(seed: int) -> str:
    """A log of Megatron-LM: means over several iterations, lines of two ranks, saves without a time, restarts."""
    chance = random.Random(seed)
    lines, now, step = [megatron.HEAD], BEGIN, 0
    fraction, interval = chance.choice(["", ".%f"]), chance.choice([1, 1, 2, 5])
    for _ in range(chance.randint(1, 3)):
        for _ in range(chance.randint(1, 25)):
            step += interval
            took = chance.uniform(0.4, 2)
            now += timedelta(seconds=took * interval)
            stamp = now.strftime(f"%Y-%m-%d %H:%M:%S{fraction}Z")
            sizes = chance.choice(["", "", " global batch size:   256 |"])
            line = (
                f"[{stamp}] iteration {step:8d}/ 5000 | elapsed time per iteration (ms): {took * 1000:.1f} |"
                f"{sizes} lm loss: {chance.random():.3E} |\n"
            )
            lines += [line] * chance.choice([1, 1, 1, 1, 2])
            if chance.random() < 0.1:
                lines.append(f"saving checkpoint at iteration {step:7d} to /ckpt in torch format\n")
                now += timedelta(seconds=chance.uniform(0, 3))
                lines.append(f"  successfully saved checkpoint from iteration {step:7d} to /ckpt\n")
            if chance.random() < 0.05:
                step += chance.choice([0, 3, 2_000])
        step = max(0, step - chance.randint(0, 4))
        now += timedelta(seconds=chance.uniform(0, 60))
    return "".join(lines)


@pytest.mark.parametrize("is_stamped", [True, False])
@pytest.mark.parametrize("digits", [20, 40, 400])
def test_garbled_duration_costs_no_other_step(digits: int, *, is_stamped: bool) -> None:
    lines = [megatron.HEAD]
    for step in range(1, 81):
        now = f"[{BEGIN + timedelta(seconds=step):%Y-%m-%d %H:%M:%S}Z]" if is_stamped or step == 1 else ""
        took = "9" * digits if step == 50 else "1000.0"
        lines.append(
            f"{now} iteration {step:8d}/ 5000 | elapsed time per iteration (ms): {took} | lm loss: 1.0E+00 |\n"
        )
    steps = read("".join(lines)).frames["steps"]
    assert steps.height >= 79
    assert steps["duration_s"].drop_nulls().max() == 1.0


def titan(seed: int) -> str:
    """A log of torchtitan, whose lines have a stamp and no duration: saves, two ranks, restarts, a clock set back."""
    chance = random.Random(seed)
    lines, now, step = [], BEGIN, 0
    interval = chance.choice([1, 1, 2, 10])

    def said(text: str) -> str:
        return f"[titan] {now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} - root - INFO - {text}\n"

    for _ in range(chance.randint(1, 3)):
        lines += [said("Starting job: training")] * chance.choice([0, 1])
        for _ in range(chance.randint(1, 25)):
            step += interval
            now += timedelta(seconds=chance.uniform(0.0, 2) * interval - (chance.random() < 0.05) * 3)
            lines += [said(f"step: {step:2d}  loss: {chance.random():8.5f}  tps: 4,096  mfu: 41.69%")] * chance.choice(
                [1, 1, 1, 2]
            )
            if chance.random() < 0.1:
                lines.append(said("Saving the checkpoint (or staging if async is enabled)."))
                now += timedelta(seconds=chance.uniform(0, 3))
                lines.append(said("Finished saving the checkpoint (or staging if async is enabled)in 2.00 seconds."))
            step += chance.choice([0, 3, 2_000]) if chance.random() < 0.05 else 0
        step = max(0, step - chance.randint(0, 4) * interval)
    return "".join(lines)


def nemo(seed: int) -> str:
    """A log of NeMo, whose lines have a duration and no time: stamped saves between, restarts, steps left out."""
    chance = random.Random(seed)
    lines, step = [], 0
    for _ in range(chance.randint(1, 3)):
        lines += ["GPU available: True (cuda), used: True\n"] * chance.choice([0, 1])
        for _ in range(chance.randint(1, 25)):
            step += chance.choice([1, 1, 1, 1, 3, 2_000])
            line = (
                f"Training epoch 0, iteration {step}/9999 | lr: 6.897e-06 | global_batch_size: 256 | "
                f"global_step: {step} | reduced_train_loss: {chance.random():.4f} | "
                f"train_step_timing in s: {chance.uniform(0.1, 2):.4f} | consumed_samples: {256 * step}\n"
            )
            lines += [line] * chance.choice([1, 1, 1, 2])
            if chance.random() < 0.1:
                at = BEGIN + timedelta(seconds=chance.uniform(0, 100))
                lines.append(
                    f"[NeMo I {at:%Y-%m-%d %H:%M:%S} nemo_logging:393] Global Checkpoint Save : Rank: 0 : "
                    f"Iteration: {step} : Start time: {at.timestamp():.3f}s : Save duration: 2.000s\n"
                )
        step = max(0, step - chance.randint(0, 4))
    return "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("written", [written, titan, nemo])
@settings(max_examples=12)
@given(seed=st.integers(0, 100_000), few=st.integers(2, 6), piece=st.integers(1, 40))
def test_taken_together_is_taken_one_by_one(written: Callable[[int], str], seed: int, few: int, piece: int) -> None:
    results: list[Parsed | str] = []
    for fewest in (few, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain, "FEWEST", fewest)
            patch.setattr("ingest.runlog.formats.text.reader.SLICE", piece)
            try:
                results.append(read(written(seed), facts={"seq_len": 128, "n_gpus": 8}, begin=BEGIN))
            except UntimedError as error:
                results.append(str(error))
    together, apart = results
    if isinstance(together, str) or isinstance(apart, str):
        assert together == apart
        return
    for name, frame in together.frames.items():
        assert_frame_equal(frame, apart.frames[name], rel_tol=1e-12, abs_tol=0)
    assert together.warnings == apart.warnings
    assert together.rows_duplicate == apart.rows_duplicate
