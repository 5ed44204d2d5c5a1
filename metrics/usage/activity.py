"""GPU use in accounting records, as GPU-seconds within a window: for attempts that no telemetry covers."""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.unknown import known_sum
from metrics.usage.recorded import JOBSTATS, SLURM

TELEMETRY: Final = "telemetry"
NOTHING: Final = "none"
"""Kinds of evidence beside the sources of `metrics.usage.recorded`."""

_KEY: Final = list(frames.ATTEMPT_KEY)

GPU_USE: Final[frames.Schema] = {
    **{name: frames.ATTEMPTS[name] for name in _KEY},
    "evidence": frames.TEXT,
    **dict.fromkeys(
        ("observed_s", "judged_s", "idle_s", "gpu_util_s", "gpu_util_sum", "busy_most_s", "bounded_s"), frames.NUMBER
    ),
}
"""GPU-seconds of an attempt within a window, by the best source of accounting.

`gpu_util_sum` over `gpu_util_s` is the mean utilisation; `idle_s` those of GPUs that were never busy (at least), of
`judged_s`; `busy_most_s` of `bounded_s` those that can have been busy at most.
"""


def gpu_use(recorded: pl.DataFrame, allocated: pl.DataFrame) -> pl.DataFrame:
    """Recorded GPU use of attempts, as `GPU_USE`; attempts without such a record are left out.

    A record is of the whole attempt: of one that lies in the window in part, the part is taken to be like the whole.

    Args:
        recorded: `metrics.usage.recorded.RECORDED`.
        allocated: `frames.ATTEMPT_KEY` and `allocated_s`, GPU-seconds within the window.
    """
    mean, bound = pl.col("gpu_util_s") > 0, pl.col("gpu_util_max").is_not_null()
    best = (
        recorded.filter((pl.col("source") == JOBSTATS) & mean | (pl.col("source") == SLURM) & bound)
        .sort(*_KEY, "source")  # jobstats comes first
        .unique(_KEY, keep="first", maintain_order=True)
    )
    known = best.join(allocated.filter(pl.col("allocated_s") > 0), on=_KEY)
    held = pl.col("gpu_held_s").fill_null(pl.col("gpu_util_s"))
    covered = pl.when(mean).then(pl.col("allocated_s") * pl.min_horizontal(pl.col("gpu_util_s") / held, 1.0))
    unused = pl.col("n_unused_gpus") / pl.col("n_gpus")
    bounded = pl.when(pl.col("gpu_busy_most_s").is_not_null() & (pl.col("gpu_held_s") > 0)).then("allocated_s")
    return frames.conform(
        known.with_columns(
            pl.col("source").alias("evidence"),
            *(covered.alias(name) for name in ("observed_s", "judged_s", "gpu_util_s")),
            (covered * unused).alias("idle_s"),
            (covered * pl.col("gpu_util_sum") / pl.col("gpu_util_s")).alias("gpu_util_sum"),
            bounded.alias("bounded_s"),
            (bounded * pl.col("gpu_busy_most_s") / pl.col("gpu_held_s")).alias("busy_most_s"),
        ),
        GPU_USE,
    )


def bounds(use: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Upper bound of busy GPU-time: `by`, `busy_most_s`, `bounded_s`, and their share `busy_most`.

    Args:
        use: rows with the columns of `by`, `busy_most_s` and `bounded_s`.
        by: columns that name a subject.
    """
    names = ("busy_most_s", "bounded_s")
    sums = use.group_by(by).agg(known_sum(pl.col(name)).alias(name) for name in names)
    share = pl.when(pl.col("bounded_s") > 0).then(pl.col("busy_most_s") / pl.col("bounded_s"))
    return sums.with_columns(share.alias("busy_most"))


def never_busy(use: pl.DataFrame, allocated: pl.DataFrame) -> pl.DataFrame:
    """GPUs that summaries of jobstats show as never busy: one row, none where no summary has a mean.

    Args:
        use: `GPU_USE`.
        allocated: `frames.ATTEMPT_KEY` and `allocated_s`, GPU-seconds within the window.

    Returns:
        `gpu_s`, GPU-seconds of GPUs that were never busy (at least), `high_gpu_s`, all without a kernel by the means
        and without a record (at most), `allocated_gpu_s` of these attempts, `share` and `share_high` of it, `n`
        (attempts with such a GPU), `n_attempts`, and shares of evidence, which is accounting alone.
    """
    mine = use.filter(pl.col("evidence") == JOBSTATS).join(allocated, on=_KEY)
    whole = pl.col("allocated_s").sum()
    row = mine.select(
        gpu_s=pl.col("idle_s").sum(),
        high_gpu_s=whole - pl.col("gpu_util_sum").sum(),
        allocated_gpu_s=whole,
        n=(pl.col("idle_s") > 0).sum(),
        n_attempts=pl.len(),
        evidence_accounting=pl.lit(1.0),
        **dict.fromkeys(("evidence_log", "evidence_telemetry", "evidence_assumed"), pl.lit(0.0)),
    ).filter(pl.col("n_attempts") > 0)
    shares = {"share": "gpu_s", "share_high": "high_gpu_s"}
    return row.with_columns((pl.col(name) / pl.col("allocated_gpu_s")).alias(share) for share, name in shares.items())
