"""Pods with a placeholder job in Slurm (slurm-bridge), and faults between the two.

Slurm's accounting has their GPUs, so they are no attempts of their own. But the placeholder may be gone while its pod
lives: Slurm ended the job (also every job at once, as NODE_FAIL, after a reconfigure), and freed GPUs that are in use.
From then on the pod's GPUs are its own. A Terminating pod that still holds its job counts as a job of Slurm.

Source: SlinkyProject/slurm-bridge, issues 16, 36, 43 and 49.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.pods import SLURM_JOB, WORK
from ingest.tables import columns_of

OUTLIVED: Final = columns_of("outlived_jobs")

OUTLIVES_S: Final = 300
"""Seconds that a pod may take to end after its job: Slurm's KillWait, the epilog and a pod's grace period are less."""


def bridged(pods: pl.DataFrame, jobs: pl.DataFrame, *, accounted: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Pods split by whether Slurm's accounting has their GPUs: a label alone takes no pod out of the ledger.

    Args:
        pods: rows of `pods`.
        jobs: `job_id` and `ended_at` of the attempts in Slurm's accounting that pods name.
        accounted: whether the cluster has Slurm's accounting at all.

    Returns:
        The pods, as work where Slurm has no such job, and from the end of the job on where the pod outlived it; and
        rows of `outlived_jobs`.
    """
    ends = jobs.group_by(slurm_job_id="job_id").agg(
        freed_at=pl.when(pl.col("ended_at").null_count() == 0).then(pl.col("ended_at").max()), known=pl.lit(value=True)
    )
    rows = pods.join(ends, on="slurm_job_id", how="left", maintain_order="left")
    claims = pl.col("role") == SLURM_JOB
    of_slurm = pl.col("known").fill_null(value=False) | (pl.col("slurm_job_id").is_null() & accounted)
    pod_end = pl.coalesce("ended_at", "deleted_at")
    observed = pl.coalesce(pod_end, "seen_at")
    outlived = claims & (observed > pl.col("freed_at") + pl.duration(seconds=OUTLIVES_S)).fill_null(value=False)
    rows = rows.with_columns(outlived=outlived & pl.col("scheduled_at").is_not_null())
    after = pl.when("outlived").then(pl.max_horizontal("scheduled_at", "freed_at"))
    work = rows.with_columns(
        role=pl.when(claims & (~of_slurm | pl.col("outlived"))).then(pl.lit(WORK)).otherwise("role"),
        created_at=pl.coalesce(after, "created_at"),
        scheduled_at=pl.coalesce(after, "scheduled_at"),
    ).select(pods.columns)
    lived_on = rows.filter("outlived").select(
        "cluster", job_id="slurm_job_id", ended_at="freed_at", lived_until=pod_end,
        pod=pl.concat_str("namespace", "name", separator="/"),
    )  # fmt: skip
    return work, lived_on.select(pl.col(name).cast(kind) for name, kind in OUTLIVED.items())
