"""The cells of the grid by a batch of readings, series by series; gauges here, counters in `counters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl

from ingest.plausible import COUNTER
from ingest.prometheus.node.counters import Grown, Increases, beginnings, grown, in_blocks
from ingest.prometheus.node.table import GAUGES
from ingest.tables import WHOLE, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from ingest.prometheus.client.remote_read import Samples
    from ingest.prometheus.client.xor_chunks import Whole

    Real = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

NEVER: Final = 1 << 62
"""Upper bound of all times in milliseconds (negative: lower bound)."""


class Readings(NamedTuple):
    """Readings, run by run: number of the owner and size of each run, epoch milliseconds, values."""

    uses: Whole
    sizes: Whole
    times: Whole
    values: Real


class CellRange(NamedTuple):
    """The requested cells, `width_ms` each: those that begin from `low_ms` on and before `high_ms`."""

    width_ms: int
    low_ms: int = -NEVER
    high_ms: int = NEVER

    def has(self, cells: Whole) -> Flags:
        """Mask of the requested cells."""
        begin = cells * self.width_ms
        return (begin >= self.low_ms) & (begin < self.high_ms)

    def has_read(self, times: Whole) -> Flags:
        """Mask of the readings in them."""
        return (times > self.low_ms) & (times <= self.high_ms)

    def n_read(self, samples: Samples) -> Whole:
        """Number of readings of each series in them."""
        up_to = np.concatenate([[0], np.cumsum(self.has_read(samples.times))])
        stops = np.cumsum(samples.sizes)
        return np.asarray(up_to[stops] - up_to[stops - samples.sizes])


class CounterLimits(NamedTuple):
    """Plausible range of the values of each use, by its number."""

    low: Real
    high: Real


class Gauges(NamedTuple):
    """GAUGES, and the uses of implausible values, one for each."""

    rows: pl.DataFrame
    strange: Whole


def of_gauges(readings: Readings, limits: CounterLimits, window: CellRange) -> Gauges:
    """The cells of gauges."""
    blocks = [_gauges(Readings(*block), limits, window) for block in in_blocks(*readings)]
    return Gauges(pl.concat([block.rows for block in blocks]), np.concatenate([block.strange for block in blocks]))


def _gauges(readings: Readings, limits: CounterLimits, window: CellRange) -> Gauges:
    """The same for a block."""
    uses, sizes, times, values = readings
    owners = np.repeat(uses, sizes)
    cells = (times - 1) // window.width_ms
    good = (values >= limits.low[owners]) & (values <= limits.high[owners])
    first = beginnings(owners, cells)
    if not first.size:
        return Gauges(empty(GAUGES), owners)
    with np.errstate(over="ignore"):
        total = np.add.reduceat(np.where(good, values, 0.0), first)
    n_good, n = np.add.reduceat(good, first, dtype=np.int64), np.diff(first, append=owners.size)
    columns = where(window.has(cells[first]), (owners[first], cells[first], total, n_good, n))
    rows = pl.DataFrame(dict(zip(GAUGES, columns, strict=True)), GAUGES)
    return Gauges(rows, owners[window.has_read(times) & ~good])


class CounterIncreases(NamedTuple):
    """The increases of counters in requested cells, and the implausible values."""

    grown: Grown
    strange: Whole


def of_counters(readings: Readings, window: CellRange) -> CounterIncreases:
    """The cells of counters."""
    grown_cells = grown(*readings, width_ms=window.width_ms)
    increases_here = Increases(*where(window.has(grown_cells.increases.cells), grown_cells.increases))
    strange = ~((readings.values >= 0) & (readings.values <= COUNTER.most))
    series = readings.uses[:0]
    if strange.any():
        series = np.repeat(readings.uses, readings.sizes)[strange & window.has_read(readings.times)]
    return CounterIncreases(grown_cells._replace(increases=increases_here), series)


def where(keep: Flags, columns: Iterable[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """The rows that are kept."""
    return [column[keep] for column in columns]


def picked(samples: Samples, places: Whole, uses: Whole) -> Readings:
    """Readings of the series at some places, one run for each use; a place may occur twice."""
    if places.size == samples.sizes.size and np.all(np.diff(places, prepend=-1) == 1):
        return Readings(uses, samples.sizes, samples.times, samples.values)
    sizes = samples.sizes[places]
    begins = np.cumsum(samples.sizes)[places] - sizes
    index = np.repeat(begins - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return Readings(uses, sizes, samples.times[index], samples.values[index])


def edges_and_steps(readings: Readings) -> tuple[pl.DataFrame, pl.DataFrame]:
    """First and last reading of each run, and a histogram of the times between two readings."""
    uses, sizes, times, _ = readings
    some = sizes > 0
    stops = np.cumsum(sizes)[some]
    begins = stops - sizes[some]
    read = pl.DataFrame({"use": uses[some], "first_ms": times[begins], "last_ms": times[stops - 1]})
    between = np.delete(np.diff(times), stops[:-1] - 1)
    steps, counts = np.unique(between[between > 0], return_counts=True)
    return read, pl.DataFrame({"step": steps, "count": counts}, {"step": WHOLE, "count": WHOLE})


def median(parts: Sequence[pl.DataFrame]) -> int | None:
    """The median step."""
    steps = pl.concat(parts).sort("step")
    half = steps.filter(pl.col("count").cum_sum() * 2 >= pl.col("count").sum())
    return half["step"].item(0) if half.height else None
