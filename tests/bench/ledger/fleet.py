"""Accounting of any size for benchmarks, made with numpy: always the same for the same size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SACCT_COLUMNS = (
    "JobID|JobIDRaw|Cluster|Partition|QOS|Account|Group|GID|User|UID|Submit|Eligible|Start|End|Elapsed|ExitCode|State|"
    "NNodes|NCPUS|ReqMem|ReqTRES|AllocTRES|Timelimit|NodeList|JobName"
)
PIECE = 250_000
"""Rows of accounting made at a time: memory stays flat whatever is asked for."""
REQUEUED = 33
"""Every so manieth row is a requeue of the job of the row before it: 3 %."""
PARTITIONS = ("train", "train-large", "interactive", "preempt")
MODELS = ("llama", "mixtral", "vit", "whisper", "t5", "gpt-neox", "mamba")


def write_sacct(path: Path, rows: int) -> None:
    """Accounting of so many rows (attempts), 25 columns, about 400 bytes a row, into a file, piece by piece."""
    with path.open("w") as file:
        file.write(SACCT_COLUMNS + "\n")
        file.writelines(_pieces(rows))


def _pieces(rows: int) -> Iterator[str]:
    for start in range(0, rows, PIECE):
        frame = _rows(start, min(PIECE, rows - start))
        yield frame.write_csv(separator="|", include_header=False, quote_style="never")


def _rows(first: int, count: int) -> pl.DataFrame:
    """Rows `first` and following, all text: node lists of one or two ranges, four sizes of job, typed GPUs."""
    chance = np.random.default_rng([9, first])
    number = np.arange(first, first + count)
    again = number % REQUEUED == REQUEUED - 1
    failed = number % REQUEUED == REQUEUED - 2
    width = chance.choice([1, 2, 4, 16], count, p=[0.5, 0.2, 0.17, 0.13])
    states = np.array(["COMPLETED", "FAILED", "CANCELLED by 1001", "TIMEOUT", "NODE_FAIL"])
    state = states[chance.choice(5, count, p=[0.7, 0.2, 0.06, 0.03, 0.01])]
    job = 10_000_000 + number - again
    frame = pl.DataFrame(
        {
            "job": job,
            "submit": 1_767_225_600 + 6 * number,
            "wait": np.where(failed, 1, chance.integers(1, 3600, count)),
            "length": np.where(failed, 4, chance.integers(60, 86_400, count)),
            "n": width,
            "low": chance.integers(1, 2000, count),
            "gap": np.where((width > 1) & (chance.random(count) < 0.4), chance.integers(1, 24, count), 0),
            "state": np.where(failed, "NODE_FAIL", state),
            "user": job * 7919 % 401,
            "name": job * 7907 % 5003,
        }
    )
    n, g = pl.col("n"), pl.col("n") * 8
    start = pl.col("submit") + pl.col("wait")
    tres = pl.format("billing={},cpu={},gres/gpu:h100={},gres/gpu={},mem={}G,node={}", g * 8, g * 12, g, g, g * 64, n)
    one, last = pl.col("low"), pl.col("low") + n - 1
    half, high = pl.col("low") + n // 2 - 1, pl.col("low") + pl.col("gap") + n - 1
    split = pl.format("gpu[{}-{},{}-{}]", *map(_padded, (one, half, half + pl.col("gap") + 1, high)))
    nodes = pl.when(n == 1).then(pl.format("gpu{}", _padded(one))).when(pl.col("gap") > 0).then(split)
    length = pl.col("length")
    clock = pl.format("{}:{}:{}", *(_padded(part, 2) for part in (length // 3600, length % 3600 // 60, length % 60)))
    return frame.select(
        pl.col("job"),
        pl.col("job").alias("raw"),
        pl.lit("bench"),
        pl.lit(pl.Series(PARTITIONS)).gather(pl.col("user") % len(PARTITIONS)).alias("partition"),
        pl.lit("normal").alias("qos"),
        pl.format("team-{}", pl.col("user") // 20).alias("account"),
        pl.lit("users").alias("group"),
        pl.lit(2000).alias("gid"),
        pl.format("user{}", pl.col("user")).alias("login"),
        (2000 + pl.col("user")).alias("uid"),
        "submit",
        pl.col("submit").alias("eligible"),
        start.alias("start"),
        (start + length).alias("end"),
        clock.alias("elapsed"),
        pl.when(pl.col("state") == "FAILED").then(pl.lit("1:0")).otherwise(pl.lit("0:0")).alias("exit"),
        "state",
        n.alias("nodes"),
        (g * 12).alias("cpus"),
        pl.format("{}G", g * 64).alias("mem"),
        tres.alias("asked"),
        tres.alias("given"),
        pl.lit("1-00:00:00").alias("limit"),
        nodes.otherwise(pl.format("gpu[{}-{}]", _padded(one), _padded(last))).alias("list"),
        pl.format(
            "pretrain-{}-{}-ctx8192-gbs2048-tp8-pp4-cp2-lr3e-4-wd0.1-bf16-warmup2000-seed{}",
            pl.lit(pl.Series(MODELS)).gather(pl.col("name") % len(MODELS)),
            pl.col("name"),
            pl.col("name") % 9,
        ).alias("jobname"),
    )


def _padded(number: pl.Expr, digits: int = 4) -> pl.Expr:
    return number.cast(pl.String).str.zfill(digits)
