"""Coverage of a period: its computed part, and the time that no load of accounting covers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from app.errors import UncoveredError, UsageError
from app.results.constants import constants_of
from app.times import iso
from app.window import Window
from metrics import frames
from metrics.ledger.capacity import coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from app.window import RowSource

    Interval = tuple[datetime, datetime]


@dataclass(frozen=True)
class CoveredPeriod:
    """Coverage of a period.

    Attributes:
        window: its part within the ledger; gaps are not cut out.
        share: of the period that is in no gap.
        gaps: intervals of the period that accounting does not cover, in order.
    """

    window: Window
    share: float
    gaps: tuple[Interval, ...]


def covered(source: RowSource, period: Window) -> CoveredPeriod:
    """Coverage of a period.

    Raises:
        UsageError: nothing is computed, or the period has no data.
    """
    computed = source.query("computed", cluster=period.cluster)
    if computed.is_empty():
        raise UsageError(f"{period.cluster}: nothing has been computed yet. Run: trackside compute")
    row = computed.row(0, named=True)
    since, until = row["since"], row["until"]
    window = Window(period.cluster, max(period.since, since), min(period.until, until))
    if window.since >= window.until:
        when = f"between {iso(period.since)} and {iso(period.until)}"
        if period.since >= period.until:  # one of them was not given, and is an end of the data
            when = f"before {iso(since)}" if period.until <= since else f"from {iso(until)} on"
        raise UncoveredError(f"{period.cluster}: there are no data {when}; the data cover {iso(since)} to {iso(until)}")
    gaps = gaps_in(period, accounted(source, row))
    return CoveredPeriod(window, share_without(period, gaps), gaps)


def accounted(source: RowSource, computed: Mapping[str, Any]) -> tuple[Interval, ...]:
    """Intervals that accounting covers, within the ledger, in order.

    Args:
        source: where from.
        computed: the cluster's row of the named query `computed`.
    """
    since, until = computed["since"], computed["until"]
    gap_s = constants_of(computed["constants"])["coverage_gap_hours"] * 3600
    intervals = coverage_of(source, computed["cluster"], "accounting", gap_s)
    return tuple((max(low, since), min(high, until)) for low, high in intervals if low < until and high > since)


def coverage_of(source: RowSource, cluster: str, name: str, gap_s: float) -> tuple[Interval, ...]:
    """Intervals that the loads of a source cover, in order; gaps of at most `gap_s` seconds are closed."""
    loads = frames.conform(source.query("coverage", cluster=cluster, source=name), frames.COVERAGE)
    return tuple(coverage(loads, gap_s=gap_s).select("started_at", "ended_at").iter_rows())


def gaps_in(period: Window, intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The time of a period outside of the covered intervals; these are in order."""
    gaps, at = [], period.since
    for low, high in intervals:
        if min(low, period.until) > at:
            gaps.append((at, min(low, period.until)))
        at = max(at, high)
    if at < period.until:
        gaps.append((at, period.until))
    return tuple(gaps)


def share_without(period: Window, gaps: Iterable[Interval]) -> float:
    """Share of a period that is in none of its gaps."""
    whole, missing = period.until - period.since, sum((high - low for low, high in gaps), timedelta())
    return (whole - missing) / whole


def in_words(share: float) -> str:
    """A share below 1, which never reads as all of it.

    >>> in_words(0.3226), in_words(0.99999)
    ('32.3%', 'all but less than 0.1 %')
    """
    return "all but less than 0.1 %" if share > 0.999 else f"{share:.1%}"
