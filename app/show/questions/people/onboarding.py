"""The question of `trackside show` about who may use the cluster, and does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.people.use import access_rows, coordinator_rows
from app.show.answer import MOST_EXPLAINED, Answer, Question, with_values
from app.show.names import renamed_notes, uid_notes
from app.show.registry import question
from app.show.sentences import lasted
from ingest.counted import counted
from metrics.people import access as metric
from metrics.units import DAY_S

if TYPE_CHECKING:
    from app.window import Window
    from queries.warehouse import Reader

_ATTENTION: Final = (metric.NO_ASSOCIATION, metric.NEVER_USED, metric.DORMANT)
_QUERIES: Final = ("access_listed", "access_changes", "jobs_of_people", "coordinators_listed", "uids_of_users")
_EMPTY: Final = "No users are known: load associations and account changes (trackside ingest slurm)."


@question(
    "onboarding",
    "who was given access, when and by whom, and whether it is used",
    help="who was added when and by whom, how long to the first job, unused access, administrators, users\n"
    "without an association; at the end of the period\n"
    "--by user, account, actor, month",
    by=("user", "account", "actor", "month"),
    position=43,
)
def onboarding(source: Reader, window: Window, question: Question) -> Answer:
    """Who may use the cluster, by user and account; or how many were added."""
    rows = access_rows(source, window)
    notes = (
        *_notes(rows, coordinator_rows(source, window)),
        *renamed_notes(source, window),
        *uid_notes(source, window),
    )
    if question.dimension != "user":
        return _summed(rows, window, question.dimension, notes)
    return _by_user(_with_coordinators(rows, coordinator_rows(source, window)), window, notes)


def _with_coordinators(rows: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """With the accounts that each user may manage."""
    named = held.group_by("cluster", "user", maintain_order=True).agg(
        pl.col("account").str.join(", ").alias("coordinates")
    )
    return rows.join(named, on=["cluster", "user"], how="left", maintain_order="left")


def _by_user(rows: pl.DataFrame, window: Window, notes: tuple[str, ...]) -> Answer:
    first = pl.col("state").is_in(_ATTENTION)
    return Answer(
        "Access to the cluster",
        rows.with_columns(pl.lit("dormant_access").alias("metric"), unused_d=pl.col("unused_s") / DAY_S).sort(
            ~first, -pl.col("unused_s"), "user", "account", nulls_last=True
        ),
        with_values(
            rows,
            {
                "user": ("user", "text"),
                "account": ("account", "text"),
                "state": ("state", "text"),
                "admin_level": ("level", "text"),
                "coordinates": ("coordinates", "text"),
                "added_at": ("added", "time"),
                "added_by": ("by", "text"),
                "to_first_job_s": ("to first job", "seconds"),
                "n_attempts": ("submitted so far", "count"),
                "unused_s": ("unused", "seconds"),
                "last_active_at": ("last active", "time"),
                "removed_at": ("removed", "time"),
                "removed_by": ("removed by", "text"),
            },
        ),
        headline=_headline(rows, window),
        ranked=("account", "state", "added_at", "added_by", "to_first_job_s", "unused_s", "admin_level", "coordinates"),
        metrics=("time_to_first_job", "dormant_access"),
        queries=_QUERIES,
        notes=notes,
        parameters={"until": window.until},
        worth_explaining=pl.int_range(pl.len()) < MOST_EXPLAINED,
        parts={"metric": "metric", "subject": "user", "account": "account", "value": "unused_d", "n": "n_attempts"},
        when_empty=_EMPTY,
    )


def _summed(rows: pl.DataFrame, window: Window, by: str, notes: tuple[str, ...]) -> Answer:
    sums = metric.onboarding(rows, by).with_columns(pl.lit("time_to_first_job").alias("metric"))
    return Answer(
        f"Access to the cluster, by {by if by != 'actor' else 'who gave it'}",
        sums,
        {
            "subject": ({"actor": "added by", "month": "added in"}.get(by, by), "text"),
            "n": ("users in accounts", "count"),
            "n_added": ("seen added", "count"),
            "n_used": ("with a job", "count"),
            "median_s": ("to first job, median", "seconds"),
            "median_low_s": ("95 % from", "seconds"),
            "median_high_s": ("to", "seconds"),
            "n_timed": ("with a known time", "count"),
            "n_dormant": ("dormant or never used", "count"),
            "n_removed": ("removed", "count"),
        },
        headline=_headline(rows, window),
        metrics=("time_to_first_job", "dormant_access"),
        queries=_QUERIES,
        notes=notes,
        parameters={"until": window.until},
        parts={
            "metric": "metric",
            "subject": "subject",
            "value": "median_s",
            "ci_low": "median_low_s",
            "ci_high": "median_high_s",
            "n": "n_timed",
        },
        when_empty=_EMPTY,
    )


def _headline(rows: pl.DataFrame, window: Window) -> str:
    """How many were added in the window, how fast they began, and what needs a look."""
    if rows.is_empty():
        return ""
    added = rows.filter(pl.col("added_at") >= window.since)
    if rows["added_at"].count() == 0:
        return f"When {counted(rows.height, 'user')} were added is unknown: no account change is loaded.{_hint(rows)}"
    middle, low, high = metric.median_to_first_job(added)
    half = "" if middle is None else f", half of them with a first job within {lasted(middle)}"
    interval = "" if middle is None or low is None else f" (95 %: {lasted(low)} to {_open(high)})"
    return f"{counted(added.height, 'user')} added in this time{half}{interval}.{_hint(rows)}"


def _hint(rows: pl.DataFrame) -> str:
    states = dict(rows.group_by("state").len().rows())
    looks = [f"{states[name]:,} {name}" for name in _ATTENTION if name in states]
    return f" Worth a look: {', '.join(looks)}." if looks else ""


def _open(seconds: float | None) -> str:
    return "no limit" if seconds is None else lasted(seconds)


def _notes(rows: pl.DataFrame, held: pl.DataFrame) -> tuple[str, ...]:
    managers = ", ".join(f"{user} ({account})" for user, account in held.select("user", "account").rows())
    coordinated = (f"Coordinators of accounts: {managers}.",) if managers else ()
    if rows.is_empty():
        return coordinated
    admins = rows.filter(pl.col("admin_level").is_in(["Operator", "Administrator"])).sort("user", "account")
    named = dict.fromkeys(f"{user} ({level})" for user, level in admins.select("user", "admin_level").rows())
    unlisted = rows.filter(pl.col("state") == metric.NO_ASSOCIATION)
    unclear = rows["has_association"].null_count()
    timed = rows.filter(pl.col("to_first_job_s").is_null() & (pl.col("n_attempts") > 0)).height
    return (
        *((f"Administrators: {', '.join(named)}.",) if named else ()),
        *coordinated,
        *(("No association: they submitted jobs, and no list of associations has them.",) if unlisted.height else ()),
        *(
            ("Whether some have an association is unknown: load `sacctmgr -P show assoc` (trackside ingest slurm).",)
            if unclear
            else ()
        ),
        *(
            (f"Time to the first job: unknown of {timed:,} who were added before what is loaded begins.",)
            if timed
            else ()
        ),
        f"Dormant: no job waiting or running for {metric.DORMANT_S / DAY_S:.0f} days.",
    )
