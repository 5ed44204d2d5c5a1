"""MFU of a run over all time that it was allocated GPUs: the MFU of its steps times the share of time they took."""

from __future__ import annotations

import polars as pl

from metrics.exact import FLOP, exact_sum
from metrics.metric import Metric, Parts


def allocated(sums: pl.DataFrame) -> pl.DataFrame:
    """GPU-seconds that each run was allocated, and those of them that its log covers.

    Args:
        sums: `frames.LEDGER_SUMS` by run.

    Returns:
        `cluster`, `run_id`, `allocated_gpu_s`, `logged_gpu_s`.
    """
    seconds = pl.col("gpu_seconds")
    return (
        sums.filter(pl.col("state") == "allocated")
        .group_by("cluster", pl.col("subject").alias("run_id"))
        .agg(
            seconds.sum().cast(pl.Float64).alias("allocated_gpu_s"),
            seconds.filter(pl.col("evidence") == "log").sum().cast(pl.Float64).alias("logged_gpu_s"),
        )
    )


def run_mfu(steps: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """MFU of each run over all the time it was allocated GPUs.

    `flop` of the kept steps over the peak FLOP of all its GPU-seconds; so startup, checkpoints, evaluation, hangs and
    work that was lost lower it, and queueing does not. It is the MFU of the steps times the share of the GPU-time that
    those steps took.

    Time without a log counts as without model FLOP in `value`, and at the MFU of the steps in `flop_most`.

    Args:
        steps: `metrics.mfu.mfu.step_mfu`'s rows, kept ones.
        held: as `allocated` returns it.

    Returns:
        `cluster`, `run_id`, `flop`, `flop_most`, `peak_flop`, `value`, `bound_high`, `step_mfu`, `step_share`,
        `allocated_gpu_s`, `logged_gpu_s`, `n` (steps); by cluster and run. Null where no step has an MFU.

    Run MFU = step MFU x productive share.
    """
    time = pl.col("n_gpus") * pl.col("wall_s")
    with_mfu = pl.col("mfu").is_not_null()
    by_run = steps.group_by("cluster", "run_id").agg(
        n=with_mfu.sum().cast(pl.Int64),
        flop=exact_sum(pl.col("flop").filter(with_mfu), places=FLOP),
        step_peak_flop=exact_sum(pl.col("peak_flop").filter(with_mfu), places=FLOP),
        step_gpu_s=exact_sum(time.filter(with_mfu)),
    )
    has_steps = pl.col("n") > 0
    per_gpu_s = pl.col("step_peak_flop") / pl.col("step_gpu_s")
    unseen = (pl.col("allocated_gpu_s") - pl.col("logged_gpu_s")).clip(0)
    whole = pl.when(has_steps & (pl.col("allocated_gpu_s") > 0)).then(per_gpu_s * pl.col("allocated_gpu_s"))
    return (
        by_run.join(held, on=["cluster", "run_id"])
        .with_columns(
            peak_flop=whole,
            step_mfu=pl.when(has_steps).then(pl.col("flop") / pl.col("step_peak_flop")),
            step_share=pl.when(whole.is_not_null()).then(pl.col("step_gpu_s") / pl.col("allocated_gpu_s")),
        )
        .with_columns(flop_most=pl.col("flop") + pl.col("step_mfu") * per_gpu_s * unseen)
        .with_columns(value=pl.col("flop") / pl.col("peak_flop"), bound_high=pl.col("flop_most") / pl.col("peak_flop"))
        .select(
            "cluster", "run_id", "flop", "flop_most", "peak_flop", "value", "bound_high", "step_mfu", "step_share",
            "allocated_gpu_s", "logged_gpu_s", "n",
        )
        .sort("cluster", "run_id")
    )  # fmt: skip


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="mfu_wall",
        unit="ratio",
        parts=Parts("flop", "model FLOP", "peak FLOP of all allocated time"),
        summary=(
            "MFU over all time that logged runs were allocated GPUs: MFU of the steps x the share of productive time."
        ),
        formula="model FLOP of the kept steps / (dense peak FLOP/s x allocated GPU-seconds of the runs)",
        query="ledger_sums",
        function=run_mfu,
        interval=("bounds: time without a log counted without model FLOP (low) and at the MFU of the steps (high)"),
        source="run MFU = step MFU x productive share; step MFU: Chowdhery et al., PaLM (2022), appendix B",
    ),
)
