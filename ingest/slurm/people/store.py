"""Writes people, rules and the scheduler's own state: merged with the existing rows, in any order.

Users come from several sources: associations have their names, account changes their dates and levels, and accounting
their first job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.slurm.people import merge as account_merge
from ingest.tables import SCHEDULER_STATS, TRANSACTIONS, conform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queries.warehouse import Writer


def write_associations(writer: Writer, associations: pl.DataFrame) -> None:
    """Rows of `associations`: as last seen."""
    merge, key = account_merge.merge_associations, account_merge.ASSOCIATION_KEY
    _write_snapshot(writer, "associations", associations, merge, key=key)


def write_coordinators(writer: Writer, coordinators: pl.DataFrame) -> None:
    """Rows of `coordinators`: as last seen."""
    merge, key = account_merge.merge_coordinators, account_merge.COORDINATOR_KEY
    _write_snapshot(writer, "coordinators", coordinators, merge, key=key)


def write_qos(writer: Writer, qos: pl.DataFrame) -> None:
    """Rows of `qos`: as last seen."""
    merge, key = account_merge.merge_qos, account_merge.QOS_KEY
    _write_snapshot(writer, "qos", qos, merge, key=key)


def write_runaway(writer: Writer, jobs: pl.DataFrame) -> None:
    """Rows of `runaway_jobs`: found from the first to the last time."""
    merge, key = account_merge.merge_runaway, account_merge.RUNAWAY_KEY
    _write_snapshot(writer, "runaway_jobs", jobs, merge, key=key)


def write_users(writer: Writer, users: pl.DataFrame) -> None:
    """Rows of `users`, with the first jobs of the warehouse, and the levels from account changes."""
    merge, key = account_merge.merge_users, account_merge.USER_KEY
    _write_snapshot(writer, "users", users, merge, key=key)
    set_first_jobs(writer)
    writer.run("set_admin_levels")


def write_transactions(writer: Writer, changes: pl.DataFrame) -> None:
    """Rows of `transactions`: each change once."""
    writer.append_new("transactions", changes, keys=list(TRANSACTIONS))
    writer.run("set_admin_levels")


def write_scheduler_stats(writer: Writer, numbers: pl.DataFrame) -> None:
    """Rows of `scheduler_stats`: of two snapshots of one second, the larger number of each name."""
    moment = ["cluster", "ts"]
    existing = writer.matching("scheduler_stats", numbers, keys=moment)
    every = pl.concat([conform(existing, SCHEDULER_STATS), numbers])
    merged = every.group_by(*moment, "section", "name").agg(pl.col("value").max())
    writer.replace("scheduler_stats", conform(merged, SCHEDULER_STATS), keys=moment)


def set_first_jobs(writer: Writer) -> None:
    """Set the first job of each user from accounting; a job moved to another account counts there."""
    if writer.height("users"):
        writer.run("set_first_jobs")


def _write_snapshot(
    writer: Writer,
    table: str,
    snapshot: pl.DataFrame,
    merge: Callable[..., pl.DataFrame],
    *,
    key: Sequence[str],
) -> None:
    existing = writer.matching(table, snapshot, keys=key)
    writer.replace(table, merge(existing, snapshot), keys=key)
