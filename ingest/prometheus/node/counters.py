"""Increases of counters in each cell of the grid: all series of a batch at once, and from batch to batch.

A counter only grows. A value below the one before means that it began again at 0, so its increase is the new value.
The increase from one reading to the next is spread evenly over the time between them, and so split among the cells that
this time crosses. A gap of more than `GONE_S` in a series is unknown time; the first reading after it has no increase,
since the beginning of the growth is unknown. Values that are not numbers, infinite or below 0 are invalid for a counter
and left out: their neighbours are then consecutive.

The result depends neither on the batches of readings nor on the limits of the time: the cells from one time to another
need the readings from `GONE_S` before the first to `GONE_S` after the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ingest.plausible import COUNTER
from ingest.prometheus.client.raw import GONE_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from ingest.prometheus.client.xor_chunks import Whole

    Real = npt.NDArray[np.float64]

NEVER: Final = -(1 << 62)
"""Time of the last reading of a series that had none. In milliseconds no time is as far from it as `GONE_S`."""

BLOCK: Final = 1 << 15
"""Approximate number of readings processed together, so that intermediate results stay in the processor's cache."""


class Increases(NamedTuple):
    """Increases by series and cell, in order of both, with their times. Milliseconds since the epoch.

    Unobserved cells have no row. `covered_ms` is the observed time; it lies between
    `begin_ms` and `end_ms`, and is all of that unless there is a gap in it.
    """

    series: Whole
    cells: Whole
    increase: Real
    covered_ms: Whole
    begin_ms: Whole
    end_ms: Whole


class Grown(NamedTuple):
    """A batch alone: increases between its readings, and the first and the last reading of each series.

    `n_left_out` is the number of readings left out: invalid ones, and those of a time that was read already.
    """

    increases: Increases
    series: Whole
    first_ms: Whole
    first: Real
    last_ms: Whole
    last: Real
    n_left_out: int


def grown(series: Whole, sizes: Whole, times: Whole, values: Real, *, width_ms: int) -> Grown:
    """The increases of a batch alone.

    Args:
        series: numbers of the series (small ones, from 0 on), one for each run of readings.
        sizes: number of readings of each run.
        times: epoch milliseconds of the readings, run by run.
        values: values of the readings.
        width_ms: width of the grid. Cell n lies behind n times that, and ends with its end.
    """
    blocks = [
        _grown(np.repeat(some, many), moments, read, width_ms)
        for some, many, moments, read in in_blocks(series, sizes, times, values)
    ]
    return Grown(
        _joined([block.increases for block in blocks]),
        np.concatenate([block.series for block in blocks]),
        np.concatenate([block.first_ms for block in blocks]),
        np.concatenate([block.first for block in blocks]),
        np.concatenate([block.last_ms for block in blocks]),
        np.concatenate([block.last for block in blocks]),
        sum(block.n_left_out for block in blocks),
    )


def _grown(owners: Whole, times: Whole, values: Real, width_ms: int) -> Grown:
    """The same for a block; `owners` are the readings' series."""
    n = owners.size
    owners, times, values = _usable(owners, times, values)
    first = beginnings(owners)
    last = np.append(first, owners.size)[1:] - 1
    before, below = np.empty_like(times), np.empty_like(values)
    before[1:], below[1:] = times[:-1], values[:-1]
    before[first], below[first] = times[first], values[first]
    increases = _split(owners, before, times, _rise(below, values), width_ms)
    return Grown(increases, owners[first], times[first], values[first], times[last], values[last], n - owners.size)


@dataclass
class Counters:
    """State of counters between batches: the last reading of each series."""

    width_ms: int
    _times: Whole = field(default_factory=lambda: np.empty(0, np.int64), repr=False)
    _values: Real = field(default_factory=lambda: np.empty(0), repr=False)

    def last_ms(self, series: Whole) -> Whole:
        """Times of the last readings of series (NEVER: none)."""
        observed = np.append(self._times, NEVER)
        return np.asarray(observed[np.minimum(series, self._times.size)])

    def add(self, batch: Grown) -> Increases:
        """Add a batch; later readings of a series come in later batches.

        Returns:
            The increases up to the last reading of each series, from the last reading before on. Series and
            cells may be there twice (now or with the next batch): increases and covered times then add up.
        """
        series = batch.series
        more = int(series.max(initial=-1)) + 1 - self._times.size
        if more > 0:
            more = max(more, self._times.size)
            self._times = np.concatenate([self._times, np.full(more, NEVER, np.int64)])
            self._values = np.concatenate([self._values, np.zeros(more)])
        before, below = self._times[series], self._values[series]
        between = _split(series, before, batch.first_ms, _rise(below, batch.first), self.width_ms)
        later = batch.last_ms > before
        self._times[series[later]], self._values[series[later]] = batch.last_ms[later], batch.last[later]
        return _joined([between, batch.increases])


def _usable(owners: Whole, times: Whole, values: Real) -> tuple[Whole, Whole, Real]:
    """Valid readings of counters, by series and time, each later than the one before."""
    good = (values >= 0) & (values <= COUNTER.most)
    if not good.all():
        owners, times, values = owners[good], times[good], values[good]
    first = beginnings(owners)
    back = times[1:] <= times[:-1]
    back[first[1:] - 1] = False
    if not back.any() and np.unique(owners[first]).size == first.size:
        return owners, times, values
    order = np.lexsort((times, owners))
    owners, times, values = owners[order], times[order], values[order]
    once = np.ones(owners.size, bool)
    once[1:] = (owners[1:] != owners[:-1]) | (times[1:] != times[:-1])
    return owners[once], times[once], values[once]


def _rise(below: Real, values: Real) -> Real:
    """The increase of counters from one value to the next."""
    rise = values - below
    np.copyto(rise, values, where=rise < 0)
    return rise


def _split(owners: Whole, before: Whole, times: Whole, rise: Real, width_ms: int) -> Increases:
    """The increases from `before` to `times`, by series and cell. A time that is too long has none."""
    length = times - before
    speed = rise / np.maximum(length, 1)
    cells = before // width_ms
    crossed = np.where((length > 0) & (length <= GONE_S * 1000), (times - 1) // width_ms - cells + 1, 0)
    if np.any(crossed != 1):
        cells += crossed - crossed.cumsum()
        owners, before, times, speed, cells = (each.repeat(crossed) for each in (owners, before, times, speed, cells))
        cells += np.arange(cells.size)
    low = cells * width_ms
    begin, end = np.maximum(before, low), np.minimum(times, low + width_ms)
    observed = end - begin
    first = beginnings(owners, cells)
    if not first.size:
        return Increases(owners, cells, speed, observed, begin, end)
    last = np.append(first, owners.size)[1:] - 1
    increase, covered = np.add.reduceat(speed * observed, first), np.add.reduceat(observed, first)
    return Increases(owners[first], cells[first], increase, covered, begin[first], end[last])


def _joined(parts: Iterable[Increases]) -> Increases:
    return Increases(*map(np.concatenate, zip(*parts, strict=True)))


def in_blocks(series: Whole, sizes: Whole, times: Whole, values: Real) -> Iterator[tuple[Whole, Whole, Whole, Real]]:
    """A batch in blocks of whole series, at least one; in a single one where a series has several runs."""
    stops = np.cumsum(sizes)
    apart = np.unique(series).size == series.size
    cuts = np.flatnonzero(np.diff(stops // BLOCK)) + 1 if apart else stops[:0]
    low = 0
    for some, many in zip(np.split(series, cuts), np.split(stops, cuts), strict=True):
        high = int(many[-1]) if many.size else low
        yield some, np.diff(many, prepend=low), times[low:high], values[low:high]
        low = high


def beginnings(*keys: Whole) -> Whole:
    """Positions at which a new run of equal keys begins."""
    new = keys[0][1:] != keys[0][:-1]
    for key in keys[1:]:
        new |= key[1:] != key[:-1]
    return np.concatenate([np.zeros(min(keys[0].size, 1), np.int64), np.flatnonzero(new) + 1])
