"""To whom samples of nodes are attributed: an attempt, a group of attempts, or no known owner.

A node's traffic does not name who caused it. So the samples of a node are those of an owner (an attempt, or all
attempts of a user, an account, a partition) while no other is on the node, with GPUs or without. While several
owners are on it, what each of them did is unknown: that time and what was measured in it are counted separately for
each of them, and once for the node. So is an hour that only its mean is known of (a roll-up) if an owner came or went
within
it: what went on in which part of it is unknown, so none of it is attributed to anybody, nor to the node. Jobs that
check nodes are owners like others, and kept apart in the account of nodes.

Worked day by day, like `metrics.telemetry.gpu_attribution`: a sample is of the day it begins in, with all the time
it covers, up to the series' next one. A sample across the beginning or end of a stay is split by time. What is
summed is value x time: of a rate, how much there was of it.

Time is whole milliseconds. Values may be anything from a share to terabytes per second, so those of each series (of a
node, metric, device and day) are whole multiples of a 2^-35th, or less, of its greatest: within a series and a day sums
are exact, and never negative. Between series and days they are added as floats.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics.telemetry.ownership import UNCLEAR, WHOLE, node_owners
from metrics.telemetry.rollup_fallback import LONGEST_S
from metrics.telemetry.sample_grid import HOLD_STEPS, Grid, Integrals, SampleGrid, series, torn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from metrics.telemetry.occupancy import Occupants

    Ints = NDArray[np.int64]

SERIES: Final = ("node", "metric", "device")
"""Columns that name a series of samples of nodes."""

WHAT: Final = ("metric", "device")
"""Columns of a series that remain once its owner is known."""

_BITS: Final = 62
"""Sums of a series and day have as many bits."""

_MS: Final = 1000


@dataclass(frozen=True)
class NodeDay:
    """Samples of nodes of a day (or of some nodes in it). Times in milliseconds, values x seconds.

    Attributes:
        owners: by `owner`, `metric`, `device`: `observed`, `value` (alone on nodes), `shared`, `shared_value` (on nodes
            with other owners, or in hours within which one came or went; all of the node's), and `n_nodes`, of which no
            later day has yet.
        nodes: by `node`, `metric`, `device`: `observed`, `value`, and what of these was `attributed` to owners, of
            `checks` of nodes, `shared` by several, and `outside`, with no owner: `attributed_value`, ...
    """

    owners: pl.DataFrame
    nodes: pl.DataFrame


def day_parts(
    days: Iterable[pl.DataFrame],
    occupants: Occupants,
    *,
    step_s: float = 60.0,
    hour_s: float = LONGEST_S,
    at_once: int = 2,
) -> Iterator[DayParts]:
    """Attribute samples of nodes, a few days at a time, so that memory stays flat however many there are.

    The number of nodes of an owner is missing: only all days together have it (`CountedNodes`).

    Args:
        days: samples of the same cluster, from the last day to the first; of a day all, or those of some nodes after
            those of others. `node`, `metric`, `device`, `ts`, `interval_s` if known, `value`; in any order, fastest
            sorted by the first four, as they are stored.
        occupants: who was where.
        step_s: usual seconds from one sample to the next, for those that have no `interval_s`.
        hour_s: what an hour is (see `metrics.telemetry.sample_grid.torn`).
        at_once: how many days are worked on at the same time.
    """
    following: pl.DataFrame | None = None
    waiting: deque[Future[DayParts]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for samples in days:
            ordered = in_order(samples, following)
            following = _next(following, ordered.firsts)
            waiting.append(pool.submit(_attribute_day, ordered, occupants, step_s, hour_s))
            if len(waiting) > at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def in_order(samples: pl.DataFrame, following: pl.DataFrame | None = None) -> SampleGrid:
    """Samples with a value by their series, and the first ones of each."""
    return series(samples.filter(pl.col("value").is_finite()), following, by=SERIES)


def _next(following: pl.DataFrame | None, firsts: pl.DataFrame) -> pl.DataFrame:
    """First samples of all series so far, the earliest of each."""
    if following is None:
        return firsts
    return pl.concat([firsts, following.join(firsts, on=list(SERIES), how="anti")])


@dataclass(frozen=True)
class DayParts:
    """A day before it is known which nodes are new to their owners.

    Attributes:
        pieces: by `owner`, `place`, `metric`, `device`: `observed`, `value`, `shared`, `shared_value`.
        firsts: `place`, `metric`, `device`, `first`: milliseconds at which the first sample begins.
        nodes: as `NodeDay.nodes`.
    """

    pieces: pl.DataFrame
    firsts: pl.DataFrame
    nodes: pl.DataFrame


class CountedNodes:
    """The nodes of owners that the days so far had, as far as earlier days may have them again."""

    def __init__(self, occupants: Occupants) -> None:
        self._came = occupants.stays.group_by("owner", "place").agg(pl.col("started").min())
        self._seen: pl.DataFrame | None = None

    def day(self, parts: DayParts) -> NodeDay:
        """The day, each node of an owner counted on the last day that has it."""
        counts = self.new(parts.pieces.select(_PIECE), parts.firsts)
        owners = added_up([parts.pieces.drop("place")], ["owner", *WHAT]).join(
            counts, on=["owner", *WHAT], how="left", maintain_order="left"
        )
        return NodeDay(owners.with_columns(pl.col("n_nodes").fill_null(0)), parts.nodes)

    def new(self, now: pl.DataFrame, firsts: pl.DataFrame) -> pl.DataFrame:
        """Number of nodes of owners that no day so far had: `owner`, `metric`, `device`, `n_nodes`.

        Args:
            now: `owner`, `place`, `metric`, `device` of some days, each once.
            firsts: as `DayParts.firsts`, or later moments.
        """
        fresh = now if self._seen is None else now.join(self._seen, on=_PIECE, how="anti")
        new = fresh.join(self._came, on=["owner", "place"])
        every = new if self._seen is None else pl.concat([self._seen, new])
        # Earlier samples of a series cover at most the time up to its first one.
        again = every.join(firsts, on=["place", *WHAT], how="left")
        again = again.filter(pl.col("first").is_null() | (pl.col("started") < pl.col("first")))
        self._seen = again.drop("first")
        return fresh.group_by("owner", *WHAT).agg(pl.len().cast(pl.Int64).alias("n_nodes"))


_PIECE: Final = ["owner", "place", *WHAT]


def _attribute_day(ordered: SampleGrid, occupants: Occupants, step_s: float, hour_s: float) -> DayParts:
    """Attribute some samples; see `day_parts`."""
    lanes = ordered.lanes.join(occupants.places, on="node", how="left", maintain_order="left").with_columns(
        pl.col("place").fill_null(-1), lane=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    of = _SampleLanes.read(ordered, lanes["place"].to_numpy(), step_s).without_torn(occupants, hour_s)
    if lanes.is_empty():
        low = high = 0
    else:
        low, high = int(of.grid.ts.min()), int((of.grid.ts + of.grid.span).max())
    near = occupants.stays.filter((pl.col("started") < high) & (pl.col("ended") > low)).join(
        lanes.select("place").unique(), on="place", how="semi"
    )
    pieces = _summed(node_owners(near), of)
    alone, several = (_clear(pieces.filter(pl.col("kind") == kind)) for kind in (WHOLE, UNCLEAR))
    mine = _by_lane(alone, "owner", "place").rename({"observed": "own", "value": "own_value"})
    parts = (
        _by_lane(_summed(near, of), "owner", "place")
        .join(mine, on=["owner", "place", "lane"], how="left")
        .with_columns(pl.col("own", "own_value").fill_null(0))
        .join(lanes.select("lane", *WHAT), on="lane")
        .select(
            "owner",
            "place",
            *WHAT,
            pl.col("own").alias("observed"),
            of.in_units("own_value").alias("value"),
            (pl.col("observed") - pl.col("own")).alias("shared"),
            of.in_units(pl.col("value") - pl.col("own_value")).alias("shared_value"),
        )
        .sort("owner", "place", *WHAT)  # floats are added in the same order each time
    )
    firsts = ordered.firsts.select(lanes["place"], *WHAT, pl.col("first") // _MS).filter(pl.col("place") >= 0)
    return DayParts(parts, firsts, _of_nodes(lanes, of, alone, several, occupants))


@dataclass(frozen=True)
class _SampleLanes:
    """Samples as a grid of whole values, their running sums, and by lane how many parts make a unit for a second."""

    grid: Grid
    sums: Integrals
    parts: pl.Series

    @classmethod
    def read(cls, ordered: SampleGrid, place: Ints, step_s: float) -> _SampleLanes:
        """The samples of a day; `place` is the node's number by lane, or -1."""
        offset = ordered.offset.astype(np.int64)
        ts = ordered.moments // _MS
        limit = np.empty_like(ts)
        np.subtract(ts[1:], ts[:-1], out=limit[:-1])
        limit[offset[1:] - 1] = ordered.following // _MS - ts[offset[1:] - 1]
        span = np.maximum(np.minimum(_interval(ordered.samples, step_s), limit), 0)
        value = ordered.samples["value"].cast(pl.Float64).to_numpy()
        most = np.maximum.reduceat(np.abs(value), offset[:-1]) if len(value) else value
        lasts = np.add.reduceat(span, offset[:-1]) if len(span) else span
        # The greatest value for all of the time still fits.
        (_, value_bits), (_, time_bits) = np.frexp(most), np.frexp(lasts.astype(np.float64))
        shift = _BITS - value_bits - time_bits
        whole = np.rint(np.ldexp(value, np.repeat(shift, np.diff(offset)))).astype(np.int64)
        lane = np.arange(len(place), dtype=np.int64)
        grid = Grid(lane, place, np.ones_like(lane), offset, ts, span, {"value": whole})
        return cls(grid, Integrals(grid), pl.Series(np.ldexp(np.full(len(place), float(_MS)), shift)))

    def without_torn(self, occupants: Occupants, hour_s: float) -> _SampleLanes:
        """With `torn` and `torn_value` in addition, of samples whose owner is unknown, if any."""
        split = torn(self.grid, occupants.changes, hour_s)
        if split is None:
            return self
        values = self.grid.values | {
            "torn": split.astype(np.int64), "torn_value": np.where(split, self.grid.values["value"], 0)}  # fmt: skip
        grid = replace(self.grid, values=values)
        return _SampleLanes(grid, Integrals(grid), self.parts)

    def between(self, lane: Ints, begin: Ints, end: Ints) -> dict[str, Ints]:
        """Sums over time: `observed`, `value`, and what of these is `torn`, `torn_value`."""
        low, high = self.sums.at(lane, begin), self.sums.at(lane, end)
        return {
            "observed": self.sums.between(None, lane, low, high),
            **{
                name: self.sums.between(name, lane, low, high)
                if name in self.grid.values
                else np.zeros(len(lane), dtype=np.int64)
                for name in ("value", "torn", "torn_value")
            },
        }

    def in_units(self, value: str | pl.Expr) -> pl.Expr:
        """Value x seconds of rows with a `lane`."""
        whole = pl.col(value) if isinstance(value, str) else value
        return whole / pl.lit(self.parts).gather(pl.col("lane"))


def _interval(samples: pl.DataFrame, step_s: float) -> Ints:
    """Milliseconds that samples cover by their own `interval_s`, else the most that they may."""
    longest = round(step_s * HOLD_STEPS * 1000)
    if "interval_s" not in samples.columns:
        return np.full(samples.height, longest, dtype=np.int64)
    own = pl.col("interval_s").cast(pl.Float64) * 1000
    known = pl.when(own.is_finite() & (own < float(1 << 53))).then(own.round().cast(pl.Int64, strict=False))
    return samples.select(known.fill_null(longest).alias("interval"))["interval"].to_numpy()


def _summed(pieces: pl.DataFrame, of: _SampleLanes) -> pl.DataFrame:
    """Sums of each piece of a `place` and lane of it: what the piece is, `lane`, and `_SampleLanes.between` (whole)."""
    piece, lane = _with_lanes(pieces["place"].to_numpy(), of.grid.place)
    if not len(piece):
        none = pl.lit(0, dtype=pl.Int64)
        return pieces.clear().with_columns(lane=none, observed=none, value=none, torn=none, torn_value=none)
    begin, end = (pieces[name].to_numpy()[piece] for name in ("started", "ended"))
    columns = pl.DataFrame({"lane": lane, **of.between(lane, begin, end)})
    return pl.concat([pieces[piece], columns], how="horizontal").filter(pl.col("observed") > 0)


def _clear(summed: pl.DataFrame) -> pl.DataFrame:
    """Without what is torn."""
    clear = summed.with_columns(pl.col("observed") - pl.col("torn"), pl.col("value") - pl.col("torn_value"))
    return clear.filter(pl.col("observed") > 0)


def _by_lane(summed: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Whole sums by lane, and by whatever else."""
    return summed.group_by(*more, "lane").agg(pl.col("observed", "value").sum())


def _with_lanes(place: Ints, of_lane: Ints) -> tuple[Ints, Ints]:
    """Each piece with each lane of its node: numbers of pieces and lanes. Lanes of a node are neighbours."""
    first = np.zeros(max(of_lane.max(initial=0), place.max(initial=0)) + 1, dtype=np.int64)
    known = of_lane >= 0
    heads = np.flatnonzero(np.diff(of_lane, prepend=-2))
    heads = heads[known[heads]]
    first[of_lane[heads]] = heads
    count = np.bincount(of_lane[known], minlength=len(first))[place]
    piece = np.repeat(np.arange(len(place)), count)
    return piece, np.arange(len(piece)) - np.repeat(np.cumsum(count) - count - first[place], count)


def _of_nodes(
    lanes: pl.DataFrame, of: _SampleLanes, alone: pl.DataFrame, several: pl.DataFrame, occupants: Occupants
) -> pl.DataFrame:
    """`NodeDay.nodes`."""
    check = pl.col("owner").is_in(occupants.checks.implode())
    lane = of.grid.lane
    whole = of.between(lane, *(np.full_like(lane, moment) for moment in (occupants.since, occupants.until)))
    nodes = (
        lanes.select("lane", *SERIES)
        .with_columns(pl.Series(name, sums) for name, sums in whole.items())
        .filter(pl.col("observed") > 0)
    )
    kinds = {"attributed": alone.filter(~check), "checks": alone.filter(check), "shared": several}
    for name, pieces in kinds.items():
        sums = _by_lane(pieces).rename({"observed": name, "value": f"{name}_value"})
        nodes = nodes.join(sums, on="lane", how="left", maintain_order="left")
    values = [f"{name}_value" for name in kinds]
    nodes = nodes.with_columns(pl.col(*kinds, *values).fill_null(0))
    nodes = nodes.with_columns(
        pl.col("shared") + pl.col("torn"), pl.col("shared_value") + pl.col("torn_value")
    ).with_columns(
        outside=pl.col("observed") - pl.sum_horizontal(list(kinds)),
        outside_value=pl.col("value") - pl.sum_horizontal(values),
    )
    return nodes.with_columns(of.in_units(name).alias(name) for name in ("value", *values, "outside_value")).drop(
        "lane", "torn", "torn_value"
    )


def added_up(parts: Iterable[pl.DataFrame], by: list[str]) -> pl.DataFrame:
    """Frames of several days (either of `NodeDay`'s) as one, sorted: the same rows are added in the same order."""
    ordered = pl.concat(parts).sort(by, maintain_order=True)
    if ordered.is_empty():
        return ordered
    begins = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in by)
    begins = begins | (pl.int_range(pl.len()) == 0)
    heads = np.flatnonzero(ordered.select(begins.alias("begins"))["begins"].to_numpy())
    values = [name for name in ordered.columns if name not in by]
    sums = [pl.Series(name, np.add.reduceat(ordered[name].to_numpy(), heads)) for name in values]
    return ordered.select(by)[heads].with_columns(sums)
