"""One row per attempt, independent of the order of loads.

The same attempt is observed many times: pending, running, ended, and again with other texts when slurmctld restarts.
`merge_attempts` is the join of a semilattice: it depends on contents only, so the order of files, of rows and of loads
makes no difference, and loading twice equals loading once. The rules:

- what cannot change in an attempt's life (who, which array, where it was submitted) is filled from any observation;
- what can change (state, times, nodes, partition, exit) is taken from the most complete observations, as it is there:
  a gap is not filled from an older observation, because "older" would depend on the order of loads;
- observations of one end show the same record of the accounting database, each with the columns that were exported:
  they fill each other's gaps, column by column;
- who cancelled it is never forgotten, since the repeated end record leaves it out;
- a text in which characters were replaced (a dump that is not UTF-8) gives way to one in which none were.

Only rows of one job and one second of submission are merged, so rows that belong together in a large input are found
without a scan of all of it. Hence nothing here depends on the other attempts of a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from ingest.tables import ATTEMPTS, conform, empty

if TYPE_CHECKING:
    from collections.abc import Sequence

LASTING: Final = (
    *("user", "uid", "group", "work_dir", "array_job_id", "het_job_id", "het_offset", "db_index"),
    *("sluid", "submit_line", "env_run"),
    *("gpus_steps", "gpus_asked", "exclusive"),
)
"""Facts that are the same in all observations that have them."""

SHOWN: Final = ("#shown", "array_task_id", "display_id")
"""The same for the displayed id. Without a JobID column it is the raw id; before a task is split off, the array's."""

RANKING: Final = ("#phase", "ended_at", "#elapsed", "#started", "state")
"""Columns that rank observations by completeness, the most important first. The middle ones are of open attempts."""

_EXITS: Final = (("exit_code", "exit_signal"), ("derived_exit_code", "derived_exit_signal"))

OPEN_GROUPS: Final = (
    *_EXITS,
    ("node_list", "n_nodes", "n_gpus", "n_cpus", "gpu_model", "alloc_mem_bytes", "alloc_tres"),
    ("req_tres", "req_nodes", "req_cpus", "req_gpus", "req_mem_bytes"),
)
"""Columns that belong together: equal observations of an open attempt never mix them."""

ENDED_GROUPS: Final = (*_EXITS, ("elapsed_s", "started_at", "suspended_s"), ("node_list", "n_nodes"))
"""The same for an attempt that has ended: its allocation and its request do not change any more, and are filled."""

_ENDED: Final = 3
"""The phase of an attempt with a recorded end."""

_SECOND = ("cluster", "scheduler", "job_id", "#second")
_ATTEMPT = (*_SECOND, "#index")


def merge_attempts(*frames: pl.DataFrame) -> pl.DataFrame:
    """The attempts of any number of loads, one row each, independent of the order of rows.

    The same attempt is the same (cluster, scheduler, job_id, submitted second) with the same db_index, or with none.
    Rows of one second with different db_index are different attempts (a slurmctld that lost its state uses ids
    again); they are distinguished by microseconds of `submitted_at`, in the order of their db_index. A row without
    db_index in such a second belongs to the first of them. So pass all rows of the warehouse from these seconds, and
    replace them by the result.
    """
    rows = pl.concat([conform(frame, ATTEMPTS) for frame in frames]) if frames else empty(ATTEMPTS)
    rows = rows.with_columns(_second())
    repeated = rows.select(_SECOND).is_duplicated()
    if not repeated.any():
        return conform(rows.with_columns(pl.col("#second").alias("submitted_at")), ATTEMPTS)
    alone = rows.filter(~repeated).with_columns(pl.col("#second").alias("submitted_at"))
    return pl.concat([conform(alone, ATTEMPTS), conform(_join(rows.filter(repeated)), ATTEMPTS)])


def _second() -> pl.Expr:
    """The time that distinguishes attempts of a job. Slurm's is in whole seconds; below are our own marks."""
    second = pl.when(pl.col("scheduler") == "slurm").then(pl.col("submitted_at").dt.truncate("1s"))
    return second.otherwise("submitted_at").alias("#second")


def fingerprints(attempts: pl.DataFrame) -> pl.Series:
    """A number for the job and second of each attempt, the same for all that must be merged with each other.

    Within one run of the program only. Others may have the same number by chance, one pair in 10^19.
    """
    return attempts.select("cluster", "scheduler", "job_id", _second()).hash_rows(seed=1)


def _join(rows: pl.DataFrame) -> pl.DataFrame:
    """The join of all observations of each attempt. Only the few contradicting ones need the slow merge."""
    ended = pl.col("ended_at").is_not_null()
    ended_for_certain = ended & pl.col("end_guessed").is_null()
    phase = pl.when(ended_for_certain).then(_ENDED).when(ended).then(2).when(pl.col("started_at").is_not_null()).then(1)
    first_index = pl.col("db_index").min().over(_SECOND)
    rows = rows.with_columns(
        phase.otherwise(0).alias("#phase"),
        pl.col("db_index").fill_null(first_index).alias("#index"),
        (pl.col("display_id") != pl.col("job_id")).alias("#shown"),
        pl.when(~ended_for_certain).then("elapsed_s").alias("#elapsed"),
        pl.when(~ended_for_certain).then("started_at").alias("#started"),
    )
    lasting = rows.group_by(_ATTEMPT).agg(
        pl.col("cancelled_by").min(), *(_most(name) for name in LASTING), *_greatest(SHOWN)[1:]
    )
    changing = [name for name in ATTEMPTS if name not in {*LASTING, *SHOWN, *_ATTEMPT, "cancelled_by", "submitted_at"}]
    best = _best(rows).select(*_ATTEMPT, "#phase", *changing).unique()
    several = pl.len().over(_ATTEMPT) > 1
    has_ended = pl.col("#phase") == _ENDED
    joined = [
        best.filter(~several),
        _joined(best.filter(several & has_ended), ENDED_GROUPS, changing),
        _joined(best.filter(several & ~has_ended), OPEN_GROUPS, changing),
    ]
    both = pl.concat([each.select(*_ATTEMPT, *changing) for each in joined])
    return _distinct_times(both.join(lasting, on=_ATTEMPT, nulls_equal=True)).sort(_ATTEMPT)


def _joined(best: pl.DataFrame, groups: Sequence[tuple[str, ...]], changing: Sequence[str]) -> pl.DataFrame:
    """One row for the equal observations of each attempt: the greatest values, those of a group together."""
    alone = [(name,) for name in changing if not any(name in group for group in groups)]
    return best.group_by(_ATTEMPT).agg(one for group in (*groups, *alone) for one in _greatest(group))


def _best(rows: pl.DataFrame) -> pl.DataFrame:
    """The most complete observations of each attempt."""
    for name in RANKING:
        rows = rows.filter(pl.col(name).eq_missing(pl.col(name).max().over(_ATTEMPT)))
    return rows


def _greatest(group: tuple[str, ...]) -> list[pl.Expr]:
    """The values that belong together, from the observation where they are greatest (null is least)."""
    order = [pl.col(name) for name in group]
    if len(group) == 1:
        return [_most(group[0])]
    return [one.sort_by(order, nulls_last=False).last() for one in order]


def _most(name: str) -> pl.Expr:
    """The greatest value of a column; of texts one without replaced characters, if there is one."""
    column = pl.col(name)
    if ATTEMPTS[name] != pl.String:
        return column.max()
    return pl.coalesce(column.filter(~column.str.contains("\ufffd", literal=True)).max(), column.max())


def _distinct_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Attempts of one second become a microsecond apart, in the order of db_index."""
    rank = (pl.col("#index").rank("dense").over(_SECOND) - 1).fill_null(0).cast(pl.Int64)
    return rows.with_columns((pl.col("#second") + pl.duration(microseconds=rank)).alias("submitted_at"))
