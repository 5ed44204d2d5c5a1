"""Kept steps of runs of equal steps, as `step_mfu` returns them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from metrics import frames
from metrics.mfu.mfu import FACTS, step_mfu

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)


def steps_of(name: str, *, gpus: float, step_s: float, n: int = 3, batch: float = 64.0, **facts: Any) -> pl.DataFrame:
    """A run: `n` steps of 64 samples of 1,024 tokens, one after the other."""
    every = dict.fromkeys((*FACTS, *frames.RECIPE)) | {
        "gpu_model": "NVIDIA H100 80GB HBM3",
        "dtype": "bf16",
        "params": 1e9,
        "seq_len": 1024,
        "n_gpus": gpus,
        **facts,
    }
    kinds = frames.SESSIONS | {"n_gpus": frames.NUMBER}
    known = [pl.lit(value, dtype=kinds[fact]).alias(fact) for fact, value in every.items()]
    at = [BEGIN + timedelta(seconds=step_s * number) for number in range(n)]
    begin = [round(each.timestamp() * 1e6) for each in at]
    rows = pl.DataFrame(
        {
            "cluster": "c",
            "run_id": name,
            "ts": pl.Series(at, dtype=frames.TIME),
            "begin": begin,
            "end": [each + round(step_s * 1e6) for each in begin],
            "tokens": batch * 1024,
            "wall_s": step_s,
        }
    )
    return step_mfu(rows.with_columns(known), convention="6N_only")
