"""Why work waited while GPUs that it could have had were idle: a rule, fragmentation, topology, or unknown.

At each moment every waiting job is held against the idle GPUs of the nodes of its partition that are in service:

- it *fits* if as many nodes as it requests have its GPUs per node idle (of a job whose node count is unknown, or that
  requests more on one than any has: if the idle GPUs add up to its request), and where it requests segments of
  nodes in one block and the blocks are known, if these hold its segments;
- `fragmentation`: the idle GPUs add up to its request, and it does not fit;
- `topology`: it would fit, but not in the blocks.

An idle GPU of a node is judged by the jobs that wait for that node. If one of them that no rule holds back fits, it
waits for what the data do not show (priority, a reservation of backfill's, CPUs, memory, a scheduler that has not run
yet), and the cause is null. Else it is fragmentation if that is true of any of them, else topology. It is `limits` only
if the last reason of every one is a rule and at least one of them fits: lifting the rule would have used the GPUs. In
all other cases, such as a job that requests more than is idle at all, the cause is null.

Each partition is judged by itself, since Slurm places a job within one. Nodes that are reserved for others count as
idle, and the requests for CPUs and memory are ignored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from metrics.intervals import split_every, union
from metrics.units import DAY_US, HOUR_US

if TYPE_CHECKING:
    from collections.abc import Iterator

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

CAUSES: Final = {1: "fragmentation", 2: "topology", 3: "limits"}
"""By their codes; 0 is none."""

PIECE: Final = 2_000_000
"""Holds of nodes that are processed together: memory stays flat whatever the time."""


@dataclass(frozen=True)
class Idle:
    """Inputs that decide which nodes were idle. Nodes are numbers (`home`), times microseconds since 1970.

    Attributes:
        demand: `home`, `started`, `ended`: when work waited that could run there; those of a node do not overlap.
        inventory: `home`, `started`, `ended`, `gpus` (thousandths): the inventory.
        held: the same of attempts.
        out: `home`, `started`, `ended`: out of service.
    """

    demand: pl.DataFrame
    inventory: pl.DataFrame
    held: pl.DataFrame
    out: pl.DataFrame


def causes(waits: pl.DataFrame, served: pl.DataFrame, idle: Idle, standing: pl.DataFrame) -> pl.DataFrame:
    """Why nodes had idle GPUs while work waited for them.

    How long each cause lasted is exact, within each hour and each interval in which nothing changes on the node. When
    within that it was is not: the causes are put one behind the other, in the order of `CAUSES`. Every node would be
    cut at each coming and going in its partition otherwise, and a year has millions of them.

    Args:
        waits: `lane` (partition), `started`, `ended`, `need` (thousandths of GPUs), `nodes`, `segment`, `rule`.
        served: `lane`, `home`: which nodes serve which partition.
        idle: what was idle when.
        standing: `home`, `block`: the block of each node, as far as it is known.

    Returns:
        `home`, `started`, `ended`, `code` (of `CAUSES`); intervals of a node do not overlap.
    """
    results = [pl.DataFrame(schema={"home": pl.UInt32, "started": pl.Int64, "ended": pl.Int64, "code": pl.Int64})]
    if not (waits.is_empty() or idle.demand.is_empty()):
        kinds, times = _kinds(waits, served, idle.inventory)
        partitions = _Partitions(kinds, served, standing)
        for low, high in _windows(idle):
            pieces = _idle_pieces(idle, low, high)
            if not pieces.is_empty():
                explained = partitions.causes(pieces, _between(times, low, high))
                results.append(explained.with_columns(pl.col("started", "ended") + low))
    return pl.concat(results)


# --- what waits ------------------------------------------------------------------------------------------------------


def _kinds(waits: pl.DataFrame, served: pl.DataFrame, inventory: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Jobs of the same request in the same partition are one kind, and when any of a kind waited.

    Returns:
        `kind`, `lane`, `need`, `nodes` (0: on however many), `each` (GPUs on each), `segment` (0: none), `rule`; and
        `lane` (the kind), `started`, `ended`.
    """
    biggest = served.join(inventory, on="home").group_by("lane").agg(pl.col("gpus").max().alias("biggest"))
    each = (pl.col("need") + pl.col("nodes") - 1) // pl.col("nodes")
    requests = waits.join(biggest, on="lane").with_columns(
        nodes=pl.when(each <= pl.col("biggest")).then("nodes").fill_null(0), segment=pl.col("segment").fill_null(0)
    )
    shape = ["lane", "need", "nodes", "segment", "rule"]
    kinds = requests.select(shape).unique().sort(shape).with_row_index("kind")
    times = union(requests.join(kinds, on=shape).select(pl.col("kind").alias("lane"), "started", "ended"))
    return kinds.with_columns(each=pl.when(pl.col("nodes") > 0).then(each).otherwise(0)), times


def _between(intervals: pl.DataFrame, low: int, high: int) -> pl.DataFrame:
    """Intervals clipped to a window, counted from its beginning."""
    return (
        intervals.filter((pl.col("started") < high) & (pl.col("ended") > low))
        .with_columns(pl.col("started", "ended").clip(low, high) - low)
        .filter(pl.col("started") < pl.col("ended"))
    )


# --- what is idle ----------------------------------------------------------------------------------------------------

_WAITING: Final = 1 << 50
_OUT: Final = 1 << 35
_LEVEL: Final = 1 << 34
"""One number holds the whole state of a node at a moment, so that one running sum does: how often it is wanted and out
of service, and how many thousandths of GPUs are free. These may be below zero, which `_LEVEL` makes up for."""


def _windows(idle: Idle) -> Iterator[tuple[int, int]]:
    """Cut the time in which work waited at UTC midnights, so that each piece has about `PIECE` holds."""
    low, high = idle.demand.select(pl.col("started").min().alias("low"), pl.col("ended").max().alias("high")).row(0)
    first, last = low // DAY_US, -(-high // DAY_US)
    days = max(1, (last - first) // max(1, math.ceil(idle.held.height / PIECE)))
    for day in range(first, last, days):
        yield day * DAY_US, min(day + days, last) * DAY_US


def _idle_pieces(idle: Idle, low: int, high: int) -> pl.DataFrame:
    """Times in which nodes had idle GPUs that work waited for, cut at full hours.

    Returns:
        `home`, `started`, `ended` (counted from `low`), `gpus` (thousandths).
    """
    span = high - low + 1
    layers = [
        (idle.demand, pl.lit(_WAITING, dtype=pl.Int64)),
        (idle.inventory, pl.col("gpus").cast(pl.Int64)),
        (idle.held, -pl.col("gpus").cast(pl.Int64)),
        (idle.out, pl.lit(_OUT, dtype=pl.Int64)),
    ]
    edges = []
    for frame, value in layers:
        inside, at = _between(frame, low, high), pl.col("home").cast(pl.Int64) * span
        edges.append(inside.select((at + pl.col("started")).alias("key"), value.alias("change")))
        edges.append(inside.select((at + pl.col("ended")).alias("key"), (-value).alias("change")))
    following = pl.col("key").shift(-1)
    total = pl.col("change").cum_sum() + _LEVEL
    state = pl.concat(edges).sort("key").select("key", total.alias("total")).filter(pl.col("key").ne_missing(following))
    free = pl.col("total") % _OUT - _LEVEL
    usable = state.with_columns(ended=following % span).filter(
        (pl.col("total") >= _WAITING) & (pl.col("total") % _WAITING < _OUT) & (free > 0)
    )
    return split_every(
        usable.select(
            (pl.col("key") // span).cast(pl.UInt32).alias("home"),
            (pl.col("key") % span).alias("started"),
            "ended",
            free.alias("gpus"),
        ),
        HOUR_US,  # within an hour, while nothing changes on the node, the causes' times follow each other
    )


# --- what fits -------------------------------------------------------------------------------------------------------

_FITS: Final = 1
_FRAGMENTED: Final = 2
_MISPLACED: Final = 4
_HELD_BACK: Final = 8
_BY_NO_RULE: Final = 16
"""Conditions of any waiting job: it fits though no rule holds it back; it does not for one of two reasons; it fits
and a rule holds it back; no rule holds it back."""


def _code(flags: int) -> int:
    if flags & _FITS:
        return 0
    if flags & _FRAGMENTED:
        return 1
    if flags & _MISPLACED:
        return 2
    return 3 if flags & _HELD_BACK and not flags & _BY_NO_RULE else 0


_CODES: Final = np.array([_code(flags) for flags in range(32)], dtype=np.int64)


class _Partitions:
    """The requests to each partition, and its nodes."""

    def __init__(self, kinds: pl.DataFrame, served: pl.DataFrame, standing: pl.DataFrame) -> None:
        self._kinds = {int(lane[0]): needed for lane, needed in kinds.partition_by("lane", as_dict=True).items()}
        many = int(served["home"].max() or 0) + 1 if served.height else 0  # type: ignore[arg-type]  # polars types max() broadly
        self._members = {lane: _flags(served.filter(pl.col("lane") == lane)["home"], many) for lane in self._kinds}
        self._block = np.full(many, -1, dtype=np.int64)
        self._block[standing["home"].to_numpy()] = standing["block"].to_numpy()
        needed = served.filter(pl.col("lane").is_in(list(self._kinds)))  # nothing waits for the others
        sets = needed.group_by("home").agg(pl.col("lane").unique().sort())
        self._groups = [(lanes, _flags(homes, many)) for lanes, homes in sets.group_by("lane").agg("home").iter_rows()]

    def causes(self, pieces: pl.DataFrame, times: pl.DataFrame) -> pl.DataFrame:
        """Causes of idle pieces of nodes; `times` are those at which each kind waited."""
        home = pieces["home"].to_numpy()
        began, over = pieces["started"].to_numpy(), pieces["ended"].to_numpy()
        grid = _moments([began, over, times["started"].to_numpy(), times["ended"].to_numpy()])
        first, last = np.searchsorted(grid, began), np.searchsorted(grid, over)
        spans = {
            int(kind[0]): (
                np.searchsorted(grid, one["started"].to_numpy()),
                np.searchsorted(grid, one["ended"].to_numpy()),
            )
            for kind, one in times.partition_by("lane", as_dict=True).items()
        }
        flags = {}
        for lane, requests in self._kinds.items():
            here = np.flatnonzero(self._members[lane][home])
            pool = _IdlePool(
                first[here], last[here], pieces["gpus"].to_numpy()[here], self._block[home[here]], len(grid)
            )
            pool.blocks_known = bool((self._block[self._members[lane]] >= 0).all())
            flags[lane] = _flags_of_waiting(
                pool, [kind for kind in requests.iter_rows(named=True) if kind["kind"] in spans], spans
            )
        results = [pl.DataFrame(schema={"home": pl.UInt32, "started": pl.Int64, "ended": pl.Int64, "code": pl.Int64})]
        for lanes, members in self._groups:
            here = np.flatnonzero(members[home])
            together = np.bitwise_or.reduce([flags[lane] for lane in lanes])
            results.append(_in_sequence(pieces[here], first[here], last[here], grid, _CODES[together]))
        return pl.concat(results)


def _moments(times: list[Longs]) -> Longs:
    """Every moment once, in order; sorting is several times as fast as `np.unique`."""
    ordered = np.sort(np.concatenate(times))
    return ordered[np.diff(ordered, prepend=-1) > 0]


def _flags(homes: pl.Series | list[int], many: int) -> Flags:
    flags = np.zeros(many, dtype=np.bool_)
    flags[np.asarray(homes, dtype=np.int64)] = True
    return flags


class _IdlePool:
    """The idle GPUs of a partition over time; moments are places in a grid."""

    def __init__(self, first: Longs, last: Longs, gpus: Longs, block: Longs, length: int) -> None:
        self._first, self._last, self._gpus, self._block, self._length = first, last, gpus, block, length
        self._hosts: dict[int, Longs] = {}
        self._segments: dict[tuple[int, int], Longs] = {}
        self.total = self._running(first, last, gpus)
        self.blocks_known = False

    def _running(self, first: Longs, last: Longs, weight: Longs | None = None) -> Longs:
        come, go = (np.bincount(at, weights=weight, minlength=self._length) for at in (first, last))
        return np.cumsum(come - go).round().astype(np.int64)

    def hosts(self, each: int) -> Longs:
        """Nodes with at least so many idle GPUs."""
        if each not in self._hosts:
            big = self._gpus >= each
            self._hosts[each] = self._running(self._first[big], self._last[big])
        return self._hosts[each]

    def segments(self, each: int, size: int) -> Longs:
        """Number of groups of so many such nodes, each within a block."""
        if (each, size) not in self._segments:
            self._segments[each, size] = self._count_segments(each, size)
        return self._segments[each, size]

    def _count_segments(self, each: int, size: int) -> Longs:
        big = self._gpus >= each
        at = np.concatenate([self._first[big], self._last[big]])
        order = np.argsort(at, kind="stable")
        at, block = at[order], np.tile(self._block[big], 2)[order]
        sign = np.repeat(np.array([1, -1]), int(big.sum()))[order]
        level = np.zeros(int(self._block.max(initial=0)) + 1, dtype=np.int64)
        counted = np.zeros(self._length, dtype=np.int64)
        for low in range(0, self._length, _COLUMNS):
            part = slice(*np.searchsorted(at, [low, low + _COLUMNS]))
            table = np.zeros((len(level), min(_COLUMNS, self._length - low)), dtype=np.int64)
            np.add.at(table, (block[part], at[part] - low), sign[part])
            counts = level[:, None] + np.cumsum(table, axis=1)
            level = counts[:, -1]
            counted[low : low + _COLUMNS] = (counts // size).sum(axis=0)
        return counted


_COLUMNS: Final = 4096
"""Moments of all blocks that are processed together."""


def _flags_of_waiting(
    pool: _IdlePool, kinds: list[dict[str, int]], spans: dict[int, tuple[Longs, Longs]]
) -> npt.NDArray[np.uint8]:
    """Conditions of the jobs that wait for a partition, at each moment of the grid; bits as above."""
    flags = np.zeros(len(pool.total), dtype=np.uint8)
    for kind in kinds:
        first, last = spans[kind["kind"]]
        part = slice(int(first.min()), int(last.max()))
        length = part.stop - part.start
        steps = np.bincount(first - part.start, minlength=length + 1) - np.bincount(
            last - part.start, minlength=length + 1
        )
        waiting = np.cumsum(steps)[:-1] > 0
        enough = pool.total[part] >= kind["need"]
        room = pool.hosts(kind["each"])[part] >= kind["nodes"] if kind["nodes"] else enough
        placed = room
        if kind["segment"] and kind["nodes"] and pool.blocks_known:
            n_segments = kind["nodes"] // kind["segment"]
            placed = room & (pool.segments(kind["each"], kind["segment"])[part] >= n_segments)
        if kind["rule"]:
            _mark(flags[part], waiting & placed, _HELD_BACK)
            continue
        _mark(flags[part], waiting, _BY_NO_RULE)
        _mark(flags[part], waiting & placed, _FITS)
        _mark(flags[part], waiting & enough & ~room, _FRAGMENTED)
        _mark(flags[part], waiting & room & ~placed, _MISPLACED)
    return flags


def _mark(flags: npt.NDArray[np.uint8], where: Flags, what: int) -> None:
    np.bitwise_or(flags, np.where(where, np.uint8(what), np.uint8(0)), out=flags)


def _in_sequence(pieces: pl.DataFrame, first: Longs, last: Longs, grid: Longs, code: Longs) -> pl.DataFrame:
    """Duration of each cause within each piece; the causes from the piece's beginning on, one after the other."""
    lengths = np.diff(grid)
    parts, begin = [], pieces["started"].to_numpy()
    for number in CAUSES:
        spent = np.concatenate([[0], np.cumsum(np.where(code[:-1] == number, lengths, 0))])
        end = begin + spent[last] - spent[first]
        some = np.flatnonzero(end > begin)
        columns = {"home": pieces["home"].to_numpy()[some], "started": begin[some], "ended": end[some]}
        parts.append(pl.DataFrame(columns).with_columns(code=pl.lit(number, dtype=pl.Int64)))
        begin = end
    return pl.concat(parts).cast({"home": pl.UInt32})
