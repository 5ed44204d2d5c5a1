"""Which time to ask accounting for: what no load speaks for yet, and a little of what may have changed since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import polars as pl

from app.errors import UsageError
from metrics import frames
from metrics.capacity import coverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ingest.frames import SourceName
    from queries.warehouse import Reader, Writer

SHORTEST: Final = timedelta(hours=1)
"""No window is made shorter: longer than the gaps that are closed, so that one that fails leaves a gap to be seen."""


class Window(NamedTuple):
    """From `since` to before `until`."""

    since: datetime
    until: datetime


Windows: TypeAlias = list[Window]


@dataclass(frozen=True)
class Plan:
    """What to ask for, oldest first, and how many windows need not be."""

    windows: Windows
    there: int = 0


def covered(
    source: Reader | Writer, cluster: str | None, name: SourceName, *, overlap: timedelta | None = None
) -> Windows:
    """The time that the loads of a source speak for, oldest first.

    No load speaks for a time to come. With `overlap` only what it told of the time that was over for so long when it
    was made: what is younger may have changed since.
    """
    loads = source.query("coverage", cluster=cluster, source=name)
    over = pl.col("loaded_at") - (overlap or timedelta())
    loads = loads.with_columns(
        ended_at=pl.when(pl.col("ended_at").is_not_null()).then(pl.min_horizontal("ended_at", over))
    )
    loads = loads.filter(pl.col("started_at") < pl.col("ended_at"))
    spans = coverage(frames.conform(loads, frames.COVERAGE), gap_s=0).select("started_at", "ended_at").iter_rows()
    return [Window(since, until) for since, until in spans]


def gaps(spans: Sequence[Window]) -> Windows:
    """What is missing between the first and the last of them.

    >>> day = lambda n: datetime(2026, 11, n)
    >>> [(gap.since.day, gap.until.day) for gap in gaps([Window(day(1), day(3)), Window(day(5), day(9))])]
    [(3, 5)]
    """
    return [Window(before.until, behind.since) for before, behind in pairwise(spans)]


def going_on(there: Sequence[Window], until: datetime, *, lookback: timedelta, overlap: timedelta) -> Windows:
    """The spans that an ingest without `--since` reads: gaps, and from a little before the end of what is there.

    The first time it goes back by `lookback`. Longer gaps than that are somebody's choice (an old dump beside a live
    cluster) and are left alone: `trackside status` shows them.
    """
    if not there:
        return [Window(until - lookback, until)]
    holes = [gap for gap in gaps(there) if gap.until - gap.since <= lookback and gap.until <= until]
    newest = Window(min(there[-1].until, until) - overlap, until)
    return [*holes, newest] if newest.since < until else holes


def back_to(since: datetime, until: datetime, there: Sequence[Window], length: timedelta) -> Plan:
    """The windows of [since, until) that are not there yet, all of the same length but the last.

    The same `since` gives the same windows, so that an interrupted backfill goes on where it was.
    """
    windows = list(cut(Window(since, until), length))
    wanted = [one for one in windows if not any(span.since <= one.since and one.until <= span.until for span in there)]
    return Plan(wanted, len(windows) - len(wanted))


def cut(span: Window, length: timedelta) -> Iterator[Window]:
    """A span in windows, oldest first.

    Raises:
        UsageError: it is empty.
    """
    low, until = span
    if low >= until:
        raise UsageError(f"--since {low.isoformat()} is not before --until {until.isoformat()}")
    while low < until:
        yield Window(low, min(low + length, until))
        low += length
