"""`trackside ingest runlog` of a framework's stdout against polars reading the same lines by the same patterns."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.bench.reading.ingesting import best, ours_of, run
from tests.bench.table import row

if TYPE_CHECKING:
    from pathlib import Path

BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
NOISE: Final = "NCCL INFO Channel 00/32 : 0 1 2 3 4 5 6 7 via P2P/CUMEM and what else a program prints\n"

BARE: Final = r"""
import sys
import polars as pl
text = pl.col("text")
pl.scan_csv(
    sys.argv[1], has_header=False, separator="\x01", quote_char=None, new_columns=["text"], truncate_ragged_lines=True
).filter(text.str.contains(r"iteration +\d+/")).select(
    step=text.str.extract(r"iteration +(\d+)/").cast(pl.Int64),
    ms=text.str.extract(r"elapsed time per iteration \(ms\): ([\d.]+)").cast(pl.Float64),
    samples=text.str.extract(r"global batch size: +(\d+)").cast(pl.Int64),
    loss=text.str.extract(r"lm loss: ([-+\w.]+)").cast(pl.Float64),
    at=text.str.extract(r"^(\S+)Z").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f"),
).collect()
"""


def write_log(file: Path, steps: int, noise: int) -> None:
    """A log of Megatron-LM with so many iterations, and so many other lines behind each."""
    chance, at = random.Random(1), BEGIN
    with file.open("w", encoding="utf-8") as out:
        for step in range(1, steps + 1):
            took = 1.9 + chance.random() / 10
            at += timedelta(seconds=took)
            out.write(
                f"{at:%Y-%m-%dT%H:%M:%S.%f}Z iteration {step:8d}/ 5000000 | consumed samples: {256 * step:12d} | "
                f"elapsed time per iteration (ms): {took * 1000:.1f} | learning rate: 1.200000E-05 | "
                f"global batch size:   256 | lm loss: {2 + chance.random():.6E} | loss scale: 1.0 |\n"
            )
            out.write(NOISE * noise)


def bench_text_log(folder: Path, steps: int, *, noise: int, repeats: int = 2) -> list[dict[str, Any]]:
    """Rows for the table: CPU time against the bare read, and peak memory."""
    log = folder / "train.log"
    write_log(log, steps, noise)
    mine, bare = [], []
    for _ in range(repeats):
        bare.append(run("-c", BARE, str(log)))
        mine.append(ours_of(log, "runlog"))
    log.unlink()
    ours, baseline = best(mine), best(bare)
    name = f"stdout of {steps:,} steps, {noise:,} other lines each"
    return [
        row(f"{name}, CPU", ours.cpu_s, baseline.cpu_s, "polars reading the lines by the same patterns", 2.0),
        row(f"{name}, peak memory", ours.peak_bytes / 2**20, 2048.0, "2 GiB", 1.0, unit="MiB"),
    ]
