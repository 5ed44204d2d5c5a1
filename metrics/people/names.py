"""Names of people: users who were renamed, and login names and user numbers (uids) that do not go together.

Only an account change proves that a user was renamed. A number that two names had, or a name that had two numbers, is
reported and never merged: the number, or the name, may have been given to another user.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from metrics import frames

RENAMES: frames.Schema = {
    "cluster": frames.TEXT,
    "ts": frames.TIME,
    "old": frames.TEXT,
    "new": frames.TEXT,
    "reused_at": frames.TIME,
}
"""A user who was renamed; `reused_at`: the old name was given to another user (null: never)."""

UIDS: frames.Schema = {
    "cluster": frames.TEXT,
    "user": frames.TEXT,
    "uid": frames.COUNT,
    "first_at": frames.TIME,
    "last_at": frames.TIME,
}
"""A user's number in accounting, and its first and last submission: `uids_of_users`."""

_RENAMED: Final = r"(?:^|, )`?name`? ?= ?'([^']*)'"
_MADE: Final = r"(?:^|, )`?user`? ?= ?'([^']*)'"


def renames(changes: pl.DataFrame) -> pl.DataFrame:
    """Renamed users in their order: `RENAMES`.

    Args:
        changes: `metrics.people.access.CHANGES`.
    """
    named = changes.filter(pl.col("action") == "Modify Users").select(
        "cluster", "ts", old=names_in_subject(), new=pl.col("detail").str.extract(_RENAMED, 1)
    )
    rows = named.filter(pl.col("old").list.len() == 1).explode("old").filter(pl.col("new") != pl.col("old"))
    made = changes.filter(pl.col("action") == "Add Associations").select(
        "cluster", old=pl.col("detail").str.extract(_MADE, 1), reused_at="ts"
    )
    reused = pl.concat([made, rows.select("cluster", old="new", reused_at="ts")])
    later = rows.join(reused, on=["cluster", "old"]).filter(pl.col("reused_at") > pl.col("ts"))
    again = later.group_by("cluster", "old", "ts").agg(pl.col("reused_at").min())
    joined = rows.join(again, on=["cluster", "old", "ts"], how="left")
    return frames.conform(joined.sort("ts", "old", "new"), RENAMES)


def names_in_subject() -> pl.Expr:
    """Names in `subject`, `(name='alice' || name='bob')`; a text without a condition is a name itself."""
    quoted = (
        pl.col("subject")
        .str.extract_all(r"\b(?:name|user|acct)='[^']*'")
        .list.eval(pl.element().str.extract(r"'(.*)'", 1))
    )
    return pl.when(quoted.list.len() > 0).then(quoted).otherwise(pl.concat_list("subject"))


def with_latest_names(rows: pl.DataFrame, renamed: pl.DataFrame, *, user: str, at: str) -> pl.DataFrame:
    """Rows with users under their latest names.

    Args:
        rows: with `cluster`, a column of users and one of moments.
        renamed: `RENAMES`.
        user: the column of users.
        at: the column of moments: of a name that was given to another user, earlier rows are the first one's.
    """
    for cluster, _, old, new, reused_at in renamed.iter_rows():
        own = (pl.col("cluster") == cluster) & (pl.col(user) == old)
        before = pl.lit(value=True) if reused_at is None else pl.col(at) < frames.instant(reused_at)
        rows = rows.with_columns(pl.when(own & before).then(pl.lit(new)).otherwise(user).alias(user))
    return rows


def mismatches(uids: pl.DataFrame, renamed: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbers that several users had, and users that had several numbers.

    Args:
        uids: `UIDS`.
        renamed: `RENAMES`: users who were renamed are one.

    Returns:
        By `cluster` and `uid`: `users` in the order of their first submission, and `since`, when the last of them
        began; and by `cluster` and `user`: `uids` in that order, and `since`.
    """
    rows = with_latest_names(uids, renamed, user="user", at="first_at").sort("first_at", "user", "uid")

    def several(key: str, of: str) -> pl.DataFrame:
        first = rows.group_by("cluster", key, of, maintain_order=True).agg(pl.col("first_at").min())
        every = first.group_by("cluster", key, maintain_order=True).agg(
            pl.col(of).alias(f"{of}s"), pl.col("first_at").max().alias("since")
        )
        return every.filter(pl.col(f"{of}s").list.len() > 1).sort("cluster", key)

    return several("uid", "user"), several("user", "uid")
