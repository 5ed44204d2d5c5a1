"""Whose time the samples of GPUs tell of: attempts, groups of attempts, or nobody that can be told.

Accounting says how many GPUs of a node an attempt holds, and not which. So the samples of a node are an attempt's where
it holds all GPUs of the node. Where it alone is there and holds a part of them, its are those that were busy the
longest: nobody else had any, and which of the idle ones make up the rest makes no difference to what is idle. Where
several attempts share a node, nothing can be told of one of them; but if all are of one user, it is that user's. Parts
of GPUs (MIG devices, shards) and attempts whose GPUs on the node are only assumed cannot be told either. What cannot be
told is counted as time: of what was observed, an attempt's share by the number of its GPUs. So is an hour that only its
mean is known of (a roll-up), unless nobody came or went within it: a mean of two attempts is neither's.

Worked day by day: a sample belongs to the day it begins in, with all the time it speaks for. A sample across the
beginning or end of an attempt is split by time. All sums are whole numbers (`metrics.telemetry.sample_grid`), so those
of days add up exactly to those of the whole.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics.intervals import overlaps, sweep
from metrics.telemetry.occupancy import FAR, Holders
from metrics.telemetry.sample_grid import Grid, Integrals, Reading, Series, grid, series, torn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

RATIO_PARTS: Final = 1_000_000
POWER_PARTS: Final = 1000
"""Milliwatts: with milliseconds they make microjoules."""

RESOLUTION: Final = {
    "gpu_util": RATIO_PARTS,
    "gr_engine_active": RATIO_PARTS,
    "sm_active": RATIO_PARTS,
    "tensor_active": RATIO_PARTS,
    "dram_active": RATIO_PARTS,
    "power_w": POWER_PARTS,
}
"""Columns of samples that are summed, and how many parts of their unit are told apart."""

_UNCLEAR, _WHOLE, _CHOSEN = 0, 1, 2

_TORN: Final = "torn"
"""Quantity of a grid: GPUs of which a sample does not tell whose it is (`metrics.telemetry.sample_grid.torn`)."""


@dataclass(frozen=True)
class Day:
    """What the samples of a day tell. All sums are whole: milliseconds, and value x milliseconds in parts of the unit.

    Attributes:
        attempts: by `attempt`: `n_samples` (begun while it held them), `observed`, then for each column (and for
            `idle`) `<column>_known` and `<column>_sum`; and `unattributed`, time of its GPUs that was observed but may
            have been another's, with the part of it that is `unclear`: it may even have been another user's.
        users: the same by `user` and `partition` (null: of several), of attempts of one user that share a node.
        nodes: by `node`, GPU time: `observed`, and what of it was `attributed` to attempts, of
            `verification`, `of_users` (see `users`), `unattributed` (several users', or parts of GPUs), and `outside`.
        gpus: like `attempts`, by `attempt`, `node`, `gpu`, where attempts hold whole nodes; if asked for.
    """

    attempts: pl.DataFrame
    users: pl.DataFrame
    nodes: pl.DataFrame
    gpus: pl.DataFrame | None = None


def day_activities(
    days: Iterable[pl.DataFrame],
    held: Holders,
    reading: Reading | Callable[[pl.DataFrame], Reading],
    *,
    by_gpu: bool = False,
    at_once: int = 2,
) -> Iterator[Day]:
    """Attribute the samples of some days, a few at a time, so that memory stays flat however many there are.

    Args:
        days: the samples of each day, of the same cluster, from the last day to the first: a sample speaks at most up
            to the next one, which may be of the day after. `node`, `gpu`, `ts`, `interval_s` if known, and the columns
            of `reading`; in any order, fastest sorted by `node`, `gpu`, `ts`, as they are stored.
        held: who held what.
        reading: what to sum, and what idle means; or what tells it of a day's samples.
        by_gpu: also tell the GPUs of whole nodes apart (slower).
        at_once: how many days are worked on at the same time.
    """
    following: pl.DataFrame | None = None
    waiting: deque[Future[Day]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for samples in days:
            found = series(samples, following)
            following = found.firsts
            how = reading if isinstance(reading, Reading) else reading(samples)
            waiting.append(pool.submit(day_activity, found, held, how, by_gpu=by_gpu))
            if len(waiting) > at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def day_activity(found: Series, held: Holders, reading: Reading, *, by_gpu: bool = False) -> Day:
    """Attribute the samples of one day; see `day_activities`."""
    nodes = _nodes(found, held.places)
    place = found.lanes.join(nodes, on="node", how="left", maintain_order="left")["place"].to_numpy()
    members, pieces = _pieces(held, found, np.bincount(place, minlength=nodes.height), reading)
    apart = np.full(nodes.height, by_gpu)
    apart[pieces.filter(pl.col("kind") == _CHOSEN)["place"].to_numpy()] = True
    sums = Integrals(_without_torn(grid(found, place, apart, reading), held, reading))
    told = _chosen(_summed(pieces.filter(pl.col("kind") != _UNCLEAR), sums), reading)
    shared = _shared(members, pieces, sums)
    return Day(
        _of_attempts(told, shared, reading),
        _of_users(told, held, reading),
        _of_nodes(told, shared, sums, nodes, held),
        _of_gpus(told, sums.grid, found, reading) if by_gpu else None,
    )


def _without_torn(of: Grid, held: Holders, reading: Reading) -> Grid:
    """Samples whose values are nobody's count as time only."""
    found = torn(of, held.changes, reading.hour_s)
    if found is None:
        return of
    values = {name: np.where(found, 0, value) for name, value in of.values.items()}
    return replace(of, values={**values, _TORN: np.where(found, np.repeat(of.width, of.counts), 0)})


def _nodes(found: Series, places: pl.DataFrame) -> pl.DataFrame:
    """The places, and behind them the nodes that have samples only: `node`, `place`."""
    more = found.lanes.select("node").unique().join(places, on="node", how="anti").sort("node")
    numbered = more.with_columns(pl.int_range(places.height, places.height + pl.len(), dtype=pl.Int64).alias("place"))
    return pl.concat([places.select("node", "place"), numbered])


def _pieces(held: Holders, found: Series, gpus: Ints, reading: Reading) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Time of nodes with samples, cut wherever who is there changes.

    Returns:
        The attempts there: rows of `held` cut at eras, with `era` and `room` (what the node has, in thousandths).
        The pieces, sorted by `era` and `started`: `place`, `ended`, `room`, `n` (attempts there), `n_gpus` held,
        `owner` (the attempt, or minus 1 and below for a user and partition) and `kind`.
    """
    low, high = found.reach(reading)
    near = (pl.col("started") < high) & (pl.col("ended") > low)
    seen = pl.DataFrame({"place": np.arange(len(gpus)), "series": gpus}).filter(pl.col("series") > 0)
    members = (
        overlaps(held.held.filter(near).join(seen, on="place"), held.eras.filter(near), on=["place"])
        .with_columns(room=pl.max_horizontal(pl.col("capacity").fill_null(0), pl.col("series") * 1000))
        .sort("era", "started")
    )
    begin, end = (pl.col("era") * FAR + pl.col(name) for name in ("started", "ended"))
    meets = (begin < end.cum_max().shift(1)) | (end > begin.shift(-1))
    met = members.select(meets.fill_null(value=False).alias("met"))["met"]
    about = members.select("era", "place", "room", "series").unique("era")
    shown = ["era", "place", "started", "ended", "n", "milli_gpus", "room", "owner", "kind"]
    alone = members.filter(~met).with_columns(
        _kind(pl.col("unsure") == 0), n=pl.lit(1, dtype=pl.Int64), owner="attempt"
    )
    if not met.any():
        return members, alone.select(shown)
    together = sweep([_layer(members.filter(met), held)]).rename({"lane": "era"}).join(about, on="era")
    told = (pl.col("unsure") == 0) & _same("user")
    both = [alone.select(shown), together.with_columns(_kind(told), _owner(_partitions(held))).select(shown)]
    return members, pl.concat(both).sort("era", "started")


def _layer(members: pl.DataFrame, held: Holders) -> pl.DataFrame:
    """Attempts as a layer of the sweep: sums of their numbers and of their squares tell whether all are the same."""
    rows = members["attempt"]
    codes = {name: held.attempts[f"{name}_no"].gather(rows) for name in ("user", "partition")}
    return members.select(
        pl.col("era").alias("lane"),
        "started",
        "ended",
        pl.lit(1, dtype=pl.Int64).alias("n"),
        "milli_gpus",
        "attempt",
        "unsure",
        *(code.pow(power).alias(f"{name}_{power}") for name, code in codes.items() for power in (1, 2)),
    )


def _partitions(held: Holders) -> int:
    """More than any number of a partition."""
    most = held.attempts["partition_no"].max()
    return most + 1 if isinstance(most, int) else 0


def _same(name: str) -> pl.Expr:
    """All attempts of a piece have the same number: n times the sum of squares is the square of the sum only then."""
    return pl.col("n") * pl.col(f"{name}_2") == pl.col(f"{name}_1") ** 2


def _kind(told: pl.Expr) -> pl.Expr:
    """What a piece is if it can be told whose it is: all samples of the node are the owner's, or those of a part."""
    gpus = pl.col("milli_gpus")
    countable = (gpus % 1000 == 0) & (pl.col("room") == pl.col("series") * 1000)
    return (
        pl.when(~told)
        .then(_UNCLEAR)
        .when(gpus >= pl.col("room"))
        .then(_WHOLE)
        .when(countable)
        .then(_CHOSEN)
        .otherwise(_UNCLEAR)
        .cast(pl.Int64)
        .alias("kind")
    )


def _owner(partitions: int) -> pl.Expr:
    """The attempt, or a negative number for a user and partition; no partition has a number of `partitions` or more."""
    n = pl.col("n")
    partition = pl.when(_same("partition")).then(pl.col("partition_1") // n).otherwise(-1)
    user = pl.col("user_1") // n
    return pl.when(n == 1).then("attempt").otherwise(-1 - (user * (partitions + 1) + partition + 1)).alias("owner")


def _expanded(pieces: pl.DataFrame, grid: Grid) -> tuple[Ints, Ints]:
    """Each piece with each lane of its node: numbers of pieces and lanes."""
    place = pieces["place"].to_numpy()
    heads = np.flatnonzero(np.diff(grid.place, prepend=-1))
    first = np.zeros(max(grid.place.max(initial=-1), place.max(initial=-1)) + 1, dtype=np.int64)
    first[grid.place[heads]] = heads
    count = np.bincount(grid.place, minlength=len(first))[place]
    piece = np.repeat(np.arange(len(place)), count)
    return piece, np.arange(len(piece)) - np.repeat(np.cumsum(count) - count - first[place], count)


def _summed(pieces: pl.DataFrame, sums: Integrals) -> pl.DataFrame:
    """Sums of each piece and lane: what the piece is, `lane`, `n_samples`, `observed` and the grid's values."""
    piece, lane = _expanded(pieces, sums.grid)
    begin = sums.at(lane, pieces["started"].to_numpy()[piece])
    end = sums.at(lane, pieces["ended"].to_numpy()[piece])
    observed = sums.between(None, lane, begin, end)
    n_samples = (end.before - begin.before) * sums.grid.width[lane]
    if _TORN in sums.grid.values:
        observed = observed - sums.between(_TORN, lane, begin, end)
        running = np.append(0, np.cumsum(sums.grid.values[_TORN]))
        n_samples = n_samples - running[end.before] + running[begin.before]
    columns = {"lane": lane, "n_samples": n_samples, "observed": observed}
    for name in sums.grid.values:
        if name == _TORN:
            continue
        always = name.endswith("_known") and sums.always(name)
        columns[name] = observed if always else sums.between(name, lane, begin, end)
    about = pieces.select("owner", "era", "place", "kind", "milli_gpus")
    return pl.concat([about[piece], pl.DataFrame(columns)], how="horizontal").filter(pl.col("observed") > 0)


def _chosen(found: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Without GPUs that the owner did not hold: of a part of a node it held those that were busy the longest.

    That is by owner, node (while its inventory is the same) and day. Where GPUs were as busy, the first ones by name.
    """
    part = found.filter(pl.col("kind") == _CHOSEN)
    if part.is_empty():
        return found
    lanes = ["owner", "era", "lane"]
    order = (
        part.group_by(lanes)
        .agg((pl.col("idle_known") * reading.idle_parts - pl.col("idle_sum")).sum().alias("busy"))
        .sort("owner", "era", "busy", "lane", descending=[False, False, True, False])
        .with_columns(rank=pl.int_range(pl.len()).over("owner", "era"))
    )
    own = part.join(order.select(*lanes, "rank"), on=lanes).filter(pl.col("rank") * 1000 < pl.col("milli_gpus"))
    return pl.concat([found.filter(pl.col("kind") != _CHOSEN), own.drop("rank")])


def _shared(members: pl.DataFrame, pieces: pl.DataFrame, sums: Integrals) -> pl.DataFrame:
    """What was observed of attempts' GPUs and cannot be told to be theirs: `attempt`, `place`, `shared`, `unclear`.

    `unclear` is the part that cannot be told to be one user's either. Of a node's observed time an attempt gets its
    GPUs' share of the node's, scaled down where more GPUs are held than there are; in whole milliseconds, rounded down.
    """
    shares = pieces.select(((pl.col("n") > 1) | (pl.col("kind") == _UNCLEAR)).alias("shares"))["shares"].to_numpy()
    any_torn = _TORN in sums.grid.values
    there = np.full(pieces.height, any_torn) | shares
    if not there.any():
        return members.clear().select("attempt", "place", shared="milli_gpus", unclear="milli_gpus")
    some = pieces.filter(there)
    piece, lane = _expanded(some, sums.grid)
    begin, end = (sums.at(lane, some[name].to_numpy()[piece]) for name in ("started", "ended"))
    heads = np.flatnonzero(np.diff(piece, prepend=-1))
    observed = np.add.reduceat(sums.between(None, lane, begin, end), heads)
    nobodys = np.add.reduceat(sums.between(_TORN, lane, begin, end), heads) if any_torn else np.zeros_like(observed)
    room, held = some["room"].to_numpy(), some["milli_gpus"].to_numpy()
    weight, unclear = np.zeros(pieces.height, dtype=np.int64), np.zeros(pieces.height, dtype=np.int64)
    for to, which in ((weight, shares[there]), (unclear, some["kind"].to_numpy() == _UNCLEAR)):
        seen = np.where(which, observed, nobodys)
        # With no more held than there is, the whole node's time counts, and each gets its share of the room.
        to[there] = np.where(held > room, seen * np.minimum(room, held) // held, seen)
    starts = (pieces["era"] * FAR + pieces["started"]).to_numpy()
    own = [np.searchsorted(starts, (members["era"] * FAR + members[name]).to_numpy()) for name in ("started", "ended")]
    told = {}
    for name, weights in (("shared", weight), ("unclear", unclear)):
        running = np.concatenate([[0], np.cumsum(weights)])
        told[name] = (
            members["milli_gpus"].to_numpy() * (running[own[1]] - running[own[0]]) // members["room"].to_numpy()
        )
    return members.select("attempt", "place").with_columns(pl.Series(name, value) for name, value in told.items())


# --- what is told


def _quantities(reading: Reading) -> list[str]:
    names = [f"{name}_{what}" for name in ("idle", *reading.resolution) for what in ("known", "sum")]
    return ["n_samples", "observed", *names]


def _of_attempts(found: pl.DataFrame, shared: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    quantities = _quantities(reading)
    own = found.filter(pl.col("owner") >= 0).group_by(pl.col("owner").alias("attempt")).agg(pl.col(quantities).sum())
    unknown = shared.group_by("attempt").agg(pl.col("shared").sum().alias("unattributed"), pl.col("unclear").sum())
    there = unknown.filter(pl.col("unattributed") > 0)
    both = own.join(there, on="attempt", how="full", coalesce=True).with_columns(pl.all().fill_null(0))
    return both.filter((pl.col("observed") > 0) | (pl.col("unattributed") > 0)).sort("attempt")


def _of_users(found: pl.DataFrame, held: Holders, reading: Reading) -> pl.DataFrame:
    """Undo `_owner`."""
    width = _partitions(held) + 1
    code = -1 - pl.col("owner")
    shared = found.filter(pl.col("owner") < 0).with_columns(user_no=code // width, partition_no=code % width - 1)
    users, partitions = (held.attempts.select(f"{name}_no", name).unique(f"{name}_no") for name in _GROUP)
    return (
        shared.join(users, on="user_no")
        .join(partitions, on="partition_no", how="left")
        .group_by(_GROUP)
        .agg(pl.col(_quantities(reading)).sum())
        .sort(_GROUP)
    )


_GROUP: Final = ("user", "partition")


def _of_nodes(
    found: pl.DataFrame, shared: pl.DataFrame, sums: Integrals, nodes: pl.DataFrame, held: Holders
) -> pl.DataFrame:
    checks = held.attempts.filter("verification").select(pl.col("attempt").alias("owner"), pl.lit(1).alias("check"))
    check, observed = pl.col("check").is_not_null(), pl.col("observed")
    told = (
        found.select("owner", "place", "observed")
        .join(checks, on="owner", how="left")
        .group_by("place")
        .agg(
            observed.filter((pl.col("owner") >= 0) & ~check).sum().alias("attributed"),
            observed.filter(check).sum().alias("verification"),
            observed.filter(pl.col("owner") < 0).sum().alias("of_users"),
        )
    )
    unclear = shared.group_by("place").agg(pl.col("unclear").sum().alias("unattributed"))
    parts = ["attributed", "verification", "of_users", "unattributed"]
    return (
        pl.DataFrame({"place": sums.grid.place, "observed": sums.whole()})
        .group_by("place")
        .agg(observed.sum())
        .join(told, on="place", how="left")
        .join(unclear, on="place", how="left")
        .with_columns(pl.col(parts).fill_null(0))
        .with_columns(outside=observed - pl.sum_horizontal(parts))
        .join(nodes, on="place")
        .select("node", "observed", *parts, "outside")
        .sort("node")
    )


def _of_gpus(told: pl.DataFrame, of: Grid, found: Series, reading: Reading) -> pl.DataFrame:
    names = found.lanes.select(pl.all().gather(of.lane[told["lane"].to_numpy()]))
    named = pl.concat([told, names], how="horizontal")
    return (
        named.filter(pl.col("kind") == _WHOLE, pl.col("owner") >= 0)
        .group_by(pl.col("owner").alias("attempt"), "node", "gpu")
        .agg(pl.col(_quantities(reading)).sum())
        .sort("attempt", "node", "gpu")
    )


def added_up(parts: Iterable[pl.DataFrame], by: list[str]) -> pl.DataFrame:
    """Frames of several days (any of `Day`'s) as one, in whole numbers of 128 bits."""
    numbers = pl.col(pl.Int64).exclude(by).cast(pl.Int128)
    found = pl.concat([part.with_columns(numbers) for part in parts])
    return found.group_by(by).agg(pl.exclude(by).sum()).sort(by)


def in_units(sums: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Sums of `Day.attempts`, `.users` or `.gpus` in seconds and units.

    Returns:
        `n_samples`, `observed_s`, `judged_s` (of it, whether idle is known), `idle_s`, for each column `<column>_s` and
        `<column>_sum` (value x seconds: the mean is sum by seconds; of `power_w` the sum is joules), `unattributed_s`,
        `unclear_s`.
    """
    seconds = {
        "observed": "observed_s",
        "idle_known": "judged_s",
        "idle_sum": "idle_s",
        "unattributed": "unattributed_s",
        "unclear": "unclear_s",
    }
    parts = {f"{name}_sum": parts for name, parts in reading.resolution.items()}
    seconds |= {f"{name}_known": f"{name}_s" for name in reading.resolution} | {name: name for name in parts}
    parts["idle_sum"] = reading.idle_parts
    return sums.with_columns(
        (pl.col(name).cast(pl.Float64) / (1000 * parts.get(name, 1))).alias(name)
        for name in seconds
        if name in sums.columns
    ).rename(seconds, strict=False)
