"""Snapshots of people and rules: newly read rows put together with those of the warehouse.

Like `ingest.slurm.accounting.merge`, these depend on contents only, never on which side a row came from or in which
order rows come: loading twice equals loading once, and parts in any order equal the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ingest.tables import ASSOCIATIONS, COORDINATORS, QOS, RUNAWAY_JOBS, USERS, Schema, conform

if TYPE_CHECKING:
    from collections.abc import Sequence

ASSOCIATION_KEY = ("cluster", "account", "user", "partition")
COORDINATOR_KEY = ("cluster", "user", "account")
QOS_KEY = ("cluster", "name")
RUNAWAY_KEY = ("cluster", "job_id", "submitted_at")
USER_KEY = ("cluster", "user", "account")

ADMIN_LEVELS = ("None", "Operator", "Administrator")
"""From the least to the most."""


def merge_associations(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per association, as it was last seen. Its number never changes, so it is taken from any observation."""
    every = _together(frames, ASSOCIATIONS)
    numbers = every.group_by(ASSOCIATION_KEY).agg(pl.col("association").min())
    merged = _latest_of_each_key(every, ASSOCIATIONS, ASSOCIATION_KEY).drop("association")
    return conform(merged.join(numbers, on=ASSOCIATION_KEY), ASSOCIATIONS).sort(ASSOCIATION_KEY)


def merge_coordinators(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per user and account, from the first list with it to the last."""
    return _latest_of_each_key(_together(frames, COORDINATORS), COORDINATORS, COORDINATOR_KEY).sort(COORDINATOR_KEY)


def merge_qos(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per quality of service, as it was last seen."""
    return _latest_of_each_key(_together(frames, QOS), QOS, QOS_KEY).sort(QOS_KEY)


def merge_runaway(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per job found runaway, as it was last found."""
    return _latest_of_each_key(_together(frames, RUNAWAY_JOBS), RUNAWAY_JOBS, RUNAWAY_KEY).sort(RUNAWAY_KEY)


def merge_users(*frames: pl.DataFrame) -> pl.DataFrame:
    """One row per user and account: the least association number, the earliest times.

    These rows have no time of observation. So of two administrator levels the higher one is kept; where account
    changes contain the level, the latest change decides in the end.
    """
    every = _together(frames, USERS)
    rank = pl.col("admin_level").replace_strict({name: n for n, name in enumerate(ADMIN_LEVELS)}, default=-1)
    merged = every.group_by(USER_KEY).agg(
        pl.col("association").cast(pl.Int64, strict=False).min().cast(pl.String),
        # An unknown name ranks below the others, and among themselves they go by the alphabet.
        pl.col("admin_level").sort_by(rank, "admin_level", nulls_last=False).last(),
        pl.col("provisioned_at", "first_job_at").min(),
    )
    return conform(merged, USERS).sort(USER_KEY)


def _together(frames: Sequence[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    return pl.concat([conform(frame, schema) for frame in frames])


def _latest_of_each_key(every: pl.DataFrame, schema: Schema, key: Sequence[str]) -> pl.DataFrame:
    """The latest observation of each key, seen from the first to the last time.

    A null was not reported then. Two observations of one second complete each other; where they contradict, the value
    that sorts last is taken: an arbitrary choice that does not depend on the order.
    """
    latest = pl.col("last_seen_at") == pl.col("last_seen_at").max()
    times = ("first_seen_at", "last_seen_at")
    rest = [name for name in schema if name not in (*key, *times)]
    latest_values = [pl.col(name).filter(latest).sort_by(_sortable(name, schema).filter(latest)) for name in rest]
    return conform(
        every.group_by(key).agg(
            *(values.drop_nulls().last() for values in latest_values),
            pl.col("first_seen_at").min(),
            pl.col("last_seen_at").max(),
        ),
        schema,
    )


def _sortable(name: str, schema: Schema) -> pl.Expr:
    return pl.col(name).list.join("\x1f") if isinstance(schema[name], pl.List) else pl.col(name)
