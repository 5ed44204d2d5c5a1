"""Lines taken together give what lines taken one by one give: restarts, saves, several ranks, coarse stamps."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UntimedError
from ingest.runlog.formats.text import plain
from tests.ingest.runlog.text import test_megatron as megatron
from tests.support.logs.foreign_logs import read

if TYPE_CHECKING:
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


@settings(max_examples=30)
@given(seed=st.integers(0, 100_000), few=st.integers(2, 6), piece=st.integers(1, 40))
def test_taken_together_is_taken_one_by_one(seed: int, few: int, piece: int) -> None:
    results: list[Parsed | str] = []
    for fewest in (few, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain, "FEWEST", fewest)
            patch.setattr("ingest.runlog.formats.text.reader.SLICE", piece)
            try:
                results.append(read(written(seed), facts={"seq_len": 128}))
            except UntimedError as error:
                results.append(str(error))
    together, apart = results
    if isinstance(together, str) or isinstance(apart, str):
        assert together == apart
        return
    for name, frame in together.frames.items():
        assert frame.equals(apart.frames[name]), name
    assert together.warnings == apart.warnings
    assert together.rows_duplicate == apart.rows_duplicate
