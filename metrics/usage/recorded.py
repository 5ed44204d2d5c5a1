"""Use of the held resources of attempts, by accounting: Slurm's own records of steps, and summaries of jobstats.

Slurm samples the processes of each task (JobAcctGatherFrequency) and keeps the highest sample. So

- CPU time is exact, but for a step whose record was lost: then what is known is the least;
- memory is the highest sample, which a short peak escapes; Slurm adds up the tasks of a step, whose peaks need not
  have come together;
- `gres/gpuutil` has no mean over time: the highest sample of one task, times the tasks, bounds from above what the
  samples can have shown of all of them. Below, nothing is known; a 0 may also come of a GPU that Slurm cannot measure.

jobstats has means over the job of every GPU, and the most memory in use on every node.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.metric import Metric
from metrics.unknown import known_sum

EXTERN: Final = "extern"
"""The step of what ran outside of others (ssh, prologs): its loss is none, and it holds no GPUs of its own."""

_KEY: Final = list(frames.ATTEMPT_KEY)
_NUMBER: Final = frames.NUMBER

STEPS: Final[frames.Schema] = {
    **{name: frames.ATTEMPTS[name] for name in _KEY},
    **dict.fromkeys(("held_s",), _NUMBER),
    **dict.fromkeys(("held_nodes", "held_cpus"), frames.COUNT),
    "held_gpus": _NUMBER,
    "held_bytes": frames.COUNT,
    "step": frames.TEXT,
    "elapsed_s": _NUMBER,
    "n_tasks": frames.COUNT,
    "cpu_s": _NUMBER,
    "max_rss_bytes": frames.COUNT,
    "max_rss_node": frames.TEXT,
    "tasks_rss_bytes": frames.COUNT,
    "gpu_util_max": _NUMBER,
    "gpu_mem_max_bytes": frames.COUNT,
    "energy_j": _NUMBER,
}
"""A step as Slurm recorded it (the job itself where `step` is empty), with what its attempt held."""

SUMMARIES: Final[frames.Schema] = {
    **{name: frames.ATTEMPTS[name] for name in _KEY},
    **dict.fromkeys(("held_s", "held_gpus"), _NUMBER),
    "node": frames.TEXT,
    **dict.fromkeys(("run_s", "n_cpus", "cpu_s", "memory_bytes", "used_memory_bytes"), _NUMBER),
    "n_gpus": frames.COUNT,
    "gpu_util_sum": _NUMBER,
    "n_unused_gpus": frames.COUNT,
    "n_memory_gpus": frames.COUNT,
    **dict.fromkeys(("gpu_used_bytes", "gpu_memory_bytes"), _NUMBER),
}
"""A node of a job as jobstats summarised it."""

RECORDED: Final[frames.Schema] = {
    **{name: frames.ATTEMPTS[name] for name in _KEY},
    "source": frames.TEXT,
    **dict.fromkeys(("cpu_s", "cpu_held_s", "cpu_share"), _NUMBER),
    "n_lost_steps": frames.COUNT,
    **dict.fromkeys(("used_bytes", "held_bytes", "memory_share"), _NUMBER),
    **dict.fromkeys(("node_used_bytes", "node_held_bytes", "node_memory_share"), _NUMBER),
    **dict.fromkeys(("worst_node", "worst_step"), frames.TEXT),
    **dict.fromkeys(("gpu_util_sum", "gpu_util_s", "gpu_busy_most_s", "gpu_held_s"), _NUMBER),
    "gpu_util_max": _NUMBER,
    **dict.fromkeys(("n_gpus", "n_unused_gpus"), frames.COUNT),
    **dict.fromkeys(("gpu_used_bytes", "gpu_memory_bytes", "energy_j"), _NUMBER),
}
"""Records of one source about an attempt.

`cpu_share` is `cpu_s` over `cpu_held_s` (CPU-seconds held), `memory_share` `used_bytes` over `held_bytes`, and
`node_memory_share` the same of one task (Slurm) or node (jobstats), the highest. Mean GPU utilisation is
`gpu_util_sum` over `gpu_util_s`; `gpu_busy_most_s` of `gpu_held_s` are the GPU-seconds that can have been busy at most.
"""

SLURM: Final = "slurm"
JOBSTATS: Final = "jobstats"


def assign_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with the one attempt that each belongs to, as `STEPS`: of attempts that meet in a second the later one.

    Args:
        steps: rows of `usage_of_attempts`: with `started_at` of the step and `held_from`, the start of the attempt.
    """
    step = ["cluster", "scheduler", "job_id", "step", "started_at"]
    if steps.select(step).is_duplicated().any():
        steps = steps.sort("held_from", "submitted_at").unique(step, keep="last", maintain_order=True)
    return frames.conform(steps, STEPS)


def by_slurm(steps: pl.DataFrame) -> pl.DataFrame:
    """Slurm's records of steps, by attempt, as `RECORDED`.

    Args:
        steps: `STEPS`, those of one attempt in any order.
    """
    job, real = pl.col("step") == "", ~pl.col("step").is_in(["", EXTERN])
    used = pl.max_horizontal("tasks_rss_bytes", "max_rss_bytes")
    share = pl.col("gpu_util_max") / 100 * pl.col("n_tasks") * pl.col("elapsed_s")
    unmeasured = real & share.is_null()
    peak = pl.col("max_rss_bytes").fill_null(-1)
    facts = {name: pl.col(f"held_{name}").first() for name in ("s", "nodes", "cpus", "gpus")}
    table = steps.group_by(_KEY).agg(
        *(value.alias(f"_{name}") for name, value in facts.items()),
        pl.lit(SLURM).alias("source"),
        pl.max_horizontal(known_sum(pl.col("cpu_s").filter(~job)), pl.col("cpu_s").filter(job).max()).alias("cpu_s"),
        (real & pl.col("cpu_s").is_null()).sum().cast(frames.COUNT).alias("n_lost_steps"),
        used.max().cast(_NUMBER).alias("used_bytes"),
        pl.col("held_bytes").first().cast(_NUMBER),
        pl.col("max_rss_bytes").max().cast(_NUMBER).alias("node_used_bytes"),
        pl.col("max_rss_node").sort_by(peak, "max_rss_node").last().alias("worst_node"),
        pl.col("step").sort_by(peak, "step").last().alias("worst_step"),
        pl.when(real.any() & ~unmeasured.any()).then(share.filter(real).sum()).alias("_busy"),
        pl.col("gpu_util_max").filter(real).max().alias("gpu_util_max"),
        pl.col("gpu_mem_max_bytes").filter(real).max().cast(_NUMBER).alias("gpu_used_bytes"),
        pl.coalesce(pl.col("energy_j").filter(~job).max(), pl.col("energy_j").filter(job).max()).alias("energy_j"),
    )
    held = _positive(pl.col("_s") * pl.col("_gpus"))
    table = table.with_columns(
        cpu_held_s=_positive(pl.col("_s") * pl.col("_cpus")),
        node_held_bytes=pl.col("held_bytes") / _positive(pl.col("_nodes")),
        gpu_held_s=held,
        gpu_busy_most_s=pl.min_horizontal("_busy", pl.when(pl.col("_busy").is_not_null()).then(held)),
    )
    return _with_shares(table)


def by_jobstats(summaries: pl.DataFrame) -> pl.DataFrame:
    """Summaries of jobstats, by attempt, as `RECORDED`. A node that lacks a number of two counts in neither.

    Args:
        summaries: `SUMMARIES`, a row per attempt and node.
    """
    cpus = pl.col("n_cpus") * pl.col("run_s")
    both = cpus.is_not_null() & pl.col("cpu_s").is_not_null()
    measured = (pl.col("used_memory_bytes").is_not_null() & (pl.col("memory_bytes") > 0)).fill_null(value=False)
    used, share = pl.col("used_memory_bytes"), pl.col("used_memory_bytes") / pl.col("memory_bytes")
    worst = share.filter(measured).arg_max()
    gpus = (pl.col("n_gpus") > 0) & pl.col("run_s").is_not_null()
    table = summaries.sort(*_KEY, "node").group_by(_KEY, maintain_order=True).agg(
        pl.lit(JOBSTATS).alias("source"),
        known_sum(pl.col("cpu_s").filter(both)).alias("cpu_s"),
        known_sum(cpus.filter(both)).alias("cpu_held_s"),
        pl.lit(0, frames.COUNT).alias("n_lost_steps"),
        known_sum(used.filter(measured)).alias("used_bytes"),
        known_sum(pl.col("memory_bytes").filter(measured)).alias("held_bytes"),
        used.filter(measured).get(worst).alias("node_used_bytes"),
        pl.col("memory_bytes").filter(measured).get(worst).alias("node_held_bytes"),
        pl.col("node").filter(measured).get(worst).alias("worst_node"),
        known_sum((pl.col("gpu_util_sum") * pl.col("run_s")).filter(gpus)).alias("gpu_util_sum"),
        known_sum((pl.col("n_gpus") * pl.col("run_s")).filter(gpus)).alias("gpu_util_s"),
        _positive(pl.col("held_s").first() * pl.col("held_gpus").first()).alias("gpu_held_s"),
        known_sum(pl.col("n_gpus").filter(gpus)).alias("n_gpus"),
        known_sum(pl.col("n_unused_gpus").filter(gpus)).alias("n_unused_gpus"),
        known_sum(pl.col("gpu_used_bytes")).alias("gpu_used_bytes"),
        known_sum(pl.col("gpu_memory_bytes")).alias("gpu_memory_bytes"),
    )  # fmt: skip
    return _with_shares(table)


def of_held(recorded: pl.DataFrame) -> pl.DataFrame:
    """Sum of the held and used resources of attempts, by the better source of each: one row.

    Args:
        recorded: `RECORDED`.

    Returns:
        `n_attempts` of which the CPU time is recorded, `cpu_share` of the CPU time that they held, and the median of
        their `memory_share`; null where nothing is recorded.
    """
    # jobstats comes first: it counts every process of a node
    known = recorded.filter(pl.col("cpu_share").is_not_null()).sort(*_KEY, "source").unique(_KEY, keep="first")
    return known.select(
        n_attempts=pl.len(),
        cpu_share=pl.col("cpu_s").sum() / _positive(pl.col("cpu_held_s").sum()),
        memory_share=pl.col("memory_share").median(),
    )


def _with_shares(table: pl.DataFrame) -> pl.DataFrame:
    shares = {"cpu_share": ("cpu_s", "cpu_held_s"), "memory_share": ("used_bytes", "held_bytes")}
    shares |= {"node_memory_share": ("node_used_bytes", "node_held_bytes")}
    ratios = [(pl.col(above) / _positive(pl.col(below))).alias(name) for name, (above, below) in shares.items()]
    return frames.conform(table.with_columns(ratios), RECORDED).sort(_KEY)


def _positive(value: pl.Expr) -> pl.Expr:
    return pl.when(value > 0).then(value)


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="cpu_efficiency",
        unit="ratio",
        summary="Of the CPU time that an attempt held, the share that its processes used, by accounting.",
        formula=(
            "TotalCPU of its steps / (Elapsed x AllocCPUS); of a summary of jobstats total_time / (cpus x run time); "
            "at least, where the record of a step is lost"
        ),
        query="usage_of_attempts",
        function=by_slurm,
        interval="exact (a census of processes); a lower bound where steps have no record",
        source="Slurm sacct(1): TotalCPU; the same number as of seff and reportseff (CPUEff)",
    ),
    Metric(
        name="memory_efficiency",
        unit="ratio",
        summary="Of the memory that an attempt held, the most that samples saw in use, by accounting.",
        formula=(
            "the largest step's mem of TRESUsageInTot (the peaks of its tasks added up), or else its MaxRSS / memory "
            "allocated; of a summary of jobstats used_memory / total_memory, nodes added up"
        ),
        query="usage_of_attempts",
        function=by_slurm,
        interval="none: the highest of samples, so a lower bound of the peak",
        source="Slurm sacct(1): TRESUsageInTot, MaxRSS; the same number as of seff",
    ),
)
