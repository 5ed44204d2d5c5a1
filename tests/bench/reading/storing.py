"""Bytes per stored sample: a day of telemetry as it comes in, against Prometheus' own blocks of the same samples."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from app.config.settings import Config
from ingest.prometheus.store.samples import load
from ingest.prometheus.tables import GPUS, NODES, SampleTable
from ingest.store.request import from_file
from ingest.tables import GPU_SAMPLES, NODE_SAMPLES, REJECTS, Parsed, conform, empty
from queries.warehouse import open_writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
STEP_S = 60
A_DAY = 86_400 // STEP_S
A_PIECE = timedelta(hours=2)
GPUS_PER_NODE = 8
BLOCK = "18h"
"""What Prometheus puts blocks of two hours together to, by and by: the longest that a day of them gives."""


@dataclass(frozen=True)
class Gauge:
    """How a metric is exported, what its exported value is of ours, and its values while a GPU works or rests."""

    name: str
    form: str
    scale: float
    values: Callable[[np.random.Generator, Values], Values]


def _ratio(mean: float, spread: float) -> Callable[[np.random.Generator, Values], Values]:
    return lambda chance, works: np.clip(chance.normal(mean, spread, works.shape), 0, 1) * works


GAUGES = {
    "gpu_util": Gauge("DCGM_FI_DEV_GPU_UTIL", ".0f", 0.01, lambda c, w: np.clip(c.normal(97, 2, w.shape), 0, 100) * w),
    "gr_engine_active": Gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", ".6f", 1, _ratio(0.95, 0.02)),
    "sm_active": Gauge("DCGM_FI_PROF_SM_ACTIVE", ".6f", 1, _ratio(0.8, 0.05)),
    "tensor_active": Gauge("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", ".6f", 1, _ratio(0.45, 0.03)),
    "dram_active": Gauge("DCGM_FI_PROF_DRAM_ACTIVE", ".6f", 1, _ratio(0.35, 0.03)),
    "memory_used_bytes": Gauge(
        *("DCGM_FI_DEV_FB_USED", ".0f", 1024.0**2),
        lambda c, w: 4 + (72_000 + np.cumsum(c.random(w.shape) < 0.01, axis=1)) * w,
    ),
    "power_w": Gauge("DCGM_FI_DEV_POWER_USAGE", ".3f", 1, lambda c, w: 70 + c.normal(0, 1, w.shape) + 550 * w),
    "temperature_c": Gauge("DCGM_FI_DEV_GPU_TEMP", ".0f", 1, lambda c, w: 33 + c.normal(0, 1, w.shape) + 29 * w),
    "sm_clock_hz": Gauge(
        *("DCGM_FI_DEV_SM_CLOCK", ".0f", 1e6),
        lambda c, w: 345 + (1635 - 15 * np.round(np.abs(c.normal(0, 1, w.shape)))) * w,
    ),
}
"""Nine metrics: some never rest, some seldom change; half an hour or more of work, then of rest."""

COUNTERS = {
    **{f"ib_received_bytes_per_s {port}": 2e10 for port in ("mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1")},
    **{f"ib_symbol_errors_per_s {port}": 0.0 for port in ("mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1")},
    **{f"fs_read_bytes_per_s {mount}": 5e8 for mount in ("/scratch", "/home")},
    **{f"fs_metadata_operations_per_s {mount}": 40.0 for mount in ("/scratch", "/home")},
    "oom_kills_per_s ": 0.0,
}
"""Metric and device of a node, and the usual rate of the counter that is exported; 0: it never moves."""


@dataclass
class _Day:
    """Samples of a day, as our rows and as exposition for promtool."""

    of: SampleTable
    rows: pl.DataFrame
    text: list[str]
    samples: int


def _moments() -> list[datetime]:
    return [BEGIN + timedelta(seconds=STEP_S * cell) for cell in range(A_DAY)]


def _gpus(gpus: int) -> _Day:
    chance = np.random.default_rng(11)
    works = np.repeat(chance.random((gpus, A_DAY // 60)) < 0.7, 60, axis=1).astype(float)
    node = np.arange(gpus) // GPUS_PER_NODE
    columns: dict[str, Any] = {}
    text = []
    for column, gauge in GAUGES.items():
        places = int(gauge.form[1])
        exported = np.round(gauge.values(chance, works), places)
        columns[column] = (exported * gauge.scale).ravel()
        text.append(f"# TYPE {gauge.name} gauge")
        for number in range(gpus):
            labels = (
                f'gpu="{number % GPUS_PER_NODE}",UUID="GPU-{number:08d}",device="nvidia{number % GPUS_PER_NODE}",'
                f'modelName="NVIDIA H100 80GB HBM3",Hostname="gpu{node[number]:04d}"'
            )
            text += _lines(f"{gauge.name}{{{labels}}}", [f"{value:{gauge.form}}" for value in exported[number]])
    rows = pl.DataFrame({
        "node": np.repeat([f"gpu{each:04d}" for each in node], A_DAY),
        "gpu": np.repeat([str(number % GPUS_PER_NODE) for number in range(gpus)], A_DAY),
        "ts": _moments() * gpus,
        **columns,
    })  # fmt: skip
    rows = rows.with_columns(cluster=pl.lit("c"), interval_s=pl.lit(STEP_S))
    return _Day(GPUS, conform(rows, GPU_SAMPLES), text, gpus * A_DAY * len(GAUGES))


def _nodes(nodes: int) -> _Day:
    """Counters as they are exported; the rates of them are ours."""
    chance = np.random.default_rng(12)
    parts, text = [], []
    for name, usual in COUNTERS.items():
        metric, _, device = name.partition(" ")
        text.append(f"# TYPE {metric} counter")
        for number in range(nodes):
            grown = np.round(chance.gamma(2, usual / 2, A_DAY) * STEP_S)
            parts.append(
                pl.DataFrame({"ts": _moments(), "value": grown / STEP_S}).with_columns(
                    node=pl.lit(f"gpu{number:04d}"), metric=pl.lit(metric), device=pl.lit(device)
                )
            )
            series = f'{metric}_total{{device="{device}",instance="gpu{number:04d}:9100",job="node"}}'
            text += _lines(series, [f"{value:.0f}" for value in np.cumsum(grown)])
    rows = pl.concat(parts).with_columns(cluster=pl.lit("c"), interval_s=pl.lit(STEP_S))
    return _Day(NODES, conform(rows, NODE_SAMPLES), text, rows.height)


def _lines(series: str, values: list[str]) -> list[str]:
    begin = int(BEGIN.timestamp())
    return [f"{series} {value} {begin + STEP_S * cell}" for cell, value in enumerate(values)]


def _prometheus_bytes(folder: Path, text: list[str]) -> int:
    """All files of the blocks that Prometheus has of the samples."""
    blocks = folder / "blocks"
    source = folder / "day.om"
    source.write_text("\n".join([*text, "# EOF"]) + "\n")
    command = ["promtool", "tsdb", "create-blocks-from", f"--max-block-duration={BLOCK}", "openmetrics"]
    subprocess.run([*command, str(source), str(blocks)], check=True, stdout=subprocess.DEVNULL)
    result = sum(file.stat().st_size for file in blocks.rglob("*") if file.is_file())
    shutil.rmtree(blocks)
    source.unlink()
    return result


def _our_bytes(folder: Path, day: _Day) -> tuple[int, float]:
    """What the warehouse has of them after a day of pieces, each loaded as it came, and how long a piece took."""
    root = folder / f"warehouse-{day.of.name}"
    seconds = []
    with open_writer(root, verb="bench", now=BEGIN) as writer:
        for piece in range(12):
            low = BEGIN + piece * A_PIECE
            some = day.rows.filter(
                pl.col("ts").is_between(low - timedelta(seconds=STEP_S), low + A_PIECE, closed="left")
            )
            parsed = Parsed(
                "prometheus.gpu" if day.of is GPUS else "prometheus.node",
                frozenset({"c"}),
                {day.of.name: some},
                empty(REJECTS),
                rows_read=some.height,
                rows_loaded=some.height,
            )
            began = time.perf_counter()
            load(writer, Config(), [parsed], "c", request=from_file("bench"), digest="", now=BEGIN)
            seconds.append(time.perf_counter() - began)
        with writer.transaction():
            writer.compact_partitions(day.of.name, "c", before=BEGIN.date() + timedelta(days=1), order=day.of.key)
        files = writer.table("partitions").filter(pl.col("removed_version").is_null())
    if files["rows"].sum() != day.rows.height:
        message = f"{files['rows'].sum()} rows of {day.rows.height} are there"
        raise AssertionError(message)
    return int(files["bytes"].sum()), float(np.median(seconds))


def bench_storing(folder: Path, gpus: int = 48) -> list[dict[str, Any]]:
    """Bytes per sample of GPUs (wide rows) and of nodes (a row per value); goal: at most 1.5 times Prometheus' own."""
    result = []
    for day in (_gpus(gpus), _nodes(gpus)):
        ours, _ = _our_bytes(folder, day)
        theirs = _prometheus_bytes(folder, day.text)
        ratio = ours / theirs
        result.append({
            "name": f"{day.of.name}: {day.samples:,} samples stored",
            "value": ours / day.samples,
            "unit": "B",
            "baseline": theirs / day.samples,
            "baseline_is": f"Prometheus' blocks ({theirs / day.samples:.2f} B per sample)",
            "ratio": ratio,
            "goal": 1.5,
            "holds": ratio <= 1.5,
        })  # fmt: skip
    return result
