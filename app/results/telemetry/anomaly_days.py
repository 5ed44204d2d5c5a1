"""The tests of anomalies of single days: as `compute` stored them, else made of the day's hours and of the days before.

A day's tests are stored with a digest of what they were made of: its telemetry and who held its nodes, and those of the
28 days before (`metrics.anomalies.day_sums`). Where that is what they would be made of now, they are read.
"""

from __future__ import annotations

import hashlib
from collections import deque
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

import polars as pl

from app.results.telemetry.busy_hours import BusyHours
from app.results.telemetry.held_days import held_digests
from metrics import frames
from metrics.anomalies.day_sums import HOURS_A_DAY, PAST_DAYS, REACH_DAYS, SUMS, Past, day_sums
from metrics.anomalies.deviations import DEVIATIONS, gpu_deviations, node_deviations
from metrics.anomalies.peers import held_hours
from metrics.units import DAY_US

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from metrics.anomalies.hours import Limits
    from queries.warehouse import Reader, Writer

VERSION: Final = "1"
"""Part of every digest. To be raised whenever the same telemetry comes to mean other tests."""

DAY: Final = timedelta(days=1)
_EPOCH: Final = date(1970, 1, 1)
_HOUR_US: Final = 3_600_000_000


class HourCounts(NamedTuple):
    """Hours of a day: in which GPUs were busy, of these those with peers, and those of ports and mounts with peers."""

    busy: int = 0
    compared: int = 0
    devices: int = 0


class DayTests(NamedTuple):
    """A day with its tests (`metrics.anomalies.day_sums.SUMS`) and what they were made of."""

    day: date
    sums: pl.DataFrame
    counts: HourCounts


class _DayRange(TypedDict):
    cluster: str
    since: datetime
    until: datetime


def number_of(day: date) -> int:
    """Days since 1970."""
    return (day - _EPOCH).days


def begin_of(day: date) -> datetime:
    """The first moment of a UTC day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def hours_before(day: date, until: datetime) -> int:
    """How many whole hours of a day lie before a moment."""
    return min(HOURS_A_DAY, max(0, int((until - begin_of(day)).total_seconds()) // 3600))


class Hours:
    """What deviates in the hours of a day.

    Args:
        source: the warehouse.
        cluster: the cluster.
        limits: when a sample shows its GPU busy.
        held: `frames.ATTEMPT_NODES` with a number `attempt`, and whether it is `selected`.
        until: only whole hours before this moment count.
    """

    def __init__(
        self, source: Reader | Writer, cluster: str, limits: Limits, held: pl.DataFrame, until: datetime
    ) -> None:
        self.source, self.cluster, self.limits, self.held, self.until = source, cluster, limits, held, until
        selected = held.filter("selected").select(pl.col("attempt").cast(frames.COUNT)).unique()
        self._selected = None if selected.height == held["attempt"].n_unique() else selected
        self._busy = BusyHours(source, cluster, limits)

    def deviations(self, day: date, within: tuple[int, int]) -> tuple[pl.DataFrame, HourCounts]:
        """`deviations.DEVIATIONS` of a day, and what there is in some of its hours (since 1970)."""
        since, until = begin_of(day), begin_of(day) + timedelta(hours=hours_before(day, self.until))
        if since >= until:
            return frames.empty(DEVIATIONS), HourCounts()
        period: _DayRange = {"cluster": self.cluster, "since": since, "until": until}
        first = number_of(day) * HOURS_A_DAY
        owners = held_hours(self.held, first, first + hours_before(day, self.until))
        if self._selected is not None and owners.join(self._selected, on="attempt", how="semi").is_empty():
            return frames.empty(DEVIATIONS), HourCounts()
        busy = self._owned(self._busy.of_day(since, until), owners)
        devices = self._owned(self.source.query("node_device_hours", **period), owners)
        of_gpus, of_nodes = gpu_deviations(busy), node_deviations(devices)
        inside = pl.col("hour").is_between(*within, closed="left")
        gpus = of_gpus.filter(inside, pl.col("level") == "gpu").select("node", "device", "hour")
        counts = HourCounts(busy.filter(inside).height, gpus.n_unique(), of_nodes.filter(inside).height)
        return pl.concat([of_gpus, of_nodes]), counts

    def _owned(self, hours: pl.DataFrame, owners: pl.DataFrame) -> pl.DataFrame:
        """Hours with their attempts: all hours, or those of the attempts that are selected."""
        if self._selected is None:
            return hours.join(owners, on=["node", "hour"], how="left")
        return hours.join(owners.join(self._selected, on="attempt", how="semi"), on=["node", "hour"])


def digests(hours: Hours, first: date, last: date) -> dict[date, str]:
    """What the tests of each day with telemetry depend on.

    Args:
        hours: of the cluster.
        first: the first day.
        last: the day after the last one.
    """
    early = first - REACH_DAYS * DAY
    rows = hours.source.query("anomaly_inputs", cluster=hours.cluster, first=early, last=last)
    made_of = dict(rows.select("day", "made_of").iter_rows())
    held = _occupancy_by_day(hours.held, hours.until)
    own = {day: f"{hours_before(day, hours.until)}|{text}|{held.get(day)}" for day, text in made_of.items()}
    return {day: _digest(hours.limits, own, day) for day in own if day >= first}


def _digest(limits: Limits, own: Mapping[date, str], day: date) -> str:
    before = [f"{n}:{own[day - n * DAY]}" for n in range(REACH_DAYS + 1) if day - n * DAY in own]
    text = "\n".join([VERSION, str(tuple(limits)), *before])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _occupancy_by_day(held: pl.DataFrame, until: datetime) -> dict[date, str]:
    """A text for each day that depends on which attempt held which node when."""
    last = int(until.timestamp() * 1e6) // _HOUR_US * _HOUR_US
    spans = held.select(
        *frames.ATTEMPT_KEY,
        "node",
        begin=pl.col("started_at").dt.epoch("us").clip(upper_bound=last),
        end=pl.col("ended_at").dt.epoch("us").fill_null(last).clip(upper_bound=last),
    ).filter(pl.col("begin") < pl.col("end"))
    return held_digests(spans, [*frames.ATTEMPT_KEY, "node"], day=DAY_US)


class Stored:
    """Days whose tests are stored, and made of what they would be made of now.

    Args:
        hours: of the cluster.
        first: the first requested day.
        last: the day after the last one.
        unchanged: nothing has changed since they were stored, so that no telemetry is read to compare it.
    """

    def __init__(self, hours: Hours, first: date, last: date, *, unchanged: bool = False) -> None:
        self._hours = hours
        rows = hours.source.query("anomaly_days", cluster=hours.cluster).iter_rows(named=True)
        early = first - REACH_DAYS * DAY
        near: dict[date, dict[str, Any]] = {row["day"]: row for row in rows if early <= row["day"] < last}
        now = digests(hours, early, last) if near and not unchanged else {}
        self._days = {day: row for day, row in near.items() if unchanged or now.get(day) == row["inputs"]}

    def __contains__(self, day: date) -> bool:
        return day in self._days

    def within(self, day: date) -> tuple[int, int]:
        """The hours (since 1970) whose tests are stored."""
        first = number_of(day) * HOURS_A_DAY
        return first, first + int(self._days[day]["hours"])

    def read(self, day: date) -> DayTests:
        """A day.

        Raises:
            CorruptWarehouseError: its file is damaged or missing.
        """
        row, begin = self._days[day], begin_of(day)
        period: _DayRange = {"cluster": self._hours.cluster, "since": begin, "until": begin + DAY}
        same = pl.col("ts") == begin
        blocks = self._hours.source.sample_blocks("anomaly_sums", **period)
        parts = [
            block.filter(same).with_columns(day=pl.lit(number_of(day), dtype=frames.COUNT)).select(*SUMS)
            for block in blocks
        ]
        sums = frames.conform(pl.concat([frames.empty(SUMS).lazy(), *parts]).collect(), SUMS)
        return DayTests(day, sums, HourCounts(row["busy_hours"], row["compared_hours"], row["device_hours"]))


def days_tested(
    hours: Hours,
    days: Collection[date],
    spans: Mapping[date, tuple[int, int]],
    stored: Stored | None,
    *,
    anew: Collection[date] = (),
) -> Iterator[DayTests]:
    """The tests of days, the first one first.

    Args:
        hours: of the cluster.
        days: all days with telemetry, from 28 days before the first requested one.
        spans: days, each with the hours (since 1970) that are tested.
        stored: what is stored; None: nothing is to be used.
        anew: days of which nothing stored is to be used.

    Raises:
        CorruptWarehouseError: what is stored is damaged.
    """
    kept = _days_to_read(spans, stored, anew)
    make = {day for day in spans if day not in kept}
    tested = _before(make, days) - kept - make
    learnt = _before(make | tested, days) - kept - tested - make
    left: deque[tuple[date, Past]] = deque(maxlen=PAST_DAYS)
    needed = _before(make | tested, days)
    for day in sorted({*spans, *make, *tested, *learnt, *needed}):
        if stored is not None and day in kept:
            found = stored.read(day)
        else:
            found = _day_tests(hours, day, spans.get(day), left, learnt=day in learnt)
        if day in needed:
            left.append((day, Past.of(found.sums)))
        if day in spans:
            yield found


def _days_to_read(spans: Mapping[date, tuple[int, int]], stored: Stored | None, anew: Collection[date]) -> set[date]:
    """Days that are read: all that is stored of the requested ones."""
    if stored is None:
        return set()
    near = {day - n * DAY for day in spans for n in range(REACH_DAYS + 1)}
    return {
        day
        for day in near
        if day in stored and day not in anew and spans.get(day, stored.within(day)) == stored.within(day)
    }


def _before(days: Iterable[date], there: Collection[date]) -> set[date]:
    """Days that lie up to 14 days before one of these."""
    return {day - n * DAY for day in days for n in range(1, PAST_DAYS + 1)} & set(there)


def _day_tests(
    hours: Hours, day: date, within: tuple[int, int] | None, left: Iterable[tuple[date, Past]], *, learnt: bool
) -> DayTests:
    first = number_of(day) * HOURS_A_DAY
    span = within or (first, first + HOURS_A_DAY)
    deviations, counts = hours.deviations(day, span)
    past = Past.joined([] if learnt else (one for _, one in left))
    return DayTests(day, day_sums(deviations, past, span), counts)
