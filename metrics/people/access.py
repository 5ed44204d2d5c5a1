"""Access: who may use a cluster, since when and by whose hand, and whether they do.

A user in an account is one row, however many partitions the association names. Access begins when an association is
made (Slurm's account changes), or where no change is known when a list of associations first has it; it ends when it is
removed, or with the first list without it. Anything that neither changes nor lists show is unknown.

A user who was renamed is one person under the latest name, unless the old name was given to another user later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics import frames
from metrics.failures.survival import CENSORED, Spells, kaplan_meier, median
from metrics.metric import Metric
from metrics.people.names import names_in_subject, renames
from metrics.units import DAY_S

if TYPE_CHECKING:
    from datetime import datetime

DORMANT_S: Final = 30 * DAY_S
"""Access that was not used for so long is dormant."""

LISTED: frames.Schema = {
    "cluster": frames.TEXT,
    "user": frames.TEXT,
    "account": frames.TEXT,
    "admin_level": frames.TEXT,
    "provisioned_at": frames.TIME,
    "first_seen_at": frames.TIME,
    "last_seen_at": frames.TIME,
    "listed_at": frames.TIME,
}
"""A user in an account by the tables of people; `listed_at` is the cluster's latest list: `access_listed`."""

CHANGES: frames.Schema = {
    "cluster": frames.TEXT,
    "ts": frames.TIME,
    "actor": frames.TEXT,
    "action": frames.TEXT,
    "subject": frames.TEXT,
    "detail": frames.TEXT,
}
"""Account changes: `access_changes`."""

JOBS: frames.Schema = {
    "cluster": frames.TEXT,
    "user": frames.TEXT,
    "account": frames.TEXT,
    "n_attempts": frames.COUNT,
    "first_job_at": frames.TIME,
    "last_active_at": frames.TIME,
}
"""Jobs submitted by a user in an account: `jobs_of_people`."""

ACTIVE, NEW, NEVER_USED, DORMANT, REMOVED, NO_ASSOCIATION, UNKNOWN = (
    "active", "new", "never used", "dormant", "removed", "no association", "unknown",
)  # fmt: skip
"""States of access."""

_USER_KEY = ["cluster", "user", "account"]

_AT_ONCE_S: Final = 1e-6
"""Stands for no time at all in the curve, which begins after 0."""


def access(
    listed: pl.DataFrame,
    changes: pl.DataFrame,
    jobs: pl.DataFrame,
    *,
    until: datetime,
    accounted_from: datetime | None,
    dormant_s: float = DORMANT_S,
) -> pl.DataFrame:
    """Users who may use the cluster or did, since when, and the time to their first job.

    Args:
        listed: `LISTED`.
        changes: `CHANGES` before `until`.
        jobs: `JOBS` before `until`.
        until: the moment that states are of.
        accounted_from: accounting is loaded from here on: of those who were added before, the first job may not be.
        dormant_s: access unused for so long is dormant.

    Returns:
        By `cluster`, `user` and `account`: `admin_level`; `added_at`, `added_by` (null: no change records it);
        `removed_at` and `removed_by`; `has_association` (null: unknown); `n_attempts`, `first_job_at`,
        `last_active_at`; `to_first_job_s` (null: not used, added before accounting is known, or used before it was
        added); `waiting_s`, how long those added since have not used it; `unused_s`, since the last use, or the
        beginning; `state`: active, new (added less than `dormant_s` ago, not used), never used, dormant, removed, no
        association (there are lists, and none has it), or unknown (whether it exists, or how old it is).
    """
    listed, changes, jobs = _by_latest_name(listed, changes, jobs)
    made, gone = _added(changes), _removed(changes)
    rows = (
        listed.join(made, on=_USER_KEY, how="full", coalesce=True)
        .join(jobs, on=_USER_KEY, how="full", coalesce=True)
        .join(gone, on=_USER_KEY, how="left")
        .with_columns(
            pl.col("n_attempts").fill_null(0),
            added_at=pl.min_horizontal("provisioned_at", "made_at"),
            listed_at=pl.col("listed_at").max().over("cluster"),
        )
        .filter((pl.col("added_at") < until).fill_null(value=True))
    )
    listed_since = (pl.col("last_seen_at") > pl.col("gone_at")).fill_null(value=False)
    taken = pl.col("gone_at").is_not_null() & ~listed_since
    missing = pl.col("last_seen_at") < pl.col("listed_at")
    has_association = (
        pl.when(taken)
        .then(pl.lit(value=False))
        .when(pl.col("last_seen_at").is_not_null() & ~missing)
        .then(pl.lit(value=True))
        # A list that is older than the change cannot have it.
        .when((pl.col("remade_at") > pl.col("listed_at")).fill_null(value=pl.col("remade_at").is_not_null()))
        .then(pl.lit(value=True))
        .when(pl.col("listed_at").is_not_null())
        .then(pl.lit(value=False))
    )
    start = pl.coalesce("added_at", "first_seen_at")
    was_listed = pl.col("last_seen_at").is_not_null() | pl.col("remade_at").is_not_null()
    at = frames.instant(until)
    known = pl.col("added_at") >= pl.lit(accounted_from, dtype=frames.TIME)
    timely = known & (pl.col("first_job_at") >= pl.col("added_at"))
    unused = frames.seconds(at - pl.max_horizontal("last_active_at", start))
    return (
        rows.with_columns(
            has_association=has_association,
            removed_at=pl.when(taken).then("gone_at"),
            removed_by=pl.when(taken).then("gone_by"),
            to_first_job_s=pl.when(timely).then(frames.seconds(pl.col("first_job_at") - pl.col("added_at"))),
            waiting_s=pl.when(known & pl.col("first_job_at").is_null()).then(
                frames.seconds(pl.min_horizontal(at, pl.when(taken).then("gone_at")) - pl.col("added_at"))
            ),
            unused_s=unused,
            state=_state(has_association, was_listed, unused, dormant_s),
        )
        .select(
            *_USER_KEY, "admin_level", "added_at", "added_by", "removed_at", "removed_by", "has_association",
            "n_attempts", "first_job_at", "last_active_at", "to_first_job_s", "waiting_s", "unused_s", "state",
        )
        .sort("added_at", "user", "account", nulls_last=True)
    )  # fmt: skip


def _by_latest_name(
    listed: pl.DataFrame, changes: pl.DataFrame, jobs: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The three of them with users who were renamed under their latest names."""
    renamed = renames(changes)
    if renamed.is_empty():
        return listed, changes, jobs
    detail = pl.col("detail")
    for cluster, ts, old, new, reused_at in renamed.iter_rows():
        own = pl.col("cluster") == cluster
        earlier = own & (pl.col("ts") < ts)
        changes = changes.with_columns(
            detail=pl.when(earlier)
            .then(detail.str.replace_all(f"user='{old}'", f"user='{new}'", literal=True))
            .otherwise(detail),
            subject=pl.when(earlier & pl.col("action").is_in(["Remove Users", "Modify Users"]))
            .then(_renamed_in_text(pl.col("subject"), old, new))
            .otherwise("subject"),
        )
        if reused_at is None:
            user = pl.when(own & (pl.col("user") == old)).then(pl.lit(new)).otherwise("user").alias("user")
            listed, jobs = listed.with_columns(user), jobs.with_columns(user)
    return _merged_lists(listed), changes, _merged_jobs(jobs)


def _renamed_in_text(subject: pl.Expr, old: str, new: str) -> pl.Expr:
    quoted = subject.str.replace_all(f"name='{old}'", f"name='{new}'", literal=True)
    return pl.when(subject == old).then(pl.lit(new)).otherwise(quoted)


def _merged_lists(listed: pl.DataFrame) -> pl.DataFrame:
    """Each user in an account once."""
    first = pl.col("provisioned_at", "first_seen_at").min()
    last = pl.col("last_seen_at", "listed_at").max()
    by_time = listed.sort("last_seen_at", nulls_last=False)
    return (
        by_time.group_by(_USER_KEY, maintain_order=True)
        .agg(pl.col("admin_level").last(), first, last)
        .select(list(LISTED))
    )


def _merged_jobs(jobs: pl.DataFrame) -> pl.DataFrame:
    """Each user in an account once."""
    sums = pl.col("n_attempts").sum(), pl.col("first_job_at").min(), pl.col("last_active_at").max()
    return jobs.group_by(_USER_KEY, maintain_order=True).agg(*sums).select(list(JOBS))


def _state(has_association: pl.Expr, was_listed: pl.Expr, unused: pl.Expr, dormant_s: float) -> pl.Expr:
    never = pl.col("n_attempts") == 0
    fresh = unused < dormant_s
    return (
        pl.when(has_association.is_null())
        .then(pl.when(never).then(pl.lit(UNKNOWN)).when(fresh).then(pl.lit(ACTIVE)).otherwise(pl.lit(DORMANT)))
        .when(~has_association)
        .then(pl.when(was_listed).then(pl.lit(REMOVED)).otherwise(pl.lit(NO_ASSOCIATION)))
        .when(never)
        .then(
            pl.when(~fresh)
            .then(pl.lit(NEVER_USED))
            .otherwise(pl.when(pl.col("added_at").is_not_null()).then(pl.lit(NEW)).otherwise(pl.lit(UNKNOWN)))
        )
        .when(fresh)
        .then(pl.lit(ACTIVE))
        .otherwise(pl.lit(DORMANT))
    )


def _assigned(name: str) -> pl.Expr:
    """The text that a change gives to one of its fields."""
    return pl.col("detail").str.extract(rf"(?:^|, )`?{name}`? ?= ?'([^']*)'", 1)


def _numbered(changes: pl.DataFrame) -> pl.DataFrame:
    """Associations by their numbers: `cluster`, `id`, `user`, `account`, `ts`, `actor`."""
    return (
        changes.filter(pl.col("action") == "Add Associations")
        .select(
            "cluster", "ts", "actor", user=_assigned("user"), account=_assigned("acct"),
            id=pl.col("subject").str.extract(r"\bid_assoc=(\d{1,18})\b", 1),
        )
        .filter((pl.col("user") != "") & (pl.col("account") != ""))
    )  # fmt: skip


def _added(changes: pl.DataFrame) -> pl.DataFrame:
    """Times at which each was added, first and last, and by whom first."""
    return (
        _numbered(changes)
        .sort("ts", "actor", maintain_order=True)
        .group_by(_USER_KEY)
        .agg(
            pl.col("ts").first().alias("made_at"),
            pl.col("actor").first().alias("added_by"),
            pl.col("ts").last().alias("remade_at"),
        )
    )


def _removed(changes: pl.DataFrame) -> pl.DataFrame:
    """Users with no association left, since when, and by whom: removed by number, or its user or account by name.

    A user may have several in one account, one for each partition: access ends with the last of them.
    """
    made = _numbered(changes)
    gone = changes.select(
        "cluster", "action", gone_at="ts", gone_by="actor",
        id=pl.col("subject").str.extract_all(r"\bid_assoc=\d{1,18}\b").list.eval(pl.element().str.slice(9)),
        name=names_in_subject(),
    )  # fmt: skip
    parts = []
    for action, source, of in (
        ("Remove Associations", "id", "id"),
        ("Remove Users", "name", "user"),
        ("Remove Accounts", "name", "account"),
    ):
        removed = gone.filter(pl.col("action") == action).select(
            "cluster", "gone_at", "gone_by", pl.col(source).alias(of)
        )
        associations = made.select("cluster", *dict.fromkeys((of, "user", "account", "id"))).unique()
        joined = removed.explode(of).join(associations, on=["cluster", of], maintain_order="left")
        parts.append(joined.select(*_USER_KEY, "id", "gone_at", "gone_by"))
    ends = pl.concat(parts).sort("gone_at", "gone_by").group_by(*_USER_KEY, "id").last()
    lasting = made.group_by(*_USER_KEY, "id").agg(pl.col("ts").max())
    each = lasting.join(ends, on=[*_USER_KEY, "id"], how="left", nulls_equal=True)
    is_gone = (pl.col("gone_at") > pl.col("ts")).fill_null(value=False)
    latest = each.sort("gone_at", "gone_by", nulls_last=False).group_by(_USER_KEY, maintain_order=True)
    return latest.agg(is_gone.all().alias("is_gone"), pl.col("gone_at", "gone_by").last()).filter("is_gone")


def onboarding(rows: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """Number of users added, by account, by who added them or by month, and the time to their first job.

    Args:
        rows: as `access` returns them; of those that no change records only states count.
        dimension: `account`, `actor` or `month` (UTC).

    Returns:
        By `cluster` and `subject`: `n` users in accounts, `n_added` (a change records it), `n_used`, `n_dormant` (or
        never used), `n_removed`, and of those with a known time `n_timed`, `median_s`, `median_low_s`,
        `median_high_s`: the Kaplan-Meier median, where who has not submitted yet counts as waiting; null: not reached.
    """
    subject = {
        "account": pl.col("account"),
        "actor": pl.col("added_by"),
        "month": pl.col("added_at").dt.strftime("%Y-%m"),
    }[dimension].fill_null("(unknown)")
    timed = pl.coalesce("to_first_job_s", "waiting_s").is_not_null()
    grouped = rows.with_columns(subject=subject).group_by("cluster", "subject")
    counts = grouped.agg(
        pl.len().cast(frames.COUNT).alias("n"),
        pl.col("added_at").count().cast(frames.COUNT).alias("n_added"),
        (pl.col("n_attempts") > 0).sum().cast(frames.COUNT).alias("n_used"),
        pl.col("state").is_in([DORMANT, NEVER_USED]).sum().cast(frames.COUNT).alias("n_dormant"),
        (pl.col("state") == REMOVED).sum().cast(frames.COUNT).alias("n_removed"),
        timed.sum().cast(frames.COUNT).alias("n_timed"),
        pl.struct("to_first_job_s", "waiting_s").filter(timed).alias("_times"),
    )
    medians = [_median([tuple(each.values()) for each in times]) for times in counts["_times"].to_list()]
    names = ("median_s", "median_low_s", "median_high_s")
    table = pl.DataFrame(medians, schema=dict.fromkeys(names, pl.Float64), orient="row")
    return pl.concat([counts.drop("_times"), table], how="horizontal").sort("subject")


def median_to_first_job(rows: pl.DataFrame) -> tuple[float | None, float | None, float | None]:
    """The Kaplan-Meier median time to the first job, seconds, with its 95 % interval; None: not reached, or of none."""
    return _median(rows.select("to_first_job_s", "waiting_s").rows())


def _median(times: list[tuple[float | None, ...]]) -> tuple[float | None, float | None, float | None]:
    spells = [(1, used) if used is not None else (CENSORED, wait) for used, wait in times]
    known = [(cause, max(length, _AT_ONCE_S)) for cause, length in spells if length is not None]
    if not known:
        return None, None, None
    spell = Spells(
        np.zeros(len(known)),
        np.array([length for _, length in known], dtype=np.float64),
        np.array([cause for cause, _ in known], dtype=np.int64),
    )
    middle, low, high = (
        0.0 if each is not None and each <= _AT_ONCE_S else each for each in median(kaplan_meier(spell, [1]))
    )
    return middle, low, high


# Published metrics --------------------------------------------------------------------------------------------------

METRICS = (
    Metric(
        name="time_to_first_job",
        unit="s",
        summary="Time from when a user was added to an account to the first job that the user submitted there.",
        formula="Kaplan-Meier median of first submission - association made; who has submitted nothing yet is censored",
        query="access_changes",
        function=onboarding,
        interval="95 %, by Greenwood's formula on the log-log scale; null where the curve does not reach it",
        source="Klein and Moeschberger (2003), section 4.5; ours",
        show="onboarding",
        better="lower",
    ),
    Metric(
        name="dormant_access",
        unit="d",
        summary="Time since a user in an account last had a job waiting or running, or since the access was given.",
        formula="end of the window - the later of last use and association made",
        query="access_listed",
        function=access,
        interval="none: a census; dormant from 30 days on",
        source="ours",
        show="onboarding",
        better="lower",
    ),
)
