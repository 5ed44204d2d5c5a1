"""Time at which an attempt had all of its GPUs, where some of its pods lived on from the attempt before."""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames

_KEY: Final = list(frames.ATTEMPT_KEY)


def begun_whole(attempts: pl.DataFrame, attempt_nodes: pl.DataFrame) -> pl.DataFrame:
    """Attempts with `started_at` when their gang was whole, for those that pods of the attempt before live on in.

    Kubernetes replaces the pods that failed, and the others wait for them: they hold their GPUs from the beginning of
    the next attempt, which therefore starts as it is submitted. It trains when "all resources the job needs are
    available" (Google's definition of the scheduling part of goodput). Null: it never had all of them. Slurm starts an
    attempt with all that it allocates.

    Args:
        attempts: `frames.ATTEMPTS`.
        attempt_nodes: `frames.ATTEMPT_NODES` with times of their own, as placements have them.

    Returns:
        `frames.ATTEMPTS`; those that hold an unknown number of GPUs are as they were.
    """
    at_once = (pl.col("started_at") == pl.col("submitted_at")) & (pl.col("scheduler") != "slurm")
    lived_on = attempts.filter(at_once).select(*_KEY, needed=pl.max_horizontal("req_milli_gpus", "milli_gpus"))
    held = attempt_nodes.join(lived_on, on=_KEY)
    unknown = pl.col("milli_gpus").is_null() | pl.col("needed").is_null()
    known = held.group_by(_KEY).agg(unknown=unknown.any()).filter(~pl.col("unknown"))
    come = held.select(*_KEY, "needed", at="started_at", change="milli_gpus")
    go = held.select(*_KEY, "needed", at="ended_at", change=-pl.col("milli_gpus")).drop_nulls("at")
    changes = pl.concat([come, go]).group_by(*_KEY, "needed", "at").agg(pl.col("change").sum()).sort(*_KEY, "at")
    whole = changes.filter(pl.col("change").cum_sum().over(_KEY) >= pl.col("needed"))
    first = whole.group_by(_KEY).agg(whole_at=pl.col("at").min())
    found = known.select(_KEY).join(first, on=_KEY, how="left").with_columns(is_known=pl.lit(value=True))
    joined = attempts.join(found, on=_KEY, how="left", maintain_order="left")
    started = pl.when(pl.col("is_known").fill_null(value=False)).then("whole_at").otherwise("started_at")
    return joined.with_columns(started_at=started).select(attempts.columns)
