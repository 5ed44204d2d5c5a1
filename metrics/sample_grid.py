"""Samples of one day as integrals over time that can be read off at any moment.

A sample speaks for a span of time. Everything that is asked of samples is a sum of value x time, so for each GPU and
quantity the running sum over its samples is kept, and the sum over any interval is the difference of two look-ups. There
are far fewer ends of intervals than samples: the ends are looked up, not the samples. A gap is time of which nothing is
known: it adds nothing to any sum, the seconds among them.

All of it is whole numbers, milliseconds and fixed fractions of a unit, so sums over GPUs, intervals and days are exact
whatever their order. Running sums may overflow and wrap around; their differences are right as long as they fit
themselves: 64 bits hold a day of 100,000 GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

GPU: Final = ("cluster", "node", "gpu")
HOLD_STEPS: Final = 5
"""A sample that does not say for how long it speaks does so until the next one, for at most so many steps."""

_REACH: Final = 1 << 40
"""Milliseconds between lanes in a sort key: far more than samples of a day and what they speak for can span."""

_FAR: Final = 1 << 60
"""A time in milliseconds that never comes."""


@dataclass(frozen=True)
class Reading:
    """What is read from samples.

    Attributes:
        resolution: columns, and how many parts of their unit are told apart: 1,000 of `power_w` are milliwatts.
        idle: a Boolean expression over a sample: the GPU was idle. Null where the sample does not tell.
        step_s: usual seconds from one sample to the next, for those that have no `interval_s`.
    """

    resolution: Mapping[str, int]
    idle: pl.Expr
    step_s: float = 60.0


@dataclass(frozen=True)
class Grid:
    """Samples by lane (a GPU, or all GPUs of a node at once) and time, and their running sums.

    Attributes:
        place: number of the node, by lane; lanes of a node are neighbours, in the order of the GPUs' names.
        gpu: name of the GPU, by lane; of GPUs put together that of the first.
        width: how many GPUs are put together in a lane.
        offset: first sample of each lane, and the number of samples at the end.
        ts: beginning of each sample, milliseconds since 1970.
        span: milliseconds that it speaks for, never beyond the next one's beginning.
        values: by quantity and sample, summed over the lane's GPUs; a quantity that is 1 for each sample of each GPU
            is None.
    """

    place: Ints
    gpu: NDArray[Any]
    width: Ints
    offset: Ints
    ts: Ints
    span: Ints
    values: dict[str, Ints | None]

    @property
    def counts(self) -> Ints:
        """How many samples each lane has."""
        return np.diff(self.offset)


def read(
    samples: pl.DataFrame, places: pl.DataFrame, reading: Reading, following: pl.DataFrame | None = None
) -> tuple[Grid, pl.DataFrame]:
    """Samples in any order, one lane per GPU, and the nodes they are of (`cluster`, `node`, `place`).

    Samples of a GPU with the same `ts` count once, by their largest values; idle is what all of them call idle.

    Args:
        samples: `cluster`, `node`, `gpu`, `ts`, the columns of the reading, and maybe `interval_s`.
        places: `cluster`, `node`, `place`, nodes numbered from 0; others are numbered on.
        reading: what to read.
        following: the first samples after these, where known, as `firsts` has them.
    """
    fresh = samples.select(
        pl.any_horizontal(pl.col(name) != pl.col(name).shift(1) for name in GPU).fill_null(value=True).alias("fresh")
    )["fresh"]
    stretches = samples.select(GPU).filter(fresh)
    nodes = _nodes(stretches, places)
    lanes = stretches.unique().join(nodes, on=["cluster", "node"]).sort(GPU).with_row_index("lane")
    lane = stretches.join(lanes, on=list(GPU), how="left", maintain_order="left")["lane"].cast(pl.Int64).to_numpy()
    begin = np.flatnonzero(fresh.to_numpy())
    columns = _columns(samples, reading)
    offset = np.append(begin, samples.height)
    ts = columns["ts"].to_numpy()
    steps = np.diff(ts, append=0)
    steps[offset[1:] - 1] = _FAR
    if (np.diff(lane) <= 0).any() or (steps <= 0).any():
        columns, offset = _ordered(columns, np.repeat(lane, np.diff(offset)), lanes.height)
        ts = columns["ts"].to_numpy()
        steps = np.diff(ts, append=0)
    steps[offset[1:] - 1] = _following(lanes, following) - ts[offset[1:] - 1]
    span = np.maximum(np.minimum(columns["span"].to_numpy(), steps), 0)
    values: dict[str, Ints | None] = {}
    for name in columns.columns[2:]:
        found = columns[name]
        base = name.removesuffix("_sum")
        values[f"{base}_known"] = found.is_not_null().cast(pl.Int64).to_numpy() if found.null_count() else None
        values[name] = found.fill_null(0).to_numpy()
    width = np.ones(lanes.height, dtype=np.int64)
    return Grid(lanes["place"].to_numpy(), lanes["gpu"].to_numpy(), width, offset, ts, span, values), nodes


def _columns(samples: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """`ts` and `span` in milliseconds, each column's value in whole parts as `<column>_sum`, and `idle_sum`, 1 or 0."""
    longest = round(reading.step_s * HOLD_STEPS * 1000)
    told = _whole("interval_s", 1000) if "interval_s" in samples.columns else pl.lit(None, dtype=pl.Int64)
    return samples.select(
        pl.col("ts").dt.epoch("ms").alias("ts"),
        told.fill_null(longest).alias("span"),
        *(_whole(name, parts).alias(f"{name}_sum") for name, parts in reading.resolution.items()),
        reading.idle.cast(pl.Int64).alias("idle_sum"),
    )


def at_most(share: float, column: str = "gpu_util") -> pl.Expr:
    """Whether a column is at most so much; null where it is no number."""
    value = pl.col(column)
    return pl.when(value.is_finite()).then(value <= pl.lit(share, dtype=pl.Float32))


def _whole(name: str, parts: int) -> pl.Expr:
    """A value in whole parts of its unit; what is no number is missing."""
    return (pl.col(name).cast(pl.Float64) * parts).round().cast(pl.Int64, strict=False)


def _nodes(stretches: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """The places, and behind them the nodes that have samples only: `cluster`, `node`, `place`."""
    seen = stretches.select("cluster", "node").unique()
    more = seen.join(places, on=["cluster", "node"], how="anti").sort("cluster", "node")
    numbered = more.with_columns(pl.int_range(places.height, places.height + pl.len(), dtype=pl.Int64).alias("place"))
    return pl.concat([places.select("cluster", "node", "place"), numbered])


def _ordered(columns: pl.DataFrame, lane: Ints, lanes: int) -> tuple[pl.DataFrame, Ints]:
    """By lane and time, each time once; and where the lanes begin."""
    ordered = columns.with_columns(lane=lane).sort("lane", "ts")
    once = ordered.group_by("lane", "ts", maintain_order=True).agg(
        pl.exclude("idle_sum").max(), pl.col("idle_sum").min()
    )
    return once, np.searchsorted(once["lane"].to_numpy(), np.arange(lanes + 1))


def _following(lanes: pl.DataFrame, following: pl.DataFrame | None) -> Ints:
    """When the next sample of each lane begins, as far as known; else never."""
    if following is None:
        return np.full(lanes.height, _FAR, dtype=np.int64)
    return lanes.join(following, on=list(GPU), how="left", maintain_order="left")["first"].fill_null(_FAR).to_numpy()


def firsts(grid: Grid, nodes: pl.DataFrame) -> pl.DataFrame:
    """`cluster`, `node`, `gpu`, `first`: milliseconds at which the first sample of each GPU begins."""
    return named(grid, nodes).with_columns(first=grid.ts[grid.offset[:-1]]).select(*GPU, "first")


def named(grid: Grid, nodes: pl.DataFrame) -> pl.DataFrame:
    """`lane` and what it is called: `cluster`, `node`, `gpu`."""
    gpu = pl.Series("gpu", grid.gpu.tolist(), dtype=pl.String)
    lanes = pl.DataFrame({"lane": np.arange(len(grid.place)), "place": grid.place, "gpu": gpu})
    return lanes.join(nodes, on="place", how="left", maintain_order="left").drop("place")


# --- GPUs of a node put together


def folded(grid: Grid, apart: NDArray[np.bool_]) -> Grid:
    """All GPUs of a node in one lane, where they have samples at the same times and the node is not `apart`."""
    if not len(grid.place):
        return grid
    first = np.flatnonzero(np.diff(grid.place, prepend=-1))
    sizes = np.diff(first, append=len(grid.place))
    alike = np.minimum.reduceat(grid.counts, first) == np.maximum.reduceat(grid.counts, first)
    wanted = alike & ~apart[grid.place[first]] & (sizes > 1)
    kinds = [
        (size, count) if fold else None
        for size, count, fold in zip(sizes.tolist(), grid.counts[first].tolist(), wanted.tolist(), strict=True)
    ]
    ends = np.append(first, len(grid.place)).tolist()
    parts: list[Grid] = []
    node = 0
    for kind, found in groupby(kinds):
        n = len(list(found))
        lanes = slice(ends[node], ends[node + n])
        node += n
        parts.extend([_part(grid, lanes)] if kind is None else _folded_alike(grid, lanes, n, *kind))
    return _joined(parts)


def _part(grid: Grid, lanes: slice) -> Grid:
    """Some neighbouring lanes of a grid."""
    offset = grid.offset[lanes.start : lanes.stop + 1]
    samples = slice(offset[0], offset[-1])
    values = {name: None if value is None else value[samples] for name, value in grid.values.items()}
    return Grid(grid.place[lanes], grid.gpu[lanes], grid.width[lanes], offset - offset[0], grid.ts[samples],
                grid.span[samples], values)  # fmt: skip


def _folded_alike(grid: Grid, lanes: slice, n: int, size: int, count: int) -> Iterator[Grid]:
    """Nodes with as many GPUs and samples each, put together one by one if not all of them can be."""
    part = _part(grid, lanes)
    shape = (n, size, count)
    same = [(times.reshape(shape) == times.reshape(shape)[:, :1]).all(axis=(1, 2)) for times in (part.ts, part.span)]
    together = same[0] & same[1]
    if together.all():
        values = {
            name: None if value is None else value.reshape(shape).sum(axis=1).ravel()
            for name, value in part.values.items()
        }
        yield Grid(
            part.place[::size],
            part.gpu[::size],
            np.full(n, size, dtype=np.int64),
            np.arange(n + 1, dtype=np.int64) * count,
            part.ts.reshape(shape)[:, 0].ravel(),
            part.span.reshape(shape)[:, 0].ravel(),
            values,
        )
        return
    for node in range(n):
        own = slice(lanes.start + node * size, lanes.start + (node + 1) * size)
        if together[node]:
            yield from _folded_alike(grid, own, 1, size, count)
        else:
            yield _part(grid, own)


def _joined(parts: list[Grid]) -> Grid:
    """Grids one behind the other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([part.counts for part in parts])
    values: dict[str, Ints | None] = {}
    for name in parts[0].values:
        found = [value for part in parts if (value := part.values[name]) is not None]
        values[name] = np.concatenate(found) if found else None  # None in one part is None in all
    place, gpu, width, ts, span = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("place", "gpu", "width", "ts", "span")
    )
    return Grid(place, gpu, width, np.concatenate([[0], np.cumsum(counts)]), ts, span, values)


# --- sums over time


@dataclass(frozen=True)
class Moments:
    """Places in a grid: `before` samples (counted from its first) had begun by then; of the last, `over` was left."""

    before: Ints
    over: Ints


class Integrals:
    """Running sums of a grid."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._sums: dict[str | None, Ints] = {}
        steps = np.diff(grid.ts[:1000])
        usual = steps[steps > 0]
        self._step = int(np.median(usual)) if len(usual) else 1

    def at(self, lane: Ints, moment: Ints) -> Moments:
        """Look moments (milliseconds since 1970) up in lanes: guessed by the usual step, searched where that fails."""
        grid = self.grid
        low, high = grid.offset[lane], grid.offset[lane + 1]
        begin = grid.ts[low]
        before = low + np.clip(-((begin - moment) // self._step), 0, high - low)
        last = np.maximum(before - 1, low)
        wrong = ((before > low) & (grid.ts[last] >= moment)) | (
            (before < high) & (grid.ts[np.minimum(before, len(grid.ts) - 1)] < moment)
        )
        if wrong.any():
            before[wrong] = self._searched(lane[wrong], moment[wrong])
            last = np.maximum(before - 1, low)
        over = np.where(before > low, np.maximum(grid.ts[last] + grid.span[last] - moment, 0), 0)
        return Moments(before, over)

    def _searched(self, lane: Ints, moment: Ints) -> Ints:
        grid = self.grid
        base = int(grid.ts.min())
        keys = np.repeat(np.arange(len(grid.place)) * _REACH, grid.counts) + (grid.ts - base)
        return np.searchsorted(keys, lane * _REACH + np.clip(moment - base, 0, _REACH - 1))

    def between(self, name: str | None, lane: Ints, begin: Moments, end: Moments) -> Ints:
        """Value x milliseconds of a quantity; None is time alone."""
        value = None if name is None else self.grid.values[name]
        if value is None:
            sums, span = self._running(None), (end.over - begin.over)
            return (sums[end.before] - sums[begin.before] - span) * self.grid.width[lane]
        sums = self._running(name)
        rest = value[np.maximum(end.before - 1, 0)] * end.over - value[np.maximum(begin.before - 1, 0)] * begin.over
        return sums[end.before] - sums[begin.before] - rest

    def whole(self) -> Ints:
        """GPU-milliseconds of each lane."""
        sums = self._running(None)
        return (sums[self.grid.offset[1:]] - sums[self.grid.offset[:-1]]) * self.grid.width

    def _running(self, name: str | None) -> Ints:
        if name not in self._sums:
            value = None if name is None else self.grid.values[name]
            sums = np.empty(len(self.grid.ts) + 1, dtype=np.int64)
            sums[0] = 0
            np.cumsum(self.grid.span if value is None else value * self.grid.span, out=sums[1:])
            self._sums[name] = sums
        return self._sums[name]
