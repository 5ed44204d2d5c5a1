"""Sums of what nodes did by day, as `compute` stores them, and what nodes did in any window from them.

A whole day of a window is read as it is stored. Samples are read of the days that the window's ends cut only, with the
first hour of the next day, up to whose samples the last ones are valid. Days are added up in the same order as those of
samples, so the result is the same to the last bit, but where so many samples are read that nodes are read in parts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from app.results.telemetry import node_activity
from app.results.telemetry.activity_days import is_whole
from app.results.telemetry.gpu_activity import DAY, day_begin
from app.results.telemetry.node_activity import RunningDaySums, in_seconds_of_owners, of_nodes, samples_of_days
from metrics import frames
from metrics.telemetry.node_attribution import SERIES, WHAT, CountedNodes, added_up, day_parts
from metrics.telemetry.rollup_fallback import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import date

    from app.window import Window
    from metrics.telemetry.node_attribution import DayParts
    from metrics.telemetry.occupancy import Occupants
    from queries.warehouse import Reader, Writer

NODES: Final = "node_day_sums"
ATTEMPTS: Final = "attempt_node_day_sums"
"""The tables of sums by day, files a day."""

SAMPLES: Final = ("node_samples_between", "node_hours_between")
"""Queries of samples."""


@dataclass(frozen=True)
class StoredDays:
    """Sums of days that may be read in the place of samples.

    Attributes:
        reader: where they are.
        window: cluster and time.
        rows: days of which they are read, and how many rows they have in `NODES` and `ATTEMPTS`.
    """

    reader: Reader | Writer
    window: Window
    rows: dict[date, tuple[int, int]]

    @classmethod
    def within(cls, reader: Reader, window: Window, computed: Window) -> StoredDays:
        """The whole days of a window; none where a change came after the computation.

        Args:
            reader: the warehouse.
            window: the time.
            computed: what was computed: a day that its ends cut is stored as far as it lies within.
        """
        stored = reader.query("node_activity_days", cluster=window.cluster).filter("newest")
        rows = stored.select("day", "n_series", "n_attempts").iter_rows()
        return cls(reader, window, {day: n for day, *n in rows if is_whole(day, window, computed)})  # type: ignore[misc]  # two numbers

    def nodes(
        self, occupancy: Callable[[], Occupants], *, metrics: tuple[str, ...]
    ) -> tuple[pl.DataFrame | None, tuple[str, ...]]:
        """`NodeActivity.nodes`, None where there are no samples; and the queries behind it.

        Args:
            occupancy: which attempts were on which nodes; called only where samples have to be read.
            metrics: of these metrics only; all if none is named.
        """
        sums = RunningDaySums(list(SERIES))
        queries: dict[str, None] = {}
        for segment in self._segments():
            if segment.stored:
                queries[NODES] = None
                for some in self._read(NODES, segment.days, metrics):
                    sums.add(some.drop("ts"))
                continue
            queries |= dict.fromkeys(SAMPLES)
            for _, parts in parts_of_days(
                self.reader, self.window, segment.days, occupancy(), after=segment.after, metrics=metrics
            ):
                sums.add(parts.nodes)
        whole = sums.whole()
        return (None if whole.is_empty() else of_nodes(sums)), tuple(queries)

    def attempts(
        self, occupancy: Occupants, owners: pl.DataFrame, *, metrics: tuple[str, ...] = ()
    ) -> tuple[pl.DataFrame | None, tuple[str, ...]]:
        """`NodeActivity.owners` of attempts, None where there are no samples; and the queries behind it.

        Args:
            occupancy: which attempts were on which nodes.
            owners: as `metrics.telemetry.occupancy.occupants` reads them: an attempt each.
            metrics: of these metrics only; all if none is named.
        """
        within = occupancy.within(self.window.since, self.window.until)
        sums, counted = RunningDaySums(["owner", *WHAT]), CountedNodes(within)
        queries: dict[str, None] = {}
        for segment in self._segments():
            if segment.stored:
                queries[ATTEMPTS] = None
                for some in self._read(ATTEMPTS, segment.days, metrics):
                    sums.add(_added_by_day(_numbered(some, occupancy, owners), counted))
                continue
            queries |= dict.fromkeys(SAMPLES)
            for _, parts in parts_of_days(
                self.reader, self.window, segment.days, occupancy, after=segment.after, metrics=metrics
            ):
                sums.add(counted.day(parts).owners)
        whole = sums.whole()
        return (None if whole.is_empty() else in_seconds_of_owners(sums)), tuple(queries)

    def _segments(self) -> Iterator[_DayStretch]:
        days = self.reader.query("node_sample_days", cluster=self.window.cluster).rows()
        return segments(days, self.rows)

    def _read(self, table: str, days: Sequence[tuple[date, int]], metrics: tuple[str, ...]) -> Iterator[pl.DataFrame]:
        """Rows of some days, the last one first; so many days together that their rows are not too many."""
        which = (NODES, ATTEMPTS).index(table)
        some: list[date] = []
        n = 0
        for day, _ in days:
            if some and n + self.rows[day][which] > node_activity.AT_ONCE:
                yield self._between(table, some, metrics)
                some, n = [], 0
            some.append(day)
            n += self.rows[day][which]
        yield self._between(table, some, metrics)

    def _between(self, table: str, days: Sequence[date], metrics: tuple[str, ...]) -> pl.DataFrame:
        since, until = day_begin(min(days)), day_begin(max(days)) + DAY
        of = {"cluster": self.window.cluster, "since": since, "until": until, "metrics": ",".join(metrics)}
        return self.reader.query(table, **of)


@dataclass(frozen=True)
class _DayStretch:
    """Days in a row, the last one first.

    Attributes:
        stored: their sums are stored.
        days: with how many samples they have.
        after: else the next day, if it has samples.
    """

    stored: bool
    days: list[tuple[date, int]]
    after: tuple[date, int] | None


def segments(days: Iterable[tuple[date, int]], stored: Collection[date]) -> Iterator[_DayStretch]:
    """Days with samples, the last one first, cut where those that are stored and others meet."""
    some: list[tuple[date, int]] = []
    after: tuple[date, int] | None = None
    for each in days:
        if some and (each[0] in stored) != (some[0][0] in stored):
            yield _DayStretch(some[0][0] in stored, some, after)
            some, after = [], some[-1]
        some.append(each)
    if some:
        yield _DayStretch(some[0][0] in stored, some, after)


def parts_of_days(
    reader: Reader | Writer,
    window: Window,
    days: Iterable[tuple[date, int]],
    occupancy: Occupants,
    *,
    after: tuple[date, int] | None,
    metrics: tuple[str, ...] = (),
) -> Iterator[tuple[date, DayParts]]:
    """Sums of the samples of days within a window, by day or by part of a day's nodes.

    Args:
        reader: the warehouse.
        window: cluster and time.
        days: UTC days in a row with how many samples they have, the last one first.
        occupancy: which attempts were on which nodes.
        after: the next day with samples, which is not in the result: a sample is valid up to the next one.
        metrics: of these metrics only; all if none is named.
    """
    which: deque[date | None] = deque()

    def samples() -> Iterator[pl.DataFrame]:
        if after is not None:
            for _, part in samples_of_days(reader, window, [after], metrics=metrics, hours=1):
                which.append(None)
                yield part
        for day, part in samples_of_days(reader, window, days, metrics=metrics):
            which.append(day)
            yield part

    for parts in day_parts(samples(), occupancy.within(window.since, window.until)):
        day = which.popleft()
        if day is not None:
            yield day, parts


def stored_rows(
    day: date, parts: Sequence[DayParts], cluster: str, occupancy: Occupants, owners: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Rows of `NODES` and `ATTEMPTS` of a day.

    Args:
        day: the day.
        parts: of its nodes.
        cluster: the cluster.
        occupancy: which attempts were on which nodes.
        owners: as in `StoredDays.attempts`.
    """
    begin = [pl.lit(cluster).alias("cluster"), pl.lit(day_begin(day), dtype=frames.TIME).alias("ts")]
    key = list(frames.ATTEMPT_KEY[1:])
    nodes = pl.concat([part.nodes for part in parts]).sort(SERIES)
    pieces = (
        pl.concat([part.pieces for part in parts])
        .join(owners.select("owner", *key), on="owner")
        .join(occupancy.places, on="place")
        .sort("owner", *SERIES)
    )
    return {
        NODES: nodes.select(*begin, *SERIES, pl.exclude(SERIES)),
        ATTEMPTS: pieces.select(*begin, *key, *SERIES, *_SUMS),
    }


_SUMS: Final = ("observed", "value", "shared", "shared_value")
_PIECE: Final = ("owner", "place", *WHAT)


def _numbered(stored: pl.DataFrame, occupancy: Occupants, owners: pl.DataFrame) -> pl.DataFrame:
    """Rows of `ATTEMPTS` with the numbers of their attempts and nodes, the last day first; as they are added."""
    key = list(frames.ATTEMPT_KEY[1:])
    named = stored.join(owners.select("owner", *key), on=key).join(occupancy.places, on="node")
    return named.select("ts", *_PIECE, *_SUMS).sort("ts", *_PIECE, descending=[True, *(False for _ in _PIECE)])


def _added_by_day(pieces: pl.DataFrame, counted: CountedNodes) -> pl.DataFrame:
    """Sums by owner and day, the last day first; each node of an owner is counted once, on one of its days."""
    key = ["owner", *WHAT]
    if pieces.is_empty():
        return pieces.select(*key, *_SUMS, pl.lit(0, dtype=pl.Int64).alias("n_nodes"))
    ends = pieces["ts"].min()
    first = round(ends.timestamp() * 1000) + round(LONGEST_S * 1000)  # type: ignore[union-attr]  # polars types min() broadly
    places = pieces.select("place", *WHAT).unique().with_columns(first=pl.lit(first, dtype=pl.Int64))
    counts = counted.new(pieces.select(_PIECE).unique(), places)
    by_day = added_up([pieces.drop("place")], ["ts", *key]).sort("ts", descending=True, maintain_order=True)
    n_nodes = pl.when(pl.struct(key).is_first_distinct()).then("n_nodes")
    return by_day.join(counts, on=key, how="left", maintain_order="left").select(
        *key, *_SUMS, n_nodes.fill_null(0).alias("n_nodes")
    )
