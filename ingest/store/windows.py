"""Windows to request from accounting: time that no load covers yet, and recent time that may have changed since."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import polars as pl

from ingest.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ingest.tables import SourceName
    from queries.warehouse import Reader, Writer

LIVE_SLURM: Final = ("command", "rest")
"""Transports of a running Slurm, as in `loads.transport`. The time requested for a file is not its own."""

SHORTEST: Final = timedelta(hours=1)
"""Shortest window: longer than the gaps that are closed, so that a failed one leaves a visible gap."""


class LoadWindow(NamedTuple):
    """From `since` to before `until`."""

    since: datetime
    until: datetime


Windows: TypeAlias = list[LoadWindow]


def covered(
    source: Reader | Writer, cluster: str | None, name: SourceName, *, overlap: timedelta | None = None
) -> Windows:
    """The time that the loads of a source cover, oldest first.

    No load covers future time. With `overlap` a load covers only the time that ended at least so long before it: later
    records may have changed since.
    """
    loads = source.query("coverage", cluster=cluster, source=name)
    over = pl.col("loaded_at") - (overlap or timedelta())
    loads = loads.with_columns(
        ended_at=pl.when(pl.col("ended_at").is_not_null()).then(pl.min_horizontal("ended_at", over))
    )
    loads = loads.filter(pl.col("started_at") < pl.col("ended_at"))
    return together(LoadWindow(*span) for span in loads.select("started_at", "ended_at").iter_rows())


def requested(
    source: Reader | Writer, cluster: str | None, name: SourceName, *, alive: datetime | None, overlap: timedelta
) -> Windows:
    """The time before the cluster's first sign of life (`alive`) that was requested live all the same, oldest first.

    The answers were empty there: there was no cluster yet, so no load covers that time, and it need not be requested
    again. This requires a sign of life: without one the database may have been empty, or down. A partial load is no
    evidence about jobs that it does not show.
    """
    if alive is None:
        return []
    loads = source.table("loads").filter(pl.col("cluster").eq_missing(cluster))
    covers = pl.col("covers_from").is_not_null()
    knew = loads.filter(covers, pl.col("source").is_in([name, "slurm.events"]))["loaded_at"].implode()
    until = pl.min_horizontal("requested_until", pl.lit(alive), pl.col("loaded_at") - overlap)
    windows = loads.filter(
        pl.col("source") == name,
        pl.col("transport").is_in(LIVE_SLURM),
        ~pl.col("partial"),
        (pl.col("rows_read") == 0) | covers,
        pl.col("loaded_at").is_in(knew),
        pl.col("requested_from") < until,
    )
    return together(LoadWindow(*span) for span in windows.select("requested_from", until).iter_rows())


def together(windows: Iterable[LoadWindow]) -> Windows:
    """The same time, windows that touch as one, oldest first.

    >>> day = lambda n: datetime(2026, 11, n)
    >>> (window,) = together([LoadWindow(day(4), day(6)), LoadWindow(day(1), day(4))])
    >>> window.since.day, window.until.day
    (1, 6)
    """
    merged: Windows = []
    for since, until in sorted(windows):
        if merged and since <= merged[-1].until:
            merged[-1] = LoadWindow(merged[-1].since, max(merged[-1].until, until))
        else:
            merged.append(LoadWindow(since, until))
    return merged


def gaps(spans: Sequence[LoadWindow]) -> Windows:
    """The gaps between the first and the last of them.

    >>> day = lambda n: datetime(2026, 11, n)
    >>> [(gap.since.day, gap.until.day) for gap in gaps([LoadWindow(day(1), day(3)), LoadWindow(day(5), day(9))])]
    [(3, 5)]
    """
    return [LoadWindow(before.until, behind.since) for before, behind in pairwise(spans)]


def spans_to_read(
    existing: Sequence[LoadWindow], until: datetime, *, lookback: timedelta, overlap: timedelta
) -> Windows:
    """The spans that an ingest without `--since` reads: gaps, and the time since a little before the last load.

    The first time it goes back by `lookback`. Longer gaps than that are deliberate (an old dump next to a live
    cluster) and are left alone: `trackside status` shows them.
    """
    if not existing:
        return [LoadWindow(until - lookback, until)]
    holes = [gap for gap in gaps(existing) if gap.until - gap.since <= lookback and gap.until <= until]
    newest = LoadWindow(min(existing[-1].until, until) - overlap, until)
    return [*holes, newest] if newest.since < until else holes


def outside(windows: Iterable[LoadWindow], spans: Sequence[LoadWindow]) -> Windows:
    """The windows that are not within a single span."""
    return [one for one in windows if not any(span.since <= one.since and one.until <= span.until for span in spans)]


def cut(span: LoadWindow, length: timedelta) -> Iterator[LoadWindow]:
    """A span in windows, oldest first. The same span has the same windows, so that a backfill resumes where it stopped.

    Raises:
        OptionError: it is empty.
    """
    low, until = span
    if low >= until:
        raise OptionError(f"--since {low.isoformat()} is not before --until {until.isoformat()}")
    while low < until:
        yield LoadWindow(low, min(low + length, until))
        low += length
