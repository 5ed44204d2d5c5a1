"""Attempts of Determined's tasks: each allocation is one.

The export has the slots and times of a task, but neither its nodes nor its outcome: nodes are unknown, and so are final
states. Such attempts count in GPU-hours, and in no rate of failures. Where the pods of an allocation are loaded, too,
they are the attempt (`ingest.kubernetes`), since they have both.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.determined.sources import SCHEDULER
from ingest.tables import ATTEMPTS

OF_PODS: Final = "Task/"
"""Beginning of the column `gang` of its pods; the name of the task follows."""

ENDED: Final = "UNKNOWN"
"""State of a finished attempt: the export has no outcome."""

_ID: Final = r"^(.*)\.(\d{1,9})$"
_JOB: Final = ("cluster", "job_id")


def attempts_of(allocations: pl.DataFrame, pods: pl.DataFrame) -> pl.DataFrame:
    """Rows of `attempts`.

    Args:
        allocations: rows of `determined_allocations`.
        pods: `cluster`, `gang`, `restart_attempt` of pods.
    """
    task = pl.col("allocation_id").str.extract(_ID, 1)
    rows = allocations.with_columns(
        job_id=pl.coalesce(task, "allocation_id"), number=pl.col("allocation_id").str.extract(_ID, 2).cast(pl.Int64)
    )
    of_pods = pods.filter(pl.col("gang").str.starts_with(OF_PODS)).select(
        "cluster", job_id=pl.col("gang").str.strip_prefix(OF_PODS), number="restart_attempt"
    )
    own = rows.join(of_pods, on=[*_JOB, "number"], how="anti").sort(*_JOB, "started_at", "allocation_id")
    repeated = pl.int_range(pl.len()).over(*_JOB, "started_at")
    ended = pl.col("ended_at")
    experiment = pl.when(pl.col("experiment_id").is_not_null()).then(pl.format("experiment {}", "experiment_id"))
    known = own.select(
        *("cluster", "job_id", "started_at", "ended_at", "user"),
        scheduler=pl.lit(SCHEDULER),
        submitted_at=pl.col("started_at") + pl.duration(microseconds=repeated),
        state=pl.when(ended.is_null()).then(pl.lit("RUNNING")).otherwise(pl.lit(ENDED)),
        account="workspace",
        partition="resource_pool",
        name=pl.coalesce(experiment, pl.col("task_type").str.to_lowercase(), pl.lit("task")),
        elapsed_s=(ended - pl.col("started_at")).dt.total_microseconds() / 1e6,
        req_gpus="slots",
        n_gpus="slots",
    )
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in ATTEMPTS.items() if name not in known.columns]
    return known.with_columns(missing).select(pl.col(name).cast(kind) for name, kind in ATTEMPTS.items())
