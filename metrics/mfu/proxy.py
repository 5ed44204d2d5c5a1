"""An estimate of MFU from telemetry: tensor activity x SM clock / the clock of the peak, calibrated against run logs.

Tensor activity is the share of cycles in which a tensor pipe worked; times the clock over the one that the table's peak
is worked out with, it is the share of the peak that was *executed*: HFU, without what runs outside the tensor pipes. It
is normally above MFU, since it counts what is computed again, padding and evaluation. How much above depends on the
workload, so where both are known `MFU = a x HFU` is fitted through zero and published with what it leaves; where there
is no log, `a x HFU` is an estimate and labelled so.

The two are compared by whole hours of an attempt: hours in which nearly all of its GPUs were seen and nearly all the
time went into logged steps. A step's FLOP are spread evenly over the step.

Source of DCGM_FI_PROF_PIPE_TENSOR_ACTIVE: NVIDIA DCGM user guide, profiling metrics.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.empty_inputs import cached_if_empty
from metrics.exact import FLOP, exact_sum
from metrics.intervals import split_every
from metrics.metric import Metric
from metrics.mfu.peaks import gpu_of
from metrics.units import HOUR_S, HOUR_US

MIN_OBSERVED_SHARE: Final = 0.9
"""Share of an attempt's GPUs that must have been seen in an hour."""

STEPPED: Final = 0.9
"""Share of the hour that must have gone into logged steps: what else ran (evaluation) is in no log's FLOP."""

ENOUGH: Final = 3
"""Hours that a fit needs."""

SLACK: Final = 1.05
"""Logs may exceed the pipes by this factor before something must be wrong: readings are rounded averages."""

FAR_BELOW: Final = 2.0
"""The pipes may have done so many times what logs account for; full recomputation explains 4/3 of it."""

WORKLOAD: Final = ("gpu_model", "dtype")

HOURS: Final[frames.Schema] = {
    "cluster": frames.TEXT,
    "scheduler": frames.TEXT,
    "job_id": frames.TEXT,
    "submitted_at": frames.TIME,
    "run_id": frames.TEXT,
    "hour": frames.COUNT,
    "gpu_model": frames.TEXT,
    "held_gpus": frames.NUMBER,
    "seen_gpus": frames.NUMBER,
    "tensor_active": frames.NUMBER,
    "sm_clock_hz": frames.NUMBER,
}
"""Whole hours of attempts by telemetry; `hour` counts from 1970."""


@cached_if_empty("hours")
def executed_share(hours: pl.DataFrame) -> pl.DataFrame:
    """`hfu_est` of each hour: tensor activity x SM clock / the clock that the table's peak is worked out with.

    Where either clock is not known, they are taken as equal (`clocked` is false): then a GPU that was throttled seems
    to have done more than it did.

    Args:
        hours: `HOURS`, the attempts' GPU by any name.

    Returns:
        The same rows with `gpu_model` as the table of peaks calls it (unchanged, where the table lacks it), `hfu_est`
        and `clocked`; hours of which too few GPUs were seen are left out.
    """
    names = hours["gpu_model"].unique().to_list()
    kinds = [gpu_of(name) for name in names]
    about = pl.DataFrame(
        {
            "gpu_model": pl.Series(names, dtype=pl.String),
            "_name": pl.Series([gpu.name if gpu else name for gpu, name in zip(kinds, names, strict=True)],
                               dtype=pl.String),
            "_clock_hz": pl.Series([gpu.peak_clock_mhz * 1e6 if gpu and gpu.peak_clock_mhz else None for gpu in kinds],
                                   dtype=pl.Float64),
        }
    )  # fmt: skip
    observed = hours.filter(pl.col("seen_gpus") >= MIN_OBSERVED_SHARE * pl.col("held_gpus"))
    pace = pl.col("sm_clock_hz") / pl.col("_clock_hz")
    return (
        observed.join(about, on="gpu_model", how="left", nulls_equal=True, maintain_order="left")
        .with_columns(hfu_est=pl.col("tensor_active") * pace.fill_null(1.0), clocked=pace.is_not_null())
        .with_columns(gpu_model="_name")
        .drop("_name", "_clock_hz")
    )


@cached_if_empty("steps")
def logged_hours(steps: pl.DataFrame) -> pl.DataFrame:
    """Each hour of an attempt by its logs.

    Args:
        steps: executions of steps, kept or not (the pipes did both), with `begin`, `end`, `reach` (microseconds),
            `wall_s`, `run_id`, `gpu_model`, `n_gpus`, and as `metrics.mfu.mfu.step_mfu` returns them `flop`,
            `peak_flop`, `peak_dtype`; `flop_least`, the FLOP that cannot have been skipped.

    Returns:
        By `frames.ATTEMPT_KEY` and `hour`: `run_id`, `gpu_model`, `dtype`, `peak_flops` (of one GPU), `flop`,
        `flop_least`, `stepped_s`; hours of which a part is not logged are left out.
    """
    counted = steps.filter(pl.col("peak_flop").is_not_null() & pl.col("flop").is_not_null())
    until = pl.when(pl.col("end") > pl.col("begin")).then("end").otherwise("reach")
    spans = counted.select(
        *frames.ATTEMPT_KEY,
        "run_id",
        "gpu_model",
        pl.col("peak_dtype").alias("dtype"),
        (pl.col("peak_flop") / pl.col("n_gpus") / pl.col("wall_s")).alias("peak_flops"),
        "flop",
        "flop_least",
        "wall_s",
        pl.col("begin").alias("started"),
        until.alias("ended"),
        (until - pl.col("begin")).alias("_whole"),
    ).filter(pl.col("_whole") > 0)
    part = (pl.col("ended") - pl.col("started")) / pl.col("_whole")
    return (
        split_every(spans, HOUR_US)
        .with_columns(hour=pl.col("started") // HOUR_US, _part=part)
        .group_by(*frames.ATTEMPT_KEY, "hour")
        .agg(
            pl.col("run_id", "gpu_model", "dtype").drop_nulls().first(),
            pl.col("peak_flops").max(),
            *(exact_sum(pl.col(name) * pl.col("_part"), places=FLOP).alias(name) for name in ("flop", "flop_least")),
            exact_sum(pl.col("wall_s") * pl.col("_part")).alias("stepped_s"),
        )
        .filter(pl.col("stepped_s") >= STEPPED * HOUR_S)
        .sort(*frames.ATTEMPT_KEY, "hour")
    )


@cached_if_empty("logged")
def compared(observed: pl.DataFrame, logged: pl.DataFrame) -> pl.DataFrame:
    """Hours that both cover.

    Args:
        observed: as `executed_share` returns it.
        logged: as `logged_hours` returns it.

    Returns:
        By `frames.ATTEMPT_KEY` and `hour`: `run_id`, `gpu_model`, `dtype`, `gpu_hours`, `hfu_est`, `clocked`,
        `mfu_log` and `mfu_least` (the same with only the FLOP that cannot have been skipped).
    """
    names = {name: gpu.name for name in logged["gpu_model"].unique() if (gpu := gpu_of(name)) is not None}
    key = [*frames.ATTEMPT_KEY, "hour"]
    both = observed.drop("run_id", "gpu_model").join(logged, on=key).sort(key)
    most = pl.col("peak_flops") * pl.col("held_gpus") * HOUR_S
    return both.select(
        *key,
        "run_id",
        pl.col("gpu_model").replace(names),
        "dtype",
        pl.col("held_gpus").alias("gpu_hours"),
        "hfu_est",
        "clocked",
        (pl.col("flop") / most).alias("mfu_log"),
        (pl.col("flop_least") / most).alias("mfu_least"),
    )


@cached_if_empty("hours")
def fits(hours: pl.DataFrame) -> pl.DataFrame:
    """`MFU = a x HFU` through zero, weighted by GPU-hours: of each run, and of each kind of GPU and data type.

    `a = sum(w x y) / sum(w x^2)`, and the residual is `sqrt(sum(w (y - a x)^2) / sum(w))`, as MFU.

    Args:
        hours: as `compared` returns it.

    Returns:
        `cluster`, `run_id` (empty: all runs), `gpu_model`, `dtype`, `n` (hours), `gpu_hours`, `mfu_log`, `hfu_est`,
        `slope`, `residual` (null for fewer than 3 hours), `disagrees`, `note`; by run, those of all first.
    """
    of_runs = _fit(hours, ["cluster", "run_id", *WORKLOAD])
    of_all = _fit(hours, ["cluster", *WORKLOAD]).with_columns(run_id=pl.lit(""))
    return pl.concat([of_all, of_runs], how="diagonal").sort("cluster", "run_id", *WORKLOAD)


def _fit(hours: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    w, x, y = pl.col("gpu_hours"), pl.col("hfu_est"), pl.col("mfu_log")
    xx, xy, yy = (exact_sum(w * one * other, places=18) for one, other in ((x, x), (x, y), (y, y)))
    total = exact_sum(w)
    enough = (pl.len() >= ENOUGH) & (xx > 0)
    left = ((yy - xy * xy / xx).clip(0) / total).sqrt()
    return (
        hours.group_by(by)
        .agg(
            n=pl.len().cast(pl.Int64),
            gpu_hours=total,
            mfu_log=exact_sum(w * y, places=18) / total,
            _least=exact_sum(w * pl.col("mfu_least"), places=18) / total,
            hfu_est=exact_sum(w * x, places=18) / total,
            slope=pl.when(enough).then(xy / xx),
            residual=pl.when(enough).then(left),
            _clocked=pl.col("clocked").all(),
            _runs=pl.col("run_id").n_unique(),
        )
        .with_columns(_above=pl.col("_least") > SLACK * pl.col("hfu_est"),
                      _below=pl.col("hfu_est") > FAR_BELOW * pl.col("mfu_log"))
        .with_columns(disagrees=pl.col("_above") | pl.col("_below"), note=_notes())
        .drop("_least", "_clocked", "_above", "_below", "_runs")
    )  # fmt: skip


def _notes() -> pl.Expr:
    """The caveats of a fit."""
    masked = pl.col("mfu_log") > SLACK * pl.col("hfu_est")
    notes = [
        pl.when(pl.col("_above")).then(pl.lit(ABOVE)),
        pl.when(pl.col("_below")).then(pl.lit(BELOW)),
        pl.when(masked & ~pl.col("_above")).then(pl.lit(MASKED)),
        pl.when(pl.col("n") < ENOUGH).then(pl.lit(f"fewer than {ENOUGH} hours with both: no fit")),
        pl.when(~pl.col("_clocked")).then(pl.lit(UNCLOCKED)),
    ]
    return pl.concat_str(notes, separator="; ", ignore_nulls=True).replace("", None)


ABOVE: Final = (
    "the log claims more than the tensor pipes can have done: too many parameters or tokens, too few GPUs, or the peak "
    "of another data type"
)
BELOW: Final = (
    f"the tensor pipes did more than {FAR_BELOW:g} times what the log accounts for: recomputation, padding, tokens or "
    "parameters left out of the log, or the peak of another data type"
)
MASKED: Final = "the convention credits attention that a causal mask leaves out, which kernels skip"
UNCLOCKED: Final = "no SM clock (or none of the peak): taken as equal"


@cached_if_empty("observed")
def estimated(observed: pl.DataFrame, logged: pl.DataFrame, fitted: pl.DataFrame) -> pl.DataFrame:
    """MFU of runs that kept no log, as tensor activity and the fit of their kind of GPU suggest: an estimate.

    Args:
        observed: as `executed_share` returns it.
        logged: attempts that logged steps (`frames.ATTEMPT_KEY`): those are none of these.
        fitted: as `fits` returns it; of a kind of GPU that logs of several data types, that of most GPU-hours counts.

    Returns:
        `cluster`, `run_id`, `gpu_model`, `dtype` (assumed), `n` (hours), `gpu_hours`, `hfu_est`, `slope`, `residual`,
        `value`; by cluster and run. Runs whose kind of GPU has no fit are left out.
    """
    fit = (
        fitted.filter((pl.col("run_id") == "") & pl.col("slope").is_not_null())
        .sort("gpu_hours", descending=True)
        .unique(["cluster", "gpu_model"], keep="first", maintain_order=True)
        .select("cluster", *WORKLOAD, "slope", "residual")
    )
    w = pl.col("held_gpus")
    return (
        observed.join(logged, on=list(frames.ATTEMPT_KEY), how="anti")
        .filter(pl.col("run_id").is_not_null())
        .group_by("cluster", "run_id", "gpu_model")
        .agg(
            n=pl.len().cast(pl.Int64),
            gpu_hours=exact_sum(w),
            hfu_est=exact_sum(w * pl.col("hfu_est"), places=18) / exact_sum(w),
        )
        .join(fit, on=["cluster", "gpu_model"])
        .with_columns(value=pl.col("slope") * pl.col("hfu_est"))
        .select("cluster", "run_id", *WORKLOAD, "n", "gpu_hours", "hfu_est", "slope", "residual", "value")
        .sort("cluster", "run_id", "gpu_model")
    )


# Published metrics --------------------------------------------------------------------------------------------------


METRICS = (
    Metric(
        name="mfu_proxy",
        unit="ratio",
        summary="Factor from tensor activity to the MFU of logs, over the hours that have both.",
        formula="sum(w MFU HFU) / sum(w HFU^2), HFU = tensor activity x SM clock / clock of the peak, w = GPU-hours",
        query="gpu_tensor_hours",
        function=fits,
        interval="residual: root mean square of what the fit leaves, as MFU",
        source="NVIDIA DCGM user guide, profiling metrics",
    ),
    Metric(
        name="mfu_estimated",
        unit="ratio",
        summary="MFU of runs without logs as tensor activity suggests it; an estimate, in no other figure.",
        formula="a x (tensor activity x SM clock / clock of the peak), a fitted to logged runs of the same kind of GPU",
        query="gpu_tensor_hours",
        function=estimated,
        interval="none; the residual of the fit is how far single hours of logged runs lie from it",
        source="fitted here, cluster by cluster, over hours with logs; NVIDIA DCGM user guide, profiling metrics",
    ),
)
