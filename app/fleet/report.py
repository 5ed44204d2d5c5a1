"""The report of a round of a fleet: a line for each cluster, a table, and the error of the round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from app.errors import FleetError
from ingest.counted import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.fleet.task import TaskOutcome

SCHEMA = {
    "cluster": pl.String,
    "result": pl.String,
    "status": pl.Int64,
    "rows_new": pl.Int64,
    "computed": pl.Boolean,
    "rows_committed": pl.Int64,
    "data_version": pl.Int64,
    "seconds": pl.Float64,
    "cpu_s": pl.Float64,
    "peak_mb": pl.Float64,
    "worker": pl.String,
    "directory": pl.String,
    "died": pl.String,
}
"""Columns of the table: `status` is the exit status of the first failure, 0 if there is none; `rows_committed` counts
rows of files that were written to the lake; `peak_mb` is the most memory of that process so far (10^6 bytes); `died`
names the processes that were lost at it before `worker` did it."""


def as_rows(outcomes: Sequence[TaskOutcome]) -> pl.DataFrame:
    """A row for each cluster, by name."""
    rows = [_row(outcome) for outcome in sorted(outcomes, key=lambda each: each.cluster)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _row(outcome: TaskOutcome) -> tuple[object, ...]:
    failure = next(iter(outcome.failures), None)
    ran = bool(outcome.worker)
    return (
        outcome.cluster,
        "done" if failure is None else f"failed: {failure.step}",
        0 if failure is None else failure.status,
        outcome.rows_loaded if ran else None,
        bool(outcome.computed) if ran else None,
        outcome.rows_committed if ran else None,
        outcome.data_version,
        round(outcome.seconds, 3) if ran else None,
        round(outcome.cpu_s, 3) if ran else None,
        round(outcome.peak_mb, 1) if ran else None,
        outcome.worker or None,
        outcome.directory,
        ", ".join(outcome.died) or None,
    )


def line_of(outcome: TaskOutcome) -> Iterator[str]:
    """The outcome of a cluster, in a line; each failure in a line of its own."""
    if not outcome.failures:
        computed = "computed" if outcome.computed else "nothing to compute"
        yield (
            f"{outcome.cluster}: {counted(outcome.rows_loaded, 'new row')}, {computed}, "
            f"{counted(outcome.rows_committed, 'row')} committed ({outcome.seconds:.1f} s)"
        )
    for lost in outcome.died:
        again = f"{outcome.worker} did its work again" if outcome.worker else "no worker could do its work again"
        yield f"{outcome.cluster}: {lost} died at it; {again}"
    for failure in outcome.failures:
        yield f"{outcome.cluster}: failed: {failure.step}: {failure.message.splitlines()[0]}"


def require_all(outcomes: Sequence[TaskOutcome]) -> None:
    """Do nothing if every cluster was brought up to date.

    Raises:
        FleetError: some were not; the message has each, with its reason.
    """
    broken = [outcome for outcome in sorted(outcomes, key=lambda each: each.cluster) if outcome.failures]
    if not broken:
        return
    lines = [
        f"  {outcome.cluster}: {failure.step}: " + "\n    ".join(failure.message.splitlines())
        for outcome in broken
        for failure in outcome.failures
    ]
    many = f"{len(broken):,} of {len(outcomes):,} clusters were not brought up to date:"
    raise FleetError("\n".join([many, *lines, "Run it again: it does only what is left."]))
