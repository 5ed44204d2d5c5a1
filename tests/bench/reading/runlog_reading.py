"""`trackside ingest runlog` of a long log against polars reading the same JSON lines."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, Final

from tests.bench.reading.ingesting import best, ours_of, run
from tests.bench.table import row

if TYPE_CHECKING:
    from pathlib import Path

BEGIN: Final = 1_750_000_000.5
STEPS_OF_A_SESSION: Final = 200_000
STEPS_OF_A_SAVE: Final = 1_000

BARE: Final = """\
import sys
import polars as pl
fields = {"type": pl.String, "step": pl.Int64, "t": pl.Float64}
fields |= dict.fromkeys(("duration_s", "tokens", "loss"), pl.Float64)
pl.read_ndjson(sys.argv[1], schema=fields)
"""


def write_log(file: Path, steps: int) -> None:
    """A log of so many steps of about two seconds, with a save every thousand and a restart now and then."""
    chance, at = random.Random(1), BEGIN
    session = {"type": "run", "v": 1, "run_id": "llama", "cluster": "alpha", "job_id": "29", "n_gpus": 16}
    with file.open("w", encoding="utf-8") as out:
        for step in range(steps):
            if step % STEPS_OF_A_SESSION == 0:
                out.write(json.dumps(session | {"t": at, "restart_count": step // STEPS_OF_A_SESSION}) + "\n")
            took = 1.9 + chance.random() / 10
            out.write(
                f'{{"type":"step","step":{step},"t":{at:.6f},"duration_s":{took:.6f},"tokens":1048576,'
                f'"loss":{2 + chance.random():.6f}}}\n'
            )
            at += took
            if step % STEPS_OF_A_SAVE == STEPS_OF_A_SAVE - 1:
                save = {"type": "ckpt", "step": step, "begin": at, "end": at + 10, "durable": True}
                out.write(json.dumps(save) + "\n")
                at += 10


def bench_run_log(folder: Path, steps: int, *, repeats: int = 2) -> list[dict[str, Any]]:
    """Rows for the table: CPU time against the bare read, and peak memory."""
    log = folder / "run.jsonl"
    write_log(log, steps)
    mine, bare = [], []
    for _ in range(repeats):
        bare.append(run("-c", BARE, str(log)))
        mine.append(ours_of(log, "runlog"))
    log.unlink()
    found, baseline = best(mine), best(bare)
    name = f"run log of {steps:,} steps"
    return [
        row(f"{name}, CPU", found.cpu_s, baseline.cpu_s, "polars reading the JSON lines", 2.0),
        row(f"{name}, peak memory", found.peak_bytes / 2**20, 2048.0, "2 GiB", 1.0, unit="MiB"),
    ]
