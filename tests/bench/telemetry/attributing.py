"""Attribution of samples to attempts against DuckDB's own ASOF join of the same rows, and its growth."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from metrics import frames
from tests.bench.reading.ingesting import Run, best, run
from tests.bench.table import row
from tests.bench.year import BEGIN

if TYPE_CHECKING:
    from numpy.random import Generator

GPUS_PER_NODE = 8
STEP_S = 60
A_DAY = 86_400 // STEP_S
HELD_A_DAY = 570
"""Attempts on each node a day: 5 million in 35 days on 250 nodes."""
MANY = 100_000_000
PROGRAM = str(Path(__file__).parent / "attribute.py")


def write_samples(folder: Path, *, gpus: int, days: int) -> None:
    """A Parquet file of samples a day (sorted, as they are stored), and one of who held which node when.

    Every day 1 % of the nodes say nothing for an hour, and 0.5 % of the GPUs fall silent at some time.
    """
    chance = np.random.default_rng(11)
    nodes = gpus // GPUS_PER_NODE
    names = pl.Series([f"gpu{number:04d}" for number in range(nodes)])
    shape = (nodes, GPUS_PER_NODE, A_DAY)
    node, gpu, cell = (index.ravel() for index in np.indices(shape, dtype=np.int32))
    place = pl.DataFrame({"node": names.gather(node), "gpu": pl.Series([str(n) for n in range(8)]).gather(gpu)})
    for day in range(days):
        there = ~_silent(chance, shape)
        busy = chance.random(node.size, dtype=np.float32)
        moment = pl.lit(BEGIN + timedelta(days=day), dtype=frames.TIME) + pl.duration(seconds=pl.col("cell") * STEP_S)
        values = {"cell": cell, "gpu_util": np.where(busy < 0.3, 0, busy), "power_w": 100 + np.round(600 * busy)}
        rows = pl.concat([place, pl.DataFrame(values)], how="horizontal").filter(there.ravel())
        rows.select(
            "node",
            "gpu",
            moment.alias("ts"),
            pl.lit(STEP_S, dtype=pl.Float32).alias("interval_s"),
            pl.col("gpu_util", "power_w").cast(pl.Float32),
        ).write_parquet(folder / f"day{day:03d}.parquet")
    _write_held(folder / "held.parquet", chance, names, days)


def _silent(chance: Generator, shape: tuple[int, int, int]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    nodes, gpus, cells = shape
    silent = np.zeros(shape, dtype=bool)
    for node in chance.integers(0, nodes, max(1, nodes // 100)):
        begin = chance.integers(0, cells - 60)
        silent[node, :, begin : begin + 60] = True
    for one in chance.integers(0, nodes * gpus, max(1, nodes * gpus // 200)):
        silent[one // gpus, one % gpus, chance.integers(0, cells) :] = True
    return silent


def _write_held(path: Path, chance: Generator, names: pl.Series, days: int) -> None:
    """Attempts one after the other on each node, with short gaps; each on five nodes."""
    each, nodes = HELD_A_DAY * days, len(names)
    mean = 86_400 / HELD_A_DAY
    gaps = chance.integers(0, 5, (nodes, each))
    ends = np.cumsum(chance.integers(1, int(2 * mean) - 4, (nodes, each)) + gaps, axis=1)
    starts = np.concatenate([np.zeros((nodes, 1), dtype=np.int64), ends[:, :-1]], axis=1) + gaps
    begin = pl.lit(BEGIN, dtype=frames.TIME)
    pl.DataFrame(
        {
            "attempt": np.arange(starts.size, dtype=np.int64) // 5,
            "node": names.gather(np.repeat(np.arange(nodes), each)),
            "started": starts.ravel(),
            "ended": ends.ravel(),
        }
    ).select(
        "attempt",
        "node",
        *((begin + pl.duration(seconds=pl.col(name))).alias(f"{name}_at") for name in ("started", "ended")),
    ).write_parquet(path)


def bench_attribution(
    folder: Path, *, gpus: int = 2000, days: tuple[int, int] = (2, 35), repeats: int = 2
) -> list[dict[str, Any]]:
    """Rows for the table: both lengths against the ASOF join; growth of time and memory.

    Raises:
        RuntimeError: The two ways give different answers.
    """
    result: list[dict[str, Any]] = []
    measured: list[Run] = []
    for length in days:
        work = folder / f"{length}-days"
        work.mkdir()
        write_samples(work, gpus=gpus, days=length)
        mine, theirs = work / "ours.parquet", work / "asof.parquet"
        rivals, own = [], []
        for _ in range(repeats if length == days[0] else 1):
            rivals.append(run(PROGRAM, "asof", str(work), str(theirs)))
            own.append(run(PROGRAM, "ours", str(work), str(mine)))
        _compare(mine, theirs)
        rival = best(rivals)
        measured.append(best(own))
        rows = pl.scan_parquet(work / "day*.parquet").select(pl.len()).collect().item()
        name = f"attribution of {rows:,} samples"
        # The goal is for 100 million samples; with few, starting Python is most of it.
        goal = 0.25 if rows >= MANY else None
        result.append(row(name, measured[-1].seconds, rival.seconds, "DuckDB ASOF join of the same rows", goal))
        peaks = (measured[-1].peak_bytes / 2**20, rival.peak_bytes / 2**20)
        result.append(row(f"{name}: peak memory", *peaks, "that of the ASOF join", None, unit="MiB"))
        for path in work.iterdir():
            path.unlink()
    small, large = measured
    scale = days[1] / days[0]
    times = f"{scale:g} times the days"
    result.append(row(times, large.seconds, small.seconds * scale, f"{scale:g} times the time", 1.2))
    peaks = (large.peak_bytes / 2**20, small.peak_bytes / 2**20)
    result.append(row(f"peak memory at {days[1]} days", *peaks, f"that at {days[0]}", None, unit="MiB"))
    return result


def _compare(mine: Path, theirs: Path) -> None:
    """The same samples go to the same attempts; of their values ours splits those across an end by time."""
    both = [pl.read_parquet(path).filter(pl.col("n_samples") > 0).sort("attempt") for path in (mine, theirs)]
    counts = [frame.select("attempt", pl.col("n_samples").cast(pl.Int64)) for frame in both]
    sums = [float(both[0]["power_w_sum"].sum()) / STEP_S, float(both[1]["power_w"].sum())]
    if not counts[0].equals(counts[1]) or abs(sums[0] / sums[1] - 1) > 0.05:
        message = f"answers differ: {counts[0].height} and {counts[1].height} attempts, {sums[0]} and {sums[1]} in all"
        raise RuntimeError(message)
