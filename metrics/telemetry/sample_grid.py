"""Samples of one day as integrals over time that can be read off at any moment.

A sample covers a span of time. Every quantity of samples is a sum of value x time, so for each GPU and
quantity the running sum over its samples is kept, and the sum over any interval is the difference of two look-ups.
There are far fewer ends of intervals than samples: the ends are looked up, not the samples. A gap is time of which
nothing is known: it adds nothing to any sum, the seconds among them.

All of it is whole numbers, milliseconds and fixed fractions of a unit, so sums over GPUs, intervals and days are exact
whatever their order. Running sums may overflow and wrap around; their differences are right as long as they fit
themselves: 64 bits hold a day of 100,000 GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from metrics.telemetry.occupancy import FAR
from metrics.telemetry.rollup_fallback import LONGEST_S, WHOLE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

HOLD_STEPS: Final = 5
"""A sample without an interval is valid until the next one, for at most so many steps."""

_REACH: Final = 1 << 40
"""Milliseconds between lanes in a sort key: far more than samples of a day and what they cover can span."""

_NEVER: Final = 1 << 60
"""A time in microseconds that never comes."""

_MS: Final = 1000
"""Microseconds."""

_WHOLE: Final = 1 << 53
"""Below this every whole number is a float."""

_BLOCK: Final = 1 << 17
"""About how many samples are worked at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True)
class SampledMetric:
    """Quantities that are read from samples.

    Attributes:
        resolution: columns, and how many parts of their unit are distinguished: 1,000 of `power_w` are milliwatts.
        idle: a Boolean expression over a sample: the GPU was idle. Null where that is unknown.
        step_s: usual seconds from one sample to the next, for those that have no `interval_s`.
        idle_parts: 1; or `idle` is a share of the time, of which so many parts are distinguished.
        hour_s: what an hour is (see `torn`).
    """

    resolution: Mapping[str, int]
    idle: pl.Expr
    step_s: float = 60.0
    idle_parts: int = 1
    hour_s: float = LONGEST_S


def at_most(share: float, column: str = "gpu_util") -> pl.Expr:
    """Whether a column's value is at most a share; null where it is not a number."""
    value = pl.col(column)
    return pl.when(value.is_finite()).then(value <= pl.lit(share, dtype=pl.Float32))


def inactive(tensor: float, gr_engine: float, gpu_util: float) -> pl.Expr:
    """Whether a GPU was not active: by tensor activity, else engine activity, else utilisation, whichever is known.

    It is active from the first two values on, and above the third.
    """
    limits = {"tensor_active": tensor, "gr_engine_active": gr_engine}
    below = [
        pl.when(pl.col(name).is_finite()).then(pl.col(name) < pl.lit(limit, dtype=pl.Float32))
        for name, limit in limits.items()
    ]
    return pl.coalesce(*below, at_most(gpu_util))


@dataclass(frozen=True)
class SampleGrid:
    """Samples of a cluster by GPU (or whatever else is a lane) and time, each time once.

    Attributes:
        samples: sorted by the lane's columns and `ts`.
        lanes: the lanes in that order: `node`, `gpu`, or other columns that name them.
        offset: first sample of each lane, and the number of samples at the end.
        moments: beginning of each sample, microseconds since 1970.
        following: beginning of the sample after each lane's last, microseconds since 1970.
    """

    samples: pl.DataFrame
    lanes: pl.DataFrame
    offset: Ints
    moments: Ints
    following: Ints

    @property
    def firsts(self) -> pl.DataFrame:
        """The lanes and `first`: microseconds at which the first sample of each begins."""
        return self.lanes.with_columns(first=self.moments[self.offset[:-1]])

    def reach(self, reading: SampledMetric) -> tuple[int, int]:
        """The first and last moment that samples may cover, milliseconds since 1970."""
        if not len(self.moments):
            return 0, 0
        longest = reading.step_s * HOLD_STEPS
        if "interval_s" in self.samples.columns:
            longest_own = self.samples["interval_s"].cast(pl.Float64).max()
            longest = max(longest, longest_own if isinstance(longest_own, float) and isfinite(longest_own) else 0)
        return int(self.moments.min()) // _MS, int(self.moments.max()) // _MS + round(longest * 1000) + 1


GPU: Final = ("node", "gpu")
"""Columns that name a GPU."""


def series(samples: pl.DataFrame, following: pl.DataFrame | None = None, *, by: tuple[str, ...] = GPU) -> SampleGrid:
    """Put samples in order. Of those of a lane with the same `ts` the largest values count.

    Args:
        samples: the columns of `by`, `ts` and values, in any order.
        following: `SampleGrid.firsts` of the samples after these, where known.
        by: columns that name a lane.
    """
    ordered = _in_order(samples, following, by)
    if ordered is None:
        once = samples.group_by(*by, "ts").agg(pl.all().max()).sort(*by, "ts")
        ordered = _in_order(once.select(samples.columns), following, by)
    if ordered is None:
        raise AssertionError("sorted samples are not in order")
    return ordered


def _in_order(samples: pl.DataFrame, following: pl.DataFrame | None, by: tuple[str, ...]) -> SampleGrid | None:
    """Samples as they are stored, sorted; None for any other order."""
    # Runs of equal names are found much faster than each name is compared or looked up.
    runs = [np.cumsum(samples[name].rle().struct.field("len").to_numpy(), dtype=np.int64) for name in by]
    offset = np.union1d(np.concatenate(runs), np.zeros(1, dtype=np.int64))
    lanes = samples.select(by)[offset[:-1]]
    moments = samples["ts"].cast(pl.Datetime("us", "UTC")).to_physical().to_numpy()
    later = moments[1:] > moments[:-1]
    later[offset[1:-1] - 1] = True
    if not later.all() or not lanes.equals(lanes.unique().sort(by)):
        return None
    return SampleGrid(samples, lanes, offset, moments, _following(lanes, following))


def _following(lanes: pl.DataFrame, following: pl.DataFrame | None) -> Ints:
    """Start of the next sample of each lane, as far as known; else never."""
    if following is None:
        return np.full(lanes.height, _NEVER, dtype=np.int64)
    joined = lanes.join(following, on=lanes.columns, how="left", maintain_order="left")
    return joined["first"].fill_null(_NEVER).to_numpy()


# --- from samples to a grid


@dataclass(frozen=True)
class Grid:
    """Values by lane (a GPU, or all GPUs of a node at once) and sample.

    Attributes:
        lane: the lane's number among the GPUs; of GPUs put together the first one's.
        place: number of the node, by lane; lanes of a node are neighbours.
        width: how many GPUs are put together in a lane.
        offset: first sample of each lane, and the number of samples at the end.
        ts: beginning of each sample, milliseconds since 1970.
        span: milliseconds that it covers, never beyond the next one's beginning.
        values: by quantity and sample, in whole parts, summed over the lane's GPUs. `<column>_known` and `idle_known`
            are 1 where a sample has a value.
    """

    lane: Ints
    place: Ints
    width: Ints
    offset: Ints
    ts: Ints
    span: Ints
    values: dict[str, Ints]

    @property
    def counts(self) -> Ints:
        """Number of samples of each lane."""
        return np.diff(self.offset)


def grid(ordered: SampleGrid, place: Ints, separate: NDArray[np.bool_], reading: SampledMetric) -> Grid:
    """The quantities of samples, with all GPUs of a node put together where they have samples at the same times.

    Args:
        ordered: the samples.
        place: number of the node, by lane.
        separate: by place, whether its GPUs have to stay separate.
        reading: what to read.
    """
    parts = [
        part for lanes in _blocks(ordered, place) for part in _folded(_block(ordered, lanes, place, reading), separate)
    ]
    return _joined(parts) if parts else _block(ordered, slice(0, 0), place, reading)


def _blocks(ordered: SampleGrid, place: Ints) -> Iterator[slice]:
    """Lanes in blocks of whole nodes."""
    heads = np.append(np.flatnonzero(np.diff(place, prepend=-1)), len(place))
    begin = 0
    for end in heads[1:].tolist():
        if ordered.offset[end] - ordered.offset[begin] >= _BLOCK or end == len(place):
            yield slice(begin, end)
            begin = end


def _block(ordered: SampleGrid, lanes: slice, place: Ints, reading: SampledMetric) -> Grid:
    offset = ordered.offset[lanes.start : lanes.stop + 1]
    rows = slice(int(offset[0]), int(offset[-1]))
    samples = ordered.samples[rows]
    values: dict[str, Any] = {}
    if reading.idle_parts == 1:
        idle = samples.select(reading.idle.cast(pl.Int8).fill_null(-1).alias("idle"))["idle"].to_numpy()
        values["idle_known"], values["idle_sum"] = idle >= 0, idle > 0
    else:
        share = samples.select(reading.idle.cast(pl.Float64).fill_null(np.nan).alias("idle"))["idle"]
        values["idle_known"], values["idle_sum"] = _whole(share, reading.idle_parts)
    for name, parts in reading.resolution.items():
        values[f"{name}_known"], values[f"{name}_sum"] = _whole(samples[name], parts)
    numbers = np.arange(lanes.start, lanes.stop)
    width = np.ones(len(numbers), dtype=np.int64)
    offset = offset - offset[0]
    ts = ordered.moments[rows] // _MS
    limit = np.empty_like(ts)
    np.subtract(ts[1:], ts[:-1], out=limit[:-1])
    limit[offset[1:] - 1] = ordered.following[lanes] // _MS - ts[offset[1:] - 1]
    span = np.maximum(np.minimum(_covered_ms(samples, reading), limit), 0)
    return Grid(numbers, place[lanes], width, offset, ts, span, values)


def _whole(column: pl.Series, parts: int) -> tuple[NDArray[np.bool_], Floats]:
    """Mask of the values that are numbers, and these values in whole parts of their unit; 0 for others."""
    value = np.multiply(column.to_numpy(), parts, dtype=np.float64)
    np.rint(value, out=value)
    known = np.abs(value) < _WHOLE
    if not known.all():
        value[~known] = 0
    return known, value


def _covered_ms(samples: pl.DataFrame, reading: SampledMetric) -> Ints | np.int64:
    """Milliseconds that samples cover by their own `interval_s`, else the most that they may; one number if equal."""
    longest = round(reading.step_s * HOLD_STEPS * 1000)
    if "interval_s" not in samples.columns:
        return np.int64(longest)
    own = samples["interval_s"]
    same = not own.null_count() and own.min() == own.max()
    known, value = _whole(own[:1] if same else own, 1000)
    whole = np.where(known, value, longest).astype(np.int64)
    return whole[0] if len(whole) and same else whole


def _folded(block: Grid, separate: NDArray[np.bool_]) -> Iterator[Grid]:
    """The block in parts: nodes whose GPUs can be put together, and others."""
    first = np.flatnonzero(np.diff(block.place, prepend=-1))
    sizes = np.diff(first, append=len(block.place))
    if not len(first):
        return
    same_count = np.minimum.reduceat(block.counts, first) == np.maximum.reduceat(block.counts, first)
    foldable = same_count & ~separate[block.place[first]]
    kinds = [
        (size, count) if fold else None
        for size, count, fold in zip(sizes.tolist(), block.counts[first].tolist(), foldable.tolist(), strict=True)
    ]
    ends = np.append(first, len(block.place)).tolist()
    node = 0
    for kind, group in groupby(kinds):
        n = len(list(group))
        part = _part(block, slice(ends[node], ends[node + n]))
        node += n
        yield from [_as_numbers(part)] if kind is None else _folded_equal(part, n, *kind)


def _part(block: Grid, lanes: slice) -> Grid:
    """Some neighbouring lanes."""
    offset = block.offset[lanes.start : lanes.stop + 1]
    rows = slice(offset[0], offset[-1])
    values = {name: value[rows] for name, value in block.values.items()}
    return Grid(block.lane[lanes], block.place[lanes], block.width[lanes], offset - offset[0], block.ts[rows],
                block.span[rows], values)  # fmt: skip


def _folded_equal(part: Grid, n: int, size: int, count: int) -> Iterator[Grid]:
    """Nodes with as many GPUs and samples each, put together one by one if not all of them can be."""
    shape = (n, size, count)
    ts, span = part.ts.reshape(shape), part.span.reshape(shape)
    together = (ts == ts[:, :1]).all(axis=(1, 2)) & (span == span[:, :1]).all(axis=(1, 2))
    if together.all():
        values = {name: _summed(value.reshape(shape)) for name, value in part.values.items()}
        yield Grid(part.lane[::size], part.place[::size], np.full(n, size, dtype=np.int64),
                   np.arange(n + 1, dtype=np.int64) * count, ts[:, 0].ravel(), span[:, 0].ravel(), values)  # fmt: skip
        return
    for node in range(n):
        own = _part(part, slice(node * size, (node + 1) * size))
        yield from _folded_equal(own, 1, size, count) if together[node] else [_as_numbers(own)]


def _summed(value: NDArray[Any]) -> Ints:
    """Over GPUs, one after the other: they lie apart, and numpy would add up short rows."""
    _, size, _ = value.shape
    if value.dtype == np.bool_ and value.all():
        return np.full(value[:, 0].size, size, dtype=np.int64)
    few = value.dtype == np.bool_ and size <= np.iinfo(np.uint8).max
    kind: Any = np.uint8 if few else np.float64
    total = value[:, 0].astype(kind)
    for one in range(1, size):
        np.add(total, value[:, one], out=total)
    return total.ravel().astype(np.int64)


def _as_numbers(part: Grid) -> Grid:
    values = {name: value.astype(np.int64) for name, value in part.values.items()}
    return Grid(part.lane, part.place, part.width, part.offset, part.ts, part.span, values)


def _joined(parts: list[Grid]) -> Grid:
    """Grids one behind the other."""
    lane, place, width, ts, span = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("lane", "place", "width", "ts", "span")
    )
    counts = np.concatenate([part.counts for part in parts])
    values = {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values}
    return Grid(lane, place, width, np.append(0, np.cumsum(counts)), ts, span, values)


def torn(of: Grid, changes: pl.Series, hour_s: float) -> NDArray[np.bool_] | None:
    """Samples that cover an hour within which the occupants change; None where no sample does.

    Such a sample is the mean over all occupants, and whose share was which is unknown. That goes for roll-ups,
    and for samples that are as coarse: those that cover nearly an hour (`hour_fill.WHOLE_S` of it) or longer. Which
    part of its hour a sample leaves out is unknown, too, so it is the whole hour that counts.

    Args:
        of: samples.
        changes: as `metrics.telemetry.occupancy.Holders` has them.
        hour_s: seconds of an hour; tests have short ones.
    """
    hour = round(hour_s * 1000)
    coarse = np.flatnonzero(of.span >= hour * WHOLE_S / LONGEST_S)
    if not len(coarse) or changes.is_empty():
        return None
    begin = np.repeat(of.place, of.counts)[coarse] * FAR + of.ts[coarse]
    moments = changes.to_numpy()
    first = np.searchsorted(moments, begin, side="right")
    changed = np.searchsorted(moments, begin + np.maximum(of.span[coarse], hour), side="left") > first
    is_torn = np.zeros(len(of.ts), dtype=np.bool_)
    is_torn[coarse[changed]] = True
    return is_torn if changed.any() else None


# --- sums over time


@dataclass(frozen=True)
class Moments:
    """Places in a grid: `before` samples (counted from its first) had begun by then; of the last, `over` was left."""

    before: Ints
    over: Ints


class Integrals:
    """Running sums of a grid."""

    def __init__(self, of: Grid) -> None:
        self.grid = of
        self._sums: dict[str | None, Ints] = {}
        steps = np.diff(of.ts[:1000])
        usual = steps[steps > 0]
        self._step = int(np.median(usual)) if len(usual) else 1

    def at(self, lane: Ints, moment: Ints) -> Moments:
        """Look moments (milliseconds since 1970) up in lanes: guessed by the usual step, searched where that fails."""
        of = self.grid
        low, high = of.offset[lane], of.offset[lane + 1]
        before = low + np.clip(-((of.ts[low] - moment) // self._step), 0, high - low)
        last = np.maximum(before - 1, low)
        wrong = ((before > low) & (of.ts[last] >= moment)) | (
            (before < high) & (of.ts[np.minimum(before, len(of.ts) - 1)] < moment)
        )
        if wrong.any():
            before[wrong] = self._searched(lane[wrong], moment[wrong])
            last = np.maximum(before - 1, low)
        over = np.where(before > low, np.maximum(of.ts[last] + of.span[last] - moment, 0), 0)
        return Moments(before, over)

    def _searched(self, lane: Ints, moment: Ints) -> Ints:
        base = int(self.grid.ts.min())
        keys = np.repeat(np.arange(len(self.grid.place)) * _REACH, self.grid.counts) + (self.grid.ts - base)
        return np.searchsorted(keys, lane * _REACH + np.clip(moment - base, 0, _REACH - 1))

    def between(self, name: str | None, lane: Ints, begin: Moments, end: Moments) -> Ints:
        """Value x milliseconds of a quantity; None is time, of every sample and GPU."""
        sums = self._running(name)
        if name is None:
            return (sums[end.before] - end.over - sums[begin.before] + begin.over) * self.grid.width[lane]
        value = self.grid.values[name]
        rest = value[np.maximum(end.before - 1, 0)] * end.over - value[np.maximum(begin.before - 1, 0)] * begin.over
        return sums[end.before] - sums[begin.before] - rest

    def whole(self) -> Ints:
        """GPU-milliseconds of each lane."""
        sums = self._running(None)
        return (sums[self.grid.offset[1:]] - sums[self.grid.offset[:-1]]) * self.grid.width

    def always(self, name: str) -> bool:
        """Whether a `_known` quantity is present in every sample of every GPU."""
        return bool((self.grid.values[name] == np.repeat(self.grid.width, self.grid.counts)).all())

    def _running(self, name: str | None) -> Ints:
        if name not in self._sums:
            sums = np.empty(len(self.grid.ts) + 1, dtype=np.int64)
            sums[0] = 0
            np.cumsum(self.grid.span if name is None else self.grid.values[name] * self.grid.span, out=sums[1:])
            self._sums[name] = sums
        return self._sums[name]
