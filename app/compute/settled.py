"""Settled attempts: the inputs that their runs, interruptions and restarts were found in have not changed.

A run depends on the attempts of its job ids, heterogeneous jobs and names; an interruption on the attempt's run, and on
what happened at its nodes around its end. The digests of attempts are kept by the day of their submission, which never
changes, and those of events by their day, in the table `attempt_days`. What a changed day touches is found again,
together with all of the runs that it was part of or is part of now; everything else is settled. An attempt that logged,
or that a person's correction names, never is: what its log and the correction do with it is found each time.

What one interruption has to do with others (incidents, whom a preemption made room for) is no matter of runs: see
`app.compute.runs`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.compute.unchanged import code_digest
from metrics import frames
from metrics.failures.interruptions import AFTER_END_S, BEFORE_END_S
from metrics.runs.naming import APART
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.config.settings import Rules
    from queries.warehouse import Writer

_KEY: Final = list(frames.ATTEMPT_KEY)
_DAYS: Final[frames.Schema] = {
    "day": pl.Int64(),
    "n_attempts": frames.COUNT,
    "attempts": pl.UInt64(),
    "events": pl.UInt64(),
}


_CHAIN: Final = r"^(.+)-\d{8}T\d{6}(?:\.\d{6})?Z$"
"""The id that a run has without a name, its job's in the group: what is called so continues that run."""


@dataclass(frozen=True)
class Decided:
    """Inputs of runs and interruptions, besides accounting and events.

    Attributes:
        named: `metrics.runs.naming.NAMED`.
        never_settled: keys of attempts that logged, or that corrections name.
    """

    named: pl.DataFrame
    never_settled: pl.DataFrame


@dataclass(frozen=True)
class Unsettled:
    """Attempts and runs that have to be found again.

    Attributes:
        attempts: `frames.ATTEMPTS`, with every other attempt of their runs.
        runs: `run_id` of the runs that they, and attempts that are gone, were found in last.
    """

    attempts: pl.DataFrame
    runs: pl.DataFrame


def digests(
    writer: Writer, cluster: str, rules: Rules, *, attempts: pl.DataFrame, events: pl.DataFrame, decided: Decided
) -> pl.DataFrame:
    """Digests of the inputs of runs and interruptions, by day.

    Args:
        writer: the warehouse.
        cluster: whose.
        rules: that they depend on.
        attempts: `frames.ATTEMPTS`, all of them.
        events: `metrics.failures.diagnosis.EVENTS`.
        decided: what else decides.

    Returns:
        `day` (number since 1970), `n_attempts`, and digests of `attempts` and `events` of that day, null where it has
        none.
    """
    common = (code_digest(), rules.model_dump_json().encode(), cluster.encode())
    seed = int.from_bytes(hashlib.blake2b(b"\0".join(common), digest_size=7).digest(), "big")
    on_nodes = writer.query("node_list_digests", cluster=cluster)
    submitted = _by_day(attempts, "submitted_at", seed).join(on_nodes, on="day", how="left")
    for name, rows in (("named", decided.named), ("never_settled", decided.never_settled.unique())):
        of_rows = _by_day(rows, "submitted_at", seed).select("day", pl.col("digest").alias(name))
        submitted = submitted.join(of_rows, on="day", how="left")
    of_attempts = submitted.select("day", n_attempts="n", attempts=submitted.hash_rows(seed=seed))
    of_events = _by_day(events.drop_nulls("ts"), "ts", seed)
    return of_attempts.join(
        of_events.select("day", events=of_events.hash_rows(seed=seed)), on="day", how="full", coalesce=True
    ).select("day", pl.col("n_attempts").fill_null(0).cast(pl.Int64), "attempts", "events")


def _by_day(rows: pl.DataFrame, moment: str, seed: int) -> pl.DataFrame:
    """By day of a moment: `day`, number `n` of rows and sum `digest` of their digests. Their order changes nothing."""
    by_row = pl.DataFrame({"day": _day(rows[moment]), "digest": rows.hash_rows(seed=seed)})
    return by_row.group_by("day").agg(pl.len().alias("n"), pl.col("digest").sum())


def unsettled(
    writer: Writer, cluster: str, *, attempts: pl.DataFrame, now: pl.DataFrame, decided: Decided
) -> Unsettled | None:
    """Attempts whose runs and interruptions have to be found again; None if that is most of them, or unknown.

    Args:
        writer: the warehouse, with runs as they were found last.
        cluster: whose.
        attempts: `frames.ATTEMPTS`, all of them.
        now: as `digests` returns it.
        decided: as there.
    """
    day = pl.col("day").to_physical().cast(pl.Int64)
    before = frames.conform(writer.query("attempt_days", cluster=cluster).with_columns(day), _DAYS)
    in_runs: int = writer.query("attempts_in_runs", cluster=cluster).item()
    if before.is_empty() or before["n_attempts"].sum() != in_runs:  # never kept, or another program changed the runs
        return None
    days = _changed(before, now, "attempts")
    touched = _day(attempts["submitted_at"]).is_in(days["day"].implode())
    touched |= _ended_near(attempts["ended_at"], _changed(before, now, "events")["day"])
    touched |= attempts["job_id"].is_in(decided.never_settled["job_id"].implode())
    return closure(
        attempts,
        touched,
        decided.named,
        lambda some: members_of_runs(writer, cluster, some, days),
        most=attempts.height // 2,
    )


def closure(
    attempts: pl.DataFrame,
    touched: pl.Series,
    named: pl.DataFrame,
    members_of: Callable[[pl.DataFrame], pl.DataFrame],
    *,
    most: int,
) -> Unsettled | None:
    """Attempts with all others that their runs depend on, as they are now and as they were found last.

    Args:
        attempts: `frames.ATTEMPTS`, all of them.
        touched: which of them are given.
        named: `metrics.runs.naming.NAMED`.
        members_of: returns of some attempts those of the same runs, as they were found last: `frames.RUN_ATTEMPTS`;
            with them the runs of attempts that are gone.
        most: None is returned if there would be more.
    """
    names = _names(named)
    while touched.sum() <= most:
        members = members_of(attempts.filter(touched))
        reached = _linked(attempts, touched, members, names)
        if reached.sum() == touched.sum():
            return Unsettled(attempts.filter(touched), members.select("run_id").unique())
        touched = reached
    return None


def _changed(before: pl.DataFrame, now: pl.DataFrame, digest: str) -> pl.DataFrame:
    """`day` of the days whose digests differ, or of which one is only there before or now."""
    known = [each.select("day", digest).drop_nulls() for each in (before, now)]
    return pl.concat([
        one.join(other, on=["day", digest], how="anti").select("day") for one, other in (known, known[::-1])
    ]).unique()  # fmt: skip


def _ended_near(ended_at: pl.Series, days: pl.Series) -> pl.Series:
    """Whether an event on one of these days may explain an end."""
    around = (ended_at - timedelta(seconds=BEFORE_END_S), ended_at + timedelta(seconds=AFTER_END_S))
    since, until = (_day(each).is_in(days.implode()).fill_null(value=False) for each in around)
    return since | until


def _day(moments: pl.Series) -> pl.Series:
    """Numbers of UTC days since 1970."""
    return moments.dt.epoch("us") // DAY_US


def members_of_runs(writer: Writer, cluster: str, some: pl.DataFrame, days: pl.DataFrame | None = None) -> pl.DataFrame:
    """The attempts of runs, as runs were found last: `frames.RUN_ATTEMPTS`.

    Args:
        writer: the warehouse.
        cluster: whose.
        some: attempts (of which the key is given, at least) whose runs are meant.
        days: `day`: so are the runs of all that had been submitted on one of these (numbers since 1970).
    """
    days = pl.DataFrame(schema={"day": pl.Int64}) if days is None else days
    found = writer.query_with(
        "members_of_runs", {"touched_attempts": some.select(_KEY), "touched_days": days}, cluster=cluster
    )
    return frames.conform(found, frames.RUN_ATTEMPTS)


def _names(named: pl.DataFrame) -> pl.DataFrame:
    """Names of jobs: `job_id`, `root`, `continues` (the job whose run the name continues, if it does that).

    Runs of the same name are distinguished by a suffix after `APART`. Only the part before `APART` counts here.
    """
    return named.select("job_id", root=_root("run_id"), continues=pl.col("run_id").str.extract(_CHAIN)).unique()


def _root(name: str) -> pl.Expr:
    return pl.col(name).str.split(APART).list.first()


def _linked(attempts: pl.DataFrame, touched: pl.Series, members: pl.DataFrame, names: pl.DataFrame) -> pl.Series:
    """Attempts that are touched, were in these runs, or share a job, a heterogeneous job or a name with such a one."""
    some = attempts.filter(touched)
    own = pl.concat([some["job_id"], some["het_job_id"].drop_nulls(), members["job_id"]]).unique()
    jobs = _called_alike(own, members.select(_root("run_id")).to_series().unique(), names).implode()
    return (
        touched
        | attempts["job_id"].is_in(jobs)
        | attempts["het_job_id"].is_in(jobs).fill_null(value=False)
    )  # fmt: skip


def _called_alike(jobs: pl.Series, roots: pl.Series, names: pl.DataFrame) -> pl.Series:
    """Jobs, with all that share one of these names with them, or whose names continue each other's runs."""
    while True:
        own, continued = (names[name].is_in(jobs.implode()) for name in ("job_id", "continues"))
        reached = names.filter(own | continued.fill_null(value=False) | names["root"].is_in(roots.implode()))
        more = pl.concat([jobs, reached["job_id"], reached["continues"].drop_nulls()]).unique()
        alike = pl.concat([roots, reached["root"]]).unique()
        if (more.len(), alike.len()) == (jobs.len(), roots.len()):
            return jobs
        jobs, roots = more, alike


def keep(writer: Writer, cluster: str, now: pl.DataFrame | None) -> None:
    """Store what runs were found in; None: they are found anew each time.

    Args:
        writer: the warehouse.
        cluster: whose.
        now: as `digests` returns it.
    """
    key = pl.DataFrame({"cluster": [cluster]})
    if now is None:
        writer.delete("attempt_days", key)
    else:
        day = pl.col("day").cast(pl.Int32).cast(pl.Date)
        writer.bring_in_line(
            "attempt_days", now.select(pl.lit(cluster).alias("cluster"), day, pl.exclude("day")), key=key
        )
