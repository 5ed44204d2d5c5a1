"""What GPUs did: samples of the warehouse, day by day, as intervals of activity, and as sums by attempt and by user.

Where samples are gone, or only hourly roll-ups were ever loaded, an hour that a roll-up covers is read as one sample.
An hour in which an attempt started or ended is then unattributed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

import polars as pl

from metrics import frames
from metrics.telemetry.activity_intervals import ACTIVE_SHARE, activity_intervals
from metrics.telemetry.gpu_attribution import RATIO_PARTS, RESOLUTION, added_up, day_activities, in_units
from metrics.telemetry.rollup_fallback import LONGEST_S, with_hours
from metrics.telemetry.sample_grid import GPU, SampledMetric, inactive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import date
    from typing import TypeAlias

    from app.config.settings import Rules
    from app.window import Window
    from metrics.telemetry.occupancy import Holders
    from queries.warehouse import Reader, Writer

    ReportDays: TypeAlias = Callable[[int, int], None]

VERIFICATION = "verification"
"""Kind of `rules.other_work` whose jobs check nodes."""

DAY: Final = timedelta(days=1)

HOURLY: Final = "hourly"
"""Column of samples that are hours, and of sums: how much of the time is known by the hour only."""


@dataclass(frozen=True)
class Activity:
    """What GPUs did, as `gpu_attribution.in_units` names it; `hourly_s` of that is known by the hour only.

    Attributes:
        attempts: by `frames.ATTEMPT_KEY`, with `user`, `partition` and `verification`.
        users: by `user`: of nodes that several attempts of one user shared.
    """

    attempts: pl.DataFrame
    users: pl.DataFrame


@dataclass(frozen=True)
class DaySums:
    """Sums of what GPUs did on a day, or on several that are alike.

    All are whole: GPU-milliseconds, and values x GPU-milliseconds in parts of the unit (`gpu_attribution.RESOLUTION`).

    Attributes:
        day: the UTC day that the samples begin in; of several, the first.
        attempts: `gpu_attribution.GpuDay.attempts`, by `attempt`: its number.
        users: `gpu_attribution.GpuDay.users` by `user` alone.
    """

    day: date
    attempts: pl.DataFrame
    users: pl.DataFrame

    @property
    def hourly(self) -> bool:
        """Whether some of it is known by the hour only."""
        return _by_hour(self.attempts)


def attempt_rows(found: Activity) -> pl.DataFrame:
    """Rows of the table `attempt_activity`."""
    beside = {*frames.ATTEMPT_KEY, VERIFICATION, "user", "partition", f"{HOURLY}_s"}
    return found.attempts.select(*frames.ATTEMPT_KEY, VERIFICATION, pl.exclude(beside))


def user_rows(found: Activity, cluster: str) -> pl.DataFrame:
    """Rows of the table `user_activity`."""
    return found.users.select(pl.lit(cluster).alias("cluster"), pl.exclude(f"{HOURLY}_s"))


def summed(days: Collection[DaySums], rules: Rules, held: Holders) -> Activity | None:
    """The sums of days as one, in seconds and units; None without days."""
    if not days:
        return None
    samples, hours = _readings(rules)
    reading = hours if any(day.hourly for day in days) else samples
    attempts = _in_units([_converted(day.attempts, reading) for day in days], ["attempt"], reading)
    users = _in_units([_converted(day.users, reading) for day in days], ["user"], reading)
    about = held.attempts.select("attempt", *frames.ATTEMPT_KEY, "user", "partition", VERIFICATION)
    return Activity(about.join(attempts, on="attempt").drop("attempt"), users)


def sums_of_days(
    reader: Reader | Writer,
    window: Window,
    rules: Rules,
    held: Holders,
    days: Sequence[date],
    *,
    after: date | None = None,
) -> list[DaySums]:
    """Sums of the samples of days within the window, and of roll-ups in the place of those that are missing.

    Args:
        reader: the warehouse.
        window: the time.
        rules: when a GPU is idle.
        held: who held what.
        days: UTC days in a row of those with samples, the last one first.
        after: the next day with samples, which is not summed: a sample is valid up to the next one.
    """
    samples, hours = _readings(rules)
    spans = {day: span for day in days if (span := read_of_day(day, window)) is not None}
    if not spans:
        return []
    rows = [] if after is None else [(day_begin(after), day_begin(after) + timedelta(seconds=LONGEST_S))]
    done = day_activities(
        (_with_hours(*_rows(reader, window.cluster, *span)) for span in [*rows, *spans.values()]),
        held.within(window.since, window.until),
        lambda day: hours if HOURLY in day.columns else samples,
    )
    sums = list(done)[len(rows) :]
    return [
        DaySums(day, made.attempts, _by_user(made.users))
        for day, made in zip(spans, sums, strict=True)
        if not made.nodes.is_empty()
    ]


def _by_user(users: pl.DataFrame) -> pl.DataFrame:
    """Sums of a day without their partitions."""
    return users.group_by("user").agg(pl.exclude("user", "partition").sum()).sort("user")


def _readings(rules: Rules) -> tuple[SampledMetric, SampledMetric]:
    """How samples are read, and how days are on which hours replace samples."""
    idle = _idle(rules)
    share = pl.coalesce(1 - pl.col(ACTIVE_SHARE), idle.cast(pl.Float64))
    return SampledMetric(RESOLUTION, idle), SampledMetric({**RESOLUTION, HOURLY: 1}, share, idle_parts=RATIO_PARTS)


def _idle(rules: Rules) -> pl.Expr:
    """Whether a sample shows its GPU inactive; null where it does not show either."""
    return inactive(rules.active_tensor, rules.active_gr_engine, rules.active_gpu_util)


def _by_hour(sums: pl.DataFrame) -> bool:
    return f"{HOURLY}_known" in sums.columns


def _converted(sums: pl.DataFrame, reading: SampledMetric) -> pl.DataFrame:
    """Sums of a day that was read by the other reading as this one has them."""
    if HOURLY not in reading.resolution or _by_hour(sums):
        return sums
    none = pl.lit(0, dtype=pl.Int64)
    return sums.with_columns(
        pl.col("idle_sum") * reading.idle_parts, none.alias(f"{HOURLY}_known"), none.alias(f"{HOURLY}_sum")
    )


def _in_units(days: list[pl.DataFrame], by: list[str], reading: SampledMetric) -> pl.DataFrame:
    """Sums of all days in seconds and units; null where no sample has a value."""
    columns = days[0].columns
    sums = in_units(added_up([day.select(columns) for day in days], by), reading)
    sums = sums.rename({"power_w_s": "power_s", "power_w_sum": "energy_j"}).with_columns(
        pl.col("n_samples").cast(pl.Int64)
    )
    seconds_of = {"idle_s": "judged_s", "energy_j": "power_s"}
    seconds_of |= {f"{name}_sum": f"{name}_s" for name in RESOLUTION if name != "power_w"}
    by_hour = pl.col(f"{HOURLY}_s") if f"{HOURLY}_s" in sums.columns else pl.lit(0.0)
    return sums.with_columns(
        *(pl.when(pl.col(seconds) > 0).then(name).alias(name) for name, seconds in seconds_of.items()),
        by_hour.alias(f"{HOURLY}_s"),
    ).drop(f"{HOURLY}_sum", strict=False)


def gpu_activity(
    reader: Reader | Writer, window: Window, rules: Rules, *, report: ReportDays = lambda _done, _all: None
) -> pl.DataFrame:
    """When GPUs were active in the window, by the ledger's rules: `frames.ACTIVITY`, in the order of GPUs and time.

    Args:
        reader: the warehouse.
        window: the time.
        rules: when a GPU counts as active.
        report: receives how many days of samples were read, and how many there are.
    """
    since_us, until_us = (round(at.timestamp() * 1e6) for at in (window.since, window.until))
    rows = _rows_by_day(reader, window, report)
    days = list(activity_intervals(rows, _idle(rules), since_us=since_us, until_us=until_us))
    if not days:
        return frames.empty(frames.ACTIVITY)
    named = pl.concat(days).with_columns(cluster=pl.lit(window.cluster))
    return frames.conform(named, frames.ACTIVITY).sort(*GPU, "started_at")


def _with_hours(samples: pl.DataFrame, hours: pl.DataFrame) -> pl.DataFrame:
    """Samples with hours in the place of those that are missing."""
    return with_hours(samples, hours.with_columns(pl.lit(1.0).alias(HOURLY)), by=GPU)


def _rows(reader: Reader | Writer, cluster: str, low: datetime, high: datetime) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Samples and roll-ups that begin in a time."""
    samples = reader.query("gpu_samples_between", cluster=cluster, since=low, until=high)
    return samples, reader.query("gpu_hours_between", cluster=cluster, since=low, until=high)


def _rows_by_day(
    reader: Reader | Writer, window: Window, report: ReportDays = lambda _done, _all: None
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Samples and roll-ups of each day that may overlap the window, the last day first; whole hours."""
    days = reader.query("gpu_sample_days", cluster=window.cluster)["day"]
    for number, day in enumerate(days):
        report(number, len(days))
        span = read_of_day(day, window)
        if span is not None:
            yield _rows(reader, window.cluster, *span)


def read_of_day(day: object, window: Window) -> tuple[datetime, datetime] | None:
    """From when to when samples of a day are read for a window: whole hours, one more than the window has before it.

    A sample, or an hour, may begin before the window and reach into it.
    """
    begin = day_begin(day)
    since = window.since - timedelta(seconds=LONGEST_S)
    low = max(begin, since.replace(minute=0, second=0, microsecond=0))
    high = min(begin + DAY, window.until)
    return (low, _next_hour(high)) if low < high else None


def day_begin(day: object) -> datetime:
    """The first moment of a UTC day."""
    return datetime.combine(day, time(), UTC)  # type: ignore[arg-type]  # a date, as queries have it


def _next_hour(moment: datetime) -> datetime:
    whole = moment.replace(minute=0, second=0, microsecond=0)
    return whole if whole == moment else whole + timedelta(hours=1)
