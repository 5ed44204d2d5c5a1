"""GPUs of job steps: a lower bound for an attempt whose own TRES names none.

Step rows of sacct have the raw id of their job, but not its Submit. The attempt of a step, one of several after
requeues, follows from the step's Start, which lies within the attempt's Start and End.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.plausible import GPUS_PER_NODE, beyond
from ingest.slurm.accounting.columns import DumpColumns
from ingest.slurm.formats import values
from ingest.slurm.formats.timestamps import consistent_times
from ingest.tables import ATTEMPT_KEY, ATTEMPTS, GPUS, TEXT, TIME, Schema, conform, empty

STEP_GPUS: Final[Schema] = {"cluster": TEXT, "scheduler": TEXT, "job_id": TEXT, "began": TIME, "step_gpus": GPUS}
"""A step that held GPUs: its job, when it began, and how many."""

_JOB: Final = ("cluster", "scheduler", "job_id")
_RESOURCES: Final = ("alloctres", "reqtres", "allocgres", "reqgres")


def gpu_steps(frame: pl.DataFrame, *, cluster: str | None, timezone: str | None, origin: str) -> pl.DataFrame:
    """Those of the step rows of sacct text that held GPUs, as `STEP_GPUS`.

    Args:
        frame: step rows, all columns text.
        cluster: Cluster of rows that do not name one.
        timezone: Zone of times without an offset.
        origin: File name or command, for messages.
    """
    named = [pl.col(name).str.contains("gpu") for name in _RESOURCES if name in frame.columns]
    rows = frame.filter(pl.any_horizontal(named).fill_null(value=False)) if named else frame.clear()
    if rows.is_empty():
        return empty(STEP_GPUS)
    columns = DumpColumns(rows, timezone=timezone, origin=origin)
    start = columns.time("start")
    times = consistent_times(
        submit=start,
        eligible=start,
        start=start,
        end=columns.time("end"),
        elapsed_s=columns.duration("elapsedraw", "elapsed"),
        suspended_s=columns.duration("suspended"),
    )
    table = pl.DataFrame(
        {
            "cluster": columns.word("cluster").fill_null(pl.lit(cluster, pl.String)),
            "scheduler": pl.repeat("slurm", rows.height, eager=True),
            "job_id": columns.word("jobidraw", "jobid").str.replace(values.STEP, ""),
            "began": times["start"],
            "step_gpus": columns.tres("alloctres")["gpus"].fill_null(columns.tres("reqtres")["gpus"]),
        }
    )
    return conform(table.drop_nulls().filter(pl.col("step_gpus") > 0), STEP_GPUS)


def with_steps(attempts: pl.DataFrame, steps: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Attempts with the most GPUs of one of their steps where they name none, and the steps of no attempt here.

    Args:
        attempts: `frames.ATTEMPTS`, one row each.
        steps: `STEP_GPUS`, any number of times each.
    """
    if steps.is_empty():
        return attempts, steps
    last = pl.col("started_at") + pl.duration(
        microseconds=((pl.col("elapsed_s") + pl.col("suspended_s").fill_null(0)) * 1e6).cast(pl.Int64)
    )
    ran = attempts.join(steps, on=_JOB, how="semi").filter(pl.col("started_at").is_not_null())
    ran = ran.sort("started_at", "submitted_at").select(
        *_JOB, "submitted_at", "started_at", "n_gpus", "n_nodes", last=pl.coalesce("ended_at", last)
    )
    placed = steps.sort("began").join_asof(
        ran, left_on="began", right_on="started_at", by=list(_JOB), check_sortedness=False
    )
    within = (pl.col("started_at").is_not_null() & (pl.col("began") <= pl.col("last")).fill_null(value=True)).fill_null(
        value=False
    )
    believed = pl.col("n_gpus").is_null() & ~beyond("step_gpus", GPUS_PER_NODE, pl.col("n_nodes"))
    most = placed.filter(within & believed).group_by(ATTEMPT_KEY).agg(pl.col("step_gpus").max())
    with_most = attempts.join(most, on=ATTEMPT_KEY, how="left", maintain_order="left")
    with_steps_gpus = with_most.with_columns(pl.max_horizontal("gpus_steps", "step_gpus").alias("gpus_steps"))
    return conform(with_steps_gpus, ATTEMPTS), conform(placed.filter(~within), STEP_GPUS)
