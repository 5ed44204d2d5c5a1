"""Utilisation of allocated GPUs, by the subject they were allocated to: ratios of sums over the time with samples.

A mean is a sum of value x time over the time of which the value is known; never a mean of means. The coverage of
the allocated time is shown beside it. Jobs that check nodes are no use of GPUs: leave them out.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics.metric import Metric
from metrics.unknown import known_sum

MEANS: Final = ("gpu_util", "gr_engine_active", "sm_active", "tensor_active", "dram_active")
"""Columns of samples of which there are means."""

_SUMS: Final = (
    "allocated_s",
    "observed_s",
    "unattributed_s",
    "judged_s",
    "idle_s",
    *(f"{name}_{what}" for name in MEANS for what in ("s", "sum")),
    "power_s",
    "energy_j",
)


def utilisation(activity: pl.DataFrame, allocated: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Utilisation of GPUs by subject, the most idle time first.

    Args:
        activity: rows of attempts, or of nodes that one user's attempts shared, with the columns of `by`, and sums in
            seconds and value x seconds as `metrics.telemetry.gpu_attribution.in_units` names them (`energy_j`,
            `power_s` for power).
        allocated: `by` and `allocated_s`: GPU-seconds of attempts, with samples or without.
        by: columns that name a subject.

    Returns:
        `by`, all sums, and of them `coverage` (observed by allocated; null where nothing was allocated), `idle_share`
        (of the time of which it is known), the means by the names of `MEANS`, and `power_w` of a GPU. Null where
        there are no samples.
    """
    sums = pl.concat([activity, allocated], how="diagonal_relaxed")
    missing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in _SUMS if name not in sums.columns]
    totals = sums.with_columns(missing).group_by(by).agg(known_sum(pl.col(name)).alias(name) for name in _SUMS)
    seconds = [name for name in _SUMS if name.endswith("_s") and name != "idle_s"]
    return (
        totals.with_columns(pl.col(seconds).fill_null(0.0))
        .with_columns(
            _ratio("observed_s", "allocated_s").alias("coverage"),
            _ratio("idle_s", "judged_s").alias("idle_share"),
            *(_ratio(f"{name}_sum", f"{name}_s").alias(name) for name in MEANS),
            _ratio("energy_j", "power_s").alias("power_w"),
        )
        .sort(pl.col("idle_s").fill_null(-1.0), "allocated_s", *by, descending=[True, True, *(False for _ in by)])
    )


def _ratio(above: str, below: str) -> pl.Expr:
    return pl.when(pl.col(below) > 0).then(pl.col(above) / pl.col(below))


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="gpu_util",
        unit="ratio",
        summary=(
            "Of the observed GPU-time of attempts, the share in which a kernel ran: an idle detector, no measure "
            "of work."
        ),
        formula="sum of GPU utilisation x seconds / GPU-seconds with a utilisation, node checks left out",
        query="attempt_activity",
        function=utilisation,
        interval="none: a census of the samples; telemetry_coverage is their share of the time",
        source="DCGM_FI_DEV_GPU_UTIL, and what other exporters have for it",
    ),
    Metric(
        name="tensor_active",
        unit="ratio",
        summary="Of the observed GPU-time of attempts, the mean share of cycles in which the tensor pipe was active.",
        formula="sum of tensor activity x seconds / GPU-seconds with a tensor activity, node checks left out",
        query="attempt_activity",
        function=utilisation,
        interval="none: a census of the samples; telemetry_coverage is their share of the time",
        source="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE; NVIDIA DCGM user guide, profiling metrics",
    ),
    Metric(
        name="idle_gpus",
        unit="ratio",
        summary="Of the observed GPU-time of attempts, the share in which the GPU was not active.",
        formula="GPU-seconds of attempts that were not active / those of which it is known, node checks left out",
        query="attempt_activity",
        function=utilisation,
        interval="none: a census of the samples; telemetry_coverage is their share of the time",
        source="the ledger's rule of active GPUs (config: rules.active_tensor, active_gr_engine, active_gpu_util)",
    ),
    Metric(
        name="telemetry_coverage",
        unit="ratio",
        summary="Of the GPU-time that attempts were allocated, the share that samples of their GPUs cover.",
        formula="GPU-seconds observed and attributed to an attempt / allocated GPU-seconds, node checks left out",
        query="attempt_activity",
        function=utilisation,
        interval="exact (a census)",
        source="our definitions 5.2 (levels of evidence)",
    ),
)
