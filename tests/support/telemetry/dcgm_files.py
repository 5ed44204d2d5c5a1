"""Files of a node's GPU telemetry: readings as OpenMetrics, hours as Parquet, and what the warehouse has of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from queries.warehouse import open_reader
from tests.support.command import trackside

if TYPE_CHECKING:
    from pathlib import Path


T = 1_795_248_000  # 2026-11-21T08:00:00Z, an hour
START = datetime.fromtimestamp(T, UTC)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
NAMES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_DEV_XID_ERRORS")


def lines(seconds: int = 3 * 3600, *, gpus: int = 4, seed: int = 3) -> list[str]:
    """Readings of a node every 15 s in the order of time: phases of activity, scrapes that failed, sticky XIDs."""
    chance = random.Random(seed)
    phases = {gpu: [chance.random() < 0.6 for _ in range(seconds // 300 + 1)] for gpu in range(gpus)}
    hit = {gpu: chance.randrange(seconds) for gpu in range(gpus // 2)}
    actual = []
    for second in range(15, seconds + 1, 15):
        if chance.random() < 0.03:
            continue
        for gpu in range(gpus):
            active = phases[gpu][second // 300]
            xid = 79 if second >= hit.get(gpu, seconds + 1) else 0
            labels = f'gpu="{gpu}",UUID="GPU-{gpu}",Hostname="n1"'
            for name, value in zip(NAMES, (100 * active, 0.5 * active, xid), strict=True):
                actual.append(f"{name}{{{labels}}} {value} {T + second}")
    return actual


def written(folder: Path, name: str, rows: list[str]) -> str:
    (folder / name).write_text("\n".join([*rows, "# EOF"]) + "\n")
    return str(folder / name)


def load(warehouse: Path, *batches: list[str]) -> Path:
    for files in batches:
        done = trackside("ingest", "prometheus", "--cluster", "c", "--warehouse", str(warehouse), *files)
        assert done.returncode == 0, done.stderr
    return warehouse


def hours(folder: Path, *rows: tuple[str, int, str, float, float | None, float], cluster: str | None = None) -> str:
    """A Parquet file: GPU, hour after T, metric, mean, active_s, covered_s."""
    frame = pl.DataFrame(
        [("n1", gpu, START + timedelta(hours=hour), *rest) for gpu, hour, *rest in rows],
        schema=["node", "gpu", "ts", "metric", "mean", "active_s", "covered_s"],
        orient="row",
    )
    path = folder / "hours.parquet"
    (frame if cluster is None else frame.with_columns(cluster=pl.lit(cluster))).write_parquet(path)
    return str(path)


def active(warehouse: Path) -> dict[tuple[str, int], tuple[float, float]]:
    """Mean and covered seconds of activity by GPU and hour."""
    with open_reader(warehouse) as reader:
        actual = reader.table("gpu_hours").filter(pl.col("metric") == "active")
    return {
        (row["gpu"], round((row["ts"] - START).total_seconds() / 3600)): (row["mean"], row["covered_s"])
        for row in actual.iter_rows(named=True)
    }


def steady(gpu: int, seconds: range, value: float) -> list[str]:
    return [f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="{gpu}",Hostname="n1"}} {value} {T + second}' for second in seconds]


def quiet(_what: str, _done: int, _total: int) -> None:
    """Say nothing."""
