"""MLPerf Training: the logs that submitters publish with their results, and what follows from them.

    SUBMITTER/results/SYSTEM/BENCHMARK/result_I.txt   the log of a run; scaling.json has the factor of its time
    SUBMITTER/systems/SYSTEM.json                     nodes, GPUs of a node, and the GPU's name

A submitter is a cluster, a result a run of one attempt on nodes of its own, from its first event to its last. Logs do
not record the data type: those of `DTYPE` are what MLPerf's reference for NVIDIA GPUs trains this model in, so each
MFU has a reading over the peak of either.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from app.errors import UsageError
from app.reproduce.publication import Comparison, Publication, Sources, computed_windows
from app.results.mfu import fleet_row, kept_steps, mfu_wall_run_rows
from app.results.scaling import scaling_runs
from ingest.files.input import Input
from ingest.runlog.formats.mlperf import MODELS, translate
from ingest.runlog.parse import parse_runlog
from metrics.mfu.mfu import step_mfu
from metrics.scaling.target import time_to_train, timed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from app.window import Window
    from metrics.mfu.flops import Convention
    from queries.warehouse import Reader

DTYPE: Final = "fp8+bf16"

BENCHMARKS: Final = tuple(name for name, model in MODELS.items() if model)
"""The benchmarks that are read: those whose model's sizes are known."""

PUBLISHED_MIN: Final[Mapping[tuple[str, int], float]] = {
    ("IBM-CoreWeave-NVIDIA", 512): 121.28,
    ("IBM-CoreWeave-NVIDIA", 1024): 62.06,
    ("IBM-CoreWeave-NVIDIA", 1536): 44.32,
    ("IBM-CoreWeave-NVIDIA", 2048): 32.65,
    ("IBM-CoreWeave-NVIDIA", 2496): 27.32,
}
"""Published times to train of Llama 3.1 405B in round 5.0, in minutes, by submitter and GPUs."""

ROUNDING: Final = 0.005
"""Minutes by which a published time may be rounded down."""

THOUSAND: Final = 1024
"""GPUs from which a vendor's claim about thousand-GPU clusters holds."""

_MFU_CLAIM: Final = """
[[claim]]
id = "mfu_{dtype}"
metric = "mfu"
quoted = "MFU above 50 % on thousand-GPU clusters"
read_as = "The MFU over kept steps of runs of at least {gpus} GPUs is above 50 % of the dense {name} peak."
kind = "capability"
target = 0.50
direction = "at_least"
flop_convention = "palm_full"
dtype = "{dtype}"
scope = {{ gpus_min = {gpus} }}
"""

_SCALING_CLAIM: Final = """
[[claim]]
id = "scaling"
metric = "scaling_efficiency"
quoted = "{share:.0%} scaling efficiency from {few:,} to {many:,} GPUs"
read_as = "GPU-time to the target on {few:,} GPUs is at least {share:.0%} of that on {many:,}; the batch may differ."
kind = "capability"
target = {share}
direction = "at_least"
scaling = "strong"
basis = "time"
base_gpus = {few}
gpus = {many}
"""

_TIME_CLAIM: Final = """
[[claim]]
id = "time_{gpus}"
metric = "time_to_train"
quoted = "{minutes} min on {gpus:,} GPUs"
read_as = "The official time, mean of the runs x scaling factor, is {minutes} min when rounded, or less."
kind = "delivered"
target = {seconds}
direction = "at_most"
gpus = {gpus}
"""

PUBLISHED_SCALING: Final[Mapping[str, tuple[int, int, float]]] = {"IBM-CoreWeave-NVIDIA": (512, 2496, 0.9)}
"""Published scaling efficiencies by submitter: fewest and most GPUs, and the efficiency."""


def claims(sources: Sources, cluster: str) -> str:
    """The claims on a submitter: MFU over both peaks that people use, its scaling, its published times."""
    sizes = {facts["n_gpus"] for _, facts in sources.run_logs if facts["cluster"] == cluster}
    dtypes = ("fp8", "bf16") if max(sizes) >= THOUSAND else ()
    texts = [_MFU_CLAIM.format(dtype=dtype, name=dtype.upper(), gpus=THOUSAND) for dtype in dtypes]
    few, many, share = PUBLISHED_SCALING.get(cluster, (0, 0, 0.0))
    texts += [_SCALING_CLAIM.format(few=few, many=many, share=share)] if {few, many} <= sizes else []
    published = [(gpus, minutes) for (name, gpus), minutes in PUBLISHED_MIN.items() if name == cluster]
    texts += [
        _TIME_CLAIM.format(gpus=gpus, minutes=minutes, seconds=(minutes + ROUNDING) * 60)
        for gpus, minutes in published
        if gpus in sizes
    ]
    return "".join(texts)


def read(path: Path) -> Sources:
    """The results below a path.

    Raises:
        UsageError: there are none that can be read.
    """
    sources = Sources()
    for folder in sorted(_result_folders(path)):
        benchmark, system, submitter = folder.name, folder.parent.name, folder.parents[2].name
        if benchmark not in BENCHMARKS:
            sources.left_out.append(f"{submitter}/{system}: {benchmark} is not read (only {', '.join(BENCHMARKS)})")
            continue
        described = _system(folder.parents[2] / "systems" / f"{system}.json", sources)
        if described is None:
            continue
        for log in sorted(folder.glob("result_*.txt*")):
            _add(sources, log, described)
    if not sources.run_logs:
        found = "".join(f"\n  {line}" for line in sources.left_out)
        raise UsageError(
            f"{path}: no result of MLPerf Training: SUBMITTER/results/SYSTEM/BENCHMARK/result_0.txt{found}"
        )
    return sources


def _result_folders(path: Path) -> set[Path]:
    return {log.parent for log in path.rglob("result_*.txt*") if log.parents[2].name == "results"}


def _system(path: Path, sources: Sources) -> Mapping[str, Any] | None:
    """Nodes, GPUs of a node, and the name of the GPU; None where the description cannot be used."""
    try:
        described = json.loads(path.read_text("utf-8"))
        return {
            "nodes": int(described["number_of_nodes"]),
            "gpus_per_node": int(described["accelerators_per_node"]),
            "gpu_model": str(described["accelerator_model_name"]),
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        sources.left_out.append(f"{path}: the system's description cannot be used: {error}")
        return None


def _cluster(submitter: str) -> str:
    """A submitter's name as that of a cluster.

    >>> _cluster("IBM+CoreWeave+NVIDIA")
    'IBM-CoreWeave-NVIDIA'
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", submitter)


def _add(sources: Sources, log: Path, described: Mapping[str, Any]) -> None:
    """A log, and the job that it implies."""
    nodes, gpus = described["nodes"], described["nodes"] * described["gpus_per_node"]
    number, cluster = len(sources.run_logs) + 1, _cluster(log.parents[3].name)
    facts = {
        "run_id": f"{log.parents[1].name}/{log.name.partition('.')[0]}",
        "cluster": cluster,
        "scheduler": "slurm",
        "job_id": str(number),
        "n_gpus": gpus,
        "gpu_model": described["gpu_model"],
        "dtype": DTYPE,
        "time_factor": _factor(log.parent / "scaling.json"),
    }
    try:
        parsed = parse_runlog(translate(Input(str(log)).whole(), facts).data, origin=str(log))
    except ValueError as error:
        sources.left_out.append(f"{log}: {error}")
        return
    if parsed.covers_from is None or parsed.covers_until is None:
        raise TypeError(parsed)  # a log with a session covers time
    begin, end = math.floor(parsed.covers_from.timestamp()), math.ceil(parsed.covers_until.timestamp())
    names = f"r{number}-[{1:04d}-{nodes:04d}]" if nodes > 1 else f"r{number}-0001"
    who = ("mlperf", "mlperf", "batch", facts["run_id"], "COMPLETED", "0:0")
    held = f"gres/gpu={gpus},node={nodes}"
    sources.accounting.append((number, number, cluster, *who, begin, begin, begin, end, nodes, names, held))
    sources.run_logs.append((log, facts))


def _factor(path: Path) -> float:
    """What the official time is multiplied by: submitters with fewer steps than the reference scale it up."""
    try:
        return float(json.loads(path.read_text("utf-8"))["scaling_factor"])
    except FileNotFoundError:
        return 1.0


def compare(reader: Reader, _: Sources) -> list[Comparison]:
    """Time to train, scaling and MFU by the number of GPUs, of each submitter."""
    return [row for window in computed_windows(reader) for row in _of_submitter(reader, window)]


def _of_submitter(reader: Reader, window: Window) -> list[Comparison]:
    minutes = _minutes(scaling_runs(reader, window))
    steps = kept_steps(reader, window)
    return [
        *_times(window.cluster, minutes),
        *_efficiencies(minutes, steps),
        *(row for convention in ("palm_full", "causal_half") for row in _mfu_by_size(steps, window, convention)),
        *_mfu_wall_by_size(reader, window),
        *_mfu_of_thousands(steps, window),
    ]


def _minutes(runs: pl.DataFrame) -> dict[int, float]:
    """Official time to train in minutes by GPUs: the mean of the runs, scaled as MLPerf does."""
    means = {int(gpus): time_to_train(some) for (gpus,), some in timed(runs).group_by("n_gpus")}
    return {gpus: mean.value / 60 for gpus, mean in sorted(means.items()) if mean is not None}


def _times(cluster: str, minutes: Mapping[int, float]) -> Iterator[Comparison]:
    for gpus, value in minutes.items():
        published = PUBLISHED_MIN.get((cluster, gpus))
        yield Comparison(f"time to train, {gpus:,} GPUs", "min", published, value, "mean of the runs x scaling factor")


def _efficiencies(minutes: Mapping[int, float], steps: pl.DataFrame) -> Iterator[Comparison]:
    """Strong scaling from the smallest system to the largest: by official time, and by tokens of kept steps."""
    rates = {gpus: _tokens_per_gpu_s(of) for gpus, of in _by_size(steps)}
    for gpus, rate in rates.items():
        yield Comparison(f"tokens/s/GPU, {gpus:,} GPUs", "1/s", None, rate, "kept steps")
    if len(minutes) > 1:
        small, large = min(minutes), max(minutes)
        value = minutes[small] * small / (minutes[large] * large)
        yield Comparison(f"strong scaling, {small:,} to {large:,} GPUs", "ratio", None, value, "by official time")
        of_small, of_large = rates.get(small), rates.get(large)
        rate = of_large / of_small if of_small and of_large else None
        yield Comparison(f"strong scaling, {small:,} to {large:,} GPUs", "ratio", None, rate, "by tokens/s/GPU")


def _by_size(steps: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    for gpus in sorted(steps["n_gpus"].drop_nulls().unique()):
        yield int(gpus), steps.filter(pl.col("n_gpus") == gpus)


def _tokens_per_gpu_s(steps: pl.DataFrame) -> float | None:
    tokens, gpu_s = steps.select(pl.col("tokens").sum(), (pl.col("wall_s") * pl.col("n_gpus")).sum()).row(0)
    return float(tokens / gpu_s) if gpu_s else None


def _mfu_by_size(steps: pl.DataFrame, window: Window, convention: Convention) -> Iterator[Comparison]:
    for gpus, some in _by_size(steps):
        row = fleet_row(step_mfu(some, convention=convention), window, convention, "mfu")
        yield Comparison(f"MFU, {gpus:,} GPUs", "ratio", None, row["value"][0], f"{convention}, dense FP8 peak")


def _mfu_wall_by_size(reader: Reader, window: Window) -> Iterator[Comparison]:
    sizes = reader.table("run_sessions").select("run_id", "n_gpus").unique()
    rows = mfu_wall_run_rows(reader, window, "palm_full").join(sizes, on="run_id")
    for (gpus,), some in sorted(rows.group_by("n_gpus")):
        flop, peak = some.select(pl.col("flop").sum(), pl.col("peak_flop").sum()).row(0)
        why = "palm_full, dense FP8 peak, all allocated time: start-up and evaluation included"
        yield Comparison(f"MFU, {gpus:,} GPUs", "ratio", None, flop / peak if peak else None, why)


def _mfu_of_thousands(steps: pl.DataFrame, window: Window) -> Iterator[Comparison]:
    some = steps.filter(pl.col("n_gpus") >= THOUSAND)
    if some.is_empty():
        return
    for dtype in ("fp8", "bf16"):
        of = step_mfu(some, convention="palm_full", peak_dtype=dtype)
        row = fleet_row(of, window, "palm_full", "mfu").row(0, named=True)
        low, high = row["ci_low"], row["ci_high"]
        interval = "" if low is None else f"; 95 % [{low:.2%}, {high:.2%}]"
        why = f"palm_full, dense {dtype.upper()} peak; {row['n']:,} steps{interval}"
        yield Comparison(f"MFU, {THOUSAND:,} GPUs and more", "ratio", None, row["value"], why)


PUBLICATION: Final = Publication(
    "mlperf-v5.0",
    "MLPerf Training 5.0: Llama 3.1 405B, time to train, scaling and MFU from the submitters' own logs",
    "github.com/mlcommons/training_results_v5.0 (Apache-2.0)",
    read,
    compare,
    claims,
)
