"""Intervals of activity again, slowly: plain Python, one tick at a time, written from the definitions.

It must agree with `metrics.telemetry.activity_intervals`. Times are whole ticks of 30 seconds from the first hour.
"""

from __future__ import annotations

from dataclasses import dataclass

HOUR = 120
"""Ticks of an hour."""

NEARLY = 118
"""Ticks of an hour that make it known: one sample of a minute may be missing."""


@dataclass(frozen=True)
class Sample:
    """`active` is 1 or 0; None where the sample does not show it."""

    gpu: str
    at: int
    lasts: int
    active: int | None


@dataclass(frozen=True)
class RollUp:
    gpu: str
    hour: int
    known: int
    share: float | None


@dataclass(frozen=True)
class Interval:
    """`longest` is the longest sample, in ticks; None for a roll-up."""

    gpu: str
    start: int
    end: int
    share: float
    longest: int | None


def intervals(samples: list[Sample], rolled_up: list[RollUp], since: int, until: int) -> list[Interval]:
    """Intervals of one state of each GPU within a window; every roll-up is an interval of its own."""
    result: list[Interval] = []
    for gpu in sorted({row.gpu for row in samples} | {row.gpu for row in rolled_up}):
        own = sorted((s for s in samples if s.gpu == gpu and s.active is not None), key=lambda s: s.at)
        hours = {
            r.hour: r.share
            for r in rolled_up
            if r.gpu == gpu
            and r.share is not None
            and r.known >= NEARLY
            and sum(s.lasts for s in own if s.at // HOUR == r.hour) < NEARLY
        }
        kept = [s for s in own if s.at // HOUR not in hours]
        result += _of_gpu(gpu, kept, hours, since, until)
    return result


def _of_gpu(gpu: str, samples: list[Sample], hours: dict[int, float], since: int, until: int) -> list[Interval]:
    result: list[Interval] = []
    previous: tuple[float, int | None] | None = None
    for tick in range(since, until):
        hour = tick // HOUR
        state: tuple[float, int | None] | None = None
        longest = None
        last = max((s for s in samples if s.at <= tick), key=lambda s: s.at, default=None)
        if hour in hours:
            state = hours[hour], hour
        elif last is not None and tick < last.at + last.lasts and not _hour_between(hours, last.at, tick):
            state, longest = (float(last.active or 0), None), last.lasts
        if state is not None and state == previous:
            before = result.pop()
            top = None if before.longest is None or longest is None else max(before.longest, longest)
            result.append(Interval(gpu, before.start, tick + 1, before.share, top))
        elif state is not None:
            result.append(Interval(gpu, tick, tick + 1, state[0], longest))
        previous = state
    return result


def _hour_between(hours: dict[int, float], at: int, tick: int) -> bool:
    """Whether an hour that a roll-up covers began since the sample did: the sample ends there."""
    return any(at < hour * HOUR <= tick for hour in hours)
