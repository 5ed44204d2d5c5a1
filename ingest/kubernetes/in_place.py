"""Containers that are restarted in place (restartPolicy OnFailure or Always): the pod stays, and its progress does not.

A pod with a restarted container is several successive executions on the same node, so the gang's attempt ends and the
next begins, as if the pod had been replaced. The pod holds its GPUs meanwhile: the next execution has them from the end
of the container on. Restarts without an observed end are only counted (`pods.restarts`).
"""

from __future__ import annotations

from typing import Final

import polars as pl

from ingest.kubernetes.pods import OF_REASON
from ingest.tables import columns_of

ENDS: Final = columns_of("container_ends")

TOGETHER_S: Final = 120
"""Seconds between ends of several containers of a pod that still are one restart."""

_POD: Final = ("cluster", "uid")
_PART: Final = "part"


def executions(pods: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Pods, those with restarts in place as one row for each execution, of which each begins where the last ended.

    Args:
        pods: rows of `pods`, `with_roots`.
        ends: rows of `container_ends`.

    Returns:
        The same columns. Later executions have a uid of their own (`UID#1`). `restarts` is the number of earlier
        restarts of the pod; those without an observed end count before the last execution.
    """
    known = _restarts(pods, ends)
    if known.is_empty():
        return pods
    numbered = known.with_columns(pl.int_range(pl.len()).over(_POD, order_by="end").alias(_PART))
    before = pods.join(numbered, on=_POD).with_columns(
        ended_at="end",
        state=pl.when(pl.col("code") == 0)
        .then(pl.lit("COMPLETED"))
        .otherwise(pl.col("why").replace_strict(OF_REASON, default="FAILED")),
        reason="why",
        exit_code="code",
        restarts=pl.col(_PART).cast(pl.Int64),
        deleted_at=pl.lit(None, dtype=pods.schema["deleted_at"]),
    )
    last = pods.join(numbered.group_by(_POD).agg(pl.col(_PART).max() + 1), on=_POD)
    rest = pods.join(numbered, on=_POD, how="anti").with_columns(pl.lit(0, dtype=pl.Int64).alias(_PART))
    columns = [*pods.columns, _PART]
    rows = pl.concat([rest.select(columns), before.select(columns), last.select(columns)])
    return _consecutive(rows, numbered).select(pods.columns)


def _restarts(pods: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Ends that lie within the time of their pod: `end`, `code`, `why`; those of several containers at once are one."""
    within = pl.col("scheduled_at") < pl.col("end")
    over = pl.coalesce("ended_at", "deleted_at")
    own = ends.select(*_POD, "container", end="ended_at", code="exit_code", why="reason").join(
        pods.select(*_POD, "scheduled_at", "ended_at", "deleted_at"), on=_POD
    )
    rows = own.filter(within, (pl.col("end") < over).fill_null(value=True)).sort(*_POD, "end", "container")
    gap_s = (pl.col("end") - pl.col("end").shift(1).over(_POD)).dt.total_microseconds() / 1e6
    same = pl.col("container") == pl.col("container").shift(1).over(_POD)
    return rows.filter((gap_s > TOGETHER_S).fill_null(value=True) | same).select(*_POD, "end", "code", "why")


def _consecutive(rows: pl.DataFrame, numbered: pl.DataFrame) -> pl.DataFrame:
    """Executions that begin where the one before ended."""
    begins = numbered.select(*_POD, (pl.col(_PART) + 1).cast(pl.Int64).alias(_PART), began="end")
    joined = rows.join(begins, on=[*_POD, _PART], how="left", maintain_order="left")
    return joined.with_columns(
        created_at=pl.coalesce("began", "created_at"),
        scheduled_at=pl.coalesce("began", "scheduled_at"),
        uid=pl.when(pl.col(_PART) > 0)
        .then(pl.concat_str("uid", pl.col(_PART).cast(pl.String), separator="#"))
        .otherwise("uid"),
    )
