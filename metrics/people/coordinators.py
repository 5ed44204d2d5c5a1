"""Coordinators: users who may manage an account of Slurm (add users, set their limits), and the accounts below it.

Source: sacctmgr(1), "coordinator"; Slurm records each change (`Add Account Coord`, `Remove Account Coords`) and
lists them with `withcoord`, those of accounts above included.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames
from metrics.people.names import names_in_subject, renames, with_latest_names

LISTED: frames.Schema = {
    "cluster": frames.TEXT,
    "user": frames.TEXT,
    "account": frames.TEXT,
    "last_seen_at": frames.TIME,
}
"""A user in a list of coordinators; `account` empty: of none: `coordinators_listed`."""

_USER_KEY: Final = ["cluster", "user", "account"]


def coordinators(listed: pl.DataFrame, changes: pl.DataFrame) -> pl.DataFrame:
    """Coordinators of each account in the end: `cluster`, `user`, `account`, sorted.

    The last observation counts: a change, or a list that has the user, with the account or without it.

    Args:
        listed: `LISTED`.
        changes: `metrics.people.access.CHANGES`.
    """
    renamed = renames(changes)
    lists = with_latest_names(listed, renamed, user="user", at="last_seen_at")
    made = with_latest_names(_appointments(changes), renamed, user="user", at="ts")
    listings = lists.select(*_USER_KEY, ts="last_seen_at")
    held = (
        pl.concat([listings, made])
        .filter(pl.col("account") != "")
        .group_by(_USER_KEY)
        .agg(pl.col("ts").max().alias("held_at"))
    )
    last_lists = lists.group_by("cluster", "user").agg(pl.col("last_seen_at").max().alias("lacked_at"))
    removed = _removed(held, with_latest_names(_removals(changes), renamed, user="user", at="ts"))
    rows = held.join(last_lists, on=["cluster", "user"], how="left").join(removed, on=_USER_KEY, how="left")
    gone = pl.max_horizontal("lacked_at", "removed_at")
    was_removed = (pl.col("removed_at") >= pl.col("held_at")).fill_null(value=False)
    is_held = ~was_removed & (pl.col("held_at") >= gone).fill_null(value=True)
    return rows.filter(is_held).select(_USER_KEY).sort(_USER_KEY)


def _appointments(changes: pl.DataFrame) -> pl.DataFrame:
    """Additions of coordinators: user, account and time."""
    return changes.filter(pl.col("action") == "Add Account Coord").select(
        "cluster", user="subject", account=pl.col("detail").str.strip_chars(), ts="ts"
    )


def _removals(changes: pl.DataFrame) -> pl.DataFrame:
    """Removals of coordinators: user, account and time; null: all users, and all accounts."""
    conditions = changes.filter(pl.col("action") == "Remove Account Coords").select(
        "cluster", "ts", user=_values("user"), account=_values("acct")
    )
    accounts = changes.filter(pl.col("action") == "Remove Accounts").select(
        "cluster", "ts", user=pl.lit([None], dtype=pl.List(pl.String)), account=names_in_subject()
    )
    return pl.concat([conditions, accounts]).explode("user").explode("account")


def _values(name: str) -> pl.Expr:
    """The values of a name in a condition: `(user='a' || user='b')`; a list of null where it is not in it."""
    found = pl.col("subject").str.extract_all(rf"\b{name}='[^']*'").list.eval(pl.element().str.extract(r"'(.*)'", 1))
    return pl.when(found.list.len() > 0).then(found).otherwise(pl.lit([None], dtype=pl.List(pl.String)))


def _removed(held: pl.DataFrame, removals: pl.DataFrame) -> pl.DataFrame:
    """Time at which each was last removed: `removed_at`."""
    each = held.join(removals.rename({"user": "removed_user", "account": "removed_account"}), on="cluster")
    means = pl.col("removed_user").is_null() | (pl.col("removed_user") == pl.col("user"))
    means &= pl.col("removed_account").is_null() | (pl.col("removed_account") == pl.col("account"))
    return each.filter(means).group_by(_USER_KEY).agg(pl.col("ts").max().alias("removed_at"))
