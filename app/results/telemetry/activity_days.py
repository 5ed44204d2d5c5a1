"""Sums of what GPUs did by day, as `compute` stores them, and what GPUs did in any window from them.

A whole day of a window is read as it is stored. Samples are read of the days that the window's ends cut only: of the
day before, too, where the window ends within an hour of midnight, since samples are valid beyond their day. All sums
are whole numbers, so the result is the same as if all samples had been read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry.gpu_activity import DAY, HOURLY, DaySums, day_begin, summed, sums_of_days
from metrics import frames
from metrics.telemetry.rollup_fallback import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import date

    from app.config.settings import Rules
    from app.results.telemetry.gpu_activity import Activity
    from app.window import Window
    from metrics.telemetry.occupancy import Holders
    from queries.warehouse import Reader

TABLES = ("activity_days", "attempt_activity_days", "user_activity_days")
"""The tables of sums by day."""

_BY_HOUR = f"{HOURLY}_known"


def stored_activity(
    reader: Reader, window: Window, computed: Window, rules: Rules, held: Holders
) -> tuple[Activity | None, tuple[str, ...]]:
    """What GPUs did in a window, and the queries behind it.

    Args:
        reader: the warehouse.
        window: the time.
        computed: what was computed: a day that its ends cut is stored as far as it lies within.
        rules: when a GPU is idle: those of the computation.
        held: who held what.

    Returns:
        That, in seconds and units; None where there are neither samples nor roll-ups.
    """
    days = reader.query("gpu_sample_days", cluster=window.cluster)
    stored = _stored_days(reader, days, window, computed)
    parts = [part for some, after in _days_not_stored(days["day"].to_list(), stored) for part in
             sums_of_days(reader, window, rules, held, some, after=after)]  # fmt: skip
    queries = ("gpu_samples_between", "gpu_hours_between") if parts or not stored else ()
    if stored:
        parts += _read(reader, window.cluster, stored, held)
        queries = ("attempt_activity_days", "user_activity_days", *queries)
    return summed(parts, rules, held), queries


def _stored_days(reader: Reader, days: pl.DataFrame, window: Window, computed: Window) -> dict[date, bool]:
    """The days whose stored sums are those of the window, and whether some of each is known by the hour only.

    A day is left out that was loaded again, or whose samples or roll-ups were removed. So is one before it, whose last
    samples are valid up to the first ones of the next day.
    """
    stored = reader.query("activity_days", cluster=window.cluster)
    made_of: dict[date, str | None] = dict(stored.select("day", "made_of").iter_rows())
    now: dict[date, str | None] = dict(days.iter_rows())

    def unchanged(day: date) -> bool:
        return made_of.get(day, _NO_DAY) == now.get(day, _NO_DAY)

    return {
        day: hourly
        for day, hourly in stored.select("day", "hourly").iter_rows()
        if unchanged(day)
        and (unchanged(day + DAY) or day_begin(day + DAY) >= computed.until)
        and is_whole(day, window, computed)
    }


_NO_DAY: Final = ""
"""In the place of digests of a day without samples and roll-ups."""


def rows(of: DaySums, made_of: str | None, cluster: str, held: Holders) -> dict[str, pl.DataFrame]:
    """Rows of `TABLES` of a day.

    Args:
        of: its sums.
        made_of: the digests of its files of samples; None: only roll-ups are left.
        cluster: the cluster.
        held: who held what.
    """
    about = pl.DataFrame(
        {"cluster": [cluster], "day": [of.day], "hourly": [of.hourly], "made_of": [made_of]},
        schema_overrides={"made_of": pl.String},
    )
    named = held.attempts.select("attempt", *frames.ATTEMPT_KEY[1:])
    attempts = _stored(of.attempts, of.day, cluster).join(named, on="attempt").drop("attempt")
    return dict(zip(TABLES, (about, attempts, _stored(of.users, of.day, cluster)), strict=True))


def _stored(sums: pl.DataFrame, day: date, cluster: str) -> pl.DataFrame:
    """Sums of a day as rows: what is known by the hour is null where nothing of the day is."""
    known = pl.col(_BY_HOUR) if _BY_HOUR in sums.columns else pl.lit(None, dtype=pl.Int64)
    named = sums.with_columns(known.alias(_BY_HOUR), day=pl.lit(day), cluster=pl.lit(cluster))
    return named.select(sorted(set(named.columns) - {f"{HOURLY}_sum"}))


def is_whole(day: date, window: Window, computed: Window) -> bool:
    """Whether all of a day's samples, with all the time that they are valid for, are within a window as stored."""
    since, until = day_begin(day), day_begin(day) + DAY + timedelta(seconds=LONGEST_S)
    begins = max(window.since, computed.since) <= since or (window.since == computed.since and window.since < until)
    ends = until <= min(window.until, computed.until) or (window.until == computed.until and since < window.until)
    return begins and ends


def _days_not_stored(days: Sequence[date], stored: Collection[date]) -> Iterator[tuple[list[date], date | None]]:
    """Days that are not stored, those in a row together, the last one first; each time with the stored day after."""
    some: list[date] = []
    after: date | None = None
    for day in days:
        if day not in stored:
            some.append(day)
            continue
        if some:
            yield some, after
        some, after = [], day
    if some:
        yield some, after


def _read(reader: Reader, cluster: str, stored: dict[date, bool], held: Holders) -> list[DaySums]:
    """The sums of days: of those with hours, and of the others."""
    first, last = min(stored), max(stored) + DAY
    attempts = reader.query("attempt_activity_days", cluster=cluster, first=first, last=last)
    users = reader.query("user_activity_days", cluster=cluster, first=first, last=last)
    number = held.attempts.select(*frames.ATTEMPT_KEY, "attempt")
    found = []
    for hourly in sorted(set(stored.values())):
        days = [day for day, by_hour in stored.items() if by_hour is hourly]
        own = [_summable(rows.filter(pl.col("day").is_in(days)), hourly=hourly) for rows in (attempts, users)]
        of_attempts = own[0].join(number, on=list(frames.ATTEMPT_KEY)).drop(frames.ATTEMPT_KEY)
        found.append(DaySums(days[0], of_attempts, own[1].drop("cluster")))
    return found


def _summable(stored: pl.DataFrame, *, hourly: bool) -> pl.DataFrame:
    """Rows as `gpu_attribution` has them."""
    known = [pl.lit(0, dtype=pl.Int64).alias(f"{HOURLY}_sum")] if hourly else []
    sums = stored.drop("day").with_columns(known)
    return sums if hourly else sums.drop(_BY_HOUR)
