"""Sums of what GPUs did, by attempt, by user and by node: samples as integrals over the time that each owner held.

The owner of a sample is decided in `metrics.telemetry.ownership`. Where an attempt alone holds a part of a node's GPUs,
its GPUs are those that were busy the longest: no other attempt held any, and which of the idle ones make up the rest
makes no difference to what is idle. Time that cannot be attributed is counted as time: of what was observed, an
attempt's share by the number of its GPUs. So is an hour of which only the mean is known (a roll-up), unless no attempt
came or went within it: a mean of two attempts is neither's.

Worked day by day: a sample is of the day it begins in, with all the time it is valid for. A sample across the
start or end of an attempt is split by time. All sums are whole numbers (`metrics.telemetry.sample_grid`), so those of
days add up exactly to those of the whole.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from metrics.telemetry.occupancy import FAR, Holders
from metrics.telemetry.ownership import CHOSEN, UNCLEAR, WHOLE, Ownership, ownership, user_and_partition
from metrics.telemetry.sample_grid import Grid, Integrals, SampledMetric, SampleGrid, grid, series, torn

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
"""Columns of samples that are summed, and how many parts of their unit a sum resolves."""

_TORN: Final = "torn"
"""Quantity of a grid: GPUs of which a sample has no known owner (`metrics.telemetry.sample_grid.torn`)."""


@dataclass(frozen=True)
class GpuDay:
    """Sums of the samples of a day. All are whole: milliseconds, and value x milliseconds in parts of the unit.

    Attributes:
        attempts: by `attempt`: `n_samples` (begun while it held them), `observed`, then for each column (and for
            `idle`) `<column>_known` and `<column>_sum`; and `unattributed`, time of its GPUs that was observed but may
            have been another's, with the part of it that is `unclear`: it may even have been another user's.
        users: the same by `user` and `partition` (null: of several), of attempts of one user that share a node.
        nodes: by `node`, GPU time: `observed`, and what of it was `attributed` to attempts, of
            `verification`, `of_users` (see `users`), `unattributed` (several users', or parts of GPUs), and `outside`.
        gpus: like `attempts`, by `attempt`, `node`, `gpu`, where attempts hold whole nodes; on request.
    """

    attempts: pl.DataFrame
    users: pl.DataFrame
    nodes: pl.DataFrame
    gpus: pl.DataFrame | None = None


def day_activities(
    days: Iterable[pl.DataFrame],
    held: Holders,
    reading: SampledMetric | Callable[[pl.DataFrame], SampledMetric],
    *,
    by_gpu: bool = False,
    at_once: int = 2,
) -> Iterator[GpuDay]:
    """Attribute the samples of some days, a few at a time, so that memory stays flat however many there are.

    Args:
        days: the samples of each day, of the same cluster, from the last day to the first: a sample is valid at most
            up to the next one, which may be of the day after. `node`, `gpu`, `ts`, `interval_s` if known, and the
            columns of `reading`; in any order, fastest sorted by `node`, `gpu`, `ts`, as they are stored.
        held: who held what.
        reading: what to sum, and what idle means; or a function from a day's samples to it.
        by_gpu: sums by GPU of whole nodes, too (slower).
        at_once: how many days are worked on at the same time.
    """
    following: pl.DataFrame | None = None
    waiting: deque[Future[GpuDay]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for samples in days:
            day = series(samples, following)
            following = day.firsts
            how = reading if isinstance(reading, SampledMetric) else reading(samples)
            waiting.append(pool.submit(day_activity, day, held, how, by_gpu=by_gpu))
            if len(waiting) > at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def day_activity(day: SampleGrid, held: Holders, reading: SampledMetric, *, by_gpu: bool = False) -> GpuDay:
    """Attribute the samples of one day; see `day_activities`."""
    owners = ownership(day, held, *day.reach(reading))
    separate = np.full(owners.nodes.height, by_gpu)
    separate[owners.segments.filter(pl.col("kind") == CHOSEN)["place"].to_numpy()] = True
    sums = Integrals(_without_torn(grid(day, owners.place, separate, reading), held, reading))
    own = _chosen(_summed(owners.segments.filter(pl.col("kind") != UNCLEAR), sums), reading)
    shared = _shared(owners, sums)
    return GpuDay(
        _of_attempts(own, shared, reading),
        _of_users(own, held, reading),
        _of_nodes(own, shared, sums, owners.nodes, held),
        _of_gpus(own, sums.grid, day, reading) if by_gpu else None,
    )


def _without_torn(of: Grid, held: Holders, reading: SampledMetric) -> Grid:
    """Samples without a known owner count as time only."""
    is_torn = torn(of, held.changes, reading.hour_s)
    if is_torn is None:
        return of
    values = {name: np.where(is_torn, 0, value) for name, value in of.values.items()}
    return replace(of, values={**values, _TORN: np.where(is_torn, np.repeat(of.width, of.counts), 0)})


def _expanded(segments: pl.DataFrame, grid: Grid) -> tuple[Ints, Ints]:
    """Each segment with each lane of its node: numbers of segments and lanes."""
    place = segments["place"].to_numpy()
    heads = np.flatnonzero(np.diff(grid.place, prepend=-1))
    first = np.zeros(max(grid.place.max(initial=-1), place.max(initial=-1)) + 1, dtype=np.int64)
    first[grid.place[heads]] = heads
    count = np.bincount(grid.place, minlength=len(first))[place]
    segment = np.repeat(np.arange(len(place)), count)
    return segment, np.arange(len(segment)) - np.repeat(np.cumsum(count) - count - first[place], count)


def _summed(segments: pl.DataFrame, sums: Integrals) -> pl.DataFrame:
    """Sums of each segment and lane: what the segment is, `lane`, `n_samples`, `observed` and the grid's values."""
    segment, lane = _expanded(segments, sums.grid)
    begin = sums.at(lane, segments["started"].to_numpy()[segment])
    end = sums.at(lane, segments["ended"].to_numpy()[segment])
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
    about = segments.select("owner", "era", "place", "kind", "milli_gpus")
    return pl.concat([about[segment], pl.DataFrame(columns)], how="horizontal").filter(pl.col("observed") > 0)


def _chosen(summed: pl.DataFrame, reading: SampledMetric) -> pl.DataFrame:
    """Without GPUs that the owner did not hold: of a part of a node it held those that were busy the longest.

    That is by owner, node (while its inventory is the same) and day. Where GPUs were as busy, the first ones by name.
    """
    part = summed.filter(pl.col("kind") == CHOSEN)
    if part.is_empty():
        return summed
    lanes = ["owner", "era", "lane"]
    order = (
        part.group_by(lanes)
        .agg((pl.col("idle_known") * reading.idle_parts - pl.col("idle_sum")).sum().alias("busy"))
        .sort("owner", "era", "busy", "lane", descending=[False, False, True, False])
        .with_columns(rank=pl.int_range(pl.len()).over("owner", "era"))
    )
    own = part.join(order.select(*lanes, "rank"), on=lanes).filter(pl.col("rank") * 1000 < pl.col("milli_gpus"))
    return pl.concat([summed.filter(pl.col("kind") != CHOSEN), own.drop("rank")])


def _shared(owners: Ownership, sums: Integrals) -> pl.DataFrame:
    """Observed time of attempts' GPUs that may be another's: `attempt`, `place`, `shared`, `unclear`.

    `unclear` is the part that is not even attributed to one user. Of a node's observed time an attempt gets its
    GPUs' share of the node's, scaled down where more GPUs are held than there are; in whole milliseconds, rounded down.
    """
    members, segments = owners.members, owners.segments
    shares = segments.select(((pl.col("n") > 1) | (pl.col("kind") == UNCLEAR)).alias("shares"))["shares"].to_numpy()
    any_torn = _TORN in sums.grid.values
    counted = np.full(segments.height, any_torn) | shares
    if not counted.any():
        return members.clear().select("attempt", "place", shared="milli_gpus", unclear="milli_gpus")
    some = segments.filter(counted)
    segment, lane = _expanded(some, sums.grid)
    begin, end = (sums.at(lane, some[name].to_numpy()[segment]) for name in ("started", "ended"))
    heads = np.flatnonzero(np.diff(segment, prepend=-1))
    observed = np.add.reduceat(sums.between(None, lane, begin, end), heads)
    torn_time = np.add.reduceat(sums.between(_TORN, lane, begin, end), heads) if any_torn else np.zeros_like(observed)
    room, held = some["room"].to_numpy(), some["milli_gpus"].to_numpy()
    weight, unclear = np.zeros(segments.height, dtype=np.int64), np.zeros(segments.height, dtype=np.int64)
    for to, which in ((weight, shares[counted]), (unclear, some["kind"].to_numpy() == UNCLEAR)):
        time = np.where(which, observed, torn_time)
        # With no more held than there is, the whole node's time counts, and each gets its share of the room.
        to[counted] = np.where(held > room, time * np.minimum(room, held) // held, time)
    starts = (segments["era"] * FAR + segments["started"]).to_numpy()
    own = [np.searchsorted(starts, (members["era"] * FAR + members[name]).to_numpy()) for name in ("started", "ended")]
    totals = {}
    for name, weights in (("shared", weight), ("unclear", unclear)):
        running = np.concatenate([[0], np.cumsum(weights)])
        totals[name] = (
            members["milli_gpus"].to_numpy() * (running[own[1]] - running[own[0]]) // members["room"].to_numpy()
        )
    return members.select("attempt", "place").with_columns(pl.Series(name, value) for name, value in totals.items())


# --- sums by owner


def _quantities(reading: SampledMetric) -> list[str]:
    names = [f"{name}_{what}" for name in ("idle", *reading.resolution) for what in ("known", "sum")]
    return ["n_samples", "observed", *names]


def _of_attempts(own: pl.DataFrame, shared: pl.DataFrame, reading: SampledMetric) -> pl.DataFrame:
    quantities = _quantities(reading)
    mine = own.filter(pl.col("owner") >= 0).group_by(pl.col("owner").alias("attempt")).agg(pl.col(quantities).sum())
    unknown = shared.group_by("attempt").agg(pl.col("shared").sum().alias("unattributed"), pl.col("unclear").sum())
    some = unknown.filter(pl.col("unattributed") > 0)
    both = mine.join(some, on="attempt", how="full", coalesce=True).with_columns(pl.all().fill_null(0))
    return both.filter((pl.col("observed") > 0) | (pl.col("unattributed") > 0)).sort("attempt")


def _of_users(own: pl.DataFrame, held: Holders, reading: SampledMetric) -> pl.DataFrame:
    owner = pl.col("owner")
    shared = own.filter(owner < 0).with_columns(**user_and_partition(owner, held))
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
    own: pl.DataFrame, shared: pl.DataFrame, sums: Integrals, nodes: pl.DataFrame, held: Holders
) -> pl.DataFrame:
    checks = held.attempts.filter("verification").select(pl.col("attempt").alias("owner"), pl.lit(1).alias("check"))
    check, observed = pl.col("check").is_not_null(), pl.col("observed")
    attributed = (
        own.select("owner", "place", "observed")
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
        .join(attributed, on="place", how="left")
        .join(unclear, on="place", how="left")
        .with_columns(pl.col(parts).fill_null(0))
        .with_columns(outside=observed - pl.sum_horizontal(parts))
        .join(nodes, on="place")
        .select("node", "observed", *parts, "outside")
        .sort("node")
    )


def _of_gpus(own: pl.DataFrame, of: Grid, day: SampleGrid, reading: SampledMetric) -> pl.DataFrame:
    names = day.lanes.select(pl.all().gather(of.lane[own["lane"].to_numpy()]))
    named = pl.concat([own, names], how="horizontal")
    return (
        named.filter(pl.col("kind") == WHOLE, pl.col("owner") >= 0)
        .group_by(pl.col("owner").alias("attempt"), "node", "gpu")
        .agg(pl.col(_quantities(reading)).sum())
        .sort("attempt", "node", "gpu")
    )


def added_up(parts: Iterable[pl.DataFrame], by: list[str]) -> pl.DataFrame:
    """Frames of several days (any of `GpuDay`'s) as one, in whole numbers of 128 bits."""
    numbers = pl.col(pl.Int64).exclude(by).cast(pl.Int128)
    whole = pl.concat([part.with_columns(numbers) for part in parts])
    return whole.group_by(by).agg(pl.exclude(by).sum()).sort(by)


def in_units(sums: pl.DataFrame, reading: SampledMetric) -> pl.DataFrame:
    """Sums of `GpuDay.attempts`, `.users` or `.gpus` in seconds and units.

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
